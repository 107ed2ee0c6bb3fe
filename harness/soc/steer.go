package soc

import (
	"context"
	"fmt"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// fixedWidth is the verify batch of plain speculation: at the published
	// acceptance of 30.4 % fewer tokens don't explain the published 19.84 tok/s.
	// elasticWidth is the widest of those that are chosen: an NPU verifies 32 tokens
	// in little more time than 8.
	fixedWidth, elasticWidth = 12, 32

	// chunkRest is what chunk-sleep rests after each batch.
	chunkRest = 8 * time.Millisecond

	// sensed and sensedFar are how many tokens are timed before the game begins,
	// sensedPast after how many tokens the latter.
	sensed, sensedFar, sensedPast = 11, 9, 256
)

// steerer is the engine and who steers it: the composition that package local
// is for real time, with the same controller, sensor, marks and speculator, on
// one goroutine.
type steerer struct {
	policy Policy
	world  *world
	target *model
	draft  *model // nil: none
	engine *llm.Engine
	spec   *speculative.Speculator // nil: none
	width  int

	marks    scheduler.Marks
	control  *scheduler.Controller // nil: nobody decides
	sensor   *scheduler.Sensor     // nil: nobody asks
	decision scheduler.Decision
	works    []scheduler.Work
	idle     bool
	phase    scheduler.Phase
	running  bool // layers ran when the frame began
	groups   uint64
	grants   llm.Grant
}

// setup is what a steerer is made of.
type setup struct {
	policy  Policy
	preset  scheduler.Preset
	without scheduler.Features
	target  *Network
	draft   *Network
	streams *streams
	seed    uint64
}

func newSteerer(w *world, s setup) (*steerer, error) {
	x := &steerer{policy: s.policy, world: w, width: 1}
	if !s.policy.model {
		return x, nil
	}
	w.lowPriority = s.policy.low
	if s.policy.limited {
		w.limit = w.chip.LimitClock.Value
	}
	x.target = newModel(w, s.target, s.policy.where, nil, s.streams, s.seed)
	x.target.graphs = s.policy.graphs
	if s.policy.guess != guessNone {
		x.draft = newModel(w, s.draft, s.policy.where, x.target.gate, s.streams, s.seed+1)
		if err := x.speculate(); err != nil {
			return nil, err
		}
	}
	config := llm.EngineConfig{Clock: w, Together: 1}
	if x.spec != nil {
		config.Speculator = x.spec
	}
	var err error
	if x.engine, err = llm.NewEngine(x.target, config); err != nil {
		return nil, err
	}
	return x, x.steering(s)
}

// speculate measures what verifying costs, as a device is measured at start.
func (x *steerer) speculate() error {
	o := speculative.Options{Draft: x.draft, MaxWidth: fixedWidth, Fixed: true}
	if x.policy.guess == guessElastic {
		o.MaxWidth, o.Fixed = elasticWidth, false
	}
	costs, err := speculative.Measure(context.Background(), x.target, speculative.MeasureConfig{
		Widths: []int{2, 4, 6, 8, 12, 16, 24, 32}, Rounds: 3, Draft: x.draft, Budget: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("soc: measure what verifying costs: %w", err)
	}
	o.Costs = costs
	if x.spec, err = speculative.New(x.target, o); err != nil {
		return fmt.Errorf("soc: %w", err)
	}
	if x.spec.Stats().Off == "" {
		x.width = o.MaxWidth
	}
	return nil
}

func (x *steerer) steering(s setup) error {
	switch s.policy.steer {
	case steerNone:
		return nil
	case steerChunk:
		x.decision = scheduler.Decision{Gate: scheduler.GatePaced, Pause: chunkRest}
		x.target.gate.Publish(llm.Window{Mode: llm.GatePaced, Pause: chunkRest})
		return nil
	}
	c := scheduler.DefaultConfig().WithPreset(s.preset)
	c.Features = s.policy.features &^ s.without
	if s.policy.open > 0 {
		c.StartOpenness = s.policy.open
	}
	c.LowPriorityBase = s.policy.low && s.policy.where == onCPU && c.Features.Has(scheduler.FeatureLowPrio)
	x.world.lowPriority = c.LowPriorityBase
	c.MaxThreads, c.Layers, c.MaxPrefillChunk = x.target.threads, x.target.info.Layers, x.target.info.MaxBatch
	c.Draft, c.MaxVerifyWidth = scheduler.DraftOff, x.width
	if x.width > 1 {
		c.Draft = scheduler.DraftModelNGram
	}
	c.MinPrefillChunk = x.leastChunk()
	c.Devices.Default = scheduler.DeviceID(x.target.info.Device)
	if c.Features.Has(scheduler.FeatureContention) {
		if err := x.sense(); err != nil {
			return err
		}
	}
	var err error
	if x.control, err = scheduler.New(c, scheduler.Instant(x.world.now)); err != nil {
		return fmt.Errorf("soc: %w", err)
	}
	x.decision = x.control.Decision()
	x.apply()
	return nil
}

// leastChunk is the widest chunk, by doubling, that takes less than twice a token's time.
func (x *steerer) leastChunk() int {
	m, n := x.target, 8
	time := func(width int) time.Duration { return m.predict(m.info.Layers, width, 0, m.threads) }
	for 2*n <= m.info.MaxBatch && time(2*n) < 2*time(1) {
		n *= 2
	}
	return n
}

// sense times the layers while no game runs.
func (x *steerer) sense() error {
	draftLayers := 0
	if x.draft != nil {
		draftLayers = x.draft.info.Layers
	}
	var err error
	x.sensor, err = scheduler.NewSensor(scheduler.DeviceID(x.target.info.Device), x.target.info.Layers, draftLayers,
		scheduler.Baselines{})
	if err != nil {
		return fmt.Errorf("soc: %w", err)
	}
	for _, m := range []*model{x.target, x.draft} {
		if m == nil {
			continue
		}
		if err := x.senseModel(m); err != nil {
			return fmt.Errorf("soc: time the layers: %w", err)
		}
	}
	return nil
}

func (x *steerer) senseModel(m *model) error {
	seq, err := m.NewSequence()
	if err != nil {
		return err
	}
	defer seq.Close()
	defer m.gate.Publish(llm.Window{})
	var b llm.Batch
	decode := func(tokens int, add bool) error {
		past := len(seq.Tokens())
		b.Reset()
		for range tokens {
			b.Add(seq, firstWord-1, len(b.Entries) == tokens-1)
		}
		w, err := m.Decode(&b, llm.Grant{})
		if err == nil && add {
			x.addSamples(&w, past, m.draft, true)
		}
		return err
	}
	for _, part := range [...]struct{ past, stride, tokens int }{
		{0, 1, sensed}, {0, 0, sensed}, {sensedPast, 1, sensedFar},
	} {
		m.gate.Publish(llm.Window{LayersPerStop: part.stride})
		for len(seq.Tokens()) < part.past {
			if err := decode(min(part.past-len(seq.Tokens()), m.info.MaxBatch), false); err != nil {
				return err
			}
		}
		for range part.tokens {
			if err := decode(1, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *steerer) addSamples(w *llm.Work, past int, draft, calm bool) {
	for i := range w.Samples {
		l := &w.Samples[i]
		x.sensor.Add(scheduler.LayerSample{
			Draft: draft, First: int(l.First), Last: int(l.Last), Width: int(l.Width), Threads: int(l.Threads),
			Past: past, Duration: l.Duration,
		}, scheduler.Instant(w.End), calm)
	}
}

// frameBegin, frameEnd: the marks of the game.
func (x *steerer) frameBegin(id uint64, target time.Duration) {
	if x.control == nil {
		return
	}
	x.running, x.groups = x.target.gate.Activity()
	if w, outcome := x.marks.Begin(id, target, scheduler.Instant(x.world.now)); outcome.Taken() {
		x.publish(w)
	}
}

func (x *steerer) frameEnd(id uint64, deadline int64, t scheduler.FrameTimings) (scheduler.FrameSample, bool) {
	if x.control == nil {
		return scheduler.FrameSample{}, false
	}
	x.marks.Timings(id, t)
	s, outcome := x.marks.End(id, scheduler.Instant(deadline), scheduler.Instant(x.world.now))
	if !outcome.Taken() {
		return s, false
	}
	s.Phase, s.Host = x.phase, scheduler.HostSignals{ThermalHeadroom: x.world.headroom()}
	running, groups := x.target.gate.Activity()
	s.Quiet = !x.running && !running && groups == x.groups
	for _, w := range x.works {
		x.control.Report(w)
		x.idle = w.Pending == 0
	}
	x.works = x.works[:0]
	if busy := x.engine.HasWork(); busy == x.idle {
		x.idle = !busy
		x.control.Report(scheduler.Work{Pending: bit(busy), Start: s.End, End: s.End})
	}
	x.decision = x.control.Step(s)
	x.apply()
	x.publish(x.marks.Plan(x.decision))
	return s, true
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (x *steerer) apply() {
	d := &x.decision
	width, draft := d.VerifyWidth, d.Draft != scheduler.DraftNGram
	switch {
	case d.Reason == scheduler.ReasonPhaseFree:
		width, draft = x.width, true
	case d.Draft == scheduler.DraftOff:
		width, draft = 1, false
	}
	x.grants = llm.Grant{Threads: d.Threads, PrefillChunk: d.PrefillChunk, VerifyWidth: width, NoDraftModel: !draft}
}

func (x *steerer) publish(w scheduler.Window) {
	x.target.gate.Publish(llm.Window{
		Mode: llm.GateMode(w.Gate), Open: int64(w.Open), Close: int64(w.Close), Pause: w.Pause,
		LayersPerStop: x.decision.LayersPerStop, Expires: int64(w.Expires), Spill: x.world.lowPriority,
	})
}

// report hands what the engine did to the controller, with the next frame.
func (x *steerer) report(w llm.Work) {
	if x.control == nil {
		return
	}
	x.works = append(x.works, scheduler.Work{
		Stage: scheduler.Stage(w.Stage), Tokens: w.Tokens, Generated: w.Generated, Threads: w.Threads,
		Start: scheduler.Instant(w.Start), End: scheduler.Instant(w.End), Waited: w.Waited, Stopped: w.Stopped,
		Pending: bit(x.engine.HasWork()), Contention: x.score(&w),
	})
}

func (x *steerer) score(w *llm.Work) scheduler.Score {
	if x.sensor == nil || w.Stage != llm.Decode && w.Stage != llm.Verify && w.Stage != llm.Draft {
		return scheduler.Score{}
	}
	x.addSamples(w, w.Past, w.Stage == llm.Draft, x.phase.Calm())
	return x.sensor.Score(scheduler.Instant(w.End))
}
