package llm

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// WorkerConfig says how a Worker runs. Every function is called on its thread;
// nil means none.
type WorkerConfig struct {
	OnThread func() error // once, first: lowers the thread's priority
	Grant    func() Grant // what the next step may do
	Report   func(Work)   // what it did
}

// Worker steps an engine in a goroutine on an OS thread of its own. The thread
// is never given back to Go, since its priority was changed: it ends with the
// worker.
type Worker struct {
	engine *Engine
	cfg    WorkerConfig
	quit   chan struct{}
	done   chan struct{}
	stop   sync.Once
}

// StartWorker starts a worker and returns when OnThread has, with its error.
// An engine has one worker at a time.
func StartWorker(e *Engine, cfg WorkerConfig) (*Worker, error) {
	if e.closed.Load() {
		return nil, fmt.Errorf("llm: start a worker: %w", ErrClosed)
	}
	if !e.working.CompareAndSwap(false, true) {
		return nil, errors.New("llm: start a worker: the engine has one already: stop that first")
	}
	w := &Worker{engine: e, cfg: cfg, quit: make(chan struct{}), done: make(chan struct{})}
	ready := make(chan error, 1)
	go w.run(ready)
	if err := <-ready; err != nil {
		<-w.done
		return nil, fmt.Errorf("llm: start a worker: %w", err)
	}
	return w, nil
}

// Stop ends a running batch and the worker, and waits for that. Requests stay
// in the engine: another worker may go on with them, or Close cancels them.
// Safe for concurrent use.
func (w *Worker) Stop() {
	w.stop.Do(func() {
		e := w.engine
		e.halted.Store(true)
		close(w.quit)
		e.stopModels() // Step resumes first and then looks at halted: never lost
		<-w.done
		e.resumeModels()
		e.halted.Store(false)
		e.working.Store(false)
	})
}

// Done is closed when the worker has ended: after Stop, Engine.Close, or a
// panic, which EventFailed tells of. Safe for concurrent use.
func (w *Worker) Done() <-chan struct{} { return w.done }

func (w *Worker) run(ready chan<- error) {
	runtime.LockOSThread() // and never unlock: see Worker
	defer close(w.done)
	started := false
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		err := fmt.Errorf("llm: worker panicked: %v\n%s", p, debug.Stack())
		if !started {
			w.engine.working.Store(false)
			ready <- err
			return
		}
		w.engine.abort(err)
	}()
	if w.cfg.OnThread != nil {
		if err := w.cfg.OnThread(); err != nil {
			w.engine.working.Store(false)
			ready <- err
			return
		}
	}
	started = true
	ready <- nil
	for w.turn() {
	}
}

// turn waits for work and does one step. It reports whether to go on.
func (w *Worker) turn() bool {
	select {
	case <-w.quit:
		return false
	default:
	}
	if !w.engine.HasWork() {
		if w.engine.closed.Load() {
			return false
		}
		select {
		case <-w.quit:
			return false
		case <-w.engine.Wake():
		}
		return true
	}
	var g Grant
	if w.cfg.Grant != nil {
		g = w.cfg.Grant()
	}
	work, err := w.engine.Step(g)
	if errors.Is(err, ErrClosed) && w.engine.closed.Load() {
		return false
	}
	if w.cfg.Report != nil { // a failure went to its request as an event
		w.cfg.Report(work)
	}
	return true
}

// abort is for a panic: our own bug must not take the game down. Every request
// fails, and so does an event of no request. The model's sequences are left
// alone, since nobody knows in what state they are.
func (e *Engine) abort(err error) {
	e.closed.Store(true)
	e.stepMu.Lock()
	defer e.stepMu.Unlock()
	for i := range e.slots {
		s := &e.slots[i]
		s.detach()
		s.seq = nil
	}
	for i := range e.table {
		t := &e.table[i]
		r, st := t.look()
		switch st {
		case queued:
			if !t.move(r.id, queued, active) {
				continue // cancelled a moment ago: Poll tells
			}
		case active, cancelling, ending:
		default:
			continue
		}
		r.sampler = nil
		e.fail(r, err)
	}
	e.out.put(Event{Kind: EventFailed, Err: err}, nil)
}
