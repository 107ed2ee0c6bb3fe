package local

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lull-npc/lull/runtime/llm"
)

// relief is a second worker, of ordinary priority, for the time in which the
// floor under a reply is empty. The first one's threads run only where nobody
// else wants a core, and that cannot be taken back without privilege: beside a
// game, or other programs, that take every core it would stand still, however
// far the gate is open.
//
// While relief is on duty the first worker waits between two steps, so that at
// one time one of the two steps the engine; if it is in the middle of a batch,
// that is stopped and done again. Relief computes on its own thread alone.
type relief struct {
	engine *llm.Engine
	stopIt func() // stops target and draft model
	chunk  *atomic.Int32
	report func(llm.Work) // under guard
	guard  *sync.Mutex    // of a step of relief with its report

	onDuty atomic.Bool
	wake   chan struct{} // capacity 1: duty began, or quit
	over   chan struct{} // capacity 1: duty ended, for the first worker
	quit   chan struct{}
	done   chan struct{}
	stop   sync.Once
}

func startRelief(r *Runtime) *relief {
	x := &relief{
		engine: r.Engine, stopIt: r.stopModels, chunk: &r.chunk, report: r.reported, guard: &r.reporting,
		wake: make(chan struct{}, 1), over: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go x.run()
	return x
}

// duty switches relief on or off. Call from the game thread.
func (x *relief) duty(on bool) {
	if x.onDuty.Load() == on {
		return
	}
	x.onDuty.Store(on)
	if on {
		x.stopIt() // the first worker may be stuck in a batch; the next Step resumes
		notify(x.wake)
		return
	}
	notify(x.over)
}

// wait holds the first worker back while relief is on duty. Called on the first
// worker's thread, between steps.
func (x *relief) wait() {
	for x.onDuty.Load() {
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
		x.onDuty.Store(false)
		x.stopIt()
		<-x.done
	})
}

func (x *relief) run() {
	runtime.LockOSThread()
	defer close(x.done)
	for {
		select {
		case <-x.quit:
			return
		case <-x.wake:
		}
		for x.onDuty.Load() && x.engine.HasWork() {
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
	if !x.onDuty.Load() {
		return true
	}
	w, err := x.engine.Step(llm.Grant{Threads: 1, PrefillChunk: int(x.chunk.Load())})
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
