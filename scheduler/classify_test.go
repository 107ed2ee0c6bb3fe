package scheduler

import (
	"testing"
	"time"
)

func ms(x float64) time.Duration { return time.Duration(x * 1e6) }

func TestClassify(t *testing.T) {
	timings := func(main, render, gpu, wait float64) FrameTimings {
		return FrameTimings{ms(main), ms(render), ms(gpu), ms(max(wait, 0)), wait >= 0}
	}
	for _, c := range []struct {
		name         string
		full, target float64
		t            FrameTimings
		want         Bottleneck
	}{
		{"cpu, main thread", 16.7, 16.7, timings(14, 4, 6, 0), BoundCPU},
		{"cpu, render thread", 16.7, 16.7, timings(4, 14, 6, 0), BoundCPU},
		{"gpu", 16.7, 16.7, timings(5, 4, 15, 3), BoundGPU},
		{"both, gpu longer", 16.7, 16.7, timings(14, 4, 15, 0), BoundGPU},
		{"both, cpu longer", 16.7, 16.7, timings(15, 4, 14, 0), BoundCPU},
		{"cap", 33.3, 33.3, timings(8, 4, 9, 20), BoundPresent},
		{"wait of 0.5 ms is none", 16.7, 16.7, timings(8, 4, 9, 0.5), BoundNone},
		{"balanced", 16.7, 16.7, timings(8, 4, 9, 0), BoundNone},
		{"gpu stretched by vsync", 33.3, 16.7, timings(5, 4, 18, 20), BoundGPU},
		{"cpu stretched by vsync", 33.3, 16.7, timings(18, 4, 5, 14), BoundCPU},
		{"gpu unknown, on target", 16.7, 16.7, timings(5, 4, 0, -1), BoundNone},
		{"gpu unknown, on target, waits", 16.7, 16.7, timings(5, 4, 0, 8), BoundPresent},
		{"gpu unknown, cpu fills", 16.7, 16.7, timings(15, 4, 0, -1), BoundCPU},
		{"gpu unknown, over target", 33.3, 16.7, timings(5, 4, 0, 20), BoundGPU},
		{"cpu unknown, over target", 33.3, 16.7, timings(0, 0, 9, 0), BoundCPU},
		{"nothing known", 33.3, 16.7, timings(0, 0, 0, -1), BoundUnknown},
		{"only a wait known", 16.7, 16.7, timings(0, 0, 0, 9), BoundPresent},
		{"no target", 33.3, 0, timings(8, 4, 9, 20), BoundPresent},
		{"no time", 0, 16.7, timings(8, 4, 9, 20), BoundUnknown},
		{"negative", 16.7, 16.7, timings(-8, -4, -9, 0), BoundUnknown},
	} {
		if got := Classify(ms(c.full), ms(c.target), c.t); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClassifierHolds: a scene on the edge does not flap, a new one takes over
// within a second, and late facts are used instead of guesses.
func TestClassifierHolds(t *testing.T) {
	var c classifier
	now := Instant(0)
	observe := func(main float64) Bottleneck {
		now += 16 * msec
		s := FrameSample{Start: now - 16*msec, End: now, Target: 16 * time.Millisecond,
			MainBusy: ms(main), GPUBusy: ms(5)}
		c.observe(&s, now, 500*time.Millisecond)
		return c.current
	}
	for range 100 {
		observe(14)
	}
	if c.current != BoundCPU || c.confidence() < 0.9 {
		t.Fatalf("%v %.2f: want cpu, sure", c.current, c.confidence())
	}
	edge := constant(12.8).sum(random(0.4, 7)) // 0.8 of 16 ms is 12.8
	changes, last := 0, c.current
	for range 2000 {
		if b := observe(edge()); b != last {
			changes, last = changes+1, b
		}
	}
	if changes > 2 {
		t.Errorf("%d changes in 2000 frames on the edge", changes)
	}
	for range 60 {
		observe(4)
	}
	if c.current != BoundNone {
		t.Errorf("%v a second after the load fell: want none", c.current)
	}
}

func TestLateFactsReplaceGuesses(t *testing.T) {
	cfg := DefaultConfig()
	c, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	var m Marks
	for i := uint64(1); i <= 200; i++ {
		begin := Instant(i) * Instant(ms(hz60))
		m.Begin(i, ms(hz60), begin)
		s, _ := m.End(i, 0, begin.Add(ms(6)))
		c.Step(s)
		if i > 4 {
			s, out := m.Timings(i-4, FrameTimings{GPUBusy: ms(15.5)})
			if out != MarkOK || s.Frame != i-4 {
				t.Fatalf("frame %d: %v", i, out)
			}
			c.Late(s)
		}
	}
	if d := c.Decision(); d.Bottleneck != BoundGPU || d.Confidence < 0.9 {
		t.Errorf("%v %.2f: want gpu, sure", d.Bottleneck, d.Confidence)
	}
}
