package local

import (
	"context"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/probe"
	"github.com/lull-npc/lull/scheduler"
)

// hotBox is a machine of files with one thermal zone that throttles at 95 °C.
type hotBox struct{ milli atomic.Int64 }

func (h *hotBox) Open(name string) (fs.File, error) {
	const zone = "sys/class/thermal/thermal_zone0/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	return fstest.MapFS{zone + "type": file("soc"), zone + "temp": file(fmt.Sprint(h.milli.Load())),
		zone + "trip_point_0_type": file("passive"), zone + "trip_point_0_temp": file("95000")}.Open(name)
}

// twoSpeeds has a fast device that takes much energy, and a slower one that takes
// little.
func twoSpeeds() *scheduler.PlacementProfile {
	p := &scheduler.PlacementProfile{Devices: []scheduler.PlaceableDevice{{ID: "CPU"},
		{ID: "HTP0", Kind: scheduler.KindNPU}},
		Handovers: []scheduler.HandoverFigures{{From: "CPU", To: "HTP0"}, {From: "HTP0", To: "CPU"}}}
	for _, stage := range []scheduler.Stage{scheduler.StagePrefill, scheduler.StageDecode} {
		p.Figures = append(p.Figures,
			scheduler.StageFigures{Device: "CPU", Stage: stage, Rate: 100, Joules: 0.3},
			scheduler.StageFigures{Device: "HTP0", Stage: stage, Rate: 30, Joules: 0.1})
	}
	return p
}

// heated is a placed runtime in a machine whose temperature and time the test sets.
type heated struct {
	*Runtime
	box   hotBox
	ticks chan time.Time
	now   atomic.Int64
	frame uint64
}

func openHeated(t *testing.T, off bool) *heated {
	t.Helper()
	h := &heated{ticks: make(chan time.Time)}
	h.box.milli.Store(60_000)
	spec := DefaultSpec()
	spec.Speculation = SpeculateOff
	var err error
	h.Runtime, err = Open(context.Background(), Config{Spec: spec, NoProbe: off,
		Probe: probe.PollerConfig{Source: probe.NewTree(&h.box), Now: h.now.Load, Tick: h.ticks},
		OpenModel: func(context.Context, llm.Clock, llm.AdmitFunc) (llm.Model, error) {
			p, _ := placedOn(t, nil, "CPU", "HTP0")
			p.profile = p.held(twoSpeeds())
			return p, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// second sets the temperature, has it read, and shows a second of frames.
func (h *heated) second(celsius float64) scheduler.Decision {
	h.box.milli.Store(int64(celsius * 1000))
	h.now.Add(int64(time.Second))
	if h.probe != nil {
		h.ticks <- time.Time{} // the reading that ran is over
		h.ticks <- time.Time{} // and so is the one of this tick
	}
	h.SetPhase(scheduler.PhaseMenu)
	for range 60 {
		h.frame++
		at := int64(h.frame) * 16_666_667
		h.FrameBegin(h.frame, 16_666_667, at)
		h.FrameEnd(h.frame, at+16_666_667, at+2_000_000)
	}
	return h.Decision()
}

// TestThermalRamp: as the machine gets hotter the reply moves to what takes less
// energy, before throttling begins; and back when it is cool, after the dwell.
func TestThermalRamp(t *testing.T) {
	h := openHeated(t, false)
	var trace []string
	was := ""
	for second := range 60 {
		celsius := 60 + float64(second) // a degree a second
		if second > 32 {
			celsius = 92 - 8*float64(second-32) // and quickly down
		}
		d := h.second(max(celsius, 60))
		if at := fmt.Sprintf("%s by %s", d.Decode, d.Place); at != was {
			trace = append(trace, fmt.Sprintf("%d s, headroom %.2f: %s", second, h.hostFacts().ThermalHeadroom, at))
			was = at
		}
	}
	// The sensor's median of three lags by a second. The move is at 0.85 and more, the
	// way back ten seconds after it, though it is cool before.
	want := []string{"0 s, headroom 0.01: CPU by phase-free", "32 s, headroom 0.87: HTP0 by heat",
		"42 s, headroom 0.01: HTP0 by dwell", "43 s, headroom 0.01: CPU by phase-free"}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error(diff)
	}
}

// TestProbeOff: what nobody reads is what the game tells; and what the game tells
// goes before what is read.
func TestProbeOff(t *testing.T) {
	h := openHeated(t, true)
	h.second(94)
	if f := h.hostFacts(); f != (scheduler.HostSignals{}) {
		t.Errorf("%+v: want nothing read", f)
	}
	if _, read := h.Machine(); read {
		t.Error("a machine that nobody reads")
	}
	h = openHeated(t, false)
	h.second(94)
	h.second(94)
	if f := h.hostFacts(); f.ThermalHeadroom < 0.9 || f.Thermal != scheduler.ThermalModerate {
		t.Errorf("%+v: want 94 °C of 95 read", f)
	}
	h.SetHost(scheduler.HostSignals{ThermalHeadroom: 0.3, Power: scheduler.PowerSaver})
	if f := h.hostFacts(); f.ThermalHeadroom != 0.3 || f.Thermal != 0 || f.Power != scheduler.PowerSaver {
		t.Errorf("%+v: want what the game told", f)
	}
	if m, read := h.Machine(); !read || len(m.Zones) != 1 {
		t.Errorf("%v %+v", read, m.Zones)
	}
}
