package llm

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// handClock is a clock that a test turns by hand: a wait jumps to its end,
// unless a wake is pending; an endless one waits for the wake.
type handClock struct{ now atomic.Int64 }

func (c *handClock) Now() int64 { return c.now.Load() }

func (c *handClock) WaitUntil(t int64, wake <-chan struct{}) {
	if t == Forever {
		<-wake
		return
	}
	select {
	case <-wake:
	default:
		c.now.Store(max(t, c.now.Load()))
	}
}

func TestPlainAdmit(t *testing.T) {
	const ms = int64(time.Millisecond)
	window := Window{Mode: GateWindow, Open: 10 * ms, Close: 14 * ms}
	for _, c := range []struct {
		name         string
		now, lastEnd int64
		w            Window
		tentative    bool
		verdict      Verdict
		until        int64
	}{
		{"free", 5, 0, Window{}, false, Go, 0},
		{"paced too early", 5 * ms, 4 * ms, Window{Mode: GatePaced, Pause: 2e6}, false, Wait, 6 * ms},
		{"paced", 6 * ms, 4 * ms, Window{Mode: GatePaced, Pause: 2e6}, false, Go, 0},
		{"before the window", 9 * ms, 0, window, false, Wait, 10 * ms},
		{"before the window, draft", 9 * ms, 0, window, true, Wait, 10 * ms},
		{"in the window", 10 * ms, 0, window, false, Go, 0},
		{"just fits", 13 * ms, 0, window, false, Go, 0},
		{"does not fit", 13*ms + 1, 0, window, false, Wait, Forever},
		{"after the window", 14 * ms, 0, window, false, Wait, Forever},
		{"shut window", 10 * ms, 0, Window{Mode: GateWindow, Open: 10 * ms, Close: 9 * ms}, false, Wait, Forever},
		{"closed", 0, 0, Window{Mode: GateClosed}, false, Wait, Forever},
		{"closed, draft", 0, 0, Window{Mode: GateClosed}, true, Stop, 0},
	} {
		v, until := PlainAdmit(c.now, c.lastEnd, c.w, time.Millisecond, c.tentative)
		if v != c.verdict || (v == Wait && until != c.until) {
			t.Errorf("%s: %v until %d, want %v until %d", c.name, v, until, c.verdict, c.until)
		}
	}
}

func TestSoftGateWaitsForTheWindow(t *testing.T) {
	clock := &handClock{}
	g := NewGate(clock, nil)
	g.Publish(Window{Mode: GateWindow, Open: 100, Close: 200})
	if waited, ok := g.Pass(0, 10, false); !ok || waited != 100 || clock.Now() != 100 {
		t.Errorf("Pass = %v, %v at %d; want 100ns, true at 100", waited, ok, clock.Now())
	}
	g.Publish(Window{Mode: GateClosed})
	if _, ok := g.Pass(0, 10, true); ok {
		t.Error("tentative work passed a closed gate")
	}
}

func TestSoftGateStopEndsAWait(t *testing.T) {
	g := NewGate(&handClock{}, nil)
	g.Publish(Window{Mode: GateClosed})
	passed := make(chan bool)
	go func() { _, ok := g.Pass(0, 0, false); passed <- ok }()
	g.Stop()
	if <-passed {
		t.Error("Pass went through a stopped gate")
	}
	if _, ok := g.Pass(0, 0, false); ok {
		t.Error("Stop was forgotten before Resume")
	}
	g.Resume()
	if _, ok := g.Pass(0, 0, true); ok {
		t.Error("tentative work passed a closed gate")
	}
}

// TestSoftGateLosesNoWake: what happens between the look at the window and the
// wait leaves a wake behind.
func TestSoftGateLosesNoWake(t *testing.T) {
	for name, happens := range map[string]func(*SoftGate){
		"Publish": func(g *SoftGate) { g.Publish(Window{}) },
		"Stop":    (*SoftGate).Stop,
	} {
		var g *SoftGate
		g = NewGate(&handClock{}, func(now, last int64, w Window, next time.Duration, tentative bool) (Verdict, int64) {
			v, until := PlainAdmit(now, last, w, next, tentative)
			if v == Wait {
				happens(g)
				if len(g.wake) == 0 {
					t.Fatalf("%s left no wake behind", name)
				}
			}
			return v, until
		})
		g.Publish(Window{Mode: GateClosed})
		<-g.wake
		if _, ok := g.Pass(0, 0, false); ok != (name == "Publish") {
			t.Errorf("after %s Pass = %v", name, ok)
		}
	}
}

// TestSoftGateStubbornRule: a rule that waits for the past makes time pass
// rather than spin.
func TestSoftGateStubbornRule(t *testing.T) {
	clock := &handClock{}
	g := NewGate(clock, func(now, _ int64, _ Window, _ time.Duration, _ bool) (Verdict, int64) {
		if now >= int64(time.Millisecond) {
			return Go, 0
		}
		return Wait, 0
	})
	if waited, ok := g.Pass(0, 0, false); !ok || waited != time.Millisecond {
		t.Errorf("Pass = %v, %v; want 1ms, true", waited, ok)
	}
}

// TestSoftGateNoTornWindow publishes windows whose parts belong together while
// others read and pass.
func TestSoftGateNoTornWindow(t *testing.T) {
	const windows = 20_000
	g := NewGate(NewClock(), func(_, _ int64, w Window, _ time.Duration, _ bool) (Verdict, int64) {
		if w.Open != w.Close || w.Open != int64(w.Pause) || w.Open != int64(w.LayersPerStop) {
			t.Errorf("torn window: %+v", w)
		}
		if w.Mode == GateFree {
			return Go, 0
		}
		return Wait, Forever
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range windows {
			if w := g.Window(); w.Open != w.Close || w.Open != int64(w.LayersPerStop) {
				t.Errorf("torn window: %+v", w)
			}
		}
	})
	wg.Go(func() {
		for range windows / 10 {
			g.Pass(0, 0, false)
		}
	})
	for i := range int64(windows) {
		g.Publish(Window{Mode: GateMode(i % 2 * 3), Open: i, Close: i, Pause: time.Duration(i), LayersPerStop: int(i)})
	}
	g.Publish(Window{})
	wg.Wait()
}

func TestPublishAllocatesNothing(t *testing.T) {
	g := NewGate(NewClock(), nil)
	if n := testing.AllocsPerRun(100, func() { g.Publish(Window{Mode: GateWindow, Close: 5}) }); n != 0 {
		t.Errorf("Publish allocates %v times, want 0", n)
	}
}

func TestRealClock(t *testing.T) {
	c := NewClock()
	at := c.Now() + int64(time.Millisecond)
	c.WaitUntil(at, nil)
	if now := c.Now(); now < at {
		t.Errorf("WaitUntil(%d) came back at %d", at, now)
	}
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	c.WaitUntil(Forever, wake)
	c.WaitUntil(c.Now()-1, nil)
	if a, b := c.Now(), NewClock().Now(); b < a || b-a > int64(time.Hour) {
		t.Errorf("two clocks differ: %d and %d", a, b)
	}
}
