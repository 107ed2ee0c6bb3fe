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
	if n := len(made().Failed()); n != 6 {
		t.Errorf("%d failed, want 6", n)
	}
	v := judge(Objective{Metric: "limit_share", Op: AtLeast, Limit: 0.5}, made().Runs[1:3], 1)
	if v.Status != Skipped {
		t.Errorf("a limit without native: %+v", v)
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
