package soc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

var update = flag.Bool("update", false, "write the golden files anew")

func options(t testing.TB, app, policy string, seconds float64) Options {
	t.Helper()
	p, err := findPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Policy: p, Seconds: seconds, Seed: 1}
	if err := o.Load("8-elite", app, "llama-3.1-8b", "llama-3.2-1b"); err != nil {
		t.Fatal(err)
	}
	return o
}

func simulate(t testing.TB, o Options) *Run {
	t.Helper()
	r, err := Simulate(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGolden plays all policies in an app of each class. The file is the same on
// every processor: run it under qemu-user to see.
func TestGolden(t *testing.T) {
	var out bytes.Buffer
	for _, app := range []string{"social", "gaming-b", "mixed"} {
		p := Plan{Options: options(t, app, PolicyNative, 12), Policies: Policies(), Repeat: 1}
		r, err := Play(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		r.Runs = slices.DeleteFunc(r.Runs, func(r Run) bool { return r.Policy != PolicyLull })
		text, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if app == "social" {
			golden(t, "social.json", append(text, '\n'))
		}
		out.WriteString("\n")
	}
	golden(t, "runs.txt", out.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Errorf("%s differs; if it should, run the test with -update:\n%s", file, d)
	}
}

func TestSameSeedSameRun(t *testing.T) {
	for _, policy := range []string{"vanilla-spec", "sereno", "lull", "lull-cpu"} {
		o := options(t, "mixed", policy, 6)
		a, b := simulate(t, o), simulate(t, o)
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s, twice the same seed:\n%s", policy, d)
		}
		o.Seed = 2
		if cmp.Equal(a, simulate(t, o)) {
			t.Errorf("%s: another seed gives the same run", policy)
		}
	}
}

// The bandwidth that all get together is never more than there is, high priority
// goes first, and latency grows with load.
func TestBandwidth(t *testing.T) {
	chip, err := LoadChip("8-elite")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(chip)
		w.memClock = rapid.Float64Range(0.2, 1).Draw(t, "clock")
		latency := 0.0
		w.cpu.start(1e6, rapid.Float64Range(0, 0.95).Draw(t, "stall"), 0)
		if rapid.Bool().Draw(t, "NPU") {
			w.job = job{active: true, left: 1, bytes: rapid.Float64Range(1, 1e8).Draw(t, "bytes"), read: 1e6}
		}
		for _, rate := range []float64{0, 5, 20, 60, 150} {
			w.cpu.rate = rate
			w.rates()
			if w.load > 1+1e-9 || w.high > mostHigh+1e-9 || w.low < 0 {
				t.Fatalf("load %v, high %v, low %v of the bandwidth", w.load, w.high, w.low)
			}
			if w.latency < 1 || w.cpu.speed > 1+1e-9 || w.cpu.speed <= 0 {
				t.Fatalf("latency %v, speed %v", w.latency, w.cpu.speed)
			}
			// With the NPU, more traffic of others slows it, which gives some back.
			if !w.job.active && w.latency < latency-1e-9 {
				t.Fatalf("more traffic, less latency: %v after %v", w.latency, latency)
			}
			latency = w.latency
		}
	})
}

// An undisturbed chip goes to ambient + P·R, and is there by two thirds after a
// time constant.
func TestHeat(t *testing.T) {
	chip, err := LoadChip("8-elite")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(chip)
	c := &chip.Thermal
	w.celsius = c.Ambient.Value
	const watts = 4.0
	rest := c.Ambient.Value + watts*c.Resistance.Value
	seconds := 0.0
	for ; seconds < c.Constant.Value; seconds += 0.1 {
		w.heatBy(watts, 0.1)
	}
	if share := (w.celsius - c.Ambient.Value) / (rest - c.Ambient.Value); math.Abs(share-0.632) > 0.005 {
		t.Errorf("after a time constant it is %v of the way, want 0.632", share)
	}
	for range 20 {
		for s := 0.0; s < c.Constant.Value; s += 0.1 {
			w.heatBy(watts, 0.1)
		}
	}
	if math.Abs(w.celsius-rest) > 1e-6 {
		t.Errorf("it rests at %v, want %v", w.celsius, rest)
	}
}

// Too hot, clocks fall; the model and the game get slower, and it gets no hotter
// than without.
func TestThrottle(t *testing.T) {
	cool, hot := options(t, "gaming-a", "vanilla", 40), options(t, "gaming-a", "vanilla", 40)
	hot.Chip.Thermal.Ambient.Value, hot.Chip.Thermal.Constant.Value = 40, 5
	a, b := simulate(t, cool), simulate(t, hot)
	if a.Throttled > 0 || b.Throttled < 0.5 {
		t.Errorf("throttled %v and %v of the time", a.Throttled, b.Throttled)
	}
	if b.CPUScore >= a.CPUScore || b.PrefillTPS >= a.PrefillTPS || b.Watts >= a.Watts {
		t.Errorf("throttled: CPU %v, prefill %v, %v W; cool: %v, %v, %v W", b.CPUScore, b.PrefillTPS, b.Watts,
			a.CPUScore, a.PrefillTPS, a.Watts)
	}
}

// The governor answers within its period, and not before.
func TestGovernor(t *testing.T) {
	chip, err := LoadChip("8-elite")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(chip)
	w.cpu.start(1e12, 0, 200)
	w.rates()
	if low := w.memClock; low != chip.DRAM.LowClock.Value {
		t.Fatalf("it begins at %v", low)
	}
	w.WaitUntil(63e6, nil)
	before := w.memClock
	w.WaitUntil(65e6, nil)
	if before == 1 || w.memClock != 1 {
		t.Errorf("clock %v after 63 ms, %v after 65; want it to rise at 64", before, w.memClock)
	}
	w.cpu.active = false
	w.WaitUntil(5e9, nil)
	if w.memClock != chip.DRAM.LowClock.Value {
		t.Errorf("idle, it stays at %v", w.memClock)
	}
}

// The published demand of verify batches follows from the chip's parameters.
func TestVerifyDemand(t *testing.T) {
	o := options(t, "social", "vanilla", 1)
	m := newModel(newWorld(o.Chip), o.Target, onNPU, nil, nil, 1)
	demand := func(width int) float64 {
		j := m.cost(1, 0, width, 0, 1)
		return j.bytes / (max(j.read, j.compute) + j.extra)
	}
	for width, want := range map[int]float64{8: 0.82, 32: 0.74} {
		if got := demand(width) / demand(1); math.Abs(got-want) > 0.03 {
			t.Errorf("width %d demands %v of width 1, want %v", width, got, want)
		}
	}
}

// Memory work waits: lull embeds nothing that begins in combat or a cutscene.
func TestMemoryWaits(t *testing.T) {
	short := func(policy string) Options { // every phase, an eighth of its length
		o := options(t, "mixed", policy, 65)
		for i := range o.App.Parts {
			o.App.Parts[i].Seconds /= 8
		}
		return o
	}
	o := short(PolicyLull)
	s, err := newSession(&o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.play(); err != nil {
		t.Fatal(err)
	}
	if n := s.game.rec.begun["combat"] + s.game.rec.begun["cutscene"]; n > 0 {
		t.Errorf("%d begun in combat and cutscenes", n)
	}
	if s.game.rec.begun["menu"]+s.game.rec.begun["explore"] == 0 {
		t.Error("none begun at all")
	}
	o = short("vanilla")
	if r := simulate(t, o); r.Embeddings["combat"] == 0 {
		t.Error("vanilla embeds none in combat: the test shows nothing")
	}
}

// Output is the plain text of the stream, whatever is guessed.
func TestEveryPolicyAnswers(t *testing.T) {
	for _, p := range Policies() {
		if !p.model || p.where == onLittle {
			continue
		}
		r := simulate(t, options(t, "light-app", p.Name, 24))
		if r.Replies == 0 || r.Failed > 0 || r.Tokens == 0 {
			t.Errorf("%s: %d replies, %d failed, %d tokens", p.Name, r.Replies, r.Failed, r.Tokens)
		}
	}
}

// What repeats itself, and is guessed better, is said faster.
func TestTasks(t *testing.T) {
	rate := map[string]float64{}
	for _, name := range Names("tasks") {
		task, err := LoadTask(name)
		if err != nil {
			t.Fatal(err)
		}
		o := options(t, "light-app", "sereno", 30)
		o.App = o.App.With(task)
		rate[name] = simulate(t, o).DecodeTPS
	}
	if !(rate["chat"] < rate["maths"] && rate["maths"] < rate["code"]) {
		t.Errorf("tokens/s: %v", rate)
	}
}

func TestParsePolicies(t *testing.T) {
	for list, want := range map[string]string{
		"": "none is named", "lull,lull": "stands twice", "nobody": "there is no", "lull-no-nothing": "there is no",
		"vanilla-no-window": "there is no",
	} {
		if _, err := ParsePolicies(list); !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	ps, err := ParsePolicies("native, lull-no-probe")
	if err != nil || len(ps) != 2 || ps[1].features.Has(scheduler.FeatureProbe) ||
		!ps[1].features.Has(scheduler.FeatureWindow) {
		t.Errorf("%+v, %v", ps, err)
	}
}

// Every shipped file is sound, and every value says where it comes from.
func TestShipped(t *testing.T) {
	for _, name := range Names("chips") {
		if c, err := LoadChip(name); err != nil || c.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range Names("apps") {
		if a, err := LoadApp(name); err != nil || a.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range Names("models") {
		if n, err := LoadNetwork(name); err != nil || n.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range Names("tasks") {
		if x, err := LoadTask(name); err != nil || x.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadChip("abacus"); !errors.Is(err, ErrParameters) {
		t.Errorf("an unknown chip: %v", err)
	}
}

func TestBadParameters(t *testing.T) {
	text, err := shipped.ReadFile("chips/8-elite.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ old, new, want string }{
		"a value":     {"value: 84.8", "value: -1", "dram.peak_gb_per_s: -1"},
		"no number":   {"value: 84.8", "value: fast", "cannot unmarshal"},
		"NaN":         {"value: 84.8", "value: .nan", "dram.peak_gb_per_s"},
		"no source":   {`source: "sereno: bw_governor_response"`, `source: " "`, "dram.governor_ms: no source"},
		"a key":       {"queue:", "qeue:", "qeue"},
		"an anchor":   {"name: 8-elite", "name: &a 8-elite", "Anchor"},
		"threads":     {"model_threads: 6", "model_threads: 600", "model_threads"},
		"upside down": {"severe_c: {value: 58", "severe_c: {value: 31", "severe_c"},
	} {
		bad := strings.Replace(string(text), x.old, x.new, 1)
		if bad == string(text) {
			t.Fatalf("%s: nothing to replace", name)
		}
		if _, err := ParseChip("bad.yaml", []byte(bad)); !errors.Is(err, ErrParameters) ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

// A preset is part of a policy's name where it can be tuned, and nothing else is.
func TestPresetOfPolicy(t *testing.T) {
	ps, err := ParsePolicies("lull-llm-first,sereno-ui-first,lull-no-probe-ui-first")
	if err != nil || *ps[0].preset != scheduler.LLMFirst || *ps[1].preset != scheduler.UIFirst ||
		ps[2].features.Has(scheduler.FeatureProbe) {
		t.Errorf("%+v, %v", ps, err)
	}
	for _, bad := range []string{"mnn-ui-first", "-ui-first", "lull-custom"} {
		if _, err := ParsePolicies(bad); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Goals are judged at no more late frames, and one that is missed says in which phase
// and to what it was lost.
func TestGoals(t *testing.T) {
	at := func(jank, tokens float64) Summary {
		return Summary{Jank: metrics.Spread{Median: jank}, Tokens: metrics.Spread{Median: tokens}}
	}
	run := func(policy string, jank float64, tokens int, computing float64) Run {
		p := Phase{Frames: 1000, JankRate: jank, Tokens: tokens, Game: 0.6, Busy: 0.8, Computing: computing,
			Windows: 0.8 - computing, PerPass: 1.5}
		return Run{Policy: policy, Repeat: 1, Frames: 1000, Seconds: 100, JankRate: jank, Tokens: tokens,
			Phases: map[string]Phase{"explore": p}}
	}
	report := func(lull, other, sereno Summary) *Report {
		r := &Report{Summary: map[string]Summary{PolicyNative: at(0.02, 0), PolicyLull: lull, "freq-limit": other,
			"sereno": sereno}}
		for _, name := range []string{PolicyNative, PolicyLull, "freq-limit", "sereno"} {
			s := r.Summary[name]
			r.Runs = append(r.Runs, run(name, s.Jank.Median, int(100*s.Tokens.Median), 0.1*s.Tokens.Median))
		}
		return r
	}
	for name, x := range map[string]struct {
		lull, other, sereno Summary
		met                 [3]bool
		why                 string
	}{
		"all met":     {at(0.025, 3), at(0.03, 5), at(0.12, 8), [3]bool{true, true, true}, ""},
		"many late":   {at(0.05, 4), at(0.06, 5), at(0.12, 8), [3]bool{false, true, true}, "points are of explore"},
		"dominated":   {at(0.025, 3), at(0.02, 4), at(0.12, 8), [3]bool{true, false, true}, "freq-limit's tokens/s"},
		"sereno best": {at(0.025, 3), at(0.03, 5), at(0.024, 4), [3]bool{true, false, false}, "sereno's tokens/s more"},
	} {
		goals := report(x.lull, x.other, x.sereno).goals()
		all := ""
		for i, g := range goals {
			if g.Met != x.met[i] || (len(g.Why) > 0) == g.Met {
				t.Errorf("%s: %s: met %v, why %q", name, g.Says, g.Met, g.Why)
			}
			all += strings.Join(g.Why, "\n")
		}
		if !strings.Contains(all, x.why) {
			t.Errorf("%s: %q, want %q", name, all, x.why)
		}
	}
}

// The NPU goes first: what others move costs it nothing until the memory is full, and a
// slower NPU, which wishes for less, feels it later.
func TestPriority(t *testing.T) {
	o := options(t, "social", "vanilla", 1)
	w := newWorld(o.Chip)
	m := newModel(w, o.Target, onNPU, nil, nil, 1)
	takes := func(others, limit float64) float64 {
		w.limit, w.job, w.cpu = limit, m.cost(1, 0, 1, 0, 1), task{}
		w.job.active = true
		w.cpu.start(1e9, 0.3, others)
		w.rates()
		return w.job.takes
	}
	alone := takes(0, 1)
	if some := takes(2, 1); some > 1.001*alone {
		t.Errorf("beside 2 GB/s a token takes %v of what it takes alone", some/alone)
	}
	if much := takes(20, 1); much < 1.1*alone {
		t.Errorf("beside 20 GB/s a token takes %v of what it takes alone", much/alone)
	}
	if slow := takes(20, 0.3) / takes(0, 0.3); slow > 1.02 {
		t.Errorf("at three tenths of the clock it is slowed by %v", slow)
	}
}

// SERENO's verify graphs are prepared: batches are padded, prompts are not.
func TestPreparedGraphs(t *testing.T) {
	m := &model{graphs: []int{8, 16, 32}}
	for width, want := range map[int]int{1: 8, 8: 8, 9: 16, 32: 32, 100: 100} {
		if got := m.graph(width); got != want {
			t.Errorf("%d tokens run in a graph of %d, want %d", width, got, want)
		}
	}
}

func FuzzParameters(f *testing.F) {
	for _, kind := range []string{"chips/8-elite.yaml", "apps/mixed.yaml"} {
		text, err := shipped.ReadFile(kind)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("name: x\nparts: [{phase: menu, seconds: 1e999}]"))
	f.Add([]byte("{{{{{{{{{{"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := ParseChip("f", text); err != nil && !errors.Is(err, ErrParameters) || err == nil && c.Name == "" {
			t.Errorf("chip: %v", err)
		}
		if a, err := ParseApp("f", text); err != nil && !errors.Is(err, ErrParameters) || err == nil && a.Name == "" {
			t.Errorf("app: %v", err)
		}
	})
}

// Random chips and games break no promise. LULL_SOAK=1 plays 10,000.
func TestFuzzSeeds(t *testing.T) {
	seeds := uint64(25)
	if os.Getenv("LULL_SOAK") != "" {
		seeds = 10_000
	}
	for seed := range seeds {
		v, err := Fuzz(seed)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			t.Errorf("%s", v)
		}
	}
}

// The watcher sees what it is to see: a policy that nobody steers, told to keep
// what a steered one must.
func TestWatcherSees(t *testing.T) {
	x := func(change func(*session, *watcher)) *Violation {
		o := options(t, "social", PolicyLull, 8)
		s, err := newSession(&o)
		if err != nil {
			t.Fatal(err)
		}
		w := newWatcher(s, &o)
		change(s, w)
		if err := s.play(); err != nil {
			t.Fatal(err)
		}
		w.end()
		return w.found
	}
	if v := x(func(*session, *watcher) {}); v != nil {
		t.Fatalf("undisturbed: %s", v)
	}
	for want, change := range map[string]func(*session, *watcher){
		"floor":   func(_ *session, w *watcher) { w.span = 0.001 },
		"physics": func(s *session, _ *watcher) { s.world.celsius = 900 },
		"memory":  func(s *session, _ *watcher) { s.game.rec.begun["combat"]++ },
		"granted": func(s *session, w *watcher) {
			w.session.steer.target.watch = func(n int, p, b bool) { w.batch(n+200, true, true) }
		},
		"gate": func(s *session, w *watcher) {
			s.steer.target.gate = llm.NewGate(s.world, func(int64, int64, llm.Window, time.Duration, bool) (llm.Verdict,
				int64) {
				return llm.Go, 0
			})
		},
		"dwell": func(s *session, w *watcher) {
			n := 0
			s.game.watch = func(f scheduler.FrameSample, d scheduler.Decision) {
				n++
				d.PrefillChunk = n
				w.frame(f, d)
			}
		},
	} {
		if v := x(change); v == nil || v.Invariant != want {
			t.Errorf("%s: found %v", want, v)
		}
	}
}
