package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/calibrate"
)

func TestCalibrateUsage(t *testing.T) {
	c := newConsole(t)
	for _, args := range [][]string{{"calibrate", "--budget", "1ms"}, {"calibrate", "--budget", "2h"},
		{"calibrate", "all"}, {"device-profile", "show", "this"}} {
		if code := c.run(args...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, &c.err)
		}
	}
}

// TestCalibrateRoundTrip measures the real model for a second in a cache of its
// own, and shows what was kept.
func TestCalibrateRoundTrip(t *testing.T) {
	library, model := testassets.Locate(t)
	c := newConsole(t)
	from := []string{"--llama-lib", library, "--model", model}
	if code := c.run(append(from, "device-profile", "show")...); code != exitFailed ||
		!strings.Contains(c.err.String(), "lull calibrate") {
		t.Errorf("nothing was measured: %d %s", code, &c.err)
	}
	if code := c.run(append(from, "calibrate", "--device", "TPU9")...); code != exitFailed ||
		!strings.Contains(c.err.String(), "TPU9") {
		t.Errorf("no such device: %d %s", code, &c.err)
	}
	measure := append(from, "calibrate", "--quick", "--budget", "1s", "--device", "cpu", "--json")
	if code := c.run(measure...); code != 0 {
		t.Fatalf("%d %s", code, &c.err)
	}
	measured := c.object()
	if code := c.run(append(from, "device-profile", "show", "--json")...); code != 0 {
		t.Fatalf("%d %s", code, &c.err)
	}
	kept := c.object()
	stages, _ := measured["stages"].([]any)
	same, _ := kept["stages"].([]any)
	stale, _ := kept["stale"].([]any)
	if len(stages) == 0 || len(same) != len(stages) || len(stale) != 0 || kept["complete"] != true {
		t.Errorf("measured %d stages, kept %d, stale by %v", len(stages), len(same), stale)
	}
}

func shownProfile() *calibrate.DeviceProfile {
	return &calibrate.DeviceProfile{Version: calibrate.ProfileVersion, Model: "a model", Library: "llama.cpp v0.5.0",
		Took: time.Minute, Energy: "ok",
		Stages: []calibrate.StageRow{{Device: "CPU", Stage: calibrate.Decode, Past: 32, Width: 1, Threads: 2,
			PerSecond: 40.04, Spread: 0.1, Batches: 9, Joules: 0.25}},
		Handovers: []calibrate.HandoverRow{{From: "CPU", To: "HTP0", Tokens: 32, Bytes: 7e5, Get: 1e6, Set: 2e6}},
		Interference: []calibrate.InterferenceRow{{Device: "CPU", Stage: calibrate.Decode, Alone: 5e6, Beside: 8e6,
			Share: 0.6}},
		Verify:  []calibrate.VerifyRow{{Device: "CPU", Threads: 2, Width: 4, Ratio: 1.9}},
		Skipped: []calibrate.SkippedRow{{Task: "HTP0 decode", Why: "too\x1b slow"}},
	}
}

func TestShowProfile(t *testing.T) {
	c := newConsole(t)
	if err := c.app.showProfile(shownProfile(), "", []string{"driver", "model"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"40.0", "0.250", "1.00 ms", "0.60", "1.90",
		"left out: HTP0 decode: too\uFFFD slow"} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("no %q in\n%s", want, &c.out)
		}
	}
	if !strings.Contains(c.err.String(), "stale: driver, model") || !strings.Contains(c.err.String(), "interrupted") {
		t.Errorf("%s", &c.err)
	}
	c.out.Reset()
	c.app.json, c.app.ui.json = true, true
	if err := c.app.showProfile(shownProfile(), "/a/file", nil); err != nil {
		t.Fatal(err)
	}
	var v struct {
		Stages []struct {
			PerSecond float64 `json:"tokens_per_s"`
		}
		Stale    []string
		File     string
		Complete bool
	}
	if err := json.Unmarshal(c.out.Bytes(), &v); err != nil || len(v.Stages) != 1 ||
		math.Abs(v.Stages[0].PerSecond-40.04) > 1e-9 || v.Stale == nil || v.File != "/a/file" || v.Complete {
		t.Errorf("%v %+v", err, v)
	}
}
