package scheduler

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// FuzzPI: finite in, finite out, within the bounds.
func FuzzPI(f *testing.F) {
	f.Add(5.0, 0.1, 0.0991, 100)
	f.Add(5.0, 0.2, -0.0009, 10000)
	f.Add(1e300, 1e300, -1e300, 3)
	f.Fuzz(func(t *testing.T, gain, proportional, step float64, n int) {
		c := pi{gain: gain}
		for range min(n, 1000) {
			out, _ := c.next(proportional, step)
			if !(out >= 0 && out <= 1) || math.IsNaN(c.integral) || math.IsInf(c.integral, 0) {
				t.Fatalf("out %v, integral %v", out, c.integral)
			}
		}
	})
}

// FuzzStep: whatever samples and reports come, decisions stay in bounds, and
// the controller still works afterwards.
func FuzzStep(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\xf0\x7f all kinds of bytes, as numbers of a frame \xff\xff\xff\xff"))
	var seed []byte
	for i := range 12 {
		seed = binary.LittleEndian.AppendUint64(seed, uint64(i)*16_666_667)
	}
	f.Add(append(seed, seed...))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := DefaultConfig()
		cfg.Layers, cfg.MaxThreads, cfg.Draft, cfg.MaxVerifyWidth = 30, 4, DraftModelNGram, 16
		if len(data) > 0 && data[0]&1 != 0 {
			cfg.Features &^= frameFeatures
		}
		c, err := New(cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		word := func() (v int64) {
			var b [8]byte
			n := copy(b[:], data)
			data = data[n:]
			return int64(binary.LittleEndian.Uint64(b[:]))
		}
		for len(data) > 0 {
			s := FrameSample{Frame: uint64(word()), Start: Instant(word()), End: Instant(word()),
				Target: time.Duration(word()), Deadline: Instant(word()), MainBusy: time.Duration(word()),
				GPUBusy: time.Duration(word()), PresentWait: time.Duration(word())}
			flags := word()
			s.Marked, s.PresentWaitKnown, s.Phase = flags&1 != 0, flags&2 != 0, Phase(flags>>8)
			s.Host = HostSignals{Thermal: ThermalStatus(flags >> 16),
				ThermalHeadroom: math.Float64frombits(uint64(word())),
				MemoryPressure:  math.Float64frombits(uint64(word()))}
			c.Report(Work{Stage: Stage(flags >> 24), Tokens: int(word()), Generated: int(word()),
				Start: Instant(word()), End: Instant(word()), Waited: time.Duration(word()), Pending: int(word()),
				Contention: Score{Value: math.Float64frombits(uint64(word())),
					Confidence: math.Float64frombits(uint64(word())), At: Instant(word()),
					State: ScoreState(flags >> 32), Learn: flags&4 != 0}})
			checkBounds(t, c.Step(s))
			c.Late(s)
			Trace(nil, s, c.Decision())
		}
		checkRecovers(t, c)
	})
}

// checkRecovers: after whatever was, a light game with an idle engine gets back
// to a free gate.
func checkRecovers(t testing.TB, c *Controller) {
	t.Helper()
	c.Report(Work{Contention: Score{State: ScoreDisturbed}})
	start := Instant(1 << 40)
	if c.seen && c.prev.End > start {
		start = c.prev.End / 2 // the clock may have to go back
	}
	for i := range 900 {
		begin := start.Add(time.Duration(i) * ms(hz60))
		d := c.Step(FrameSample{Frame: uint64(i), Start: begin, End: begin.Add(ms(3)), Target: ms(hz60), Marked: true})
		checkBounds(t, d)
	}
	if d := c.Decision(); d.Gate != GateFree && c.cfg.Features.Has(FeatureFeedback) {
		t.Fatalf("900 light frames later: gate %v, openness %v, %v", d.Gate, d.Openness, d.Reason)
	}
}

// TestProperties runs random games through the plant: bounds, a bounded closed
// time, no work in a closed gate, dwell, a floor.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		draw := func(name string, low, high float64) float64 { return rapid.Float64Range(low, high).Draw(rt, name) }
		work := constant(draw("work", 0.5, 25)).sum(random(draw("noise", 0, 3), seed),
			chance(draw("spike chance", 0, 0.05), draw("spike", 0, 60), seed),
			oscillate(draw("swing", 0, 6), 97)).limit(0.1, 100)
		target := rapid.SampledFrom([]float64{hz60, hz60 / 2, 2 * hz60}).Draw(rt, "target")
		p := plant{work: work, target: constant(target),
			kappa: draw("kappa", 0, 1), beside: draw("beside", 0.1, 1), tokenMS: draw("token", 1, 30),
			stall: chance(draw("stall chance", 0, 0.2), 7, seed+1), marked: rapid.Bool().Draw(rt, "marked")}
		preset := Preset(rapid.IntRange(0, int(LLMFirst)).Draw(rt, "preset"))
		low := rapid.Bool().Draw(rt, "base")
		var broken stream = chance(draw("broken", 0, 0.1), 1, seed+2)
		p.spoil = func(i int, s *FrameSample) {
			if broken() > 0 {
				absurd(10*(i%8), s)
			}
		}
		if rapid.Bool().Draw(rt, "memory") {
			p.memory = randomMemory(rt, seed)
		}
		sc := scenario{plant: p, frames: 900, config: func(c *Config) {
			*c = c.WithPreset(preset)
			c.LowPriorityBase, c.Draft, c.MaxVerifyWidth = low, DraftModelNGram, 16
			if p.memory != nil && !p.memory.shared {
				sereno(c)
			}
		}}
		r := sc.run(t)
		checkGame(rt, r)
	})
}

type fatalfer interface {
	Fatalf(string, ...any)
}

func checkGame(t fatalfer, r []result) {
	closed, moved := 0, [6]Instant{}
	for i, x := range r {
		d := x.decision
		if !(d.Openness >= 0 && d.Openness <= 1) || !(d.Pressure >= 0 && d.Pressure <= 1) || d.Threads < 1 ||
			d.Margin < 0 || d.OpenAfter < 0 {
			t.Fatalf("frame %d: out of bounds: %+v", i, d)
		}
		closed++
		if d.Gate != GateClosed {
			closed = 0
		} else if d.Reason != ReasonProbe && d.Reason != ReasonClosed {
			t.Fatalf("frame %d: closed by %v", i, d.Reason)
		}
		if closed > closedFrames {
			t.Fatalf("frame %d: closed for %d frames", i, closed)
		}
		if d.Gate == GateClosed && x.closed && x.ran != 0 {
			t.Fatalf("frame %d: %v ms of work in a closed gate", i, x.ran)
		}
		if i > 0 {
			checkDwell(t, r[i-1], x, &moved)
		}
	}
}

// checkDwell: no actuator takes more sooner than a dwell after its last change,
// but for the floor, and for the end of a bounded pause.
func checkDwell(t fatalfer, was, is result, moved *[6]Instant) {
	if is.sample.End < was.sample.End || is.sample.End.Sub(is.sample.Start) > time.Second {
		*moved = [6]Instant{} // broken sample: no time to measure by
		return
	}
	free := func(d Decision) int { return bit(d.Gate == GateFree) }
	drafts := func(d Decision) int { return bit(d.Draft == DraftModelNGram) }
	a, b := was.decision, is.decision
	for k, v := range [6][2]int{{free(a), free(b)}, {a.Threads, b.Threads}, {a.LayersPerStop, b.LayersPerStop},
		{a.PrefillChunk, b.PrefillChunk}, {drafts(a), drafts(b)}, {bit(a.Sleep == 0), bit(b.Sleep == 0)}} {
		exempt := k == 0 && (b.Reason == ReasonFloorOff || a.Gate == GateClosed || b.Gate == GateClosed ||
			a.Reason == ReasonFloorOff || a.Reason == ReasonSensorLost) ||
			k >= 4 && (b.Reason == ReasonFloorOff || b.Memory == ReasonScoreMissing && a.Pressure == 0)
		if v[1] > v[0] && moved[k] != 0 && !exempt && is.sample.End.Sub(moved[k]) < DefaultConfig().Dwell {
			t.Fatalf("frame %d: actuator %d takes more %v after its last change (%v)",
				is.frame, k, is.sample.End.Sub(moved[k]), b.Reason)
		}
		if v[1] != v[0] {
			moved[k] = is.sample.End
		}
	}
}
