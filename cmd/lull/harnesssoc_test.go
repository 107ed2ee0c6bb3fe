package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHarnessSoCUsage(t *testing.T) {
	c := newConsole(t)
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "social"}, exitUsage, "takes no argument"},
		{[]string{"run", "--soc", "abacus"}, exitUsage, `no chip "abacus"`},
		{[]string{"run", "--app", "abacus"}, exitUsage, `no app "abacus"`},
		{[]string{"run", "--model", "abacus"}, exitUsage, `no model "abacus"`},
		{[]string{"run", "--policy", "abacus"}, exitUsage, `there is no "abacus"`},
		{[]string{"run", "--preset", "abacus"}, exitUsage, "abacus"},
		{[]string{"run", "--without", "abacus"}, exitUsage, "abacus"},
		{[]string{"run", "--session", "abacus"}, exitUsage, "there is mixed"},
		{[]string{"run", "--task", "abacus"}, exitUsage, `no task "abacus"`},
		{[]string{"run", "--frames", "-1"}, exitUsage, "1 or more"},
		{[]string{"run", "--seconds", "NaN"}, exitUsage, "finite number"},
		{[]string{"run", "--seconds", "1e9"}, exitUsage, "at most"},
		{[]string{"run", "--repeat", "0"}, exitUsage, "1 … 1000"},
		{[]string{"run", "--plot", "a.gif"}, exitUsage, ".png or .svg"},
		{[]string{"run", "--plot", "nowhere/a.png"}, exitFailed, "no folder nowhere"},
		{[]string{"fit"}, exitUsage, "which file of facts"},
		{[]string{"fit", "nowhere.csv"}, exitFailed, "nowhere.csv"},
		{[]string{"fit", "x.csv", "--folds", "1"}, exitUsage, "2 folds or more"},
	} {
		code := c.run(append([]string{"harness", "soc"}, x.args...)...)
		if code != x.code || !strings.Contains(c.err.String(), x.says) {
			t.Errorf("%v: exit code %d, %q: want %d, %q", x.args, code, c.err.String(), x.code, x.says)
		}
	}
	for _, args := range [][]string{{"--seeds", "0"}, {"--workers", "0"}, {"--seed", "18446744073709551615"}} {
		if code := c.run(append([]string{"harness", "fuzz"}, args...)...); code != exitUsage {
			t.Errorf("fuzz %v: exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// What is stable of a run's JSON is there, says that it is simulated, and is the
// same twice.
func TestHarnessSoCRun(t *testing.T) {
	c := newConsole(t)
	file, picture := filepath.Join(t.TempDir(), "run.json"), filepath.Join(t.TempDir(), "run.svg")
	var first []byte
	for range 2 {
		code := c.run("harness", "soc", "run", "--soc", "8-elite", "--app", "social", "--policy", "native,lull",
			"--preset", "ui-first", "--frames", "1200", "--seed", "3", "--plot", picture, "--json", file)
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, c.err.String())
		}
		if !strings.Contains(c.out.String(), "simulated: no phone was measured") {
			t.Errorf("it does not say that it is simulated:\n%s", c.out.String())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && string(first) != string(text) {
			t.Error("the same seed gives another report")
		}
		first = text
	}
	var report map[string]any
	if err := json.Unmarshal(first, &report); err != nil {
		t.Fatal(err)
	}
	runs := report["runs"].([]any)
	run := runs[1].(map[string]any)
	for _, key := range strings.Fields(`policy repeat seconds frames jank_rate hitch_ms_per_s big_jank low1_fps
		overrun_ms frame_ms tokens tokens_per_s ttft_ms replies game_thread_us embeddings shares acceptance
		contention reasons phases prefill_s decode_s latency_s foreground_cpu_score foreground_gpu_score
		tokens_per_joule stall_ratio contention_stall_r verify_shares simulated`) {
		if _, ok := run[key]; !ok {
			t.Errorf("a run has no %s", key)
		}
	}
	for _, key := range strings.Fields(`scenario seed simulated host idle_tokens_per_s idle_share
		limit_tokens_per_s summary`) {
		if _, ok := report[key]; !ok {
			t.Errorf("the report has no %s", key)
		}
	}
	if report["simulated"] != true || len(runs) != 2 || run["frames"].(float64) < 1000 {
		t.Errorf("simulated %v, %d runs, %v frames", report["simulated"], len(runs), run["frames"])
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("no plot: %v", err)
	}
}

func TestHarnessSoCListAndFuzz(t *testing.T) {
	c := newConsole(t)
	if code := c.run("harness", "soc", "list", "--json"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, c.err.String())
	}
	var list map[string][]map[string]string
	if err := json.Unmarshal(c.out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"chips", "apps", "models", "tasks", "policies"} {
		if len(list[kind]) < 3 {
			t.Errorf("%s: %v", kind, list[kind])
		}
	}
	if code := c.run("harness", "fuzz", "--seeds", "5", "--seed", "9"); code != exitDone ||
		!strings.Contains(c.out.String(), "5 simulated games from seed 9: 0 broke a promise") {
		t.Errorf("fuzz: exit code %d\n%s%s", code, c.out.String(), c.err.String())
	}
	facts := filepath.Join(t.TempDir(), "facts.csv")
	text := "name,value,unit,condition,source,relation,kind,note\nbw_demand_b8,0.82,ratio,,paper,~,outcome,\n"
	if err := os.WriteFile(facts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := c.run("harness", "soc", "fit", facts, "--seconds", "1"); code != exitDone ||
		!strings.Contains(c.out.String(), "bw_demand_b8") ||
		!strings.Contains(c.out.String(), "median relative error") {
		t.Errorf("fit: exit code %d\n%s%s", code, c.out.String(), c.err.String())
	}
}
