package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/calibrate"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/scheduler"
)

func TestCheckDevices(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"auto":                             "",
		" Auto ":                           "",
		"vulkan0":                          "",
		"prefill=Vulkan0, decode=CPU":      "",
		"decode=CPU,prefill=HTP0":          "",
		"prefill=Vulkan0":                  "one of the stages is missing",
		"prefill=,decode=CPU":              "prefill has no device",
		"prefill=A,prefill=B,decode=A":     "twice",
		"verify=A,decode=B":                `no stage is called "verify"`,
		"cpu,vulkan0":                      `no stage is called "cpu"`,
		"prefill=Vulkan0,decode=CPU,":      `no stage is called ""`,
		"offload=Vulkan0":                  "",
		"offload=Vulkan0,decode=CPU":       "offload stands alone",
		strings.Repeat("prefill=a,", 1000): "twice",
	} {
		err := CheckDevices(text)
		if want == "" && err != nil ||
			want != "" && (!errors.Is(err, ErrDevices) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v: want %q", text, err, want)
		}
	}
}

// What calibrate takes for a batch that a helper computes is what llama.cpp does.
func TestHelperLeast(t *testing.T) {
	if calibrate.HelperLeast != llamacpp.OffloadLeast {
		t.Errorf("a helper computes %d tokens and more, calibrate says %d", llamacpp.OffloadLeast,
			calibrate.HelperLeast)
	}
}

// measured is a profile of an example machine: tokens/s and J a token of prefill and
// decode on each device.
func measured(of map[string][4]float64) *calibrate.DeviceProfile {
	p := &calibrate.DeviceProfile{Version: calibrate.ProfileVersion, Model: "example", Complete: true,
		Weights: 100 << 20, KVBytes: 20 << 10, Energy: "ok"}
	kinds := map[string]string{"CPU": "cpu", "GPU0": "gpu", "HTP0": "npu"}
	ids := []string{"CPU", "GPU0", "HTP0"}
	for _, id := range ids {
		f, here := of[id]
		if !here {
			continue
		}
		p.Devices = append(p.Devices, calibrate.DeviceRow{ID: id, Kind: kinds[id]})
		for i, stage := range []string{calibrate.Prefill, calibrate.Decode} {
			p.Stages = append(p.Stages, calibrate.StageRow{Device: id, Stage: stage, Past: 256, Width: 1, Threads: 1,
				PerSecond: f[i], Joules: f[2+i], Batches: 9})
		}
		for _, to := range ids {
			if _, here := of[to]; here && to != id {
				p.Handovers = append(p.Handovers, calibrate.HandoverRow{From: id, To: to, Tokens: 256, Bytes: 1e6,
					Get: 2e6, Set: 2e6})
			}
		}
	}
	return p
}

// TestChoiceFollowsMeasurements: each order of devices leads to its own placement,
// and a device that no situation wants holds no copy of the weights.
func TestChoiceFollowsMeasurements(t *testing.T) {
	for name, c := range map[string]struct {
		of    map[string][4]float64
		menu  string
		hot   string
		holds string
	}{
		"CPU prefill, NPU decode": {map[string][4]float64{"CPU": {300, 8, .02, .9}, "HTP0": {200, 13, .01, .3}},
			"CPU>HTP0", "HTP0", "[CPU HTP0]"},
		"NPU prefill, CPU decode": {map[string][4]float64{"CPU": {60, 15, .1, .3}, "HTP0": {700, 9, .01, .4}},
			"HTP0>CPU", "HTP0>CPU", "[CPU HTP0]"},
		"GPU first": {map[string][4]float64{"CPU": {60, 10, .1, .9}, "GPU0": {900, 60, .05, .5}}, "GPU0", "GPU0",
			"[CPU GPU0]"},
		"a GPU of software": {map[string][4]float64{"CPU": {300, 50, .02, .2}, "GPU0": {2, .8, 5, 20}}, "CPU", "CPU",
			"[CPU]"},
		"no energy": {map[string][4]float64{"CPU": {60, 10, 0, 0}, "GPU0": {900, 60, 0, 0}}, "GPU0", "CPU",
			"[CPU GPU0]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got DeviceChoice
			p := measured(c.of)
			got.decide(p, PlacementFor(p, "", 1024), 2)
			if got.Why != "" {
				t.Fatal(got.Why)
			}
			menu, hot := got.Rows[0].Placement.String(), got.Rows[6].Placement.String()
			if menu != c.menu || hot != c.hot || fmt.Sprint(got.Holds) != c.holds {
				t.Errorf("menu %s, hot %s, held on %v: want %s, %s, %s", menu, hot, got.Holds, c.menu, c.hot, c.holds)
			}
			if want := len(got.Holds) - 1; len(got.placement.Devices) != want {
				t.Errorf("%v beside the first: want %d", got.placement.Devices, want)
			}
		})
	}
}

// TestChoiceHelper: where no second copy fits, a helper is taken if it makes replies
// shorter, and not where the copy for it loses more in the decode.
func TestChoiceHelper(t *testing.T) {
	for name, c := range map[string]struct {
		prefill, decode float64
		want            string
	}{"worth it": {900, 95, "GPU0"}, "slow": {2, 95, ""}, "the decode suffers": {900, 50, ""}} {
		t.Run(name, func(t *testing.T) {
			p := measured(map[string][4]float64{"CPU": {100, 100, 0, 0}, "GPU0": {900, 600, 0, 0}})
			row := calibrate.DeviceRow{ID: "CPU+GPU0", Kind: "cpu", Helper: "GPU0"}
			p.Devices = append(p.Devices, row)
			add := func(stage string, width int, rate float64) {
				p.Stages = append(p.Stages, calibrate.StageRow{Device: row.ID, Stage: stage, Past: 256, Width: width,
					Threads: 1, PerSecond: rate, Batches: 9})
			}
			add(calibrate.Prefill, 16, 95)
			add(calibrate.Prefill, 64, c.prefill)
			add(calibrate.Decode, 1, c.decode)
			place := PlacementFor(p, "", 1024)
			place.Profile.Budget = 400 << 20
			var got DeviceChoice
			got.decide(p, place, 2)
			if got.Why != "" || len(got.placement.Devices) != 0 || got.placement.Offload != c.want ||
				got.Rows[0].Placement.Offload != (c.want != "") || fmt.Sprint(got.Holds) != "[CPU]" {
				t.Errorf("%+v %+v", got, got.placement)
			}
			place = PlacementFor(p, "", 1024)
			place.Profile.Budget = 1 << 40
			got = DeviceChoice{}
			got.decide(p, place, 2)
			if got.placement.Offload != "" || fmt.Sprint(got.Holds) != "[CPU GPU0]" {
				t.Errorf("with memory for two copies: %+v %+v", got, got.placement)
			}
		})
	}
}

// TestHelperBatches: while the helper is not wanted, batches stay below what goes
// to it.
func TestHelperBatches(t *testing.T) {
	p, _ := placedOn(t, nil, "CPU")
	p.helper = "GPU0"
	r := &Runtime{placed: p, decision: scheduler.Decision{Prefill: "CPU", Decode: "CPU", PrefillChunk: 256}}
	r.apply()
	if g := r.grant(); g.PrefillChunk != llamacpp.OffloadLeast-1 {
		t.Errorf("a chunk of %d", g.PrefillChunk)
	}
	r.decision.Prefill, r.decision.Offload = "GPU0", true
	r.apply()
	if g := r.grant(); g.PrefillChunk != 256 {
		t.Errorf("a chunk of %d", g.PrefillChunk)
	}
}

// TestChoiceInMemory: what does not fit is not offered, and says so in numbers.
func TestChoiceInMemory(t *testing.T) {
	p := measured(map[string][4]float64{"CPU": {60, 10, 0, 0}, "GPU0": {900, 60, 0, 0}})
	place := PlacementFor(p, "", 1024)
	place.Profile.Budget = 300 << 20 // one copy of 100 MiB with its cache and buffers
	var got DeviceChoice
	got.decide(p, place, 2)
	i := slices.IndexFunc(got.Refused, func(r scheduler.Refusal) bool { return r.Placement.String() == "GPU0>CPU" })
	if i < 0 || !strings.Contains(got.Refused[i].Why, "the budget is 314572800") || len(got.Rows) == 0 {
		t.Errorf("%+v", got)
	}
	place.Profile.Budget = 50 << 20
	got = DeviceChoice{}
	got.decide(p, place, 2)
	if !strings.Contains(got.Why, "the budget is 52428800") || len(got.Rows) > 0 || got.placement != nil {
		t.Errorf("%+v", got)
	}
}

// storeProfile keeps a profile of this machine in cfg's cache, changed.
func storeProfile(t *testing.T, cfg *Config, change func(*calibrate.DeviceProfile)) (file string) {
	t.Helper()
	_, file, _, err := StoredProfile(cfg.Assets)
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v: want none yet", err)
	}
	all, _, err := chosenDevices(nil)
	if err != nil {
		t.Fatal(err)
	}
	print, err := llamacpp.FileFingerprint(cfg.Assets.Model)
	if err != nil {
		t.Fatal(err)
	}
	p := measured(map[string][4]float64{"CPU": {300, 50, 0, 0}})
	p.Hashes = profileKeys(print, "llama.cpp "+llamacpp.Version, all).Hashes()
	change(p)
	data, err := calibrate.EncodeProfile(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(file, data); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestDevicesAuto: whatever is wrong with the profile in the cache, it is the CPU,
// and one sentence says why.
func TestDevicesAuto(t *testing.T) {
	none := func(*testing.T, *Config) {}
	write := func(data []byte) func(*testing.T, *Config) {
		return func(t *testing.T, cfg *Config) {
			file := storeProfile(t, cfg, func(*calibrate.DeviceProfile) {})
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	library, _ := testassets.Locate(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		before func(*testing.T, *Config)
		note   string // "": none
	}{
		"nothing measured": {none, "run `lull calibrate`"},
		"fits": {func(t *testing.T, cfg *Config) {
			storeProfile(t, cfg, func(*calibrate.DeviceProfile) {})
		}, ""},
		"stale": {func(t *testing.T, cfg *Config) {
			storeProfile(t, cfg, func(p *calibrate.DeviceProfile) { p.Hashes[1], p.Hashes[0] = nil, nil })
		}, "stale, host, driver changed"},
		"does not fit": {func(t *testing.T, cfg *Config) {
			storeProfile(t, cfg, func(p *calibrate.DeviceProfile) { p.Weights = 1 << 45 })
		}, "need 35184"},
		"no CPU": {func(t *testing.T, cfg *Config) {
			storeProfile(t, cfg, func(p *calibrate.DeviceProfile) { p.Devices[0].Kind = "npu" })
		}, "no CPU"},
		"a device measured that is none of it": {func(t *testing.T, cfg *Config) {
			storeProfile(t, cfg, func(p *calibrate.DeviceProfile) { p.Stages[0].Device = "elsewhere" })
		}, `is of no use, scheduler: bad config: Figures[0]: no device "elsewhere"`},
		"empty":   {write(nil), "doesn't begin with"},
		"foreign": {write([]byte("GGUF, or whatever it is, and then more of it than a sum has")), "begin with"},
		"huge":    {write(make([]byte, 5<<20)), "at most"},
		"a folder": {func(t *testing.T, cfg *Config) {
			file := storeProfile(t, cfg, func(*calibrate.DeviceProfile) {})
			if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "x"), 0o755)); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, notes := realConfig(t)
			cfg.Spec.Speculation, cfg.Devices = SpeculateOff, "auto"
			c.before(t, &cfg)
			if err := cfg.placeByDevices(assets.Located{}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(*notes, "\n"); (c.note == "") != (got == "") || !strings.Contains(got, c.note) ||
				strings.Contains(got, "\n") {
				t.Errorf("notes %q: want one with %q", *notes, c.note)
			}
			if cfg.Device != "" || cfg.Placement != nil {
				t.Errorf("on %q %+v", cfg.Device, cfg.Placement)
			}
		})
	}
}

func TestDevicesNamed(t *testing.T) {
	cfg, notes := realConfig(t)
	cfg.Spec.Speculation = SpeculateOff
	for text, want := range map[string]error{"Vulkan77": llamacpp.ErrDevice,
		"prefill=cpu,decode=Vulkan77": llamacpp.ErrDevice, "prefill=cpu": ErrDevices} {
		cfg.Devices = text
		if r, err := Open(context.Background(), cfg); !errors.Is(err, want) {
			t.Errorf("%q: %v: want %v", text, err, want)
			if err == nil {
				r.Close()
			}
		}
	}
	cfg.Devices = "prefill=cpu,decode=Cpu"
	r, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if diff := cmp.Diff(append([]string{}, *notes...), []string{}); diff != "" || r.placed != nil {
		t.Errorf("one device holds one copy: %s", diff)
	}
	cfg.Device = "CPU"
	if r, err := Open(context.Background(), cfg); err == nil {
		r.Close()
		t.Error("Device and Devices together")
	}
}

// TestCalibrateNowhere: a cache that can't be written is told before anything is
// measured, and nothing is left there.
func TestCalibrateNowhere(t *testing.T) {
	cfg, _ := realConfig(t)
	folder := filepath.Join(cfg.Assets.CacheDir, profileFolder)
	if err := canKeep(folder); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if err := errors.Join(os.Remove(folder), os.WriteFile(folder, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	measured, err := Calibrate(context.Background(), CalibrateConfig{Assets: cfg.Assets})
	if measured != nil || err == nil || !strings.Contains(err.Error(), "can't be kept") ||
		!strings.Contains(err.Error(), assets.EnvCache) {
		t.Errorf("%v", err)
	}
}

// TestCalibrateTwice: two calibrations at once leave a profile that is one of theirs.
func TestCalibrateTwice(t *testing.T) {
	cfg, _ := realConfig(t)
	file := filepath.Join(cfg.Assets.CacheDir, profileFolder, "a profile")
	one := measured(map[string][4]float64{"CPU": {300, 50, 0, 0}})
	two := measured(map[string][4]float64{"CPU": {30, 5, 0, 0}})
	var group sync.WaitGroup
	for _, p := range []*calibrate.DeviceProfile{one, two} {
		data, err := calibrate.EncodeProfile(p)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for range 10 {
				if err := replaceFile(file, data); err != nil {
					t.Error(err)
				}
				if _, err := readDevices(file); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%v %v: want one file", left, err)
	}
}

// TestTwoFit: two copies of a model that is too large are refused in numbers.
func TestTwoFit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "huge.gguf")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Devices: "prefill=Vulkan0,decode=CPU"}
	if err := cfg.twoFit(file); err != nil {
		t.Errorf("an empty one: %v", err)
	}
	if err := os.Truncate(file, 1<<42); err != nil {
		t.Skipf("no file with holes here: %v", err)
	}
	if err := cfg.twoFit(file); err == nil || !strings.Contains(err.Error(), "the budget is") {
		t.Skip("this system doesn't say how much memory is free")
	}
}
