package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lull-npc/lull/harness"
)

// brief is a game that ends at once, for tests of the command around it.
const brief = "name: brief\ndescription: a test\ntarget_hz: 100\nphases:\n  - {phase: combat, seconds: 0.1}\n"

func writeTemp(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestHarnessList(t *testing.T) {
	c := newConsole(t)
	if code := c.run("harness", "list", "--json"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, c.err.String())
	}
	list := c.object()
	if n := len(list["scenarios"].([]any)); n != len(harness.Names()) {
		t.Errorf("%d scenarios", n)
	}
	if n := len(list["policies"].([]any)); n != len(harness.Policies()) {
		t.Errorf("%d policies", n)
	}
	if code := c.run("harness", "list"); code != exitDone || !strings.Contains(c.out.String(), "cpu-bound-60") {
		t.Errorf("exit code %d: %s", code, c.out.String())
	}
}

func TestHarnessUsage(t *testing.T) {
	scenario, bad := writeTemp(t, "brief.yaml", brief), writeTemp(t, "bad.yaml", "name: 5\nnonsense: 1\n")
	slo := writeTemp(t, "slo.yaml", "nonsense: 1\n") // of several unknown fields any may be named
	c := newConsole(t)
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, exitUsage, "which scenario"},
		{[]string{"a", "b"}, exitUsage, "one SCENARIO"},
		{[]string{"nowhere"}, exitUsage, `SCENARIO: there is no "nowhere"`},
		{[]string{"nowhere.yaml"}, exitFailed, "open nowhere.yaml"},
		{[]string{bad}, exitFailed, bad + ":2:1: unknown field"},
		{[]string{"idle", "tavern"}, exitUsage, "one SCENARIO"},
		{[]string{scenario, "--policy", "best"}, exitUsage, `--policy: there is no "best"`},
		{[]string{scenario, "--policy", "native,native"}, exitUsage, "stands twice"},
		{[]string{scenario, "--policy", ","}, exitUsage, "--policy: none is named"},
		{[]string{scenario, "--without", "luck"}, exitUsage, `--without: no feature "luck"`},
		{[]string{scenario, "--policy", "native,idle-1", "--without", "probe"}, exitUsage, "are for lull"},
		{[]string{scenario, "--policy", "native", "--preset", "ui-first"}, exitUsage, "are for lull"},
		{[]string{scenario, "--policy", "native", "--without", "deferral"}, exitUsage, "are for lull"},
		{[]string{scenario, "--preset", "best"}, exitUsage, `--preset "best": want balanced, ui-first or llm-first`},
		{[]string{scenario, "--preset", "custom"}, exitUsage, "want balanced"},
		{[]string{scenario, "--repeat", "0"}, exitUsage, "--repeat 0: want 1…1000"},
		{[]string{scenario, "--seconds", "-1"}, exitUsage, "--seconds: -1 seconds: want"},
		{[]string{scenario, "--seconds", "0"}, exitUsage, "--seconds: 0 seconds: want"},
		{[]string{scenario, "--seconds", "NaN"}, exitUsage, "--seconds NaN: want a finite number"},
		{[]string{scenario, "--scale", "2"}, exitUsage, "--scale does nothing without --trace FILE"},
		{[]string{scenario, "--fill", "0"}, exitUsage, "--fill does nothing without --trace FILE"},
		{[]string{scenario, "--workers", "2"}, exitUsage, "--workers does nothing without --trace FILE"},
		{[]string{scenario, "--trace", "a.csv", "--scale", "2", "--fill", "0.5"}, exitUsage, "exclude each other"},
		{[]string{scenario, "--trace", "a.csv", "--scale", "Inf"}, exitUsage, "--scale +Inf"},
		{[]string{scenario, "--trace", "a.csv", "--scale", "-1"}, exitUsage, "want more than 0"},
		{[]string{scenario, "--trace", "a.csv", "--workers", "0"}, exitUsage, "--workers 0"},
		{[]string{scenario, "--slo", slo}, exitFailed, "--slo: " + slo + ":1:1"},
		{[]string{scenario, "--slo", "nowhere.yaml"}, exitFailed, "--slo: open nowhere.yaml"},
	} {
		code := c.run(append([]string{"harness", "run"}, x.args...)...)
		if code != x.code || c.out.Len() > 0 || !strings.Contains(c.err.String(), x.says) ||
			strings.Contains(c.err.String(), "harness: ") {
			t.Errorf("%v: exit code %d, %q, %q, want %d and %q", x.args, code, c.out.String(), c.err.String(), x.code,
				x.says)
		}
	}
}

// The definitions come at once, whatever is to be played.
func TestHarnessDefinitions(t *testing.T) {
	c := newConsole(t)
	file := filepath.Join(t.TempDir(), "d.json")
	for _, args := range [][]string{{}, {"tavern"}, {"nowhere"}, {"--json"}, {"tavern", "--json"}} {
		code := c.run(append([]string{"harness", "run", "--definitions"}, args...)...)
		if code != exitDone || !strings.Contains(c.out.String(), "jank_rate") || c.err.Len() > 0 {
			t.Errorf("%v: exit code %d: %s%s", args, code, &c.out, &c.err)
		}
		if slices.Contains(args, "--json") && len(c.object()["definitions"].([]any)) < 10 {
			t.Errorf("%v: few definitions", args)
		}
	}
	if code := c.run("harness", "run", "--definitions", "--json="+file); code != exitDone || c.out.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, &c.out, &c.err)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	if !strings.Contains(string(text), `"definitions"`) {
		t.Errorf("%s", text)
	}
}

func TestHarnessHelpHasASample(t *testing.T) {
	c := newConsole(t)
	if code := c.run("harness", "run", "--help"); code != exitDone ||
		!strings.Contains(c.out.String(), indented(harness.SampleObjectives)) {
		t.Errorf("exit code %d: %s", code, &c.out)
	}
}

func TestHarnessRun(t *testing.T) {
	scenario := writeTemp(t, "brief.yaml", brief)
	c := newConsole(t)
	for _, form := range [][]string{{"--json"}, {"--json=-"}, {"--json", "-"}} {
		code := c.run(append([]string{"harness", "run", scenario, "--policy", "native", "--repeat", "1"}, form...)...)
		if code != exitDone {
			t.Fatalf("%v: exit code %d: %s", form, code, c.err.String())
		}
		report := c.object()
		if report["scenario"] != "brief" || len(report["runs"].([]any)) != 1 {
			t.Errorf("%v: %v", form, report)
		}
	}
}

func TestHarnessFiles(t *testing.T) {
	scenario := writeTemp(t, "brief.yaml", brief)
	dir := t.TempDir()
	report, frames := filepath.Join(dir, "report.json"), filepath.Join(dir, "frames.csv")
	c := newConsole(t)
	code := c.run("harness", "run", scenario, "--policy", "native", "--repeat", "2", "--json", report, "--frames-csv",
		frames)
	if code != exitDone || !strings.Contains(c.out.String(), "late frames") {
		t.Fatalf("exit code %d: %s%s", code, c.out.String(), c.err.String())
	}
	text, err := os.ReadFile(report)
	must(t, err)
	var r harness.Report
	must(t, json.Unmarshal(text, &r))
	if len(r.Runs) != 2 || r.Runs[0].Frames < 1 {
		t.Errorf("%+v", r)
	}
	if code := c.run("frames", frames, "--target-hz", "100", "--process", "native-2", "--json"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, c.err.String())
	}
	if got := c.object(); int64(got["frames"].(float64)) != r.Runs[1].Frames {
		t.Errorf("%v frames were read, %d played", got["frames"], r.Runs[1].Frames)
	}
	nowhere := filepath.Join(dir, "no", "where")
	if code := c.run("harness", "run", scenario, "--policy", "native", "--repeat", "1", "--json",
		nowhere); code != exitFailed {
		t.Errorf("a file that can't be written: exit code %d", code)
	}
}

// What a run came to decides the exit code; a machine that others use leaves it
// undecided.
func TestHarnessObjectives(t *testing.T) {
	scenario := writeTemp(t, "brief.yaml", brief)
	c := newConsole(t)
	for limit, want := range map[string]int{"-1": exitObjective, "1": exitDone} {
		slo := writeTemp(t, "slo.yaml", "objectives:\n  - {metric: jank_rate, policy: native, op: '<=', limit: "+
			""+limit+"}\n")
		code := c.run("harness", "run", scenario, "--policy", "native", "--repeat", "1", "--slo", slo, "--json")
		notes := c.err.String()
		verdict := c.object()["objectives"].([]any)[0].(map[string]any)
		if verdict["status"] == harness.Undecided {
			if code != exitDone || !strings.Contains(notes, "1 of 1 objectives undecided: other processes") {
				t.Errorf("undecided: exit code %d: %s", code, notes)
			}
			continue
		}
		if code != want || (verdict["status"] == harness.Missed) != (want == exitObjective) {
			t.Errorf("limit %s: exit code %d, %v, want %d", limit, code, verdict, want)
		}
		if want == exitObjective && !strings.Contains(notes, "native jank_rate <= -1: ") {
			t.Errorf("it does not say which: %s", notes)
		}
	}
}

func TestUnmet(t *testing.T) {
	c := newConsole(t)
	value, by := 107123.4, 7123.4
	o := harness.Objective{Metric: "ttft_ms.p50", Op: harness.AtMost, Limit: 100000}
	missed := harness.Verdict{Objective: o, Status: harness.Missed, Value: &value, By: &by}
	undecided := harness.Verdict{Objective: o, Status: harness.Undecided, Value: &value, Why: "a noisy machine"}
	skipped := harness.Verdict{Objective: o, Status: harness.Skipped, Why: "no run"}
	both := &harness.Report{Objectives: []harness.Verdict{missed, undecided, skipped}}
	err := unmet(both)
	want := "1 of 3 objectives not met: lull ttft_ms.p50 <= 100000: 107123, missed by 7123"
	if exitCode(t.Context(), err) != exitObjective || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	c.app.tellUndecided(both)
	if !strings.Contains(c.err.String(), "1 of 3 objectives undecided: a noisy machine") {
		t.Errorf("%s", &c.err)
	}
	if err := unmet(&harness.Report{Objectives: []harness.Verdict{undecided, skipped}}); err != nil {
		t.Errorf("undecided is no failure: %v", err)
	}
}

func TestHarnessSelftest(t *testing.T) {
	c := newConsole(t)
	if code := c.run("harness", "selftest", "--json"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, c.out.String())
	}
	if got := c.object(); got["ok"] != true || len(got["checks"].([]any)) < 6 {
		t.Errorf("%v", got)
	}
}

func TestHarnessWithoutModel(t *testing.T) {
	scenario := writeTemp(t, "brief.yaml", brief)
	c := newConsole(t)
	code := c.run("harness", "run", scenario, "--policy", "native,lull", "--model", "nowhere.gguf", "--llama-lib",
		t.TempDir())
	if code != exitFailed || c.out.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, c.out.String(), c.err.String())
	}
}
