package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// devices are scripted models, whose time is virtual: a layer takes what cost says.
func devices(t testing.TB, clock llm.Clock, costs ...time.Duration) []Device {
	t.Helper()
	var out []Device
	for i, c := range costs {
		m, err := scripted.New(scripted.Config{Context: 2048, MaxBatch: 256, Clock: clock, Threads: 2,
			Cost: scripted.Cost{LayerNS: float64(c)}})
		if err != nil {
			t.Fatal(err)
		}
		d := Device{Row: DeviceRow{ID: fmt.Sprintf("D%d", i), Kind: "cpu"}, Model: m, Threads: []int{2}}
		if i > 0 {
			d.Row.Kind = "npu"
		}
		out = append(out, d)
	}
	return out
}

func freshProfile() *DeviceProfile { return &DeviceProfile{Version: ProfileVersion, Model: "scripted"} }

// TestFigures: on a virtual clock the figures are those of the cost model.
func TestFigures(t *testing.T) {
	clock := scripted.NewClock(0)
	ctx, cancel := context.WithCancelCause(context.Background())
	over := errors.New("enough")
	p := freshProfile()
	joules := 0.0
	cfg := Config{Devices: devices(t, clock, time.Millisecond, 4*time.Millisecond), Now: clock.Now,
		Budget: 1000 * time.Hour, // beside the frame loop virtual time runs as fast as it can
		Frame:  func() time.Duration { return 5 * time.Millisecond },
		Energy: func() (float64, string) { // 10 W
			joules = 10 * float64(clock.Now()) / 1e9
			return joules, ""
		},
		Progress: func(_, _ int, task string) {
			if strings.HasPrefix(task, "layers") {
				cancel(over)
			}
		}}
	if err := Run(ctx, cfg, p); !errors.Is(err, over) {
		t.Fatalf("%v, want the cause of the cancel", err)
	}
	if p.Complete {
		t.Error("an interrupted profile counts as complete")
	}
	layers := float64(cfg.Devices[0].Model.Info().Layers)
	seen := map[string]bool{}
	for _, r := range p.Stages {
		each := 0.001
		if r.Device == "D1" {
			each = 0.004
		}
		if r.Width != 1 {
			continue
		}
		want := 1 / (each * layers)
		if math.Abs(r.PerSecond-want) > want/50 || r.Spread > 0.01 || math.Abs(r.Joules-10/want) > 1 {
			t.Errorf("%+v: want %.1f tokens/s, %.3f J", r, want, 10/want)
		}
		seen[fmt.Sprint(r.Device, r.Stage, r.Past)] = true
	}
	if !seen["D0decode32"] || !seen["D1decode1024"] || len(p.Handovers) != 6 || len(p.Skipped) > 0 {
		t.Errorf("%v, %d hand-overs, skipped %v", seen, len(p.Handovers), p.Skipped)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// TestResume: an interrupted run goes on where it was, and everything is
// measured once.
func TestResume(t *testing.T) {
	real := llm.NewClock()
	p := freshProfile()
	var order []string
	saved := 0
	cfg := Config{Devices: devices(t, real, 10*time.Microsecond, 10*time.Microsecond), Now: real.Now, Quick: true,
		Frame: func() time.Duration { return time.Millisecond },
		Save: func(p *DeviceProfile) error {
			saved++
			_, err := EncodeProfile(p)
			return err
		}}
	for stopAfter := 4; !p.Complete; stopAfter += 4 {
		ctx, cancel := context.WithCancel(context.Background())
		cfg.Progress = func(done, of int, task string) {
			if done == stopAfter && done < of {
				cancel()
			}
			order = append(order, task)
		}
		if err := Run(ctx, cfg, p); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		data, err := EncodeProfile(p)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = DecodeProfile(data); err != nil { // as the next process reads it
			t.Fatal(err)
		}
		if len(order) > 1000 {
			t.Fatal("it never ends")
		}
	}
	names := map[string]int{}
	for _, r := range p.Stages {
		names[fmt.Sprint(r.Device, r.Stage, r.Past, r.Width, r.Threads)]++
	}
	for _, r := range p.Interference {
		names["i"+r.Device+r.Stage]++
		if r.Share != 0 || r.Frames != framesEach*turnsEach {
			t.Errorf("%+v: every frame takes the same", r)
		}
	}
	for n, times := range names {
		if times != 1 {
			t.Errorf("%s was measured %d times", n, times)
		}
	}
	if len(p.Stages) != 8 || len(p.Interference) != 4 || len(p.Handovers) != 4 || len(p.Layers) < 2 || saved == 0 ||
		len(p.Skipped) > 0 || p.Energy != "nothing measures it" {
		t.Errorf("%d stages, %d interference, %d hand-overs, %d layers, skipped %v, energy %q", len(p.Stages),
			len(p.Interference), len(p.Handovers), len(p.Layers), p.Skipped, p.Energy)
	}
}

// TestInterference: frames that take twice as long beside a stage score 1.
func TestInterference(t *testing.T) {
	real := llm.NewClock()
	list := devices(t, real, 100*time.Microsecond)
	m := list[0].Model
	p := freshProfile()
	frame := 0
	cfg := Config{Devices: list, Now: real.Now, Quick: true, Frame: func() time.Duration {
		turn := frame / (framesWarm + framesEach)
		frame++
		_, before := m.Gate().Activity()
		if turn%2 == 0 {
			return 5 * time.Millisecond
		}
		for { // a batch runs beside
			real.WaitUntil(real.Now()+int64(20*time.Microsecond), nil)
			if _, now := m.Gate().Activity(); now != before {
				return 10 * time.Millisecond
			}
		}
	}}
	r := &run{cfg: cfg, p: p, budget: time.Hour, spans: map[string]time.Duration{}, states: map[int][]byte{}}
	if err := r.interference(context.Background(), &list[0], Decode); err != nil {
		t.Fatal(err)
	}
	if got := p.Interference[0]; got.Share != 1 || got.Alone != 5*time.Millisecond {
		t.Errorf("%+v", got)
	}
}

// failing is a model whose every batch fails.
type failing struct{ *scripted.Model }

func (failing) Decode(*llm.Batch, llm.Grant) (llm.Work, error) {
	return llm.Work{}, errors.New("the driver crashed")
}

// TestDeviceFails: a device that can't compute is named, and the other measured.
func TestDeviceFails(t *testing.T) {
	real := llm.NewClock()
	list := devices(t, real, 10*time.Microsecond, 10*time.Microsecond)
	list[1].Model = failing{list[1].Model.(*scripted.Model)}
	p := freshProfile()
	if err := Run(context.Background(), Config{Devices: list, Now: real.Now, Quick: true,
		Frame: func() time.Duration { return time.Millisecond }}, p); err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 4 || !p.Complete || len(p.Skipped) < 4 || !strings.Contains(p.Skipped[0].Why, "crashed") {
		t.Errorf("%d stages, skipped %v", len(p.Stages), p.Skipped)
	}
}

// TestTooSlow: what would take a tenth of the budget in one batch is left out
// and named.
func TestTooSlow(t *testing.T) {
	clock := scripted.NewClock(0)
	p := freshProfile()
	ctx, cancel := context.WithCancel(context.Background())
	err := Run(ctx, Config{Devices: devices(t, clock, time.Second), Now: clock.Now,
		Budget: time.Minute, Frame: func() time.Duration { return 1 },
		Progress: func(_, _ int, task string) {
			if strings.HasPrefix(task, "frames") {
				cancel()
			}
		}}, p)
	if !errors.Is(err, context.Canceled) || len(p.Skipped) == 0 {
		t.Errorf("%v %+v", err, p.Skipped)
	}
	for _, s := range p.Skipped {
		if s.Task == "" || s.Why == "" {
			t.Errorf("%+v", s)
		}
	}
}

func sample() *DeviceProfile {
	p := freshProfile()
	p.Hashes = Keys{"host", "driver", "library", "model"}.Hashes()
	p.Weights, p.KVBytes = 1e8, 23040
	p.Devices = []DeviceRow{{"CPU", "a processor", "CPU", "cpu", 8 << 30, ""},
		{"HTP0", "an NPU", "HTP", "npu", 4 << 30, ""}}
	for _, d := range []string{"CPU", "HTP0"} {
		for _, past := range []int{32, 256} {
			p.Stages = append(p.Stages, StageRow{d, Prefill, past, 64, 1, 100, 0.1, 5, 0},
				StageRow{d, Prefill, past, 64, 2, 200, 0.1, 5, 0.02}, StageRow{d, Decode, past, 1, 2, 30, 0.1, 5, 0.5})
		}
	}
	p.Handovers = []HandoverRow{{"CPU", "HTP0", 32, 700e3, time.Millisecond, time.Millisecond},
		{"CPU", "HTP0", 256, 5e6, 5 * time.Millisecond, 4 * time.Millisecond},
		{"HTP0", "CPU", 32, 700e3, time.Millisecond, time.Millisecond}}
	p.Interference = []InterferenceRow{{"CPU", Decode, 5e6, 8e6, 0.6, 60}}
	p.Verify = []VerifyRow{{"CPU", 2, 4, 1.9}}
	p.Layers = []LayerRow{{"CPU", 1, 2, []time.Duration{4e5, 4e5}, 3e4}}
	p.Skipped = []SkippedRow{{"HTP0 decode", "too slow"}}
	return p
}

func TestProfileStored(t *testing.T) {
	p := sample()
	data, err := EncodeProfile(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeProfile(data)
	if err != nil || !cmp.Equal(p, got) {
		t.Errorf("%v %s", err, cmp.Diff(p, got))
	}
	if s := got.Stale(Keys{"host", "driver", "library", "model"}); len(s) != 0 {
		t.Errorf("stale by %v", s)
	}
	if s := got.Stale(Keys{"host", "a newer driver", "library", "another model"}); !slices.Equal(s,
		[]string{"driver", "model"}) {
		t.Errorf("stale by %v", s)
	}
	spoilt := slices.Clone(data)
	spoilt[len(spoilt)-1] ^= 1
	for name, d := range map[string][]byte{"empty": nil, "cut": data[:len(data)-2], "changed": spoilt,
		"another file": []byte("LULLDEV9" + string(data[8:])), "huge": make([]byte, MaxProfile+1)} {
		if _, err := DecodeProfile(d); !errors.Is(err, ErrProfile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, spoil := range map[string]func(*DeviceProfile){
		"version": func(p *DeviceProfile) { p.Version++ },
		"rate":    func(p *DeviceProfile) { p.Stages[0].PerSecond = math.NaN() },
		"zero":    func(p *DeviceProfile) { p.Stages[0].PerSecond = 0 },
		"ratio":   func(p *DeviceProfile) { p.Verify[0].Ratio = -1 },
		"tokens":  func(p *DeviceProfile) { p.Handovers[0].Tokens = 0 },
		"share":   func(p *DeviceProfile) { p.Interference[0].Share = math.Inf(1) },
		"layer":   func(p *DeviceProfile) { p.Layers[0].Layers[1] = -1 },
	} {
		p := sample()
		spoil(p)
		if _, err := EncodeProfile(p); !errors.Is(err, ErrProfile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlacement: the scheduler takes the profile, with the fastest setting of
// each stage and the line of each hand-over.
func TestPlacement(t *testing.T) {
	s := sample().Placement()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := scheduler.NewPlacer(s, scheduler.Placement{Prefill: "CPU", Decode: "CPU"}, 0); err != nil {
		t.Fatal(err)
	}
	if len(s.Figures) != 8 || s.Figures[0].Rate != 200 || s.Figures[1].Interference != 0.6 ||
		s.Figures[0].Interference != scheduler.UnknownInterference {
		t.Errorf("%+v", s.Figures)
	}
	h := s.Handovers[0]
	if len(s.Handovers) != 2 || h.PerToken != 31250 || h.Base != time.Millisecond {
		t.Errorf("%+v", s.Handovers)
	}
}

// helped is sample with one copy on the CPU whose large batches go to the NPU.
func helped(rate float64) (*DeviceProfile, DeviceRow) {
	p, row := sample(), DeviceRow{"CPU+HTP0", "a processor", "CPU", "cpu", 8 << 30, "HTP0"}
	p.Devices = append(p.Devices, row)
	p.Stages = append(p.Stages, StageRow{row.ID, Decode, 256, 1, 2, 100, 0.1, 5, 0},
		StageRow{row.ID, Prefill, 256, 16, 2, 190, 0.1, 5, 0}, StageRow{row.ID, Prefill, 256, 64, 2, rate, 0.1, 5, 0})
	return p, row
}

// TestPlacementWith: one copy with a helper is offered beside the same copy alone,
// by what was measured with it, and taken where that is faster.
func TestPlacementWith(t *testing.T) {
	for rate, want := range map[float64]string{900: "CPU+HTP0", 2: "CPU"} {
		p, row := helped(rate)
		if two := p.Placement(); len(two.Devices) != 2 || len(two.Figures) != 8 {
			t.Errorf("two copies: %+v", two)
		}
		s := p.PlacementWith(row)
		x, err := scheduler.NewPlacer(s, scheduler.Placement{Prefill: "CPU", Decode: "CPU"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.Offered()); got != "[CPU CPU+HTP0]" {
			t.Errorf("offered %s", got)
		}
		in := scheduler.PlaceInput{Phase: scheduler.PhaseMenu}
		x.Choose(scheduler.Instant(time.Minute), &in)
		if got, _ := x.Choose(scheduler.Instant(2*time.Minute), &in); got.String() != want {
			t.Errorf("a helper of %v tokens/s: %s, want %s", rate, got, want)
		}
	}
}

// TestHelperTasks: a helper that is slow by itself is not waited for, and what is
// that of the device alone is not measured twice.
func TestHelperTasks(t *testing.T) {
	clock := scripted.NewClock(0)
	d := devices(t, clock, time.Millisecond, time.Millisecond, time.Millisecond)
	d[2].Row = DeviceRow{ID: "D0+D1", Kind: "cpu", Helper: "D1"}
	r := &run{cfg: Config{Devices: d, Now: clock.Now}, p: freshProfile(), budget: DefaultBudget,
		spans: map[string]time.Duration{"D1 prefill 2": time.Second, "D0+D1 prefill 2": time.Millisecond}}
	var mine []string
	for _, x := range r.tasks() {
		if strings.Contains(x.name, "D0+D1") {
			mine = append(mine, x.name)
		}
	}
	if got := strings.Join(mine, "\n"); strings.Contains(got, "hand-over") || strings.Contains(got, "layers") ||
		!strings.Contains(got, "D0+D1 prefill after 32 tokens, 64 wide") {
		t.Errorf("%s", got)
	}
	if err := r.affordable(&d[2], Prefill, 16, 2); err != nil {
		t.Errorf("a small batch: %v", err)
	}
	if err := r.affordable(&d[2], Prefill, 64, 2); err == nil || !strings.Contains(err.Error(), "1m4s") {
		t.Errorf("a batch for the helper: %v", err)
	}
	if w := r.besideWidth(&d[1], Prefill); w != 4 {
		t.Errorf("beside frames %d wide: want three turns of 4 s in a tenth of the budget", w)
	}
}

// FuzzProfile: no input panics or is believed without being valid.
func FuzzProfile(f *testing.F) {
	data, err := EncodeProfile(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(profileMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := DecodeProfile(data); err == nil {
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, ErrProfile) {
			t.Fatalf("%v: want ErrProfile", err)
		}
	})
}

// An NPU takes about as long for 64 tokens as for one, a CPU longer for each.
func TestLeastChunk(t *testing.T) {
	var p DeviceProfile
	for _, r := range []struct {
		device  string
		ms      float64 // of one token
		batches map[int]float64
	}{
		{"NPU", 70, map[int]float64{16: 80, 64: 120, 256: 400}},
		{"CPU", 12, map[int]float64{4: 20, 16: 60, 64: 200}},
		{"GPU", 10, map[int]float64{64: 90}},
	} {
		p.Stages = append(p.Stages, StageRow{Device: r.device, Stage: Decode, Width: 1, PerSecond: 1e3 / r.ms})
		for width, ms := range r.batches {
			p.Stages = append(p.Stages, StageRow{Device: r.device, Stage: Prefill, Width: width,
				PerSecond: float64(width) * 1e3 / ms})
		}
	}
	for device, want := range map[string]int{"NPU": 64, "CPU": 4, "GPU": 0, "none": 0} {
		if got := p.LeastChunk(device); got != want {
			t.Errorf("%s: %d, want %d", device, got, want)
		}
	}
}
