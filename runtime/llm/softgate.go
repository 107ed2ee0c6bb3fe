package llm

import (
	"runtime"
	"sync/atomic"
	"time"
)

// stubbornWait is how long a gate rests when its rule says "wait until" an
// instant that is past. A right rule never does; without the rest a wrong one
// would burn a core that the game needs. Longer would hide layers from a window
// of a few milliseconds.
const stubbornWait = 50 * time.Microsecond

// SoftGate is a Gate in Go, for models that have none in C. The game thread
// publishes, the model's thread passes, any thread stops.
type SoftGate struct {
	clock Clock
	admit AdmitFunc

	// The window stands in a sequence lock: version is odd while Publish
	// writes, and a reader that saw it odd or changed reads again. Each part
	// is atomic, so no reader ever sees half a word.
	version           atomic.Uint64
	mode, layers      atomic.Int64
	open, shut, pause atomic.Int64
	expires           atomic.Int64
	spill             atomic.Bool

	running atomic.Bool   // a group of layers runs
	groups  atomic.Uint64 // that began

	stopped atomic.Bool
	wake    chan struct{} // capacity 1: a wake that nobody waits for is kept
}

// NewGate returns a gate that is free. A nil admit means PlainAdmit.
func NewGate(clock Clock, admit AdmitFunc) *SoftGate {
	if admit == nil {
		admit = PlainAdmit
	}
	return &SoftGate{clock: clock, admit: admit, wake: make(chan struct{}, 1)}
}

// Publish makes w the window from now on and wakes a waiting model. It does not
// allocate, loop or wait. Call from one goroutine at a time, with Pass running
// elsewhere.
func (g *SoftGate) Publish(w Window) {
	g.version.Add(1)
	g.mode.Store(int64(w.Mode))
	g.layers.Store(int64(w.LayersPerStop))
	g.open.Store(w.Open)
	g.shut.Store(w.Close)
	g.pause.Store(int64(w.Pause))
	g.expires.Store(w.Expires)
	g.spill.Store(w.Spill)
	g.version.Add(1)
	g.rouse()
}

// Window returns what was last published. Safe for concurrent use.
func (g *SoftGate) Window() Window {
	for {
		before := g.version.Load()
		w := Window{
			Mode:          GateMode(g.mode.Load()),
			LayersPerStop: int(g.layers.Load()),
			Open:          g.open.Load(),
			Close:         g.shut.Load(),
			Pause:         time.Duration(g.pause.Load()),
			Expires:       g.expires.Load(),
			Spill:         g.spill.Load(),
		}
		if before%2 == 0 && g.version.Load() == before {
			return w
		}
		runtime.Gosched() // the publisher was cut off in the middle: let it finish
	}
}

// Activity implements Gate. A group runs from a Pass that let it go to the next
// Pass or Leave.
func (g *SoftGate) Activity() (running bool, groups uint64) { return g.running.Load(), g.groups.Load() }

// Leave tells that the group which Pass let go has ended and no other follows
// at once. Call from the goroutine that passes.
func (g *SoftGate) Leave() { g.running.Store(false) }

// Stop makes a waiting Pass, and every later one, return false at once, until
// Resume. Safe for concurrent use.
func (g *SoftGate) Stop() {
	g.stopped.Store(true)
	g.rouse()
}

// Resume takes Stop back. Safe for concurrent use.
func (g *SoftGate) Resume() { g.stopped.Store(false) }

// Stopped reports whether Stop is in force. Safe for concurrent use.
func (g *SoftGate) Stopped() bool { return g.stopped.Load() }

// Wake delivers when the window changed or Stop was called. A model that waits
// for something else than the gate selects on it too, and looks at Stopped.
func (g *SoftGate) Wake() <-chan struct{} { return g.wake }

func (g *SoftGate) rouse() {
	select {
	case g.wake <- struct{}{}:
	default: // one wake is pending already and will show the newest window
	}
}

// Pass returns true when the next group of layers may run, after waiting for it
// where the rule says so. It returns false when the gate was stopped or the
// work is to be given up. lastEnd is when the last group ended, next how long
// the next one is thought to take. Call from one goroutine at a time.
func (g *SoftGate) Pass(lastEnd int64, next time.Duration, tentative bool) (waited time.Duration, ok bool) {
	g.running.Store(false)
	begin := g.clock.Now()
	for now := begin; ; now = g.clock.Now() {
		waited = time.Duration(now - begin)
		if g.stopped.Load() {
			return waited, false
		}
		w := g.Window()
		verdict, until := g.admit(now, lastEnd, w, w.Spilled(next), tentative)
		switch verdict {
		case Go:
			g.running.Store(true)
			g.groups.Add(1)
			return waited, true
		case Stop:
			return waited, false
		}
		if until <= now {
			until = now + int64(stubbornWait)
		}
		// A window published since it was read above has left a wake behind,
		// so this returns at once and the newer one is looked at.
		g.clock.WaitUntil(until, g.wake)
	}
}

// PlainAdmit is the rule at the gate for who can't import the scheduler: the
// same as scheduler.Admit, held to it by a test in package local. What it
// answers about tentative work, shut windows and expiry stands there.
func PlainAdmit(now, lastEnd int64, w Window, next time.Duration, tentative bool) (Verdict, int64) {
	expires := w.Expires
	if expires == 0 {
		expires = Forever
	}
	if w.Mode == GateFree || now >= expires && expires != Forever {
		return Go, 0
	}
	switch w.Mode {
	case GatePaced:
		until := lastEnd + int64(w.Pause)
		if w.Pause > 0 && until < lastEnd {
			until = Forever
		}
		if w.Pause < 0 && until > lastEnd {
			until = -Forever - 1
		}
		if now >= until {
			return Go, 0
		}
		return Wait, min(until, expires)
	case GateWindow:
		if now < w.Open {
			return Wait, min(w.Open, expires)
		}
		if now <= w.Close && uint64(w.Close)-uint64(now) >= uint64(max(next, 0)) {
			return Go, 0
		}
	}
	if tentative && w.Mode != GateWindow {
		return Stop, 0
	}
	return Wait, expires
}
