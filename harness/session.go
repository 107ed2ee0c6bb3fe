package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

// session is one run of one policy: a game on a thread of its own, with or
// without a model beside it.
type session struct {
	scenario *Scenario
	timeline *timeline
	policy   Policy
	seed     uint64
	warmUp   time.Duration
	open     func(ctx context.Context, spec local.Spec, observe func(llm.Work)) (*local.Runtime, error)
	clock    llm.Clock

	assets   assets.Options                                  // of the embedder
	embedder func(ctx context.Context) (rag.Embedder, error) // nil: the real one

	stop   *atomic.Bool  // ends the run at the next frame
	played *atomic.Int64 // ns so far, warm-up included, for progress
}

// recording is what a session brought. Its frames begin after the warm-up.
type recording struct {
	frames      []frameRecord
	jumps       int64
	warmFrames  int
	begin, end  int64 // of the measured time
	cpu         time.Duration
	machine     machineTime
	works       *observer
	talk        talk
	memory      *memoryRecord // nil: nobody remembers
	phases      []string      // of the timeline
	reasons     [scheduler.Reasons]int
	steered     bool // reasons mean something
	info        llm.Info
	guessed     [2]speculative.Stats // when the measured time began and ended
	interrupted bool
	collections uint32
}

// run plays the session. The model is loaded before the measured time and
// closed after it.
func (s *session) run(ctx context.Context) (*recording, error) {
	rec := &recording{works: newObserver(), phases: s.timeline.names}
	var rt *local.Runtime
	if s.policy.Spec != nil {
		var err error
		if rt, err = s.open(ctx, *s.policy.Spec, rec.works.observe); err != nil {
			return nil, fmt.Errorf("harness: policy %s: %w", s.policy.Name, err)
		}
	}
	var keep *keeper
	if rt != nil && s.remembers() {
		var err error
		if keep, err = newKeeper(ctx, rt, s); err != nil {
			return nil, errors.Join(fmt.Errorf("harness: policy %s: %w", s.policy.Name, err), rt.Close())
		}
	}
	failed := make(chan error, 1)
	var game *player
	go func() {
		// The thread ends with this goroutine: its timers were changed.
		runtime.LockOSThread()
		var err error
		game, err = s.play(rt, keep, rec)
		failed <- err
	}()
	err := <-failed
	if rt != nil {
		rec.info = rt.Model.Info()
		if closing := rt.Close(); err == nil && closing != nil {
			err = fmt.Errorf("harness: policy %s: close: %w", s.policy.Name, closing)
		}
		if keep != nil {
			memory, closing := keep.close()
			rec.memory, err = &memory, errors.Join(err, closing)
		}
		if game != nil && game.cast != nil {
			game.cast.poll() // what was cancelled says when its first token came
			rec.talk = game.cast.outcome
		}
	}
	if err != nil {
		return nil, err
	}
	return rec, nil
}

func (s *session) remembers() bool { return len(s.scenario.Memories) > 0 && s.policy.remembers() }

// play is the game thread.
func (s *session) play(rt *local.Runtime, keep *keeper, rec *recording) (*player, error) {
	timer, err := load.NewTimer(s.clock)
	if err != nil {
		return nil, err
	}
	defer timer.Close()
	team, err := load.NewTeam(s.timeline.needs(), timer)
	if err != nil {
		return nil, err
	}
	defer team.Close()
	p := &player{rt: rt, team: team, phases: s.timeline.phases()}
	if rt != nil {
		if p.cast, err = newCast(s.scenario, s.timeline, rt, s.seed); err != nil {
			return p, err
		}
		p.cast.keeper = keep
	}
	l, err := newLoop(timer, p, s.timeline, s.scenario.line(), s.scenario.target())
	if err != nil {
		return p, err
	}
	p.loop = l
	// A game that is always late shows no more frames than one that is not.
	rec.frames = make([]frameRecord, 0, int(s.timeline.total()/l.grid.Target())+2)
	var r frameRecord
	p.warm = true
	for l.played < s.warmUp && !s.stop.Load() {
		l.next(&r)
		rec.warmFrames++
		s.played.Store(int64(l.played))
	}
	p.measure(rec)
	l.restart()
	for l.played < s.timeline.total() && !s.stop.Load() {
		if l.next(&r) {
			r.Gate, r.Decision, r.Parts = p.gate, p.decision, p.parts
			r.Replying = rt != nil && rt.Engine.HasWork()
			rec.frames = append(rec.frames, r)
		}
		s.played.Store(int64(s.warmUp + l.played))
	}
	rec.interrupted = l.played < s.timeline.total()
	p.finish(rec)
	return p, team.Err()
}

// player is a game whose work is a load, and whose calls are lull's. Call from
// the game thread.
type player struct {
	rt       *local.Runtime // nil: native
	cast     *cast
	team     *load.Team
	loop     *loop
	phases   []scheduler.Phase // by phase of the timeline
	phase    int
	warm     bool
	decision scheduler.Decision
	gate     uint8
	parts    parts
	woken    time.Duration // by Runtime.Woken when the frame began
}

func (p *player) begin(id uint64, phase int, target time.Duration, now int64) {
	p.phase = phase
	if p.rt != nil {
		_, p.woken = p.rt.Woken()
		if k := p.cast.keeper; k != nil {
			k.enter(phase)
		}
		p.rt.SetPhase(p.phases[phase])
		p.rt.FrameBegin(id, target, now)
		p.parts = parts{marks: clamp32(p.loop.clock.Now() - now)}
	}
}

func (p *player) work(j *load.Job, begin int64) load.Done { return p.team.Run(j, begin) }

func (p *player) end(id uint64, j *load.Job, deadline, now int64) {
	if p.rt == nil {
		return
	}
	if j.GPU > 0 {
		p.rt.FrameTimings(id, scheduler.FrameTimings{GPUBusy: j.GPU})
	}
	d := p.rt.FrameEnd(id, deadline, now)
	ended := p.loop.clock.Now()
	p.gate, p.decision = uint8(d.Gate), d
	_, woken := p.rt.Woken()
	p.parts.wake = clamp32(int64(woken - p.woken))
	p.parts.marks += clamp32(ended-now) - p.parts.wake
	played := p.loop.played
	if p.warm {
		played = -1
	}
	p.cast.frame(p.phase, played)
	p.parts.submit = clamp32(int64(p.cast.submitting))
	p.parts.poll = clamp32(p.loop.clock.Now()-ended) - p.parts.submit
}

// measure begins the measured time.
func (p *player) measure(rec *recording) {
	p.warm = false
	rec.begin = p.loop.clock.Now()
	rec.cpu, rec.machine, rec.collections = processCPU()+p.team.CPU(), readMachine(), collections()
	if p.rt != nil {
		rec.reasons, rec.guessed[0] = p.rt.Reasons(), p.rt.Speculation()
		rec.steered = p.rt.Spec().Steer == local.SteerController
		p.cast.outcome = talk{ttft: p.cast.outcome.ttft[:0]}
		if k := p.cast.keeper; k != nil {
			k.measure()
		}
	}
}

// finish ends it.
func (p *player) finish(rec *recording) {
	rec.end = p.loop.clock.Now()
	rec.jumps = p.loop.jumps
	rec.cpu = processCPU() + p.team.CPU() - rec.cpu
	rec.machine = readMachine().since(rec.machine)
	rec.collections = collections() - rec.collections
	if p.rt != nil {
		rec.guessed[1] = p.rt.Speculation()
		for i, n := range p.rt.Reasons() {
			rec.reasons[i] = n - rec.reasons[i]
		}
		if k := p.cast.keeper; k != nil {
			k.finish()
		}
		p.cast.cancel()
	}
}

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// newTimeline makes the loads of a scenario's phases.
func newTimeline(s *Scenario, seed uint64) (*timeline, []string, error) {
	t := &timeline{}
	var notes []string
	end := time.Duration(0)
	for i := range s.Phases {
		p := &s.Phases[i]
		source, derivation, err := newSource(s, p, seed+uint64(i)<<32)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: phase %d (%s): %w", ErrScenario, i+1, p.Phase, err)
		}
		if derivation != "" {
			notes = append(notes, fmt.Sprintf("load of phase %d (%s): %s", i+1, p.Phase, derivation))
		}
		end += seconds(p.Seconds)
		t.names = append(t.names, p.Phase)
		t.ends = append(t.ends, end)
		t.jobs = append(t.jobs, source)
	}
	return t, notes, nil
}

func (t *timeline) needs() load.Needs {
	var n load.Needs
	for _, s := range t.jobs {
		m := s.Needs()
		n.Workers, n.Stream = max(n.Workers, m.Workers), n.Stream || m.Stream
		n.Window = n.Window || m.Window
	}
	return n
}

func (t *timeline) phases() []scheduler.Phase {
	var list []scheduler.Phase
	for _, name := range t.names {
		p, _ := parsePhase(name)
		list = append(list, p)
	}
	return list
}
