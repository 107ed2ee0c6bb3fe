package probe

import (
	"math"
	"time"
)

const (
	// headroomKept is how long the last headroom stands in for a NaN: calls that
	// come too often give one, and skin sensors need longer than that to move.
	headroomKept = 10 * time.Second

	// headroomTries is how many NaN before any number mean that there will be
	// none: the first call may come before the sensors have settled.
	headroomTries = 2

	// headroomMost is beyond what a device survives.
	headroomMost = 10
)

// Headroom cleans the thermal headroom that a system gives, such as Android's:
// at least 0, 1 where severe throttling begins, NaN where it has none to give.
// The zero value is ready. Call from one goroutine at a time.
type Headroom struct {
	last  float64
	at    int64
	known bool
	empty int // NaN before the first number
}

// Add takes what the system said at now, in ns of any monotonic clock.
func (h *Headroom) Add(now int64, raw float64) Reading {
	switch {
	case math.IsNaN(raw):
		return h.silent(now)
	case raw < 0 || raw > headroomMost:
		r := h.silent(now)
		if !r.ok() {
			r = bad(Absurd, "a thermal headroom is 0 … 10")
		}
		return r
	}
	h.last, h.at, h.known = raw, now, true
	return good(raw)
}

// silent bridges a gap with the last number while it is young.
func (h *Headroom) silent(now int64) Reading {
	if !h.known {
		if h.empty++; h.empty < headroomTries {
			return bad(First, "not a number yet")
		}
		return bad(Unsupported, "not a number from the start")
	}
	if age := time.Duration(now - h.at); age < 0 || age > headroomKept {
		return bad(Old, "not a number for longer than 10 s")
	}
	return good(h.last)
}
