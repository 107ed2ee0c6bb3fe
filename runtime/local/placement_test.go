package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// onDevice is the scripted model under the name of a device.
type onDevice struct {
	*scripted.Model
	id   string
	fail func(n int) error // of the n-th batch with a sequence, from 1; nil: none
	n    int
}

func (d *onDevice) Info() llm.Info {
	info := d.Model.Info()
	info.Device = d.id
	return info
}

func (d *onDevice) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	d.n++
	if d.fail != nil {
		if err := d.fail(d.n); err != nil {
			return llm.Work{}, err
		}
	}
	return d.Model.Decode(b, g)
}

func placedOn(t testing.TB, note func(DeviceEvent), ids ...string) (*Placed, []*onDevice) {
	t.Helper()
	var models []llm.Model
	var devices []*onDevice
	for _, id := range ids {
		m, err := scripted.New(scripted.Config{Context: 512, MaxBatch: 16})
		if err != nil {
			t.Fatal(err)
		}
		d := &onDevice{Model: m, id: id}
		models, devices = append(models, d), append(devices, d)
	}
	p, err := NewPlaced(models, note)
	if err != nil {
		t.Fatal(err)
	}
	return p, devices
}

// say runs one request through an engine and calls before ahead of each step.
func say(t testing.TB, m llm.Model, x llm.Sampling, before func(step int)) string {
	t.Helper()
	e, err := llm.NewEngine(m, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	prompt, err := m.Tokenize(nil, "the keeper of the old bridge says to whoever comes by night", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(llm.Request{Prompt: prompt, MaxTokens: 40, Sampling: x}); err != nil {
		t.Fatal(err)
	}
	text := ""
	for step := 0; ; step++ {
		if before != nil {
			before(step)
		}
		_, stepErr := e.Step(llm.Grant{})
		for _, ev := range e.Poll(nil) {
			text += ev.Text
			switch ev.Kind {
			case llm.EventDone:
				return text
			case llm.EventFailed:
				return text + " FAILED: " + ev.Err.Error()
			}
		}
		if step > 1000 {
			t.Fatalf("no end: %v", stepErr)
		}
	}
}

func alone(t testing.TB, x llm.Sampling) string {
	m, err := scripted.New(scripted.Config{Context: 512, MaxBatch: 16})
	if err != nil {
		t.Fatal(err)
	}
	return say(t, m, x, nil)
}

// TestPlacedSwitches: wherever a reply is switched between three devices, it is
// the reply of one.
func TestPlacedSwitches(t *testing.T) {
	want := alone(t, llm.Sampling{})
	ids := []string{"CPU", "Vulkan0", "HTP0"}
	rapid.Check(t, func(rt *rapid.T) {
		p, _ := placedOn(t, func(e DeviceEvent) { rt.Fatalf("%+v", e) }, ids...)
		device := rapid.SampledFrom(ids)
		got := say(t, p, llm.Sampling{}, func(int) {
			p.Place(scheduler.Placement{Prefill: scheduler.DeviceID(device.Draw(rt, "prefill")),
				Decode: scheduler.DeviceID(device.Draw(rt, "decode"))})
		})
		if got != want {
			rt.Fatalf("%q, want %q", got, want)
		}
		if p.Handovers().Computed > 0 {
			rt.Fatalf("%+v: every device can hand over", p.Handovers())
		}
	})
}

// TestPlacedFailure: a device that fails at any batch is left with an event, and
// the reply is what it would have been.
func TestPlacedFailure(t *testing.T) {
	want := alone(t, llm.Sampling{})
	gone := errors.New("the device was removed")
	rapid.Check(t, func(rt *rapid.T) {
		var events []DeviceEvent
		p, devices := placedOn(t, func(e DeviceEvent) { events = append(events, e) }, "CPU", "Vulkan0")
		at := rapid.IntRange(1, 45).Draw(rt, "fails at its batch")
		devices[1].fail = func(n int) error {
			if n >= at {
				return gone
			}
			return nil
		}
		split := rapid.Bool().Draw(rt, "prefill on the CPU")
		to := scheduler.Placement{Prefill: "Vulkan0", Decode: "Vulkan0"}
		if split {
			to.Prefill = "CPU"
		}
		if got := say(t, p, llm.Sampling{}, func(int) { p.Place(to) }); got != want {
			rt.Fatalf("%q, want %q", got, want)
		}
		failed := devices[1].n >= at
		if failed != (len(events) == 1) || failed && (events[0].Device != "Vulkan0" || events[0].To != "CPU" ||
			!errors.Is(events[0].Err, gone)) {
			rt.Fatalf("%d batches of which the %d-th failed: events %+v", devices[1].n, at, events)
		}
		if failed != p.Lost("Vulkan0") || p.Lost("CPU") {
			rt.Fatal("lost and failed are not the same")
		}
	})
}

// TestPlacedLastDevice: where every device fails, the request does, and says so.
func TestPlacedLastDevice(t *testing.T) {
	var events []DeviceEvent
	p, devices := placedOn(t, func(e DeviceEvent) { events = append(events, e) }, "CPU", "Vulkan0")
	for _, d := range devices {
		d.fail = func(n int) error {
			if n > 5 {
				return errors.New("the driver is gone")
			}
			return nil
		}
	}
	got := say(t, p, llm.Sampling{}, func(int) { p.Place(scheduler.Placement{Prefill: "Vulkan0", Decode: "Vulkan0"}) })
	if !strings.Contains(got, "FAILED") || len(events) != 2 || events[1].To != "" {
		t.Errorf("%q %+v", got, events)
	}
}

// TestPlacedStops: a move that has to compute tokens again and is stopped on its
// way goes on where it was.
func TestPlacedStops(t *testing.T) {
	want := alone(t, llm.Sampling{})
	p, devices := placedOn(t, nil, "CPU", "Vulkan0")
	devices[0].fail = func(n int) error {
		if n == 20 {
			return errors.New("removed")
		}
		return nil
	}
	devices[1].fail = func(n int) error {
		if n%2 == 0 {
			return fmt.Errorf("in between: %w", llm.ErrStopped)
		}
		return nil
	}
	if got := say(t, p, llm.Sampling{}, nil); got != want || !p.Lost("CPU") || p.Handovers().Computed != 1 {
		t.Errorf("%q, want %q; %+v", got, want, p.Handovers())
	}
}

func TestPlacedSequences(t *testing.T) {
	p, devices := placedOn(t, nil, "CPU", "Vulkan0")
	a, err := p.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	words, err := p.Tokenize(nil, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	decode := func(s llm.Sequence, tokens ...llm.Token) {
		t.Helper()
		var batch llm.Batch
		for i, w := range tokens {
			batch.Add(s, w, i == len(tokens)-1)
		}
		if _, err := p.Decode(&batch, llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	decode(a, words...)
	p.Place(scheduler.Placement{Prefill: "Vulkan0", Decode: "Vulkan0"})
	decode(b, words[0])
	if err := b.CopyFrom(a); err != nil || !slices.Equal(b.Tokens(), words) {
		t.Fatalf("a copy across devices: %v %v", b.Tokens(), err)
	}
	saved, err := b.Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	decode(b, words[1])
	if err := a.Load(saved); err != nil || !slices.Equal(a.Tokens(), words) {
		t.Fatalf("%v %v", a.Tokens(), err)
	}
	if err := b.Truncate(2); err != nil || !slices.Equal(b.Tokens(), words[:2]) {
		t.Fatalf("%v %v", b.Tokens(), err)
	}
	devices[1].fail = func(int) error { return errors.New("removed") }
	decode(b, words[2]) // computed again on the CPU
	if !slices.Equal(b.Tokens(), words[:3]) || !p.Lost("Vulkan0") {
		t.Fatalf("%v", b.Tokens())
	}
	if err := a.Load([]byte("nonsense")); !errors.Is(err, llm.ErrState) || len(a.Tokens()) != 0 {
		t.Errorf("%v %v", a.Tokens(), err)
	}
	a.Close()
	if err := a.Truncate(0); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("%v", err)
	}
	var batch llm.Batch
	batch.Add(a, words[0], true)
	if _, err := p.Decode(&batch, llm.Grant{}); !errors.Is(err, llm.ErrBatch) {
		t.Errorf("%v", err)
	}
}

func TestPlacedRefuses(t *testing.T) {
	p, _ := placedOn(t, nil, "CPU")
	small, err := scripted.New(scripted.Config{Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	cpu := p.devices[0].model
	for want, models := range map[string][]llm.Model{
		"0 devices":   nil,
		"twice":       {cpu, cpu},
		"not the one": {cpu, &onDevice{Model: small, id: "GPU"}},
	} {
		if _, err := NewPlaced(models, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestRuntimePlaces: the controller's choice reaches the model, and a device that
// fails in the middle of a reply reaches the controller.
func TestRuntimePlaces(t *testing.T) {
	var devices []*onDevice
	profile := scheduler.PlacementProfile{Devices: []scheduler.PlaceableDevice{{ID: "CPU"},
		{ID: "HTP0", Kind: scheduler.KindNPU}, {ID: "elsewhere"}}}
	for id, rate := range map[scheduler.DeviceID]float64{"CPU": 10, "HTP0": 100, "elsewhere": 1000} {
		for _, stage := range []scheduler.Stage{scheduler.StagePrefill, scheduler.StageDecode} {
			profile.Figures = append(profile.Figures, scheduler.StageFigures{Device: id, Stage: stage, Rate: rate})
		}
	}
	profile.Handovers = []scheduler.HandoverFigures{{From: "CPU", To: "HTP0"}, {From: "HTP0", To: "CPU"}}
	spec := DefaultSpec()
	spec.Speculation = SpeculateOff
	r, err := Open(context.Background(), Config{Spec: spec,
		OpenModel: func(context.Context, llm.Clock, llm.AdmitFunc) (llm.Model, error) {
			p, on := placedOn(t, nil, "CPU", "HTP0")
			devices, p.profile = on, p.held(&profile)
			return p, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frame, now := uint64(0), r.Clock.Now()
	frames := func(n int) { // of virtual time, in a menu
		r.SetPhase(scheduler.PhaseMenu)
		for range n {
			frame++
			r.FrameBegin(frame, 16*time.Millisecond, now)
			r.FrameEnd(frame, now+16e6, now+5e6)
			now += 16e6
		}
	}
	if d := r.Decision(); d.Decode != "CPU" {
		t.Errorf("begins on %s", d.Decode)
	}
	frames(300)
	if d := r.Decision(); d.Prefill != "HTP0" || d.Decode != "HTP0" || d.Place != scheduler.PlaceFree {
		t.Fatalf("%v > %v, %v", d.Prefill, d.Decode, d.Place)
	}
	devices[1].fail = func(n int) error {
		if n > 3 {
			return errors.New("removed")
		}
		return nil
	}
	prompt, err := r.Model.Tokenize(nil, "hello there", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Engine.Submit(llm.Request{Prompt: prompt, MaxTokens: 12}); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		frames(1)
		for _, e := range r.Engine.Poll(nil) {
			if e.Kind == llm.EventFailed {
				t.Fatal(e.Err)
			}
			done = done || e.Kind == llm.EventDone
		}
	}
	frames(1)
	if d := r.Decision(); d.Prefill != "CPU" || d.Decode != "CPU" || !r.Model.(*Placed).Lost("HTP0") {
		t.Errorf("after HTP0 failed: %v > %v", d.Prefill, d.Decode)
	}
}

// TestPlacedDeviceMissing: a device that isn't there is named, and the model runs
// on the first.
func TestPlacedDeviceMissing(t *testing.T) {
	cfg, notes := realConfig(t)
	cfg.Spec.Speculation = SpeculateOff
	cfg.Placement = &PlacementConfig{Devices: []string{"Vulkan77"}}
	r, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, ok := r.Model.(*Placed)
	if !ok || len(p.Devices()) != 1 || p.Lost(p.Devices()[0]) || !slices.ContainsFunc(*notes, func(n string) bool {
		return strings.Contains(n, "Vulkan77")
	}) {
		t.Errorf("%T, notes %q", r.Model, *notes)
	}
	cfg.Device = "Vulkan77"
	if r, err := Open(context.Background(), cfg); err == nil {
		r.Close()
		t.Error("opened on a device that isn't there")
	}
}
