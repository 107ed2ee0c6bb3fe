package scheduler

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// synthetic is a profile that nobody measured: figures made so that one order of
// devices is right. Rates are tokens/s of prefill and decode.
type synthetic struct {
	name    string
	right   Placement // where nothing presses
	devices []syntheticDevice
}

type syntheticDevice struct {
	id              DeviceID
	kind            DeviceKind
	prefill, decode float64
	askJoules       float64
	sayJoules       float64
	interference    float64
}

// Ratios that are known are used: on a Snapdragon 8 Gen 3 the CPU's prefill was
// 1.27 … 1.62 times the NPU's, the NPU's products of decode 1.55 … 1.67 times the
// CPU's; 1.81 tokens/J on a CPU, 3.78 on an NPU. The second order is its mirror.
var synthetics = []synthetic{
	{"synthetic: CPU prefill, NPU decode", Placement{Prefill: "CPU", Decode: "HTP0"}, []syntheticDevice{
		{"CPU", KindCPU, 145, 10, 0.040, 1 / 1.81, 0.2}, {"HTP0", KindNPU, 100, 16.1, 0.030, 1 / 3.78, 0.1}}},
	{"synthetic: NPU prefill, CPU decode", Placement{Prefill: "HTP0", Decode: "CPU"}, []syntheticDevice{
		{"CPU", KindCPU, 100, 16.1, 0.040, 1 / 1.81, 0.1}, {"HTP0", KindNPU, 500, 10, 0.010, 1 / 3.78, 0.1}}},
	{"synthetic: GPU first", Placement{Prefill: "Vulkan0", Decode: "Vulkan0"}, []syntheticDevice{
		{"CPU", KindCPU, 100, 12, 0.040, 1 / 1.81, 0.3}, {"Vulkan0", KindGPU, 900, 40, 0.030, 0.9, 0.4},
		{"HTP0", KindNPU, 300, 14, 0.010, 1 / 3.78, 0.1}}},
}

func (s synthetic) profile() PlacementProfile {
	p := PlacementProfile{Quant: "Q4_0", Weights: 1 << 30, KVPerToken: 1 << 15, Tokens: 8192, Budget: 8 << 30,
		Reply: ExpectedReply{512, 1024, 48}}
	for _, d := range s.devices {
		p.Devices = append(p.Devices, PlaceableDevice{ID: d.id, Kind: d.kind})
		for _, past := range []int{0, 1024} {
			slower := 1 + float64(past)/4096
			p.Figures = append(p.Figures,
				StageFigures{Device: d.id, Stage: StagePrefill, Quant: "Q4_0", Past: past, Rate: d.prefill / slower,
					Joules: d.askJoules, Interference: d.interference},
				StageFigures{Device: d.id, Stage: StageDecode, Quant: "Q4_0", Past: past, Rate: d.decode / slower,
					Joules: d.sayJoules, Interference: d.interference})
		}
		for _, e := range s.devices {
			if e.id != d.id {
				p.Handovers = append(p.Handovers, HandoverFigures{d.id, e.id, 2 * time.Millisecond,
					30 * time.Microsecond})
			}
		}
	}
	return p
}

func startOn(t testing.TB, p PlacementProfile, id DeviceID) *Placer {
	t.Helper()
	x, err := NewPlacer(p, Placement{Prefill: id, Decode: id}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const quarter = Instant(250 * time.Millisecond)

// settle asks for half a minute with the same facts.
func settle(p *Placer, from Instant, in PlaceInput) (Instant, Placement, PlaceReason) {
	var to Placement
	var why PlaceReason
	for range 120 {
		from += quarter
		to, why = p.Choose(from, &in)
	}
	return from, to, why
}

// TestPlacementTable settles each combination of stage, bottleneck, phase and
// headroom from the CPU, for each order of devices.
func TestPlacementTable(t *testing.T) {
	var out strings.Builder
	for _, s := range synthetics {
		fmt.Fprintf(&out, "%s\nstage    bottleneck       headroom  placement, rule: phases\n", s.name)
		for _, stage := range []Stage{StageIdle, StagePrefill, StageDecode} {
			for b := BoundUnknown; b <= BoundPresent; b++ {
				for _, headroom := range []float64{0, 0.5, 0.86, 1.1} {
					fmt.Fprintf(&out, "%-8v %-16v %-9v %s\n", stage, b, headroom, placeLine(t, s, stage, b, headroom))
				}
			}
		}
		out.WriteByte('\n')
	}
	file := filepath.Join("testdata", "placement.txt")
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("placements differ from %s; look, then -update", file)
	}
}

func placeLine(t *testing.T, s synthetic, stage Stage, b Bottleneck, headroom float64) string {
	var order []string
	phases := map[string][]string{}
	for ph := PhaseExplore; ph <= PhaseBackground; ph++ {
		p := startOn(t, s.profile(), "CPU")
		_, to, why := settle(p, 0, PlaceInput{Stage: stage, Bottleneck: b, Phase: ph,
			Host: HostSignals{ThermalHeadroom: headroom}, Floor: 2})
		key := fmt.Sprintf("%v, %v", to, why)
		if phases[key] == nil {
			order = append(order, key)
		}
		phases[key] = append(phases[key], ph.String())
	}
	var parts []string
	for _, key := range order {
		list := strings.Join(phases[key], " ")
		if len(phases[key]) == len(phaseNames) {
			list = "all"
		}
		parts = append(parts, key+": "+list)
	}
	return strings.Join(parts, " | ")
}

// TestOrders: opposite figures lead to opposite placements, wherever it began.
func TestOrders(t *testing.T) {
	for _, s := range synthetics {
		for _, d := range s.devices {
			p := startOn(t, s.profile(), d.id)
			_, to, _ := settle(p, 0, PlaceInput{Phase: PhaseMenu, Bottleneck: BoundNone, Floor: 2})
			if to != s.right {
				t.Errorf("%s, begun on %s: %v, want %v", s.name, d.id, to, s.right)
			}
		}
	}
}

// TestThermalRamp: heat rises at a degree every two seconds and falls again. The
// choice goes to the least energy before throttling, and back after the dwell.
func TestThermalRamp(t *testing.T) {
	for _, s := range synthetics {
		profile := s.profile()
		p := startOn(t, profile, "CPU")
		now, before, _ := settle(p, 0, PlaceInput{Phase: PhaseDialogue, Bottleneck: BoundNone, Floor: 2})
		left, back := 0.0, Instant(0)
		var leftAt Instant
		ramp := func(headroom float64) {
			now += quarter
			to, _ := p.Choose(now, &PlaceInput{Phase: PhaseDialogue, Bottleneck: BoundNone, Floor: 2,
				Host: HostSignals{ThermalHeadroom: headroom}})
			if to != before && left == 0 {
				left, leftAt = headroom, now
			}
			if to == before && left > 0 && back == 0 {
				back = now
			}
		}
		for h := 0.3; h < 1.05; h += 0.004 {
			ramp(h)
		}
		for h := 1.05; h > 0.3; h -= 0.004 {
			ramp(h)
			if h > placeCool && back != 0 {
				t.Fatalf("%s: back at headroom %.2f, above %v", s.name, h, placeCool)
			}
		}
		var hot Placement
		_, hot, _ = settle(p, now, PlaceInput{Phase: PhaseDialogue, Floor: 2, Host: HostSignals{ThermalHeadroom: 0.95}})
		if joules(p, hot) >= joules(p, before) {
			t.Errorf("%s: %v takes %.1f J a reply, %v before it %.1f", s.name, hot, joules(p, hot), before,
				joules(p, before))
		}
		if left == 0 || left >= 1 || back.Sub(leftAt) < placeReturn {
			t.Errorf("%s: left at headroom %.3f (want below 1), back after %v (want %v at least)", s.name, left,
				back.Sub(leftAt), placeReturn)
		}
	}
}

func joules(p *Placer, to Placement) float64 {
	for i := range p.options {
		if p.options[i].Placement == to {
			return p.options[i].whole.joules
		}
	}
	return math.NaN()
}

// TestNoFlapping: whatever the facts do, moves lie two seconds apart and a way
// back ten; and noise around a steady scene moves at most twice in a minute.
func TestNoFlapping(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(synthetics).Draw(rt, "profile")
		p := startOn(t, s.profile(), "CPU")
		wild := rapid.Bool().Draw(rt, "wild")
		level := rapid.Float64Range(0, 1.2).Draw(rt, "headroom")
		bound := rapid.SampledFrom([]Bottleneck{BoundNone, BoundCPU, BoundGPU, BoundMemory}).Draw(rt, "bottleneck")
		phase := Phase(rapid.IntRange(0, 6).Draw(rt, "phase"))
		rng := rapid.Uint64().Draw(rt, "noise")
		next := func() float64 { // a small generator: 3600 draws of rapid would be slow
			rng = rng*6364136223846793005 + 1442695040888963407
			return float64(rng>>11) / (1 << 53)
		}
		now, last, moves := Instant(0), p.Current(), []Instant{}
		var before Placement
		for range 3600 {
			now += Instant(16_700 * time.Microsecond)
			in := PlaceInput{Stage: StageDecode, Phase: phase, Bottleneck: bound, Floor: 2,
				Host: HostSignals{ThermalHeadroom: level + 0.06*(next()-0.5)}}
			if next() < 0.2 { // one frame in five says something else
				in.Bottleneck = Bottleneck(next() * float64(len(boundNames)-1))
				if in.Bottleneck == BoundThermal {
					in.Bottleneck = BoundNone
				}
			}
			if wild {
				in.Bottleneck, in.Phase = Bottleneck(next()*8), Phase(next()*9)
				in.Host.ThermalHeadroom, in.Stage = 1.4*next()-0.1, Stage(next()*6)
			}
			to, _ := p.Choose(now, &in)
			if to == last {
				continue
			}
			if n := len(moves); n > 0 && now.Sub(moves[n-1]) < placeDwell {
				rt.Fatalf("moved %v after a move", now.Sub(moves[n-1]))
			} else if n > 0 && to == before && p.hot == false && now.Sub(moves[n-1]) < placeReturn {
				rt.Fatalf("back after %v", now.Sub(moves[n-1]))
			}
			moves, before, last = append(moves, now), last, to
		}
		if !wild && len(moves) > 2 {
			rt.Fatalf("%d moves in a minute of a steady scene", len(moves))
		}
	})
}

func TestMemoryBudget(t *testing.T) {
	p := synthetics[0].profile()
	p.Budget = 2 << 30 // one copy of 1.25 GiB with its cache, not two
	x := startOn(t, p, "CPU")
	for _, o := range x.Offered() {
		if o.Prefill != o.Decode {
			t.Errorf("%v is offered: two copies of 1.25 GiB in 2 GiB", o)
		}
	}
	if len(x.Offered()) != 2 || len(x.Refused()) != 2 || !strings.Contains(x.Refused()[0].Why, "budget") {
		t.Errorf("offered %v, refused %v", x.Offered(), x.Refused())
	}
	p.Devices[1].MemoryBytes = 1 << 30
	if x = startOn(t, p, "CPU"); len(x.Offered()) != 1 {
		t.Errorf("offered %v: 1.25 GiB don't fit into the NPU's 1 GiB", x.Offered())
	}
	if _, err := NewPlacer(p, Placement{Prefill: "HTP0", Decode: "HTP0"}, 0); !errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), "has 1073741824") {
		t.Errorf("started where it doesn't fit: %v", err)
	}
	// One copy with op-offload fits where two don't, and is taken where it was measured as fast.
	p = synthetics[1].profile()
	p.Budget = 2 << 30
	p.Figures = append(p.Figures, StageFigures{Device: "HTP0", Stage: StagePrefill, Offload: true, Quant: "Q4_0",
		Rate: 450, Joules: 0.02, Interference: 0.1})
	x = startOn(t, p, "CPU")
	if _, to, _ := settle(x, 0, PlaceInput{Phase: PhaseMenu, Floor: 2}); to != (Placement{"HTP0", "CPU", true}) {
		t.Errorf("%v: want the CPU with products on HTP0", to)
	}
}

// TestLose: a device that fails is left at once, and for good.
func TestLose(t *testing.T) {
	p := startOn(t, synthetics[2].profile(), "CPU")
	in := PlaceInput{Stage: StageDecode, Phase: PhaseMenu, Floor: 2}
	now, to, _ := settle(p, 0, in)
	if to.Decode != "Vulkan0" {
		t.Fatalf("%v", to)
	}
	if !p.Lose("Vulkan0", now+1) {
		t.Fatal("nothing is left of three devices")
	}
	to, _ = p.Choose(now+2, &in)
	if to.Decode == "Vulkan0" || to.Prefill == "Vulkan0" {
		t.Errorf("still on %v", to)
	}
	if _, to, _ = settle(p, now, in); to.Decode == "Vulkan0" || to.Prefill == "Vulkan0" {
		t.Errorf("back on %v", to)
	}
	p.Lose("HTP0", now)
	if p.Lose("CPU", now) {
		t.Error("all three are lost and something is left")
	}
}

func TestPlacementUnknowns(t *testing.T) {
	p := synthetics[0].profile()
	for i := range p.Figures {
		p.Figures[i].Joules, p.Figures[i].Interference = 0, UnknownInterference
	}
	x := startOn(t, p, "HTP0")
	_, to, why := settle(x, 0, PlaceInput{Phase: PhaseExplore, Floor: 2, Host: HostSignals{ThermalHeadroom: 0.9}})
	if to.Decode != "HTP0" || why != PlaceNoPower {
		t.Errorf("%v %v: want to stay where energy is unknown", to, why)
	}
	p.Handovers, p.Reply = nil, ExpectedReply{512, 16, 48}
	x = startOn(t, p, "CPU")
	if len(x.Offered()) != 2 {
		t.Errorf("%v: nothing can be handed over", x.Offered())
	}
	// In the middle of a reply that can't be moved it stays; between replies it goes.
	now, to, _ := settle(x, 0, PlaceInput{Stage: StageDecode, Phase: PhaseMenu, Floor: 2})
	if to.Decode != "CPU" {
		t.Errorf("%v: moved a reply that can't be", to)
	}
	if _, to, _ = settle(x, now, PlaceInput{Stage: StageIdle, Phase: PhaseMenu, Floor: 2}); to.Decode != "HTP0" {
		t.Errorf("%v between replies", to)
	}
	x = startOn(t, synthetics[0].profile(), "CPU")
	if _, to, why = settle(x, 0, PlaceInput{Phase: PhaseExplore, Floor: 1000}); why != PlaceFloor && why != PlaceStays {
		t.Errorf("%v %v: none has 1000 tokens/s", to, why)
	}
}

func TestPlacementProfileBad(t *testing.T) {
	for want, spoil := range map[string]func(*PlacementProfile){
		"0 devices":    func(p *PlacementProfile) { p.Devices = nil },
		"Devices[1]":   func(p *PlacementProfile) { p.Devices[1].ID = "CPU" },
		"no device":    func(p *PlacementProfile) { p.Figures[0].Device = "TPU" },
		"rate NaN":     func(p *PlacementProfile) { p.Figures[1].Rate = math.NaN() },
		"rate 0":       func(p *PlacementProfile) { p.Figures[1].Rate = 0 },
		"energy -1":    func(p *PlacementProfile) { p.Figures[1].Joules = -1 },
		"interference": func(p *PlacementProfile) { p.Figures[1].Interference = 11 },
		"stage draft":  func(p *PlacementProfile) { p.Figures[1].Stage = StageDraft },
		"past -1":      func(p *PlacementProfile) { p.Figures[1].Past = -1 },
		"Handovers[0]": func(p *PlacementProfile) { p.Handovers[0].To = "CPU"; p.Handovers[0].From = "CPU" },
		"Tokens -1":    func(p *PlacementProfile) { p.Tokens = -1 },
	} {
		p := synthetics[0].profile()
		spoil(&p)
		if err := p.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestControllerPlaces: the decision carries the choice, and a lost device leaves it.
func TestControllerPlaces(t *testing.T) {
	cfg := DefaultConfig()
	profile := synthetics[0].profile()
	cfg.Devices.Profile = &profile
	c, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := Instant(0)
	frame := func(work time.Duration, phase Phase) Decision {
		s := FrameSample{Start: now, End: now.Add(work), Target: 16_700 * time.Microsecond, Marked: true, Phase: phase}
		now = now.Add(s.Target)
		return c.Step(s)
	}
	var d Decision
	for range 600 {
		d = frame(5*time.Millisecond, PhaseMenu)
	}
	if d.Prefill != "CPU" || d.Decode != "HTP0" || d.Place != PlaceFree {
		t.Errorf("in a menu %v>%v %v", d.Prefill, d.Decode, d.Place)
	}
	for range 1200 {
		d = frame(15*time.Millisecond, PhaseExplore)
	}
	if d.Bottleneck != BoundCPU || d.Prefill != "HTP0" || d.Decode != "HTP0" || d.Place != PlaceOffCPU {
		t.Errorf("bound by %v: %v>%v %v", d.Bottleneck, d.Prefill, d.Decode, d.Place)
	}
	if line := string(Trace(nil, FrameSample{}, d)); !strings.Contains(line, " on HTP0 off-cpu") {
		t.Errorf("the trace doesn't say where and why: %s", line)
	}
	if !c.LoseDevice("HTP0", now) {
		t.Fatal("the CPU is left")
	}
	if d = frame(15*time.Millisecond, PhaseExplore); d.Decode != "CPU" || d.Prefill != "CPU" {
		t.Errorf("after HTP0 failed: %v>%v", d.Prefill, d.Decode)
	}
	s := FrameSample{Target: 16_700 * time.Microsecond, Marked: true}
	if n := testing.AllocsPerRun(1000, func() {
		s.Start = now
		now = now.Add(s.Target)
		s.End = s.Start.Add(time.Millisecond)
		c.Step(s)
	}); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

// BenchmarkChoose is the choice of one frame in the largest profile there is.
func BenchmarkChoose(b *testing.B) {
	s := synthetic{name: "synthetic: eight devices"}
	for i := range maxDevices {
		s.devices = append(s.devices, syntheticDevice{DeviceID(fmt.Sprint("D", i)), DeviceKind(i % 3),
			100 + float64(i), 20 - float64(i), 0.1, 0.5, 0.1})
	}
	p := startOn(b, s.profile(), "D0")
	now := Instant(0)
	in := PlaceInput{Stage: StageDecode, Bottleneck: BoundCPU, Phase: PhaseCombat, Floor: 2}
	b.ReportAllocs()
	for b.Loop() {
		now += quarter
		in.Bottleneck = Bottleneck(now/quarter) % 6
		p.Choose(now, &in)
	}
}
