package scheduler

import (
	"math"
	"time"
)

// Instant is a point of the monotonic clock that the caller chose, in ns.
type Instant int64

// Forever is an instant that never comes: wait for the next window.
const Forever = Instant(math.MaxInt64)

// Gate says when layers may run. The values are those of llm.GateMode.
type Gate uint8

const (
	GateFree   Gate = iota // always
	GatePaced              // with a pause after each group of layers
	GateWindow             // only inside the published window
	GateClosed             // not at all
)

var gateNames = [...]string{"free", "paced", "window", "closed"}

func (g Gate) String() string { return name(gateNames[:], int(g)) }

// Window is what stands at the gate now. The game thread publishes it; the
// gate reads it between layers.
type Window struct {
	Gate        Gate
	Open, Close Instant       // GateWindow: layers may run in [Open, Close]; Close < Open is shut
	Pause       time.Duration // GatePaced: rest after the end of each group of layers

	// Expires is when the window says nothing any more and the gate counts as
	// free: a game that marks no frames, since it loads, waits at a breakpoint
	// or hangs, loses none to the model. 0 is never.
	Expires Instant
}

// Verdict is the answer at a gate.
type Verdict uint8

// Verdicts.
const (
	Go        Verdict = iota
	WaitUntil         // the returned instant, or until another window is published
	Stop              // give the work up: it is tentative and may not run now
)

var verdictNames = [...]string{"go", "wait", "stop"}

func (v Verdict) String() string { return name(verdictNames[:], int(v)) }

// Admit is the rule at the gate: may the next group of layers, which is
// predicted to run for next, begin now? lastEnd is when the last group ended.
// Tentative work, such as a draft, is stopped at a closed gate, where other work
// would wait for nobody knows how long. Between two windows of a game it waits, as
// what it has guessed so far stays true. The instant is 0 unless the verdict is
// WaitUntil.
//
// The comparisons are exact for every int64: sums saturate, differences are
// taken as unsigned numbers only where they cannot be negative. A negative
// next counts as 0, an unknown gate as closed. testdata/admit.txt holds the
// cases that every translation of this rule must pass. Safe for concurrent use.
func Admit(now, lastEnd Instant, w Window, next time.Duration, tentative bool) (Verdict, Instant) {
	expires := w.Expires
	if expires == 0 {
		expires = Forever
	}
	if w.Gate == GateFree || now >= expires && expires != Forever {
		return Go, 0
	}
	switch w.Gate {
	case GatePaced:
		until := lastEnd.Add(w.Pause)
		if now >= until {
			return Go, 0
		}
		return WaitUntil, min(until, expires)
	case GateWindow:
		if now < w.Open {
			return WaitUntil, min(w.Open, expires)
		}
		if now <= w.Close && uint64(w.Close)-uint64(now) >= uint64(max(next, 0)) {
			return Go, 0
		}
	}
	if tentative && w.Gate != GateWindow {
		return Stop, 0
	}
	return WaitUntil, expires
}

// Add returns t+d, held at the ends of the int64 range.
func (t Instant) Add(d time.Duration) Instant {
	sum := t + Instant(d)
	if d > 0 && sum < t {
		return math.MaxInt64
	}
	if d < 0 && sum > t {
		return math.MinInt64
	}
	return sum
}

// Sub returns t-u, held at the ends of the int64 range.
func (t Instant) Sub(u Instant) time.Duration {
	d := time.Duration(t - u)
	if t >= u && d < 0 {
		return math.MaxInt64
	}
	if t < u && d >= 0 {
		return math.MinInt64
	}
	return d
}

// name looks up a value of a closed list. Values from a wire may lie outside.
func name(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return "unknown-value"
	}
	return names[i]
}
