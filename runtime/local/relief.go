package local

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// relief is a second worker, of ordinary priority. The first one's threads run
// only where nobody else wants a core, and that cannot be taken back without
// privilege. There are two times at which that is too little:
//
//   - The floor under a reply is empty: beside a game, or other programs, that
//     take every core, the first worker would stand still, however far the gate
//     is open. Relief then computes on its own thread alone.
//   - The game leaves most of the cores, in a menu: the lowest priority would
//     cost tokens and save nothing. Relief then computes on as many threads as
//     the first worker, of its own priority.
//
// While relief is on duty the first worker waits between two steps, so that at
// one time one of the two steps the engine; if it is in the middle of a batch,
// that is stopped and done again.
type relief struct {
	engine  *llm.Engine
	stopIt  func()           // stops target and draft model
	granted func() llm.Grant // what the first worker would get
	report  func(llm.Work)   // under guard
	guard   *sync.Mutex      // of a step of relief with its report

	state atomic.Int32  // a reliefDuty
	wake  chan struct{} // capacity 1: duty began or ended, or there is work
	over  chan struct{} // capacity 1: duty ended, for the first worker
	quit  chan struct{}
	done  chan struct{}
	stop  sync.Once
}

// reliefDuty is what relief is there for now.
type reliefDuty int32

const (
	offDuty reliefDuty = iota
	rescueDuty
	freeDuty
)

func dutyOf(d *scheduler.Decision) reliefDuty {
	switch {
	case d.Reason == scheduler.ReasonFloorOff:
		return rescueDuty
	case d.Ordinary:
		return freeDuty
	}
	return offDuty
}

func startRelief(r *Runtime) *relief {
	x := &relief{
		engine: r.Engine, stopIt: r.stopModels, granted: r.granted, report: r.reported, guard: &r.reporting,
		wake: make(chan struct{}, 1), over: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go x.run()
	return x
}

func (x *relief) on() reliefDuty { return reliefDuty(x.state.Load()) }

// duty says what relief is there for. Call from the game thread.
func (x *relief) duty(want reliefDuty) {
	was := reliefDuty(x.state.Swap(int32(want)))
	if was == want {
		return
	}
	x.stopIt() // who works may be stuck in a batch, or must not go on at this priority; the next Step resumes
	notify(x.wake)
	if want == offDuty {
		notify(x.over)
		x.engine.Rouse() // the wake that the first worker waits for may have gone to relief
	}
}

// wait holds the first worker back while relief is on duty. Called on the first
// worker's thread, between steps.
func (x *relief) wait() {
	for x.on() != offDuty {
		notify(x.wake) // the wake for new work came here
		select {
		case <-x.over:
		case <-x.quit:
			return
		}
	}
	x.guard.Lock() // relief may still report what the next batch would overwrite
	defer x.guard.Unlock()
}

// close ends relief and lets the first worker go.
func (x *relief) close() {
	x.stop.Do(func() {
		close(x.quit)
		x.state.Store(int32(offDuty))
		x.stopIt()
		<-x.done
	})
}

func (x *relief) run() {
	runtime.LockOSThread()
	defer close(x.done)
	for {
		wake := x.engine.Wake()
		if x.on() == offDuty {
			wake = nil // work is the first worker's
		}
		select {
		case <-x.quit:
			return
		case <-x.wake:
		case <-wake:
		}
		for x.on() != offDuty && x.engine.HasWork() {
			if !x.turn() {
				return
			}
		}
	}
}

// turn does one step, unless duty is over, and reports whether to go on.
func (x *relief) turn() bool {
	x.guard.Lock()
	defer x.guard.Unlock()
	g := x.granted()
	switch x.on() {
	case offDuty:
		return true
	case rescueDuty:
		g = llm.Grant{Threads: 1, PrefillChunk: g.PrefillChunk}
	case freeDuty:
		g.Second = true
	}
	w, err := x.engine.Step(g)
	if errors.Is(err, llm.ErrClosed) {
		return false
	}
	x.report(w)
	return true
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
