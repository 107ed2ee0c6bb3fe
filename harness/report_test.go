package harness

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/harness/metrics"
)

func f(x float64) *float64 { return &x }

// made is a report of made-up numbers.
func made() *Report {
	run := func(policy string, repeat int, jank, rate float64) Run {
		r := Run{Policy: policy, Repeat: repeat, TokensPerSecond: rate}
		r.JankRate, r.HitchMsPerS = jank, 100*jank
		r.FrameMs = metrics.FrameMs{P50: 11.2, P99: 12 + 10*jank}
		r.Overrun.P99 = -4 + 20*jank
		r.Phases = map[string]PhaseRun{
			"loading": {Phase: metrics.Phase{Frames: 60, JankRate: 1}, TokensPerSecond: 40},
			"combat": {Phase: metrics.Phase{Frames: 600, JankRate: jank, HitchMsPerS: 100 * jank},
				TokensPerSecond: rate},
		}
		if policy != PolicyNative {
			r.TTFT, r.GameThread = Pair{f(300 + rate), f(500)}, Pair{f(3), f(8 + rate/10)}
		}
		if policy == PolicyLull {
			r.Shares = metrics.Shares{Draft: 0.08, Verify: 0.22, Sleep: 0.03, WindowWait: 0.4, Prefill: 0.02,
				Decode: 0.1}
			r.Acceptance = map[string]float64{"reply": 0.62, "draft": 0.41}
			r.Preemptions = Preemptions{Decided: 2, Share: 0.15}
			r.Embeddings = map[string]int{"combat": 0, "loading": 3 * repeat}
			r.Memory = &MemoryRun{Remembered: 40, Acknowledged: 39 + repeat, Pending: map[string]int{"combat": 30,
				"loading": 0}, EmbedMs: f(9.5), RecallMs: Pair{f(1.5), f(12 + rate)}, DenseShare: 0.25, FoundShare: 1}
			r.ScoreOverTime = []ScorePoint{{Score: f(0.01)}, {Score: f(0.25)}, {}, {Score: f(2)}}
		}
		return r
	}
	r := &Report{
		Scenario: "made", Description: "Numbers that nobody measured.", Seed: 3,
		Host: Host{CPU: "a processor", Cores: 2, OS: "linux/amd64", Model: "a model", Llama: "llama.cpp v0"},
		Setting: Setting{PeriodMs: 16.667, LineMs: 16.667, Seconds: 10, WarmUpS: 1, Repeat: 2, Preset: "ui-first",
			Without: "probe"},
		Runs: []Run{
			run("native", 1, 0.003, 0), run("vanilla", 1, 1, 47), run("lull", 1, 0.009, 22),
			run("native", 2, 0.005, 0), run("vanilla", 2, 1, 49), run("lull", 2, 0.011, 23),
		},
		IdleRate: f(90), IdleShare: f(0.33), Notes: []string{"a note"},
	}
	last := run("native", 3, 0.9, 0)
	last.Interrupted = true
	r.Runs = append(r.Runs, last)
	r.Interrupted = true
	limit := *r.IdleRate * *r.IdleShare
	r.Limit = &limit
	for i := range r.Runs {
		if r.Runs[i].Policy != PolicyNative {
			r.Runs[i].LimitShare = f(r.Runs[i].TokensPerSecond / limit)
		}
	}
	r.Runs[0].MemorySteps = []MemoryStep{{0, 0, 10, 0}, {3, 2.9, 10, 0.1}}
	r.Summary = summarise(r.Runs, r.Seed)
	for _, o := range []Objective{
		{Metric: "jank_rate", Against: PolicyNative, Op: AtMost, Limit: 0.01},
		{Metric: "phases.combat.jank_rate", Policy: PolicyVanilla, Against: PolicyNative, Op: AtMost, Limit: 0.01},
		{Metric: "limit_share", Op: AtLeast, Limit: 0.8},
		{Metric: "contention.p95", Op: AtMost, Limit: 1},
		{Metric: "jank_rate", Policy: "idle-1", Op: AtMost, Limit: 1},
		{Metric: "jank_rate", Against: "idle-1", Op: AtMost, Limit: 1},
		{Metric: "jank_rat", Op: AtMost, Limit: 1},
		{Metric: "jank_rate.p50", Op: AtMost, Limit: 1},
		{Metric: "policy", Op: AtMost, Limit: 1},
		{Metric: "embeddings.combat", Op: AtMost, Limit: 0},
		{Metric: "memory.pending.combat", Op: AtMost, Limit: 0},
		{Metric: "memory.pending.combat", Policy: PolicyVanilla, Op: AtMost, Limit: 0},
	} {
		r.Objectives = append(r.Objectives, judge(o, r.Runs, 1))
	}
	return r
}

func TestText(t *testing.T) {
	var got bytes.Buffer
	if err := made().WriteText(&got); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", got.Bytes())
}

func TestDefinitionsText(t *testing.T) {
	var got bytes.Buffer
	if err := WriteDefinitions(&got); err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		if !strings.Contains(got.String(), d.Name+" [") || d.Text == "" || d.Unit == "" || d.Source == "" {
			t.Errorf("incomplete: %+v", d)
		}
	}
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
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; if it should, run the test with -update:\n%s", file, diff)
	}
}

func TestJudge(t *testing.T) {
	for i, want := range []struct {
		status string
		by     float64
		why    string
	}{
		{Met, 0, ""},
		{Missed, 0.986, ""},
		{Missed, 0.8 - 22.5/29.7, ""},
		{Unknown, 0, "not measured"},
		{Skipped, 0, "no complete run of idle-1"},
		{Skipped, 0, "no complete run of idle-1"},
		{Unknown, 0, "not in a run"},
		{Unknown, 0, "beyond a value"},
		{Unknown, 0, "no number"},
		{Met, 0, ""},
		{Missed, 30, ""},
		{Skipped, 0, "nobody remembers"},
	} {
		v := made().Objectives[i]
		if v.Status != want.status || !strings.Contains(v.Why, want.why) || (want.by != 0) != (v.By != nil) ||
			v.By != nil && (*v.By < want.by-1e-9 || *v.By > want.by+1e-9) {
			t.Errorf("%s: %+v, want %+v", v.Objective, v, want)
		}
		if v.Failed() != (want.status == Missed || want.status == Unknown) {
			t.Errorf("%s: failed %v", v.Objective, v.Failed())
		}
	}
	if n := len(made().Failed()); n != 7 {
		t.Errorf("%d failed, want 7", n)
	}
	v := judge(Objective{Metric: "limit_share", Op: AtLeast, Limit: 0.5}, made().Runs[1:3], 1)
	if v.Status != Skipped {
		t.Errorf("a limit without native: %+v", v)
	}
}

// Where people speak a third of the time, that time is what the limit is about.
func TestLimitOfReplying(t *testing.T) {
	native := Run{Policy: PolicyNative, Repeat: 1}
	native.Seconds = 30
	lull := Run{Policy: PolicyLull, Repeat: 1, Tokens: 60, TokensPerSecond: 2, Replying: NewReplying(60, 10)}
	lull.Seconds = 30
	atRest := 20.0
	r := made()
	r.Runs, r.IdleRates = []Run{native, lull}, nil
	r.Conclude([]float64{0.4}, &atRest)
	if r.LimitOf != limitOfReplying || *r.Limit != 8 || *r.Runs[1].LimitShare != 0.75 || r.Runs[0].LimitShare != nil {
		t.Errorf("%s: limit %v, lull has %v of it, native %v", r.LimitOf, *r.Limit, *r.Runs[1].LimitShare,
			r.Runs[0].LimitShare)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" replying ", " 6.0 ", " 75 %", "while somebody is answered",
		"limit of replying: 20.0 tokens/s by the same people without a game × 40 % of the cores idle = 8.0 tokens/s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, &text)
		}
	}
}

// What other processes disturbed decides nothing.
func TestJudgeDisturbed(t *testing.T) {
	runs := func(others ...float64) []Run { // native and lull in turn
		var list []Run
		for i, share := range others {
			r := Run{Policy: []string{PolicyNative, PolicyLull}[i%2], Repeat: i/2 + 1, OtherCPU: &share}
			r.JankRate = 0.1 * float64(i+1)
			list = append(list, r)
		}
		return list
	}
	quiet, loud := noisy, 2*noisy
	absolute := Objective{Metric: "jank_rate", Op: AtMost, Limit: 0.15}
	paired := Objective{Metric: "jank_rate", Against: PolicyNative, Op: AtMost, Limit: 0.15}
	for _, c := range []struct {
		name   string
		o      Objective
		runs   []Run
		status string
		value  float64
		why    string
	}{
		{"quiet", absolute, runs(quiet, quiet), Missed, 0.2, ""},
		{"all disturbed", absolute, runs(quiet, loud), Undecided, 0.2, "disturbed every repeat"},
		{"disturbed and within the limit", paired, runs(quiet, loud), Undecided, 0.1, "disturbed every repeat"},
		{"the other policy disturbed", paired, runs(loud, quiet), Undecided, 0.1, "disturbed every repeat"},
		{"the other policy is not asked for", absolute, runs(loud, quiet), Missed, 0.2, ""},
		{"one of two", absolute, runs(quiet, loud, quiet, quiet), Missed, 0.4, "by 1 of 2 repeats"},
		{"one pair of two", paired, runs(loud, quiet, quiet, quiet), Met, 0.1, "by 1 of 2 repeats"},
		{"no pair", paired, runs(loud, quiet, quiet, loud), Undecided, 0.1, "disturbed every repeat"},
	} {
		v := judge(c.o, c.runs, 1)
		if v.Status != c.status || math.Abs(*v.Value-c.value) > 1e-9 || !strings.Contains(v.Why, c.why) ||
			(v.Why == "") != (c.why == "") || (v.By != nil) != (c.status == Missed) ||
			v.Failed() != (c.status == Missed) || !strings.Contains(v.text(), v.Why) {
			t.Errorf("%s: %s (%+v), want %s at %v: %s", c.name, v.text(), v, c.status, c.value, c.why)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 0.25: "0.25", -0.0123456: "-0.01235", 12.3456: "12.35", 999.96: "1000", 107123.4: "107123",
		1e12: "1000000000000", 0.00001234567: "0.00001235", 1e-300: "0",
	} {
		if got := number(x); got != want {
			t.Errorf("%g: %q, want %q", x, got, want)
		}
	}
	if got := (Objective{Metric: "tokens", Op: AtLeast, Limit: 1e7}).String(); got != "lull tokens >= 10000000" {
		t.Error(got)
	}
}

// A report of the game alone has no column for a model.
func TestTextOfNativeAlone(t *testing.T) {
	r := made()
	r.Runs, r.IdleRate, r.Limit, r.Objectives = r.Runs[:1], nil, nil, nil
	r.Summary = summarise(r.Runs, 1)
	var got bytes.Buffer
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"of limit", "- native", "TTFT", "our µs"} {
		if strings.Contains(got.String(), column) {
			t.Errorf("a column of nothing, %q:\n%s", column, &got)
		}
	}
}

func TestSampleObjectives(t *testing.T) {
	list, err := ParseObjectives("sample", []byte(SampleObjectives))
	if err != nil || len(list) != 3 {
		t.Fatalf("%d objectives, %v", len(list), err)
	}
	for _, o := range list {
		if _, why := lookUp(&Run{LimitShare: f(1), TTFT: Pair{P50: f(1)}}, o.Metric); why != "" {
			t.Errorf("%s: %s", o, why)
		}
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(SampleObjectives) {
		if !strings.Contains(string(doc), "//\t"+line) {
			t.Errorf("doc.go lacks %q", line)
		}
	}
}

func TestSummary(t *testing.T) {
	s := made().Summary
	lull := s["lull"]
	if lull.Repeats != 2 || math.Abs(lull.JankRate.Median-0.01) > 1e-9 || lull.TTFTMsP50.Median != 322.5 ||
		lull.JankPaired == nil {
		t.Fatalf("%+v", lull)
	}
	if d := lull.JankPaired.Difference.Median; math.Abs(d-0.006) > 1e-9 {
		t.Errorf("%+v", lull)
	}
	if native := s["native"]; native.Repeats != 2 || native.TTFTMsP50 != nil || native.JankPaired != nil {
		t.Errorf("%+v", native)
	}
}
