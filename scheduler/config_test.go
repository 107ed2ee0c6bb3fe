package scheduler

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for p := Balanced; p <= Custom; p++ {
		if got, err := ParsePreset(p.String()); err != nil || got != p {
			t.Errorf("ParsePreset(%q) = %v, %v", p, got, err)
		}
		if err := DefaultConfig().WithPreset(p).Validate(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	ui, llm := DefaultConfig().WithPreset(UIFirst), DefaultConfig().WithPreset(LLMFirst)
	if !(ui.LateAllowance < llm.LateAllowance && ui.FloorTokensPerSecond < llm.FloorTokensPerSecond &&
		ui.ContentionTarget < llm.ContentionTarget) {
		t.Errorf("ui-first %+v allows more than llm-first %+v", ui, llm)
	}
	mine := DefaultConfig()
	mine.LateAllowance = 0.02
	if got := mine.WithPreset(Custom); got.LateAllowance != 0.02 || got.Preset != Custom {
		t.Errorf("custom changed %+v", got)
	}
	if _, err := ParsePreset("fast"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "ui-first") {
		t.Errorf("ParsePreset(fast): %v: want ErrConfig with the choices", err)
	}
}

func TestConfigBounds(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"Preset":               func(c *Config) { c.Preset = 9 },
		"Features":             func(c *Config) { c.Features = 1 << 12 },
		"MaxThreads":           func(c *Config) { c.MaxThreads = 0 },
		"Layers":               func(c *Config) { c.Layers = -1 },
		"MaxPrefillChunk":      func(c *Config) { c.MaxPrefillChunk = 0 },
		"Draft":                func(c *Config) { c.Draft = 7 },
		"MaxVerifyWidth":       func(c *Config) { c.MaxVerifyWidth = 0 },
		"LateAllowance":        func(c *Config) { c.LateAllowance = math.NaN() },
		"FloorTokensPerSecond": func(c *Config) { c.FloorTokensPerSecond = math.Inf(1) },
		"StartOpenness":        func(c *Config) { c.StartOpenness = 1.1 },
		"ContentionTarget":     func(c *Config) { c.ContentionTarget = math.NaN() },
		"Headroom":             func(c *Config) { c.Headroom = -1 },
		"StepBack":             func(c *Config) { c.StepBack = 0 },
		"MarginMax":            func(c *Config) { c.MarginMax = 1 },
		"StopQuantum":          func(c *Config) { c.StopQuantum = 0 },
		"TakeBack":             func(c *Config) { c.TakeBack = -1 },
		"FloorSpan":            func(c *Config) { c.FloorSpan = time.Hour },
		"Dwell":                func(c *Config) { c.Dwell = -1 },
		"Devices":              func(c *Config) { c.Devices.Default = "" },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		_, err := New(cfg, 0)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v: want ErrConfig that names the field", field, err)
		}
	}
}

func TestFeatures(t *testing.T) {
	f, err := ParseFeatures(" window, bucket,,")
	if err != nil || f != FeatureWindow|FeatureBucket || f.String() != "window,bucket" {
		t.Errorf("got %v, %v", f, err)
	}
	if f, err = ParseFeatures(AllFeatures.String()); err != nil || f != AllFeatures {
		t.Errorf("all: got %v, %v", f, err)
	}
	if f, err = ParseFeatures(""); err != nil || f != 0 || f.String() != "" {
		t.Errorf("none: got %v, %v", f, err)
	}
	if _, err = ParseFeatures("window,turbo"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), `"turbo"`) {
		t.Errorf("turbo: %v", err)
	}
	if strings.Join(FeatureNames(), ",") != AllFeatures.String() {
		t.Errorf("FeatureNames %v differ from %v", FeatureNames(), AllFeatures)
	}
}

// TestWithout: each feature switches off the thing it names, and only then.
func TestWithout(t *testing.T) {
	has := func(r []result, f func(Decision) bool) bool {
		for _, x := range r {
			if f(x.decision) {
				return true
			}
		}
		return false
	}
	find := func(name string) scenario {
		for _, sc := range scenarios() {
			if sc.name == name {
				return sc
			}
		}
		t.Fatalf("no scenario %q", name)
		return scenario{}
	}
	for _, c := range []struct {
		feature  Features
		scenario string
		shows    func(Decision) bool
	}{
		{FeatureWindow, "cpu-bound", func(d Decision) bool { return d.Gate == GateWindow }},
		{FeatureLowPrio, "high-start", func(d Decision) bool { return d.Openness > 0.8 }},
		{FeatureThreads, "never-yields", func(d Decision) bool { return d.Threads < 2 }},
		{FeatureProbe, "over-budget", func(d Decision) bool { return d.Reason == ReasonProbe }},
		{FeatureFeedback, "step", func(d Decision) bool { return d.Openness != 0.5 }},
		{FeatureBucket, "never-yields", func(d Decision) bool { return d.Reason == ReasonFloorRelax }},
		{FeatureBucket, "starved", func(d Decision) bool { return d.Reason == ReasonFloorOff }},
	} {
		var sc scenario
		if c.scenario == "high-start" {
			sc = scenario{plant: game(constant(9)), frames: 10}
			sc.config = func(cfg *Config) { cfg.StartOpenness = 0.9 }
		} else {
			sc = find(c.scenario)
		}
		if !has(sc.run(t), c.shows) {
			t.Errorf("%v on, %s: does not show", c.feature, c.scenario)
		}
		sc.frames = min(sc.frames, 600)
		before := sc.config
		if c.scenario != "high-start" { // streams are consumed: take fresh ones
			sc.plant = find(c.scenario).plant
		} else {
			sc.plant = game(constant(9))
		}
		sc.config = func(cfg *Config) {
			if before != nil {
				before(cfg)
			}
			cfg.Features &^= c.feature
		}
		r := sc.run(t)
		if has(r, c.shows) {
			t.Errorf("%v off, %s: shows nevertheless", c.feature, c.scenario)
		}
		for _, x := range r {
			checkBounds(t, x.decision)
		}
	}
}
