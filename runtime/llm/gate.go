package llm

import "time"

// GateMode says when layers may run.
type GateMode uint8

const (
	GateFree   GateMode = iota // always
	GatePaced                  // with a pause after each group of layers
	GateWindow                 // only inside [Open, Close]
	GateClosed                 // not at all
)

func (m GateMode) String() string { return [...]string{"free", "paced", "window", "closed"}[m] }

// Window is what the game thread publishes to a Gate.
type Window struct {
	Mode        GateMode
	Open, Close int64         // GateWindow: monotonic ns between which layers may run; Close < Open is shut
	Pause       time.Duration // GatePaced: rest after each group
	Spill       bool          // GateWindow: a group too long for any window may begin at this one's start
	Expires     int64         // monotonic ns from which the gate counts as free; 0 is never
	// LayersPerStop is how many layers run between two looks at the gate; 0, or more
	// than the model has: all of them. In GateWindow a model that predicts its layers
	// may take as many as fit into half of what is left, unless this is 1.
	LayersPerStop int
}

// Shut reports whether nothing may begin before the next window, or before this
// one expires.
func (w Window) Shut() bool { return w.Mode == GateClosed || w.Mode == GateWindow && w.Close < w.Open }

// Spilled is next as the rule should take it. A group that can't be divided (the
// output head takes 2 ms and more) would never fit into a window that is shorter.
// Where Spill allows it, that group counts as three quarters of the window, so
// that it begins in the window's first quarter and most of it runs inside. What
// spills into the game's frame must be of low priority.
func (w Window) Spilled(next time.Duration) time.Duration {
	if most := time.Duration(w.Close-w.Open) / 4 * 3; w.Spill && w.Mode == GateWindow && most > 0 && next > most {
		return most
	}
	return next
}

// Verdict is the answer at a gate.
type Verdict uint8

const (
	Go   Verdict = iota // run the next group of layers
	Wait                // until the returned instant, or until another window is published
	Stop                // give the work up: it is tentative and may not run now
)

func (v Verdict) String() string { return [...]string{"go", "wait", "stop"}[v] }

// Forever is an instant that never comes: wait for the next window.
const Forever = int64(1<<63 - 1)

// AdmitFunc is the rule at the gate, pure: now and lastEnd are monotonic ns,
// next is the predicted time of the group that wants to run. package local
// passes the scheduler's.
type AdmitFunc func(now, lastEnd int64, w Window, next time.Duration, tentative bool) (Verdict, int64)

// Gate is where windows are published. Publish does not allocate, lock or
// block. Publish is called from one thread at a time; the model reads elsewhere.
//
// Activity tells whether layers run right now, and how many groups of layers
// have begun so far: if neither says anything between two calls, none ran. Safe
// for concurrent use.
type Gate interface {
	Publish(Window)
	Activity() (running bool, groups uint64)
}

// Waker is a Gate whose Publish wakes a sleeping model by a system call. Woken says
// how often it did, and what those calls took the publishing thread in all. Call
// from the thread that publishes.
type Waker interface {
	Woken() (calls uint64, took time.Duration)
}

// Clock is time as a model sees it. Safe for concurrent use.
type Clock interface {
	// Now is monotonic nanoseconds.
	Now() int64
	// WaitUntil returns at the instant t, or earlier when wake delivers.
	WaitUntil(t int64, wake <-chan struct{})
}
