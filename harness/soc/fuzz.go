package soc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lull-npc/lull/scheduler"
)

// fuzzSeconds bounds the play of one case: long enough for probes, closed times and
// floors of several seconds.
const (
	fuzzLeast, fuzzMost = 6.0, 16.0

	// floorGrace is for how long a reply may wait beyond its floor span, computing
	// aside: until the frame in which the controller sees it, and a closed probe.
	floorGrace = 1.0
)

// Violation is an invariant that a case broke.
type Violation struct {
	Seed      uint64 `json:"seed"`
	Case      string `json:"case"`
	Invariant string `json:"invariant"`
	Detail    string `json:"detail"`
}

func (v *Violation) String() string {
	return fmt.Sprintf("seed %d (%s): %s: %s", v.Seed, v.Case, v.Invariant, v.Detail)
}

// Fuzz plays the case of a seed, a random chip, app and policy, and returns the
// first invariant that it broke, or nil:
//
//	granted    no batch is wider than what was granted when it began
//	gate       no group of layers begins while the gate says no
//	dwell      no actuator takes more twice within the dwell
//	floor      a reply does not wait for longer than the floor's span and some grace without moving
//	memory     no memory work begins in combat, a cutscene or without time for it
//	finite     every decision's numbers are finite and in range
//	physics    no load beyond the memory's, no negative energy, time or heat
//
// An error is one of the simulator, not a broken invariant.
func Fuzz(seed uint64) (*Violation, error) {
	dice := rand.New(rand.NewPCG(seed, 0x66757a7a))
	o, err := fuzzCase(dice, seed)
	if err != nil {
		return nil, err
	}
	s, err := newSession(o)
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	x := newWatcher(s, o)
	if err := s.play(); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	x.end()
	if x.found != nil {
		x.found.Seed = seed
		x.found.Case = fmt.Sprintf("%s beside %s on %s, preset %s, without %q, %.3g s", o.Policy.Name, o.App.Name,
			o.Chip.Name, o.Preset, o.Without, o.Seconds)
	}
	return x.found, nil
}

// fuzzCase draws what to play.
func fuzzCase(dice *rand.Rand, seed uint64) (*Options, error) {
	o := &Options{Seed: seed, Seconds: fuzzLeast + mul(dice.Float64(), fuzzMost-fuzzLeast)}
	pick := func(names []string) string { return names[dice.IntN(len(names))] }
	models := []string{"llama-3.1-8b", "llama-3.2-3b", "qwen3-4b", "llama-3.2-1b"}
	if err := o.Load(pick(Names("chips")), pick(Names("apps")), pick(models), "llama-3.2-1b"); err != nil {
		return nil, err
	}
	steered := []string{PolicyLull, PolicyLull, PolicyLull, "sereno", "lull-cpu", "lull-no-speculation", "chunk-sleep"}
	var err error
	if o.Policy, err = findPolicy(pick(steered)); err != nil {
		return nil, err
	}
	o.Preset = scheduler.Preset(dice.IntN(int(scheduler.Custom)))
	if dice.IntN(2) == 0 { // switch some features off
		some, others := scheduler.Features(dice.Uint32()), scheduler.Features(dice.Uint32())
		o.Without = some & others & scheduler.AllFeatures
	}
	bend(dice, o.Chip.Fields(), 0.5)
	bend(dice, o.App.Fields(), 0.7)
	o.Chip.CPU.ModelRuns = 1 + dice.IntN(8)
	t := &o.Chip.Thermal
	t.Severe.Value = max(t.Severe.Value, t.Throttle.Value+1)
	fuzzApp(dice, o.App)
	if err := o.Chip.Validate(); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	if err := o.App.Validate(); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	return o, nil
}

// bend changes values by up to a share of themselves, within their bounds.
func bend(dice *rand.Rand, fields []Field, most float64) {
	for _, f := range fields {
		factor := 1 + mul(most, mul(2, dice.Float64())-1)
		if dice.IntN(4) == 0 {
			factor = 1 / factor
		}
		f.To.Value = min(f.High, max(f.Low, mul(f.To.Value, factor)))
	}
}

// fuzzApp gives the app phases of any kind, in any order, and much to remember.
func fuzzApp(dice *rand.Rand, a *App) {
	a.Hz.Value = []float64{30, 60, 90, 120}[dice.IntN(4)]
	a.Memory.Value = mul(240, dice.Float64())
	a.Pause.Value = mul(3, dice.Float64())
	a.Prompt.Value = min(a.Prompt.Value, 700)
	load := a.Parts[0].Load
	a.Parts = nil
	for range 1 + dice.IntN(5) {
		p := Part{Phase: scheduler.Phase(dice.IntN(7)).String(), Seconds: 0.5 + mul(4, dice.Float64()), Load: load}
		bend(dice, p.Load.fields(""), 0.8)
		a.Parts = append(a.Parts, p)
	}
}

// watcher looks at a session and keeps the first invariant that is broken.
type watcher struct {
	session *session
	found   *Violation
	floor   bool    // the controller keeps one
	span    float64 // s in which a reply must move
	dwell   time.Duration

	moved   int64   // when a reply moved last
	ran     float64 // ns computed by then
	tokens  int     // of it
	last    scheduler.Decision
	threads grown
	chunk   grown
	layers  grown
	seen    bool
}

// grown follows when an actuator last took more.
type grown struct {
	at  scheduler.Instant
	any bool
}

func newWatcher(s *session, o *Options) *watcher {
	x := &watcher{session: s, moved: s.world.now}
	c := scheduler.DefaultConfig().WithPreset(o.Preset)
	f := o.Policy.features &^ o.Without
	x.dwell = c.Dwell
	x.floor = s.steer.control != nil && f.Has(scheduler.FeatureBucket)
	x.span = c.FloorSpan.Seconds() + floorGrace
	s.game.watch = x.frame
	s.world.watch = x.event
	if s.steer.target != nil {
		s.steer.target.watch = x.batch
		if s.steer.draft != nil {
			s.steer.draft.watch = x.batch
		}
	}
	return x
}

func (x *watcher) broke(invariant, format string, args ...any) {
	if x.found == nil {
		x.found = &Violation{Invariant: invariant, Detail: fmt.Sprintf("at %.4f s: ",
			float64(x.session.world.now)*1e-9) + fmt.Sprintf(format, args...)}
	}
}

// batch looks at a batch that begins, and at each group of layers.
func (x *watcher) batch(width int, prompt, begins bool) {
	s := x.session.steer
	if s.control == nil {
		return
	}
	if begins {
		switch g := s.grants; {
		case prompt && g.PrefillChunk > 0 && width > g.PrefillChunk:
			x.broke("granted", "%d tokens of a prompt, granted are %d", width, g.PrefillChunk)
		case !prompt && g.VerifyWidth > 0 && width > g.VerifyWidth && width > 1:
			x.broke("granted", "a verify batch of %d, granted are %d", width, g.VerifyWidth)
		}
		return
	}
	w, now := s.target.gate.Window(), x.session.world.now
	expired := w.Expires != 0 && now >= w.Expires
	switch {
	case expired || w.Mode == 0:
	case w.Mode == 3:
		x.broke("gate", "layers begin at a closed gate")
	case w.Mode == 2 && (now < w.Open || now > w.Close):
		x.broke("gate", "layers begin at %d, the window is %d … %d", now, w.Open, w.Close)
	}
}

// frame looks at a decision.
func (x *watcher) frame(s scheduler.FrameSample, d scheduler.Decision) {
	for _, v := range [...]float64{d.Confidence, d.Openness, d.Pressure} {
		if !(v >= 0 && v <= 1) {
			x.broke("finite", "confidence %v, openness %v, pressure %v", d.Confidence, d.Openness, d.Pressure)
		}
	}
	if math.IsNaN(d.Contention) || math.IsInf(d.Contention, 0) || d.Threads < 1 || d.PrefillChunk < 1 ||
		d.VerifyWidth < 1 || d.LayersPerStop < 0 || d.Margin < 0 || d.Pause < 0 || d.OpenAfter < 0 || d.Sleep < 0 ||
		d.IndexTime < 0 {
		x.broke("finite", "decision %+v", d)
	}
	if d.IndexTime > 0 && (s.Phase == scheduler.PhaseCombat || s.Phase == scheduler.PhaseCutscene) {
		x.broke("memory", "%v for memory work in %s", d.IndexTime, s.Phase)
	}
	free := d.Reason == scheduler.ReasonPhaseFree || x.last.Reason == scheduler.ReasonPhaseFree
	if x.seen && !free {
		x.steady("chunk", &x.chunk, d.PrefillChunk, x.last.PrefillChunk, s.End)
		x.steady("threads", &x.threads, d.Threads, x.last.Threads, s.End)
		x.steady("layers", &x.layers, d.LayersPerStop, x.last.LayersPerStop, s.End)
	} else {
		x.chunk.any, x.threads.any, x.layers.any = false, false, false
	}
	x.last, x.seen = d, true
	x.starved()
}

// steady breaks where an actuator takes more twice within the dwell.
func (x *watcher) steady(name string, g *grown, now, before int, at scheduler.Instant) {
	if now <= before {
		return
	}
	if g.any && at.Sub(g.at) < x.dwell {
		x.broke("dwell", "%s %d after %d, %v after it grew before", name, now, before, at.Sub(g.at))
	}
	g.at, g.any = at, true
}

// starved follows whether a running reply moves.
func (x *watcher) starved() {
	s := x.session
	n := s.game.rec.prefilled
	for _, k := range s.game.rec.tokens {
		n += k
	}
	if n != x.tokens || s.steer.engine == nil || !s.steer.engine.HasWork() {
		x.tokens, x.moved, x.ran = n, s.world.now, s.world.computed
	}
	since := (float64(s.world.now-x.moved) - (s.world.computed - x.ran)) * 1e-9
	if x.floor && since > x.span {
		x.broke("floor", "a reply waits for %.2f s without moving, its floor is %.2f", since, x.span)
	}
}

// event looks at the chip.
func (x *watcher) event() {
	w := x.session.world
	if w.load > 1+1e-9 || w.high < 0 || w.low < 0 || !(w.latency >= 1) || w.latency > mostLatency+1e-9 {
		x.broke("physics", "load %v (%v + %v), latency %v", w.load, w.high, w.low, w.latency)
	}
	if !(w.celsius > -60 && w.celsius < 500) || !(w.clock > 0 && w.clock <= 1) || w.joules < 0 || w.modelJoules < 0 {
		x.broke("physics", "%v °C, clock %v, %v J", w.celsius, w.clock, w.joules)
	}
	g := x.session.game
	if w.index.active && w.index.left == embedNS {
		switch phase := g.steer.phase; {
		case !g.steer.policy.deferred || g.steer.control == nil:
		case phase == scheduler.PhaseCombat || phase == scheduler.PhaseCutscene:
			x.broke("memory", "memory work begins in %s", phase)
		}
	}
}

// end looks at the totals.
func (x *watcher) end() {
	g := x.session.game
	if g.rec.failed > 0 {
		x.broke("granted", "%d requests failed", g.rec.failed)
	}
	if x.session.steer.policy.deferred && x.session.steer.control != nil {
		if n := g.rec.begun["combat"] + g.rec.begun["cutscene"]; n > 0 {
			x.broke("memory", "%d embeddings began in combat and cutscenes", n)
		}
	}
}
