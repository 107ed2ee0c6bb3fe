package main

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	c := newConsole(t)
	for _, args := range [][]string{
		{},
		{"nowhere"},
		{"nowhere.yaml"},
		{bad},
		{"idle", "tavern"},
		{scenario, "--policy", "best"},
		{scenario, "--policy", "native,native"},
		{scenario, "--without", "luck"},
		{scenario, "--preset", "best"},
		{scenario, "--preset", "custom"},
		{scenario, "--repeat", "0"},
		{scenario, "--seconds", "-1"},
		{scenario, "--seconds", "NaN"},
		{scenario, "--scale", "2"},
		{scenario, "--trace", "a.csv", "--scale", "2", "--fill", "0.5"},
		{scenario, "--trace", "a.csv", "--workers", "0"},
		{scenario, "--slo", bad},
		{scenario, "--slo", "nowhere.yaml"},
	} {
		if code := c.run(append([]string{"harness", "run"}, args...)...); code != exitUsage || c.out.Len() > 0 {
			t.Errorf("%v: exit code %d, %q, %q", args, code, c.out.String(), c.err.String())
		}
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
		frames,
		"--definitions")
	if code != exitDone || !strings.Contains(c.out.String(), "late frames") || !strings.Contains(c.out.String(),
		"jank_rate [") {
		t.Fatalf("exit code %d: %s%s", code, c.out.String(), c.err.String())
	}
	text, err := os.ReadFile(report)
	must(t, err)
	var r harness.Report
	must(t, json.Unmarshal(text, &r))
	if len(r.Runs) != 2 || len(r.Definitions) == 0 || r.Runs[0].Frames < 1 {
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

func TestHarnessObjectives(t *testing.T) {
	scenario := writeTemp(t, "brief.yaml", brief)
	c := newConsole(t)
	for limit, want := range map[string]int{"-1": exitObjective, "1": exitDone} {
		slo := writeTemp(t, "slo.yaml", "objectives:\n  - {metric: jank_rate, policy: native, op: '<=', limit: "+
			""+limit+"}\n")
		code := c.run("harness", "run", scenario, "--policy", "native", "--repeat", "1", "--slo", slo)
		if code != want {
			t.Errorf("limit %s: exit code %d, want %d", limit, code, want)
		}
		if want == exitObjective && !strings.Contains(c.err.String(), "native jank_rate <= -1: ") {
			t.Errorf("it does not say which: %s", c.err.String())
		}
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
