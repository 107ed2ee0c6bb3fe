package local

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/probe"
	"github.com/lull-npc/lull/scheduler"
)

// Runtime is a model that answers beside a game. The frame methods are called
// from the game thread; they neither allocate, lock nor wait. Engine's methods
// say for themselves who may call them.
type Runtime struct {
	Engine *llm.Engine
	Model  llm.Model
	Clock  llm.Clock

	spec    Spec
	guess   *guessing // nil: one token at a time
	placed  *Placed   // nil: on one device
	sense   *sensing  // nil: nobody asks for the contention of memory
	worker  *llm.Worker
	probe   *probe.Poller  // nil: nobody reads the machine
	relief  *relief        // nil: the worker's priority is ordinary, or nobody decides
	observe func(llm.Work) // nil: nobody watches
	once    sync.Once

	opening  sync.Mutex // memories, ended
	memories atomic.Pointer[Memories]
	ended    bool

	// Game thread.
	marks         scheduler.Marks
	control       *scheduler.Controller // nil: nobody decides
	decision      scheduler.Decision
	phase         scheduler.Phase
	host          scheduler.HostSignals
	reasons       [scheduler.Reasons]int
	ranAtBegin    bool   // layers ran when the frame began
	groupsAtBegin uint64 // that had begun by then
	idle          bool   // the controller knows that the engine has nothing to do

	// Between the threads.
	threads, chunk, width atomic.Int32
	noModel, noPatterns   atomic.Bool
	group                 atomic.Int64 // ns that a layer takes, for SteerDuty
	reporting             sync.Mutex   // of the workers, never of the game thread
	work                  workRing
}

// FrameBegin tells that frame id begins now: the gate shuts, the game works.
// target is the frame period wanted. Call from the game thread.
func (r *Runtime) FrameBegin(id uint64, target time.Duration, now int64) {
	if r.spec.Steer == SteerNone {
		return
	}
	r.ranAtBegin, r.groupsAtBegin = r.Model.Gate().Activity()
	w, outcome := r.marks.Begin(id, target, scheduler.Instant(now))
	if outcome.Taken() {
		r.publish(w)
	}
}

// FrameEnd tells that the game's own work of frame id is done; the frame has to
// be shown at the deadline (0: begin + target). It decides, and publishes the
// window until then. Call from the game thread.
func (r *Runtime) FrameEnd(id uint64, deadline, now int64) scheduler.Decision {
	if r.spec.Steer == SteerNone {
		return r.decision
	}
	s, outcome := r.marks.End(id, scheduler.Instant(deadline), scheduler.Instant(now))
	if !outcome.Taken() {
		return r.decision
	}
	s.Phase, s.Host = r.phase, r.hostFacts()
	running, groups := r.Model.Gate().Activity()
	s.Quiet = !r.ranAtBegin && !running && groups == r.groupsAtBegin
	r.step(s)
	r.publish(r.marks.Plan(r.decision))
	r.grantMemories(now)
	return r.decision
}

// FrameTimings tells late facts of frame id, such as GPU time. Call from the
// game thread.
func (r *Runtime) FrameTimings(id uint64, t scheduler.FrameTimings) {
	s, outcome := r.marks.Timings(id, t)
	if outcome == scheduler.MarkOK && r.control != nil {
		s.Phase, s.Host = r.phase, r.hostFacts()
		r.control.Late(s)
	}
}

// Frame is for engines that know a frame only when it is over. The gate then
// paces instead of using windows. Call from the game thread.
func (r *Runtime) Frame(s scheduler.FrameSample) scheduler.Decision {
	if r.spec.Steer == SteerNone {
		return r.decision
	}
	s.Phase, s.Host, s.Marked = r.phase, r.hostFacts(), false
	r.step(s)
	r.publish(scheduler.Window{Gate: r.decision.Gate, Pause: r.decision.Pause,
		Expires: s.End.Add(scheduler.WindowLife)})
	r.grantMemories(int64(s.End))
	return r.decision
}

// SetPhase tells what the game does now. Call from the game thread.
func (r *Runtime) SetPhase(p scheduler.Phase) {
	r.phase = p
	if m := r.memories.Load(); m != nil && r.control != nil {
		m.setPhase(p)
	}
}

// SetHost tells facts of the whole device that the game knows better, about once a
// second. What is unknown there is read from the machine, unless Config.NoProbe.
// Call from the game thread.
func (r *Runtime) SetHost(h scheduler.HostSignals) { r.host = h }

// Woken says how often the frame methods woke a sleeping model by a system call, and
// what those calls took in all: what the kernel takes to wake a core that is idle.
// Zero where the gate doesn't say. Call from the game thread.
func (r *Runtime) Woken() (calls uint64, took time.Duration) {
	if w, ok := r.Model.Gate().(llm.Waker); ok {
		return w.Woken()
	}
	return 0, 0
}

// Decision is the last one. Call from the game thread.
func (r *Runtime) Decision() scheduler.Decision { return r.decision }

// Reasons counts the frames that each rule decided. Call from the game thread.
func (r *Runtime) Reasons() [scheduler.Reasons]int { return r.reasons }

// Spec says how the engine was built. Safe for concurrent use.
func (r *Runtime) Spec() Spec { return r.spec }

// Close ends the worker, cancels every request, writes and closes the memories,
// and frees the model. It returns when every thread has ended. Safe for concurrent use.
func (r *Runtime) Close() error {
	var err error
	r.once.Do(func() {
		r.opening.Lock()
		r.ended = true
		m := r.memories.Load()
		r.opening.Unlock()
		remembered := m.close()
		if r.probe != nil {
			r.probe.Close()
		}
		if r.relief != nil {
			r.relief.close()
		}
		r.worker.Stop()
		r.Engine.Close()
		r.sense.store()
		err = errors.Join(remembered, r.guess.close(), r.Model.Close())
	})
	return err
}
