package probe

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/scheduler"
)

// recorder notes what was due.
type recorder struct{ lines []string }

func (r *recorder) Read(now int64, due Due) Snapshot {
	line := ""
	for _, x := range []struct {
		on   bool
		name string
	}{{due.Pressure, "p"}, {due.Heat, "h"}, {due.Power, "b"}} {
		if x.on {
			line += x.name
		}
	}
	r.lines = append(r.lines, line)
	return Snapshot{Headroom: good(0.1)}
}

// TestIntervals: pressure at each tick of half a second, heat at every second
// one, the battery every five seconds; a pause is not made up for.
func TestIntervals(t *testing.T) {
	r := &recorder{}
	raw := 0.5
	now := int64(0)
	p := newPoller(PollerConfig{Source: r, Now: func() int64 { return now }, Headroom: func() float64 { return raw }})
	for i := range 11 {
		p.poll(int64(i) * int64(tick))
	}
	now = 60 * second
	p.poll(now)
	p.poll(now + int64(tick))
	if got := strings.Join(r.lines, " "); got != "phb p ph p ph p ph p ph p phb phb p" {
		t.Errorf("%s", got)
	}
	if h := p.Signals().ThermalHeadroom; h != 0.5 {
		t.Errorf("headroom %v: want the system's own", h)
	}
	raw = math.NaN()
	p.poll(61 * second)
	if h := p.Signals().ThermalHeadroom; h != 0.5 {
		t.Errorf("headroom %v after a NaN: want the last one", h)
	}
	now = 90 * second
	p.poll(now)
	if h := p.Signals().ThermalHeadroom; h != 0 {
		t.Errorf("headroom %v half a minute later: want unknown", h)
	}
}

// TestPoller runs the real goroutine: the first reading comes by itself, and
// Close ends it at any time.
func TestPoller(t *testing.T) {
	read := make(chan struct{}, 100)
	p := Start(PollerConfig{Source: sourceFunc(func() Snapshot {
		read <- struct{}{}
		return Snapshot{Headroom: good(0.25)}
	})})
	<-read
	p.Close()
	p.Close()
	if h := p.Signals().ThermalHeadroom; h != 0.25 {
		t.Errorf("headroom %v", h)
	}
	host := Start(PollerConfig{})
	host.Close()
	if s := host.Snapshot(); s.Source == "" {
		t.Errorf("this machine was not read: %+v", s)
	}
}

// TestSilentSource: a driver that does not answer makes the facts unknown after
// ten seconds, and holds up neither the game nor its end.
func TestSilentSource(t *testing.T) {
	var now atomic.Int64
	ticks, stuck, release := make(chan time.Time), make(chan struct{}), make(chan struct{})
	reads := 0
	p := Start(PollerConfig{Tick: ticks, Now: now.Load, Source: sourceFunc(func() Snapshot {
		if reads++; reads == 3 {
			close(stuck)
			<-release
		}
		return Snapshot{Headroom: good(0.9)}
	})})
	ticks <- time.Time{} // taken after the first reading
	ticks <- time.Time{}
	<-stuck
	if h := p.Signals().ThermalHeadroom; h != 0.9 {
		t.Errorf("headroom %v: want the last one while it is young", h)
	}
	now.Store(11 * second)
	if h := p.Signals(); h != (scheduler.HostSignals{}) {
		t.Errorf("%+v of eleven seconds ago: want nothing known", h)
	}
	p.Close() // returns, though the reading does not
	close(release)
	<-p.done
}

type sourceFunc func() Snapshot

func (f sourceFunc) Read(int64, Due) Snapshot { return f() }

// TestAnyTree: whatever stands in the files, a reading has a value only if it is
// OK, and what reaches the scheduler is in range.
func TestAnyTree(t *testing.T) {
	texts := rapid.OneOf(rapid.SampledFrom([]string{"", "0", "-1", "-32768000", "NaN", "9223372036854775807",
		"-9223372036854775808", "99999999999999999999", "1e9", "42000", "Discharging", "Battery", "passive", "critical",
		"some total=5", "some total=", "MemTotal: 5 kB"}), rapid.String())
	rapid.Check(t, func(rt *rapid.T) {
		m := fstest.MapFS{}
		for _, l := range laptop {
			name, text, _ := strings.Cut(l, ": ")
			if rapid.Bool().Draw(rt, "changed") {
				text = texts.Draw(rt, name)
			}
			m[name] = &fstest.MapFile{Data: []byte(text)}
		}
		tree := NewTree(m)
		now := int64(0)
		for range 3 {
			now += rapid.Int64Range(-second, 100*second).Draw(rt, "gap")
			s := tree.Read(now, All)
			for _, r := range []Reading{s.Headroom, s.Power, s.Energy, s.Battery.Level, s.Battery.Drain,
				s.Memory.Total, s.Memory.Available, s.Clocks.Share, s.Clocks.Cap, s.Pressure.CPU} {
				if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || r.Value < 0 || r.Outcome != OK && r.Value != 0 {
					rt.Fatalf("%+v", r)
				}
			}
			if h := s.Signals(); !(h.ThermalHeadroom >= 0 && h.ThermalHeadroom < 10 && h.MemoryPressure >= 0 &&
				h.MemoryPressure <= 1) {
				rt.Fatalf("%+v", h)
			}
		}
	})
}
