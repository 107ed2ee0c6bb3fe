package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness"
)

// Whatever is wrong with the arguments ends with 2, says what and where in
// words of our own, and what to do.
func TestUsageErrors(t *testing.T) {
	c := newConsole(t)
	for _, x := range []struct {
		args string
		says string
		hint string
	}{
		{"asets", `lull has no command "asets"`, "did you mean assets?"},
		{"assets lits", `lull assets has no command "lits"`, "did you mean list?"},
		{"harness nonsense", `lull harness has no command "nonsense"`,
			"want one of contention, fuzz, list, run, selftest, soc"},
		{"harness --json rnu", `lull harness has no command "rnu"`, "did you mean run?"},
		{"help nonsense", `lull has no command "nonsense"`, "want one of "},
		{"help harness rin", `lull harness has no command "rin"`, "did you mean run?"},
		{"help doctor x", `lull doctor has no commands, so no "x"`, "lull doctor --help"},
		{"completion nonsense", `lull completion has no command "nonsense"`, "want one of bash"},
		{"--nonsense", "lull has no flag --nonsense", "lull --help"},
		{"-z", "lull has no flag -z", "lull --help"},
		{"assets fetch --nonsense", "lull assets fetch has no flag --nonsense", "lull assets fetch --help"},
		{"harness run tavern --polcy native", "lull harness run has no flag --polcy", "did you mean --policy?"},
		{"harness run tavern --policy", "--policy wants a value: --policy NAMES", "lull harness run --help"},
		{"harness run tavern --repeat x", `--repeat "x": want a whole number`, "lull harness run --help"},
		{"harness run tavern --seed -1", `--seed "-1": want a whole number from 0`, "lull harness run --help"},
		{"harness run tavern --seed 99999999999999999999", "not so large", "lull harness run --help"},
		{"harness run tavern --seconds x", `--seconds "x": want a number`, "lull harness run --help"},
		{"doctor --json=maybe", `--json "maybe": want true or false`, "lull doctor --help"},
		{"assets where a b", `lull assets where wants [NAME], and got "a" "b"`, "lull assets where --help"},
		{"assets list a", `lull assets list takes no argument, and got "a"`, "lull assets list --help"},
		{"devices x", `lull devices takes no argument, and got "x"`, "lull devices --help"},
		{"quant-check", "lull quant-check wants A B, and got nothing", "lull quant-check --help"},
		{"quant-check a", `lull quant-check wants A B, and got "a"`, "lull quant-check --help"},
		{"quant-check a b --max-ratio NaN", "--max-ratio NaN: want a finite number", "lull quant-check --help"},
		{"quant-check a b --max-ratio Inf", "--max-ratio +Inf: want a finite number", "lull quant-check --help"},
		{"quant-check a b --max-ratio 0", "--max-ratio 0: want more than 0", ""},
		{"quant-check a b --max-ratio -1", "--max-ratio -1: want more than 0", ""},
		{"quant-check a b --min-agreement 2", "--min-agreement 2: want 0…1", ""},
		{"quant-check a b --window 7", "--window 7: want 8…1024", ""},
		{"demo x", `takes no argument, and got ["x"]`, "lull demo --help"},
		{"demo --hz 5", "--hz 5: want 10…480", ""},
		{"demo --workers 0", "--workers 0: want 1…", ""},
		{"demo --load-ms NaN", "--load-ms NaN: want a finite number", ""},
		{"demo --headless --seconds 0", "--seconds 0: want 1…3600", ""},
		{"assets fetch --all lib", "exclude each other", ""},
		{"assets fetch nothing", "fetch nothing: no such asset", "known names"},
		{"completion bash x", `takes no argument, and got "x"`, "lull completion bash --help"},
	} {
		code := c.run(strings.Fields(x.args)...)
		told := c.err.String()
		if code != exitUsage || !strings.Contains(told, x.says) || !strings.Contains(told, x.hint) {
			t.Errorf("%s: exit code %d, %q, want 2, %q and %q", x.args, code, told, x.says, x.hint)
		}
		if asked := wantsObject(strings.Fields(x.args)); (c.out.Len() > 0) != asked {
			t.Errorf("%s: standard output has %q", x.args, &c.out)
		}
	}
}

// With --json, an error is an object too, in every command and at every stage.
func TestErrorsAsJSON(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	bad := writeTemp(t, "bad.yaml", "name: 5\n")
	for _, x := range []struct {
		args []string
		code int
	}{
		{[]string{"--json", "asets"}, exitUsage},
		{[]string{"chat", "a", "b", "--json"}, exitUsage},
		{[]string{"chat", "nobody", "--json"}, exitUsage},
		{[]string{"npc", "explain", "nobody.yaml", "--say", "hi", "--json"}, exitFailed},
		{[]string{"doctor", "--json", "--nonsense"}, exitUsage},
		{[]string{"devices", "--nonsense", "--json=true"}, exitUsage},
		{[]string{"devices", "--json", "--llama-lib", dir}, exitFailed},
		{[]string{"frames", "--json"}, exitUsage},
		{[]string{"frames", "--json", filepath.Join(dir, "none.csv")}, exitFailed},
		{[]string{"quant-check", "--json", "a"}, exitUsage},
		{[]string{"quant-check", "a.gguf", "b.gguf", "--json", "--llama-lib", dir}, exitFailed},
		{[]string{"bench", "engine", "--json", "--rounds", "0"}, exitUsage},
		{[]string{"harness", "list", "--json", "x"}, exitUsage},
		{[]string{"harness", "run", "nowhere", "--json"}, exitUsage},
		{[]string{"harness", "run", "--json", "--nonsense"}, exitUsage},
		{[]string{"harness", "run", "--json", "-", bad}, exitFailed},
		{[]string{"harness", "run", bad, "--json=-"}, exitFailed},
		{[]string{"harness", "run", "tavern", "--json", "--model", "nowhere.gguf", "--llama-lib", dir}, exitFailed},
		{[]string{"demo", "--json", "--hz", "1"}, exitUsage},
		{[]string{"demo", "--json", "--model", "nowhere.gguf", "--llama-lib", dir}, exitFailed},
		{[]string{"assets", "fetch", "nothing", "--json"}, exitUsage},
		{[]string{"assets", "list", "x", "--json"}, exitUsage},
	} {
		code := c.run(x.args...)
		if code != x.code {
			t.Errorf("%v: exit code %d, want %d", x.args, code, x.code)
		}
		message, told := "", c.err.String()
		if e, ok := c.object()["error"].(map[string]any); ok {
			message = e["message"].(string)
		}
		if message == "" || !strings.Contains(told, message) {
			t.Errorf("%v: message %q, standard error %q", x.args, message, told)
		}
	}
	file := filepath.Join(dir, "report.json")
	for _, args := range [][]string{
		{"harness", "run", "nowhere", "--json", file}, {"harness", "run", "tavern", "--json", file, "--nonsense"},
		{"harness", "run", "nowhere", "--json=" + file}, {"frames", "--json=false"}, {"chat", "a", "b"},
	} {
		if code := c.run(args...); code != exitUsage || c.out.Len() > 0 {
			t.Errorf("%v: exit code %d, standard output %q, want none", args, code, &c.out)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an error went into the report's file")
	}
}

// A command that has told all in its object gets no second one.
func TestOneObject(t *testing.T) {
	c := newConsole(t)
	if code := c.run("doctor", "--json", "--llama-lib", t.TempDir()); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if o := c.object(); o["ok"] != false || o["error"] != nil {
		t.Errorf("%v", o)
	}
}

// Packages are for developers: people see flags, files and what went wrong, and
// the cause can still be found.
func TestPlain(t *testing.T) {
	cause := fmt.Errorf("harness: bad scenario: load: 3 workers: %w", fmt.Errorf("llm: assets: %w", os.ErrNotExist))
	if got := plain(cause); got != "bad scenario: 3 workers: file does not exist" {
		t.Errorf("%q", got)
	}
	if got := plain(errors.Join(errors.New("demo: a"), errors.New("my demo: b"))); got != "a\nmy demo: b" {
		t.Errorf("%q", got)
	}
	err := &usageError{err: under("--slo", harness.ErrScenario, fmt.Errorf("%w: %w", harness.ErrScenario, os.ErrExist))}
	if err.Error() != "--slo: file already exists" || !errors.Is(err, os.ErrExist) ||
		!errors.Is(err, harness.ErrScenario) {
		t.Errorf("%v", err)
	}
}

// No float flag of any command takes what is no number.
func TestFloatFlagsAreFinite(t *testing.T) {
	c := newConsole(t)
	tried := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "--"), " ")
			f := cmd.Flag(name)
			if f == nil || f.Value.Type() != "float64" {
				continue
			}
			tried++
			args := strings.Fields(cmd.CommandPath())[1:]
			for range strings.Count(cmd.Use, " ") {
				args = append(args, "x")
			}
			for _, v := range []string{"NaN", "Inf", "-Inf", "1e999"} {
				code := c.run(append(slices.Clone(args), "--"+name+"="+v)...)
				if code != exitUsage || !strings.Contains(c.err.String(), "--"+name) {
					t.Errorf("%v --%s=%s: exit code %d, %q", args, name, v, code, &c.err)
				}
			}
		}
	}
	visit(newRoot(c.app))
	if tried < 9 {
		t.Errorf("only %d flags found", tried)
	}
}

// Limits of the engine are told by the flag that broke them.
func TestFlagOf(t *testing.T) {
	cause := errors.New("local: llamacpp: Context -5, want 64…1048576")
	err := flagOf(cause)
	if exitCode(t.Context(), err) != exitUsage || err.Error() != "--context -5: want 64…1048576" ||
		!errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	other := errors.New("llamacpp: MaxBatch 5, want 1…2")
	if flagOf(other) != other || flagOf(nil) != nil {
		t.Error("other errors change")
	}
}

// A text that is too short, and a model that is nowhere.
func TestQuantCheckFails(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "libllama.so"), nil, 0o600))
	for _, x := range []struct{ args, says string }{
		{"nope nope2 --llama-lib " + dir, `"nope" is no GGUF file and no model's name`},
		{"a b --text " + filepath.Join(dir, "none.txt"), "--text: open "},
		{"a b --llama-lib " + filepath.Join(dir, "none"), "--llama-lib"},
	} {
		code := c.run(append([]string{"quant-check"}, strings.Fields(x.args)...)...)
		if code != exitFailed || !strings.Contains(c.err.String(), x.says) {
			t.Errorf("%s: exit code %d: %s", x.args, code, &c.err)
		}
	}
}

func TestSteps(t *testing.T) {
	c := newConsole(t)
	now := time.Unix(0, 0)
	c.app.ui.now = func() time.Time { return now }
	s := c.app.ui.steps("model")
	s.set(1, 10)
	now = now.Add(plainEvery)
	s.set(5, 10)
	s.set(6, 0)
	s.clear()
	if got, want := c.err.String(), "lull: model …\nlull: model: 50 %\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.err.Reset()
	c.app.ui.errTerminal = true
	s = c.app.ui.steps("model")
	for i := range 12 {
		s.set(i, 10)
	}
	s.clear()
	if text := c.err.String(); !strings.Contains(text, "50%") || strings.Contains(text, "\n") {
		t.Errorf("%q", text)
	}
	c.err.Reset()
	c.app.ui.quiet = true
	s = c.app.ui.steps("model")
	s.set(1, 1)
	s.clear()
	if c.err.Len() > 0 {
		t.Errorf("with --quiet: %q", &c.err)
	}
}

// Odd surroundings: no panic, the right exit code, and no colour where none is
// wanted.
func TestOddSurroundings(t *testing.T) {
	c := newConsole(t)
	scenario := writeTemp(t, "brief.yaml", brief)
	capture := writeTemp(t, "a.csv", smallCapture)
	commands := map[string]int{
		"--help": exitDone, "--version": exitDone, "assets list": exitDone, "harness list": exitDone,
		"harness selftest --help": exitDone, "harness run --definitions": exitDone,
		"harness run --policy native --repeat 1 " + scenario: exitDone,
		"frames " + capture: exitDone, "frames --json " + capture: exitDone, "frames --definitions": exitDone,
		"frames -": exitFailed, "devices --llama-lib nowhere": exitFailed,
		"doctor --llama-lib nowhere": exitFailed, "assets verify": exitDone, "nonsense": exitUsage,
		"demo --headless --llama-lib nowhere": exitFailed, "quant-check a b --llama-lib nowhere": exitFailed,
		"bench engine --llama-lib nowhere": exitFailed, "completion bash": exitDone,
	}
	surroundings := [][]string{
		{"COLUMNS=40", "LINES=3", "NO_COLOR=1", "LANG=tr_TR.UTF-8"},
		{"COLUMNS=-5", "TERM=dumb", "LANG=C", "LC_ALL=xx_XX.nonsense"},
	}
	for _, env := range surroundings {
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		for line, want := range commands {
			code := c.run(strings.Fields(line)...) // standard input is empty
			out := c.out.String() + c.err.String()
			if code != want || strings.Contains(out, "\x1b") || out == "" {
				t.Errorf("%q, %s: exit code %d, want %d: %s", env, line, code, want, out)
			}
		}
	}
}

// A result that could not be written is no success.
func TestLostOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here:", err)
	}
	defer full.Close()
	c := newConsole(t)
	scenario := writeTemp(t, "brief.yaml", brief)
	capture := writeTemp(t, "a.csv", smallCapture)
	for line, want := range map[string]int{
		"--help": exitFailed, "--version": exitFailed, "help harness": exitFailed, "assets list": exitFailed,
		"assets list --json": exitFailed, "harness list": exitFailed, "harness run --definitions": exitFailed,
		"harness run --policy native --repeat 1 " + scenario: exitFailed, "frames " + capture: exitFailed,
		"frames --json " + capture: exitFailed, "harness": exitFailed, "completion bash": exitFailed,
		"nonsense --json": exitUsage,
	} {
		c.err.Reset()
		code := run(t.Context(), strings.Fields(line), newApp(strings.NewReader(""), full, &c.err))
		if code != want || want == exitFailed && !strings.Contains(c.err.String(), "no space left") {
			t.Errorf("%s: exit code %d, want %d: %s", line, code, want, &c.err)
		}
	}
}

func TestErrorObjectShape(t *testing.T) {
	c := newConsole(t)
	c.app.ui.json = true
	c.app.ui.failureObject(hinted{errors.New("assets: it broke"), "mend it"})
	want := "{\n  \"error\": {\n    \"message\": \"it broke\",\n    \"hint\": \"mend it\"\n  }\n}\n"
	if c.out.String() != want || !json.Valid(c.out.Bytes()) {
		t.Errorf("%s", &c.out)
	}
}
