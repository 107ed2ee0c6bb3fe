package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lowPriority is a controller of a low-priority base on two threads.
func lowPriority(t *testing.T, change func(*Config)) *Controller {
	t.Helper()
	cfg := DefaultConfig()
	cfg.LowPriorityBase, cfg.MaxThreads, cfg.Layers = true, 2, 30
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// apartGame plays frames of so much work at 60 Hz, all punctual but those that late
// names, beside a reply that never ends.
func apartGame(t *testing.T, c *Controller, from, to int, work time.Duration, late func(int) bool) (most Decision) {
	t.Helper()
	const target = 16667 * time.Microsecond
	for i := from; i < to; i++ {
		start := Instant(i) * Instant(2*target)
		end := start.Add(work)
		if late(i) {
			end = start.Add(target + time.Millisecond)
		}
		c.Report(Work{Stage: StageDecode, Tokens: 1, Generated: 1, Threads: 2, Start: start, End: end, Pending: 1})
		d := c.Step(FrameSample{Frame: uint64(i), Start: start, End: end, Deadline: start.Add(target), Target: target,
			Marked: true})
		if d.Openness > most.Openness {
			most = d
		}
	}
	return most
}

// A core that the low-priority base took may be missed for a tick of the system's
// timer. So layers run beside the game's work only where a frame has that much to
// spare, however long nothing was late.
func TestLayersStayApartWhereAFrameHasNoRoom(t *testing.T) {
	never := func(int) bool { return false }
	for _, x := range []struct {
		about    string
		work     time.Duration
		low      bool
		takeBack time.Duration
		beside   bool
	}{
		{"12.5 of 16.7 ms leave less than 5", 12500 * time.Microsecond, true, 5 * time.Millisecond, false},
		{"9 ms leave more", 9 * time.Millisecond, true, 5 * time.Millisecond, true},
		{"a system that gives cores back at once", 12500 * time.Microsecond, true, 0, true},
		{"threads of ordinary priority", 12500 * time.Microsecond, false, 5 * time.Millisecond, true},
	} {
		c := lowPriority(t, func(cfg *Config) { cfg.LowPriorityBase, cfg.TakeBack = x.low, x.takeBack })
		most := apartGame(t, c, 0, 3000, x.work, never)
		if beside := most.Openness > windowShare; beside != x.beside {
			t.Errorf("%s: openness reached %.2f (%v, open after %v), want beside the work: %v", x.about, most.Openness,
				most.Gate, most.OpenAfter, x.beside)
		}
	}
}

// A minute at the bound winds nothing up: the first late frame narrows the window.
func TestBoundOfApartWindsNothingUp(t *testing.T) {
	c := lowPriority(t, nil)
	late := func(i int) bool { return i == 3600 }
	apartGame(t, c, 0, 3600, 12500*time.Microsecond, late)
	before := c.Decision()
	apartGame(t, c, 3600, 3601, 12500*time.Microsecond, late)
	stepped := windowShare - 0.9*c.cfg.StepBack
	if d := c.Decision(); before.Openness != windowShare || d.Openness > stepped || d.Margin == 0 {
		t.Errorf("openness %.3f, after one late frame %.3f with a margin of %v: want 0.5, and a tenth less",
			before.Openness, d.Openness, d.Margin)
	}
}

// Frames are never alike. A game that lacks room on the whole lacks it, though some
// of its frames are short; one that has room keeps it, though some are long. Layers
// beside the work end what is known of the game's own: no frame is quiet then.
func TestRoomIsWhatFramesHaveOnTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		jitter := rapid.Float64Range(0, 3).Draw(rt, "jitter")
		tight := rapid.Bool().Draw(rt, "tight")
		mean := rapid.Float64Range(4, 10.5).Draw(rt, "work")
		if tight {
			mean = rapid.Float64Range(12.2, 13.5).Draw(rt, "work of a tight game")
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		c := lowPriority(t, nil)
		const target = 16667 * time.Microsecond
		flips, was := 0, false
		for i := range 3000 {
			start := Instant(i) * Instant(target)
			end := start.Add(time.Duration((mean + jitter*(2*random.Float64()-1)) * 1e6))
			c.Report(Work{Stage: StageDecode, Tokens: 1, Generated: 1, Threads: 2, Start: start, End: end, Pending: 1})
			d := c.Step(FrameSample{Frame: uint64(i), Start: start, End: end, Deadline: start.Add(target),
				Target: target, Marked: true, Quiet: !was})
			beside := d.Openness > windowShare
			if tight && beside {
				rt.Fatalf("frame %d: openness %.2f, open after %v: want layers apart from the work", i, d.Openness,
					d.OpenAfter)
			}
			flips += bit(beside != was)
			was = beside
		}
		if !tight && (!was || flips > 3) {
			rt.Fatalf("layers beside the work at last: %v, after %d changes: want them there, and to stay", was, flips)
		}
	})
}
