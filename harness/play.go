package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// defaultWarmUp is time for page faults, first caches and the first
	// prompt's prefill, which takes 0.3 s on two cores.
	defaultWarmUp = time.Second

	// idleShareOfRun is how long each of the settings without a game runs, as
	// a share of a run: in a short one a conversation stays at its fast beginning.
	// Bounded, since ten seconds say as much as a minute.
	idleShareOfRun   = 2
	minIdle, maxIdle = time.Second, 10 * time.Second

	// loading is what a run takes besides, for the time that is left.
	loading = 600 * time.Millisecond

	maxRepeat = 1000
)

// Options say what to play.
type Options struct {
	Scenario   *Scenario
	Policies   []Policy
	Repeat     int // of each policy; 0: 1
	Seed       uint64
	Tuning     Tuning
	Objectives []Objective   // besides the scenario's
	WarmUp     time.Duration // before each run; 0: 1 s
	SkipIdle   bool          // measure no rate without a game

	// Model says what to load; Spec, Observe and Clock are set here.
	Model local.Config
	Open  func(ctx context.Context, cfg local.Config) (*local.Runtime, error) // default local.Open
	// Embedder replaces the default one, for scenarios with memories.
	Embedder func(ctx context.Context) (rag.Embedder, error)

	Version   string         // of lull, for the report
	Progress  func(Progress) // twice a second, from the goroutine that called Play
	FramesCSV io.Writer      // takes the frames of all runs; see WriteFrames
}

// Remembers reports whether characters remember in a run, so that an embedder is
// needed.
func (o Options) Remembers() bool {
	return o.Scenario != nil && len(o.Scenario.Memories) > 0 && slices.ContainsFunc(o.Policies, func(p Policy) bool {
		return p.tuned(o.Tuning).remembers()
	})
}

// Progress is how far Play is.
type Progress struct {
	What        string // "idle rate", or a policy
	Repeat, Of  int    // 0 of 0: before the runs
	Done, Total time.Duration
}

// Report is what Play found; its JSON keys stay.
type Report struct {
	Scenario  string             `json:"scenario"`
	Seed      uint64             `json:"seed"`
	Simulated bool               `json:"simulated"`
	Host      Host               `json:"host"`
	IdleRate  *float64           `json:"idle_tokens_per_s"`
	IdleShare *float64           `json:"idle_share"`
	Limit     *float64           `json:"limit_tokens_per_s"`
	LimitOf   string             `json:"limit_of"` // what limit_share compares with it: tokens_per_s or replying
	Runs      []Run              `json:"runs"`
	Summary   map[string]Summary `json:"summary"`

	Description string            `json:"description"`
	Policies    map[string]string `json:"policies"` // what each is
	Setting     Setting           `json:"setting"`
	IdleRates   []IdleRate        `json:"idle_rates"`
	Objectives  []Verdict         `json:"objectives"`
	Notes       []string          `json:"notes"`
	Interrupted bool              `json:"interrupted,omitempty"`
}

// Host is where it was played.
type Host struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Model string `json:"model"` // empty: none was loaded
	Llama string `json:"llama"`
	Lull  string `json:"lull"`
}

// Setting is how it was played.
type Setting struct {
	TargetHz    float64 `json:"target_hz"`
	PeriodMs    float64 `json:"period_ms"` // of a frame, in whole lines of the screen
	LineMs      float64 `json:"line_ms"`
	Seconds     float64 `json:"seconds"`
	WarmUpS     float64 `json:"warm_up_s"`
	IdleSeconds float64 `json:"idle_seconds"` // of each of idle_rates
	Repeat      int     `json:"repeat"`
	Preset      string  `json:"preset"`
	Without     string  `json:"without"`
	Collector   string  `json:"garbage_collector"`
}

// IdleRate is a setting of llama.cpp without a game.
type IdleRate struct {
	Setting         string    `json:"setting"`
	Threads         int       `json:"threads"`
	TokensPerSecond float64   `json:"tokens_per_s"` // the median of
	Rates           []float64 `json:"rates"`        // those of the repeats in which it was played
}

// Play runs all policies in turn, again and again (A B C A B C), each with a
// model that was loaded anew. When ctx ends, or something fails, it returns
// what there is with the cause. One Play at a time: it measures the process.
func Play(ctx context.Context, o Options) (*Report, error) {
	h, err := newHarness(o)
	if err != nil {
		return nil, err
	}
	restore := quiet(h.timeline.needs())
	defer restore()
	unhook := context.AfterFunc(ctx, func() { h.stop.Store(true) })
	defer unhook()
	err = h.playAll(ctx)
	h.conclude()
	if ctx.Err() != nil {
		h.report.Interrupted = true
		return h.report, context.Cause(ctx)
	}
	return h.report, err
}

// harness is one Play.
type harness struct {
	o        Options
	timeline *timeline
	report   *Report
	base     scheduler.Baselines
	clock    llm.Clock
	stop     atomic.Bool
	csv      *frameWriter

	idle        time.Duration // of each setting without a game
	done, total time.Duration
	idleShares  []float64
}

func newHarness(o Options) (*harness, error) {
	if o.Scenario == nil || len(o.Policies) == 0 {
		return nil, errors.New("harness: Options.Scenario and Options.Policies are required")
	}
	if o.Repeat == 0 {
		o.Repeat = 1
	}
	if o.Repeat < 1 || o.Repeat > maxRepeat {
		return nil, fmt.Errorf("harness: Repeat %d: want 1…%d", o.Repeat, maxRepeat)
	}
	if o.WarmUp == 0 {
		o.WarmUp = defaultWarmUp
	}
	if o.Open == nil {
		o.Open = local.Open
	}
	h := &harness{o: o, clock: llm.NewClock()}
	t, notes, err := newTimeline(o.Scenario, o.Seed)
	if err != nil {
		return nil, err
	}
	h.timeline = t
	h.idle = min(max(t.total()/idleShareOfRun, minIdle), maxIdle)
	h.plan()
	grid, err := metrics.NewGrid(0, o.Scenario.line(), o.Scenario.target())
	if err != nil {
		return nil, err
	}
	h.report = &Report{
		Scenario: o.Scenario.Name, Description: o.Scenario.Description, Seed: o.Seed, Notes: notes,
		Host: Host{CPU: CPUName(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Lull: o.Version},
		Runs: []Run{}, IdleRates: []IdleRate{}, Policies: map[string]string{}, Objectives: []Verdict{},
		Setting: Setting{
			TargetHz: o.Scenario.TargetHz,
			PeriodMs: float64(grid.Target()) / 1e6, LineMs: float64(o.Scenario.line()) / 1e6,
			Seconds: math.Round(t.total().Seconds()*1e6) / 1e6, WarmUpS: o.WarmUp.Seconds(), Repeat: o.Repeat,
			Preset: o.Tuning.Preset.String(), Without: o.Tuning.without(),
			Collector: "off while measuring, run between the runs; gc_count says if it came back",
		},
	}
	if h.report.Notes == nil {
		h.report.Notes = []string{}
	}
	for _, p := range o.Policies {
		h.report.Policies[p.Name] = p.Description
	}
	if h.csv, err = newFrameWriter(o.FramesCSV); err != nil {
		return nil, err
	}
	return h, nil
}

// plan says how long everything will take.
func (h *harness) plan() {
	if h.measuresIdle() {
		n := len(idlePolicies()) + (h.o.Repeat-1)*min(idleFinalists, len(idlePolicies()))
		h.total += time.Duration(n) * (h.idle + h.o.WarmUp + loading)
	}
	for _, p := range h.o.Policies {
		each := h.timeline.total() + h.o.WarmUp
		if p.Spec != nil {
			each += loading
		}
		h.total += time.Duration(h.o.Repeat) * each
	}
}

func (h *harness) measuresIdle() bool {
	if h.o.SkipIdle {
		return false
	}
	for _, p := range h.o.Policies {
		if p.Spec != nil {
			return true
		}
	}
	return false
}

func (h *harness) playAll(ctx context.Context) error {
	for repeat := 1; repeat <= h.o.Repeat; repeat++ {
		if h.measuresIdle() {
			if err := h.playIdle(ctx, repeat); err != nil {
				return err
			}
		}
		for _, p := range h.o.Policies {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := h.playOne(ctx, p, repeat); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *harness) playOne(ctx context.Context, p Policy, repeat int) error {
	// Repeats differ, policies of one repeat do not: they are pairs.
	seed := h.o.Seed + uint64(repeat-1)
	t, _, err := newTimeline(h.o.Scenario, seed)
	if err != nil {
		return err
	}
	s := h.session(h.o.Scenario, t, p.tuned(h.o.Tuning), seed)
	rec, err := h.watch(ctx, s, Progress{What: p.Name, Repeat: repeat, Of: h.o.Repeat})
	if err != nil {
		return err
	}
	if len(rec.frames) == 0 {
		return nil // interrupted in its warm-up
	}
	h.remember(rec.info)
	run, err := newRun(rec, contextOf{p.Name, repeat, runtime.NumCPU(), h.base})
	if err != nil {
		return err
	}
	h.report.Runs = append(h.report.Runs, run)
	if p.Spec == nil && !run.Interrupted {
		h.idleShares = append(h.idleShares, min(max(1-run.CPUShare, 0), 1))
	}
	return h.csv.run(p.Name, repeat, rec.frames)
}

func (h *harness) session(s *Scenario, t *timeline, p Policy, seed uint64) *session {
	return &session{
		scenario: s, timeline: t, policy: p, seed: seed, warmUp: h.o.WarmUp, clock: h.clock,
		stop: &h.stop, played: new(atomic.Int64), assets: h.o.Model.Assets, embedder: h.o.Embedder,
		open: func(ctx context.Context, spec local.Spec, observe func(llm.Work)) (*local.Runtime, error) {
			cfg := h.o.Model
			cfg.Spec, cfg.Observe, cfg.Clock = spec, observe, h.clock
			return h.o.Open(ctx, cfg)
		},
	}
}

// progressEvery is how often progress is told: a redraw costs the machine some
// tens of microseconds, which twice a second nobody finds in the frames.
const progressEvery = 500 * time.Millisecond

// watch plays a session and tells how far it is. The collector runs first, as
// it is off meanwhile.
func (h *harness) watch(ctx context.Context, s *session, p Progress) (*recording, error) {
	runtime.GC()
	type result struct {
		rec *recording
		err error
	}
	done := make(chan result, 1)
	go func() {
		rec, err := s.run(ctx)
		done <- result{rec, err}
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	p.Total = h.total
	for {
		h.tell(p, time.Duration(s.played.Load()))
		select {
		case r := <-done:
			h.done += s.timeline.total() + s.warmUp
			if s.policy.Spec != nil {
				h.done += loading
			}
			return r.rec, r.err
		case <-tick.C:
		}
	}
}

func (h *harness) tell(p Progress, played time.Duration) {
	if h.o.Progress != nil {
		p.Done = min(h.done+played, p.Total)
		h.o.Progress(p)
	}
}

func (h *harness) remember(info llm.Info) {
	if info.Name != "" {
		h.report.Host.Model, h.report.Host.Llama = info.Name, info.Library
	}
}

// noisy is how much of the machine other processes may use before the report
// warns: at 5 % of two cores, one frame in ten meets another process.
const noisy = 0.05

// conclude computes what joins the runs, and judges them.
func (h *harness) conclude() {
	r := h.report
	r.Conclude(h.idleShares, nil)
	for _, o := range append(append([]Objective(nil), h.o.Scenario.Objectives...), h.o.Objectives...) {
		r.Objectives = append(r.Objectives, judge(o, r.Runs, r.Seed))
	}
}

// Conclude computes what joins the runs: limit, notes, summaries. It is for
// those who play a game of their own and fill in Runs; idleShares are what native
// left of the cores. Where everybody talks all the time the limit is of
// tokens_per_s, by IdleRates. Where people speak now and then it is of replying,
// and at rest is how fast the same people replied without the game (nil: unknown).
func (r *Report) Conclude(idleShares []float64, atRest *float64) {
	if len(idleShares) > 0 {
		share := metrics.Quartiles(idleShares).Median
		r.IdleShare = &share
	}
	r.compareIdle()
	r.LimitOf = limitOfAll
	if atRest != nil {
		r.IdleRate, r.LimitOf = atRest, limitOfReplying
	}
	if r.IdleShare != nil && r.IdleRate != nil {
		limit := *r.IdleRate * *r.IdleShare
		r.Limit = &limit
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if r.Limit != nil && *r.Limit > 0 && run.Policy != PolicyNative {
			share := r.compared(run) / *r.Limit
			run.LimitShare = &share
		}
		if run.OtherCPU != nil && *run.OtherCPU > noisy {
			r.note("%s %d: other processes used %.0f %% of the cores: repeat on a quiet machine",
				run.Policy, run.Repeat, 100**run.OtherCPU)
		}
		if m := run.Memory; m != nil && m.Error != "" {
			r.note("%s %d: memories: %s", run.Policy, run.Repeat, m.Error)
		}
		if run.Error != "" {
			r.note("%s %d: %d requests failed: %s", run.Policy, run.Repeat, run.Failed, run.Error)
		}
	}
	r.Summary = summarise(r.Runs, r.Seed)
}

// What limit_share compares with the limit.
const (
	limitOfAll      = "tokens_per_s"
	limitOfReplying = "replying"
)

// compared is the rate of a run that belongs beside the limit.
func (r *Report) compared(run *Run) float64 {
	if r.LimitOf != limitOfReplying {
		return run.TokensPerSecond
	}
	if run.Replying.TokensPerSecond == nil {
		return 0
	}
	return *run.Replying.TokensPerSecond
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Failed lists the objectives that the runs do not meet.
func (r *Report) Failed() []Verdict {
	var list []Verdict
	for _, v := range r.Objectives {
		if v.Failed() {
			list = append(list, v)
		}
	}
	return list
}
