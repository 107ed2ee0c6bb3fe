package probe

import (
	"strconv"
	"strings"
	"time"
)

// share turns a growing sum of waiting time into a share of the time between
// two readings. avg10, which the kernel offers, lags by ten seconds.
type share struct {
	total float64 // µs
	at    int64   // ns
	seen  bool
}

// shareSlack is by how much a difference may exceed the time between: the sum is
// brought up to date every two seconds where nobody waits.
const shareSlack = 2 * time.Second

func (s *share) next(now int64, total float64) Reading {
	was, at, seen := s.total, s.at, s.seen
	s.total, s.at, s.seen = total, now, true
	gone := float64(now - at)
	waited := (total - was) * 1000
	switch {
	case !seen:
		return bad(First, "a share needs a second reading")
	case waited < 0:
		return bad(Absurd, "total went back")
	case gone <= 0:
		return bad(First, "no time has passed")
	case waited > gone+float64(shareSlack):
		return bad(Absurd, "more waiting than time")
	}
	return good(min(1, waited/gone))
}

// readPressure reads one file of /proc/pressure:
//
//	some avg10=0.12 avg60=0.05 avg300=0.01 total=123456
//	full …
func (t *Tree) readPressure(i int, name string, now int64) Reading {
	s, err := t.text("proc/pressure/" + name)
	if err != nil {
		return bad(outcomeOf(err), err.Error())
	}
	for line := range strings.Lines(s) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "some" {
			continue
		}
		for _, w := range words[1:] {
			if v, found := strings.CutPrefix(w, "total="); found {
				total, err := strconv.ParseUint(v, 10, 63)
				if err != nil {
					return bad(Malformed, "total is "+strconv.Quote(clip(v)))
				}
				return t.pressure[i].next(now, float64(total))
			}
		}
	}
	return bad(Malformed, "no line that begins with some and has a total")
}

func (t *Tree) pressures(now int64) Pressure {
	return Pressure{CPU: t.readPressure(0, "cpu", now), Memory: t.readPressure(1, "memory", now),
		IO: t.readPressure(2, "io", now)}
}
