package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/harness/frames"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fast is a model that says a token in about a millisecond.
func fast(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
	return scripted.New(scripted.Config{
		Clock: clock, Admit: admit, Layers: 4, Cost: scripted.Cost{LayerNS: 150e3, TokenNS: 10e3, TailNS: 100e3},
	})
}

// short is a game of 100 Hz in three phases.
const short = `
name: short
description: a test
target_hz: 100
phases:
  - {phase: loading, seconds: 0.1}
  - {phase: combat, seconds: 0.15, load: {workers: 1, cpu_ms: 1, jitter: 0.5}}
  - {phase: menu, seconds: 0.15, load: {memory_gb_per_s: [0, 0.1]}}
npcs:
  - {name: a, persona: You are A., ask: [one, two], continuous: true, max_tokens: 8}
  - {name: b, ask: [three], at_s: [0.12, 0.2], max_tokens: 4, priority: 1}
  - {name: c, ask: [four], every_s: 0.1, max_tokens: 4, phases: [combat]}
`

func options(t *testing.T, policies string, repeat int) Options {
	t.Helper()
	s, err := ParseScenario("short.yaml", []byte(short))
	if err != nil {
		t.Fatal(err)
	}
	list, err := ParsePolicies(policies)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Scenario: s, Policies: list, Repeat: repeat, Seed: 7, WarmUp: 30 * time.Millisecond, SkipIdle: true,
		Model: local.Config{OpenModel: fast}, Version: "test",
	}
}

func TestPlay(t *testing.T) {
	o := options(t, "native,vanilla-1,lull,idle-1,window-1", 2)
	var told []string
	o.Progress = func(p Progress) {
		if w := fmt.Sprint(p.What, p.Repeat); len(told) == 0 || told[len(told)-1] != w {
			told = append(told, w)
		}
		if p.Done > p.Total || p.Total <= 0 {
			t.Errorf("%v of %v", p.Done, p.Total)
		}
	}
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for i := range r.Runs {
		run := &r.Runs[i]
		order = append(order, fmt.Sprint(run.Policy, run.Repeat))
		checkRun(t, run)
	}
	want := []string{
		"native1", "vanilla-11", "lull1", "idle-11", "window-11",
		"native2", "vanilla-12", "lull2", "idle-12", "window-12",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of the runs:\n%s", diff)
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("progress:\n%s", diff)
	}
	for _, name := range []string{"native", "vanilla-1", "lull", "idle-1", "window-1"} {
		if s := r.Summary[name]; s.Repeats != 2 || (name != "native") != (s.JankPaired != nil) {
			t.Errorf("summary of %s: %+v", name, s)
		}
	}
	if r.Interrupted || r.IdleShare == nil || r.Limit != nil || r.Host.Model != "scripted" {
		t.Errorf("idle share %v, limit %v, host %+v", r.IdleShare, r.Limit, r.Host)
	}
}

func checkRun(t *testing.T, run *Run) {
	t.Helper()
	name := fmt.Sprintf("%s %d", run.Policy, run.Repeat)
	phases := run.Phases
	var n int64
	for _, p := range phases {
		n += p.Frames
	}
	if n != run.Frames+run.LoadingFrames || n == 0 || phases["loading"].Frames != run.LoadingFrames {
		t.Errorf("%s: %d frames and %d of loading: %+v", name, run.Frames, run.LoadingFrames, phases)
	}
	if run.WarmUpFrames < 1 || run.Interrupted {
		t.Errorf("%s: interrupted, or %d frames to warm up", name, run.WarmUpFrames)
	}
	if run.Policy == PolicyNative {
		if run.Tokens != 0 || run.GameThread.P50 != nil || run.TTFT.P50 != nil || len(run.Reasons) != 0 ||
			run.Asked != 0 {
			t.Errorf("native has a model: %+v", run)
		}
		return
	}
	if run.Failed != 0 || run.Error != "" || run.GameThread.P99 == nil || *run.GameThread.P99 <= 0 {
		t.Errorf("%s: %d failed: %s", name, run.Failed, run.Error)
	}
	var shares float64
	for _, s := range run.Reasons {
		shares += s
	}
	if steered := run.Policy == PolicyLull; steered != (math.Abs(shares-1) < 1e-9) {
		t.Errorf("%s: reasons %v", name, run.Reasons)
	}
	s := run.Shares
	if all := s.Draft + s.Verify + s.Prefill + s.Decode + s.Sleep + s.WindowWait + s.Closed; all < 0 || all > 1.01 {
		t.Errorf("%s: shares %+v", name, s)
	}
}

// What nobody gates and no low priority slows says tokens, and all phases are
// played where no frame is as long as a phase.
func TestTokens(t *testing.T) {
	o := options(t, "vanilla-1", 1)
	long, err := o.Scenario.WithSeconds(3)
	if err != nil {
		t.Fatal(err)
	}
	o.Scenario = long
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	run := r.Runs[0]
	if run.Tokens == 0 || run.TokensPerSecond <= 0 || run.Replies == 0 || run.TTFT.P50 == nil ||
		run.Phases["combat"].Tokens+run.Phases["menu"].Tokens != run.Tokens {
		t.Errorf("%d tokens, %d replies, phases %+v", run.Tokens, run.Replies, run.Phases)
	}
	if run.Seconds < 2 || run.Phases["combat"].Frames == 0 || run.Phases["menu"].Frames == 0 {
		t.Errorf("%v s: %+v", run.Seconds, run.Phases)
	}
	if len(run.MemorySteps) != 2 || run.MemorySteps[0].Asked != 0 || run.MemorySteps[1].Streamed <= 0 {
		t.Errorf("memory %+v", run.MemorySteps)
	}
	if run.Asked < 3 || run.Replies > run.Asked+1 { // one may have been asked in the warm-up
		t.Errorf("%d asked, %d replies", run.Asked, run.Replies)
	}
	if run.Contention.P50 == nil || math.IsNaN(*run.Contention.P50) {
		t.Errorf("contention %+v", run.Contention)
	}
}

// What was guessed stands in the run of a policy that guesses, by source, and
// why nothing was in the others.
func TestGuesses(t *testing.T) {
	o := options(t, "vanilla-spec,vanilla,lull,lull-no-speculation", 1)
	long, err := o.Scenario.WithSeconds(1.5)
	if err != nil {
		t.Fatal(err)
	}
	long.NPCs = []NPC{{Name: "a", Ask: []string{"rope rope rope rope rope rope"}, Continuous: true, MaxTokens: 24}}
	o.Scenario = long
	o.Model.OpenModel = func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
		return scripted.New(scripted.Config{Clock: clock, Admit: admit, Layers: 4, Script: scripted.Echo,
			Cost: scripted.Cost{LayerNS: 50e3, TokenNS: 1e3, TailNS: 50e3}})
	}
	o.Model.Costs = speculative.Costs{Rows: []speculative.Row{{
		Threads: 1, Token: time.Millisecond, Verify: []speculative.Point{{Width: 8, Ratio: 1.05}},
	}}}
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		guesses := run.Policy == PolicyVanillaSpec || run.Policy == PolicyLull
		if guesses != (run.SpeculationOff == "") {
			t.Errorf("%s: off %q", run.Policy, run.SpeculationOff)
		}
		if !guesses && (len(run.Acceptance) > 0 || run.Shares.Verify > 0) {
			t.Errorf("%s guessed: %v, %+v", run.Policy, run.Acceptance, run.Shares)
		}
		if run.Policy == PolicyVanillaSpec && (len(run.Acceptance) == 0 || run.Shares.Verify <= 0) {
			t.Errorf("%s: acceptance %v, shares %+v", run.Policy, run.Acceptance, run.Shares)
		}
		for source, rate := range run.Acceptance {
			if rate < 0 || rate > 1 {
				t.Errorf("%s: %s %v", run.Policy, source, rate)
			}
		}
	}
}

func TestIdleRate(t *testing.T) {
	o := options(t, "native,idle-1", 1)
	o.SkipIdle = false
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.IdleRate == nil || r.Limit == nil || len(r.IdleRates) != len(idlePolicies()) || r.Setting.IdleSeconds != 1 {
		t.Fatalf("idle rates %+v over %v s", r.IdleRates, r.Setting.IdleSeconds)
	}
	for _, i := range r.IdleRates {
		if i.TokensPerSecond <= 0 || i.TokensPerSecond > *r.IdleRate {
			t.Errorf("%+v of %v", i, *r.IdleRate)
		}
	}
	if math.Abs(*r.Limit-*r.IdleRate**r.IdleShare) > 1e-9 {
		t.Errorf("limit %v = %v × %v", *r.Limit, *r.IdleRate, *r.IdleShare)
	}
	if run := r.Runs[1]; run.LimitShare == nil || run.IdleRateShare == nil {
		t.Errorf("%+v", run)
	}
}

// A run is compared with the best setting in its own repeat; the best is one that
// every repeat has.
func TestIdleRatesByRepeat(t *testing.T) {
	r := &Report{Runs: []Run{{Policy: "lull", Repeat: 1, TokensPerSecond: 50}, {Policy: "native", Repeat: 1},
		{Policy: "lull", Repeat: 2, TokensPerSecond: 60}, {Policy: "lull", Repeat: 3, TokensPerSecond: 70}}}
	for _, x := range []struct {
		name string
		rate float64
	}{{"once", 200}, {"best", 100}, {"second", 90}, {"best", 80}, {"second", 85}} {
		r.idled(Policy{Name: x.name, Spec: &local.Spec{}}, x.rate)
	}
	r.compareIdle()
	if r.IdleRate == nil || *r.IdleRate != 90 {
		t.Fatalf("idle rate %v of %+v", r.IdleRate, r.IdleRates)
	}
	for i, want := range []float64{0.5, 0, 0.75, 0} {
		got := r.Runs[i].IdleRateShare
		if (got == nil) != (want == 0) || got != nil && *got != want {
			t.Errorf("run %d: %v, want %v", i, got, want)
		}
	}
}

func TestInterrupt(t *testing.T) {
	o := options(t, "native,idle-1", 5)
	cause := errors.New("the user had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var runs atomic.Int32
	o.Progress = func(p Progress) {
		if p.Repeat == 2 && runs.Add(1) == 1 {
			cancel(cause)
		}
	}
	r, err := Play(ctx, o)
	if !errors.Is(err, cause) || r == nil || !r.Interrupted {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := len(r.Runs); n < 2 || n > 3 || r.Summary["native"].Repeats != 1 || r.Summary["idle-1"].Repeats != 1 {
		t.Errorf("%d runs, %+v", n, r.Summary)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "interrupted") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestPlayFails(t *testing.T) {
	broken := errors.New("no such file")
	o := options(t, "native,lull", 1)
	o.Model.OpenModel = func(context.Context, llm.Clock, llm.AdmitFunc) (llm.Model, error) { return nil, broken }
	r, err := Play(t.Context(), o)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "policy lull") || len(r.Runs) != 1 {
		t.Errorf("%v, %d runs", err, len(r.Runs))
	}
	for _, bad := range []Options{
		{}, {Scenario: o.Scenario}, {Scenario: o.Scenario, Policies: o.Policies, Repeat: -1},
	} {
		if _, err := Play(t.Context(), bad); err == nil {
			t.Errorf("%+v was played", bad)
		}
	}
}

// A model that fails is in the report, and the game goes on.
func TestFailingModel(t *testing.T) {
	o := options(t, "vanilla-1", 1)
	o.Model.OpenModel = func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
		return scripted.New(scripted.Config{Clock: clock, Admit: admit,
			Fault: func(int, *llm.Batch) error { return errors.New("the driver is gone") }})
	}
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if run := r.Runs[0]; run.Failed == 0 || !strings.Contains(run.Error, "the driver is gone") || run.Replies != 0 {
		t.Errorf("%d failed, %q", run.Failed, run.Error)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "the driver is gone") {
		t.Errorf("notes: %v", r.Notes)
	}
}

// Every key of the contract is there, whether it was measured or not.
func TestReportKeys(t *testing.T) {
	r, err := Play(t.Context(), options(t, "native,lull", 1))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	wants(t, "report", object,
		"scenario seed simulated host idle_tokens_per_s idle_share limit_tokens_per_s runs summary")
	wants(t, "host", object["host"], "cpu cores os model llama lull")
	for _, run := range object["runs"].([]any) {
		m := run.(map[string]any)
		wants(t, "run", m, "policy repeat seconds frames jank_rate hitch_ms_per_s big_jank low1_fps overrun_ms "+
			"frame_ms tokens tokens_per_s ttft_ms replies game_thread_us game_thread_parts_us embeddings shares "+
			"acceptance contention reasons phases")
		wants(t, "overrun_ms", m["overrun_ms"], "p50 p90 p95 p99")
		wants(t, "shares", m["shares"], "draft verify sleep window_wait closed")
		wants(t, "contention", m["contention"], "p50 p95")
		for _, key := range []string{"frame_ms", "ttft_ms", "game_thread_us"} {
			wants(t, key, m[key], "p50 p99")
		}
		if m["policy"] != PolicyNative {
			wants(t, "game_thread_parts_us", m["game_thread_parts_us"], "marks poll submit")
		}
		for _, p := range m["phases"].(map[string]any) {
			wants(t, "phase", p, "frames jank_rate tokens_per_s")
		}
	}
	for _, s := range object["summary"].(map[string]any) {
		wants(t, "summary", s, "jank_rate tokens_per_s hitch_ms_per_s ttft_ms_p50")
		wants(t, "spread", s.(map[string]any)["jank_rate"], "median q1 q3")
	}
}

func wants(t *testing.T, what string, object any, keys string) {
	t.Helper()
	m, ok := object.(map[string]any)
	if !ok {
		t.Errorf("%s is %v", what, object)
		return
	}
	for key := range strings.FieldsSeq(keys) {
		if _, ok := m[key]; !ok {
			t.Errorf("%s has no %q", what, key)
		}
	}
}

// What is written as a capture is read as the same game.
func TestFramesRoundTrip(t *testing.T) {
	rec, err := rehearse(400, func(i int) time.Duration {
		return steady(i) + time.Duration(i%7/6)*9*time.Millisecond // each seventh is late
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := newFrameWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.run("lull", 1, rec.frames), w.run("native", 2, rec.frames[:100])); err != nil {
		t.Fatal(err)
	}
	run, err := newRun(rec, contextOf{policy: "lull", repeat: 1, cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := frames.Load(&file, frames.Options{Process: "lull-1"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Format != frames.PresentMon2 || c.Len() != 400 || c.Stream.Rejected.Sum() != 0 {
		t.Fatalf("%v, %d frames, rejected %v", c.Format, c.Len(), c.Stream.Rejected.Map())
	}
	again, err := metrics.New(metrics.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range c.All {
		if f.FrameTime != rec.frames[i].Interval || f.CPUBusy != min(rec.frames[i].Work, f.FrameTime) {
			t.Fatalf("frame %d: %v, busy %v: want %v and %v", i, f.FrameTime, f.CPUBusy, rec.frames[i].Interval,
				rec.frames[i].Work)
		}
		again.Add(metrics.FromCapture(f.Start, f.FrameTime, testPeriod))
	}
	got := again.Result()
	if got.JankRate != run.JankRate || got.AverageFPS != run.AverageFPS || got.Low1FPS != run.Low1FPS {
		t.Errorf("read back: jank %v, %v fps; played: %v, %v", got.JankRate, got.AverageFPS, run.JankRate,
			run.AverageFPS)
	}
}

func TestExact(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000000", 1: "0.000001", 16666667: "16.666667", -1500000: "-1.500000",
	} {
		if got := exact(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestRealModel(t *testing.T) {
	library, model := testassets.Locate(t)
	o := options(t, "native,vanilla,lull", 1)
	o.Model = local.Config{Assets: assets.Options{LlamaLib: library, Model: model, Offline: true}}
	s, err := o.Scenario.WithSeconds(1)
	if err != nil {
		t.Fatal(err)
	}
	o.Scenario = s
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Frames == 0 || run.Failed != 0 || run.Error != "" {
			t.Errorf("%s: %d frames, %d requests failed: %s", run.Policy, run.Frames, run.Failed, run.Error)
		}
		if run.Policy != PolicyNative && run.Shares.Prefill+run.Shares.Decode <= 0 {
			t.Errorf("%s: the model did nothing: %+v", run.Policy, run.Shares)
		}
	}
	if r.Host.Llama == "" || r.Host.Model == "scripted" {
		t.Errorf("%+v", r.Host)
	}
}

func TestSpend(t *testing.T) {
	list := []span{
		{0, 100, uint8(scheduler.GateWindow), "combat"}, {100, 200, uint8(scheduler.GatePaced), "combat"},
		{200, 300, uint8(scheduler.GateFree), "loading"},
	}
	works := []workRecord{
		{start: -50, end: -10, waited: 10, stage: llm.Decode, generated: 9}, // before the measured time
		{start: 0, end: 50, waited: 20, stage: llm.Prefill, generated: 0},
		{start: 50, end: 150, waited: 60, stage: llm.Decode, generated: 1}, // half in the window, half paced
		{start: 210, end: 260, waited: 5, stage: llm.Decode, generated: 2}, // within a frame of a free gate
		{start: 290, end: 310, waited: 0, stage: llm.Decode, generated: 4}, // ends after it
	}
	s := spend(works, list, 0, 300)
	if s.run[llm.Prefill] != 30 || s.run[llm.Decode] != 40+45+10 {
		t.Errorf("computing: %v", s.run)
	}
	if s.wait[scheduler.GateWindow] != 20+30+5 || s.wait[scheduler.GatePaced] != 30 ||
		s.wait[scheduler.GateClosed] != 0 {
		t.Errorf("waiting: %v", s.wait)
	}
	if s.tokens["combat"] != 1 || s.tokens["loading"] != 2 {
		t.Errorf("tokens: %v", s.tokens)
	}
	if got := spend(works, nil, 0, 300); got.tokens[""] != 3 {
		t.Errorf("without frames: %v", got.tokens)
	}
}

func TestContention(t *testing.T) {
	o := newObserver()
	for i := range 100 {
		o.observe(llm.Work{Stage: llm.Decode, End: int64(i), Past: 10, Samples: []llm.LayerSample{
			{First: 0, Last: 1, Width: 1, Threads: 2, Duration: 240 * time.Microsecond},
			{First: 2, Last: 2, Width: 1, Threads: 2, Duration: 150 * time.Microsecond},
			{First: 3, Last: 3, Width: 1, Threads: 2, Duration: time.Second, Switched: true},
			{First: 4, Last: 4, Width: 1, Threads: int16(1 + i%2), Duration: 0},
			{First: 5, Last: 5, Width: 1, Threads: 2, Duration: time.Millisecond}, // the head
		}})
	}
	o.observe(llm.Work{Stage: llm.Prefill, Samples: []llm.LayerSample{{Duration: time.Hour}}})
	o.observe(llm.Work{Stage: llm.Idle})
	o.observe(llm.Work{Stage: llm.Draft, Start: 40, End: 50, Stopped: true})
	if len(o.works) != 102 || o.stopped(0, 60) != 1 || o.stopped(60, 90) != 0 {
		t.Errorf("%d steps, %d drafts stopped", len(o.works), o.stopped(0, 60))
	}
	row := scheduler.BaselineRow{Width: 1, Threads: 2, Past: 10}
	row.Layers = append(slices.Repeat([]time.Duration{100 * time.Microsecond}, 5), time.Millisecond)
	base := scheduler.Baselines{Device: "CPU", Rows: []scheduler.BaselineRow{row}}
	values := func(b scheduler.Baselines) (xs []float64) {
		for _, s := range o.contention(b) {
			xs = append(xs, s.cs)
		}
		slices.Sort(xs)
		return xs
	}
	if xs := values(base); len(xs) != 200 || math.Abs(xs[0]-0.2) > 1e-6 || math.Abs(xs[199]-0.5) > 1e-6 {
		t.Errorf("%d scores from %v to %v", len(xs), xs[0], xs[len(xs)-1])
	}
	if xs := values(scheduler.Baselines{}); len(xs) != 300 || xs[0] != 0 {
		t.Errorf("without baselines: %d scores from %v: want them relative to the fastest", len(xs), xs[0])
	}
}

// Scores, pressure, sleep and preemptions by the second.
func TestScoreOverTime(t *testing.T) {
	rec := &recording{works: newObserver(), begin: 0, end: 3e9, steered: true}
	for i := range 180 {
		at := int64(i) * 1e9 / 60
		d := scheduler.Decision{Memory: scheduler.ReasonContentionLow, VerifyWidth: 4}
		took := 100 * time.Microsecond
		if i >= 60 && i < 120 {
			took = 130 * time.Microsecond
			d.Memory, d.Preempted, d.Pressure, d.Sleep = scheduler.ReasonPreempt, true, 0.8, 2*time.Millisecond
		}
		f := frameRecord{Decision: d, Streamed: 1e8}
		f.Start = time.Duration(at)
		rec.frames = append(rec.frames, f)
		if i < 120 {
			rec.works.observe(llm.Work{Stage: llm.Decode, End: at, Samples: []llm.LayerSample{
				{Width: 1, Threads: 1, Duration: took}}})
		}
	}
	r := Run{MemoryReasons: map[string]float64{}}
	row := scheduler.BaselineRow{Width: 1, Threads: 1, Layers: []time.Duration{1e5, 1e5}}
	r.measureContention(rec, scheduler.Baselines{Rows: []scheduler.BaselineRow{row}})
	if len(r.ScoreOverTime) != 3 || r.Preemptions.Decided != 1 || math.Abs(r.Preemptions.Share-1.0/3) > 1e-9 ||
		math.Abs(r.MemoryReasons["preempt"]-1.0/3) > 1e-9 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []float64{0, 0.3} {
		if p := r.ScoreOverTime[i]; p.Score == nil || math.Abs(*p.Score-want) > 1e-6 || p.N != 60 || p.Streamed != 6 ||
			math.Abs(p.Dropped-float64(i)) > 1e-9 || math.Abs(p.SleepMs-2*float64(i)) > 1e-9 {
			t.Errorf("second %d: %+v", i, p)
		}
	}
	if p := r.ScoreOverTime[2]; p.Score != nil || p.N != 0 || p.Begin != 2 {
		t.Errorf("second 2, without layers: %+v", p)
	}
	if got := sparks(r.ScoreOverTime); got != "▁▅·" {
		t.Errorf("drawn as %q", got)
	}
}
