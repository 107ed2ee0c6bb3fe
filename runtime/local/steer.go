package local

import (
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// fixedMargin is how long before the deadline fixed windows close: one layer of
// a small model on a slow core.
const fixedMargin = 700 * time.Microsecond

// windowDelay is how long after FrameEnd a window opens for threads of low
// priority. The game thread still has its events to poll and its frame to present;
// a thread that is woken meanwhile may be put on its core, and then keeps it until
// the timer's next tick: 2 to 4 ms, the 99th percentile of our calls beside two busy
// cores.
const windowDelay = 100 * time.Microsecond

// makeSteering fills in what there is and makes the controller.
func (r *Runtime) makeSteering() error {
	info := r.Model.Info()
	threads := r.spec.Threads
	if threads == 0 {
		threads = llamacpp.DefaultThreads()
	}
	r.threads.Store(int32(threads))
	r.chunk.Store(int32(info.MaxBatch))
	r.width.Store(int32(r.guess.width()))
	switch r.spec.Steer {
	case SteerWindows:
		r.decision = scheduler.Decision{
			Gate: scheduler.GateWindow, Margin: fixedMargin, OpenAfter: scheduler.AtFrameEnd, LayersPerStop: 1,
			Threads: threads, PrefillChunk: fixedChunk, Draft: r.guess.sources(), VerifyWidth: r.guess.width(),
		}
		r.chunk.Store(fixedChunk)
	case SteerChunkSleep, SteerDuty:
		r.decision = scheduler.Decision{
			Gate: scheduler.GatePaced, Pause: chunkSleep, Threads: threads, PrefillChunk: info.MaxBatch,
			Draft: r.guess.sources(), VerifyWidth: r.guess.width(),
		}
		if r.spec.Steer == SteerDuty {
			r.decision.Pause, r.decision.LayersPerStop = dutyFirst, 1
		}
	case SteerController:
		c := r.spec.Scheduler
		c.LowPriorityBase = r.spec.LowPriority
		c.MaxThreads, c.Layers, c.MaxPrefillChunk = threads, info.Layers, info.MaxBatch
		c.MinPrefillChunk = min(c.MinPrefillChunk, info.MaxBatch)
		if info.Device != "CPU" {
			c.TakeBack = 0 // its layers hold no core of the game's
		} else if r.spec.LowPriority {
			r.marks.Delay = windowDelay
		}
		c.Draft, c.MaxVerifyWidth = r.guess.sources(), r.guess.width()
		c.Devices.Default, c.Devices.Profile = scheduler.DeviceID(info.Device), r.placed.choices()
		control, err := scheduler.New(c, scheduler.Instant(r.Clock.Now()))
		if err != nil {
			return err
		}
		r.control, r.decision = control, control.Decision()
		r.apply()
	}
	return nil
}

// fixedChunk keeps a layer of a prefill batch inside a window: 16 tokens take
// about as long as five of decode.
const fixedChunk = 16

const (
	// chunkSleep is the rest after all layers of a batch and after its head, so
	// a batch is followed by 8 ms of silence in all: half a frame at 60 Hz, and
	// about half the speed where a token takes 10 ms.
	chunkSleep = 4 * time.Millisecond

	// dutyFirst is the rest after a layer until one was timed, dutyMost the
	// longest: a layer of a large prefill batch takes some milliseconds.
	dutyFirst, dutyMost = 500 * time.Microsecond, 20 * time.Millisecond
)

// learnGroup follows what a layer takes. Called on the worker's thread.
func (r *Runtime) learnGroup(w *llm.Work) {
	run := w.End - w.Start - int64(w.Waited)
	if w.Stops < 1 || run <= 0 {
		return
	}
	each, was := run/int64(w.Stops), r.group.Load()
	if was > 0 {
		each = was + (each-was)/8
	}
	r.group.Store(each)
}

// duty rests after each layer for as long as it took: half the speed, as at half
// the clock.
func (r *Runtime) duty() {
	if each := r.group.Load(); r.spec.Steer == SteerDuty && each > 0 {
		r.decision.Pause = min(time.Duration(each), dutyMost)
	}
}

// step reports what the worker did and lets the controller decide.
func (r *Runtime) step(s scheduler.FrameSample) {
	if r.control == nil {
		r.duty()
		return
	}
	r.sense.played(&s)
	for {
		w, ok := r.work.take()
		if !ok {
			break
		}
		r.control.Report(w)
		r.idle = w.Pending == 0
	}
	if busy := r.Engine.HasWork(); busy == r.idle { // demand changed without a step
		r.idle = !busy
		r.control.Report(scheduler.Work{Pending: pending(busy), Start: s.End, End: s.End})
	}
	r.placed.tell(r.control, s.End)
	r.decision = r.control.Step(s)
	r.reasons[r.decision.Reason]++
	if r.relief != nil {
		r.relief.duty(r.decision.Reason == scheduler.ReasonFloorOff)
	}
	r.apply()
}

func pending(busy bool) int {
	if busy {
		return 1
	}
	return 0
}

// apply turns the decision into the next grant. Windows are published apart.
func (r *Runtime) apply() {
	r.threads.Store(int32(r.decision.Threads))
	r.chunk.Store(int32(r.decision.PrefillChunk))
	width, model, patterns := r.drafting()
	r.width.Store(int32(width))
	r.noModel.Store(!model)
	r.noPatterns.Store(!patterns)
	if r.placed != nil && r.placed.fixed != nil {
		d := &r.decision
		d.Prefill, d.Decode, d.Offload = r.placed.fixed.Prefill, r.placed.fixed.Decode, r.placed.fixed.Offload
		return
	}
	if r.placed != nil && r.placed.helper != "" && !r.decision.Offload {
		// Whether a batch goes to the helper is a matter of its size.
		r.chunk.Store(min(r.chunk.Load(), llamacpp.OffloadLeast-1))
	}
	r.placed.Place(scheduler.Placement{Prefill: r.decision.Prefill, Decode: r.decision.Decode,
		Offload: r.decision.Offload})
}

// drafting is how wide a verify batch may be now, and whether the draft model
// and patterns may fill it.
func (r *Runtime) drafting() (width int, model, patterns bool) {
	d := &r.decision
	if d.Draft == scheduler.DraftOff {
		return 1, false, false
	}
	return d.VerifyWidth, d.Draft != scheduler.DraftNGram, d.Draft != scheduler.DraftModel
}

// grantMemories tells memory work what the decision grants it.
func (r *Runtime) grantMemories(now int64) {
	if m := r.memories.Load(); m != nil && r.control != nil {
		m.publish(&r.decision, now)
	}
}

func (r *Runtime) publish(w scheduler.Window) {
	r.Model.Gate().Publish(llm.Window{
		Mode: llm.GateMode(w.Gate), Open: int64(w.Open), Close: int64(w.Close), Pause: w.Pause,
		LayersPerStop: r.decision.LayersPerStop, Expires: int64(w.Expires),
		Spill: r.spec.LowPriority,
	})
}

// grant is what the worker's next batch may use. Called on the worker's thread.
func (r *Runtime) grant() llm.Grant {
	if r.relief != nil {
		r.relief.wait()
	}
	return llm.Grant{
		Threads: int(r.threads.Load()), PrefillChunk: int(r.chunk.Load()),
		VerifyWidth: int(r.width.Load()), NoDraftModel: r.noModel.Load(), NoPatterns: r.noPatterns.Load(),
	}
}

// report hands what the worker did to the game thread. Called on the worker's
// thread.
func (r *Runtime) report(w llm.Work) {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	if r.relief != nil && r.relief.onDuty.Load() {
		w.Samples = nil // relief has begun a batch since, which overwrote them
	}
	r.reported(w)
}

// reported is report under its lock.
func (r *Runtime) reported(w llm.Work) {
	if r.observe != nil {
		r.observe(w)
	}
	if r.control == nil {
		r.learnGroup(&w)
		return
	}
	r.work.put(scheduler.Work{
		Stage: scheduler.Stage(w.Stage), Tokens: w.Tokens, Generated: w.Generated, Threads: w.Threads,
		Start: scheduler.Instant(w.Start), End: scheduler.Instant(w.End), Waited: w.Waited, Stopped: w.Stopped,
		Pending: pending(r.Engine.HasWork()), Contention: r.sense.score(&w),
	})
}

// workRing carries work from the worker to the game thread. One writer, one
// reader. When the game shows no frame for a second or two it is full, and
// further work is not reported: the controller then starts afresh anyway.
type workRing struct {
	slots      [256]scheduler.Work
	head, tail atomic.Uint64 // read, written
}

func (q *workRing) put(w scheduler.Work) {
	tail := q.tail.Load()
	if tail-q.head.Load() == uint64(len(q.slots)) {
		return
	}
	q.slots[tail%uint64(len(q.slots))] = w
	q.tail.Store(tail + 1)
}

func (q *workRing) take() (scheduler.Work, bool) {
	head := q.head.Load()
	if head == q.tail.Load() {
		return scheduler.Work{}, false
	}
	w := q.slots[head%uint64(len(q.slots))]
	q.head.Store(head + 1)
	return w, true
}
