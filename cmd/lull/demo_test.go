package main

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/scripted"
)

// shortDemo is a game of 240 frames a second that costs next to nothing.
func shortDemo() demoFlags {
	return demoFlags{hz: 240, loadMs: 0.1, workers: 1, seconds: 1, warmUp: 50 * time.Millisecond}
}

func scriptedConfig() local.Config {
	return local.Config{OpenModel: func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
		return scripted.New(scripted.Config{
			Clock: clock, Admit: admit, Context: 8192, Cost: scripted.Cost{LayerNS: 1e4, TokenNS: 10},
		})
	}}
}

func TestDemoHeadless(t *testing.T) {
	c := newConsole(t)
	f := shortDemo()
	f.json = toStandardOutput
	must(t, c.app.demoHeadless(t.Context(), f.setting(), f, scriptedConfig()))
	o := c.object()
	var order []string
	for _, r := range o["runs"].([]any) {
		run := r.(map[string]any)
		policy := run["policy"].(string)
		order = append(order, policy)
		if run["frames"].(float64) < 1 {
			t.Errorf("%s: no frame", policy)
		}
		if tokens := run["tokens"].(float64); (tokens > 0) != (policy != "native") {
			t.Errorf("%s: %v tokens", policy, tokens)
		}
	}
	if want := []string{"native", "vanilla", "lull", "native", "vanilla", "lull"}; !slices.Equal(order, want) {
		t.Errorf("runs %q, want %q", order, want)
	}
	if o["scenario"] != "demo" || o["interrupted"] != nil {
		t.Errorf("scenario %v, interrupted %v", o["scenario"], o["interrupted"])
	}
	if text := c.err.String(); !strings.Contains(text, "vanilla 1/2") {
		t.Errorf("progress %q names no run", text)
	}
}

func TestDemoHeadlessInterrupted(t *testing.T) {
	c := newConsole(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	f := shortDemo()
	err := c.app.demoHeadless(ctx, f.setting(), f, scriptedConfig())
	if code := exitCode(ctx, err); code != exitInterrupted {
		t.Errorf("exit code %d of %v, want 130", code, err)
	}
	if !strings.Contains(c.out.String(), "interrupted") {
		t.Errorf("output %q does not say that it is a part", &c.out)
	}
}

func TestDemoRefuses(t *testing.T) {
	c := newConsole(t)
	for _, change := range []func(*demoFlags){
		func(f *demoFlags) { f.hz = 0 },
		func(f *demoFlags) { f.hz = math.NaN() },
		func(f *demoFlags) { f.hz = math.Inf(1) },
		func(f *demoFlags) { f.loadMs = -1 },
		func(f *demoFlags) { f.loadMs = math.NaN() },
		func(f *demoFlags) { f.loadMs = 1e300 },
		func(f *demoFlags) { f.workers = 0 },
		func(f *demoFlags) { f.workers = 1 << 20 },
		func(f *demoFlags) { f.seconds = 0 },
		func(f *demoFlags) { f.seconds = math.NaN() },
		func(f *demoFlags) { f.seconds = 1e300 },
	} {
		f := shortDemo()
		change(&f)
		err := c.app.demo(t.Context(), f)
		var usage *usageError
		if !errors.As(err, &usage) {
			t.Errorf("%+v: error %v, want one of usage", f, err)
		}
	}
	if code := c.run("demo", "--headless", "--json="+filepath.Join(t.TempDir(), "no", "x")); code != exitFailed ||
		!strings.Contains(c.err.String(), "there is no folder") {
		t.Errorf("a folder that is not there: exit code %d, %q", code, &c.err)
	}
	code := c.run("demo", "--model", "nowhere.gguf")
	if code != exitFailed || !strings.Contains(c.err.String(), "nowhere") {
		t.Errorf("a missing model: exit code %d, %q", code, &c.err)
	}
}
