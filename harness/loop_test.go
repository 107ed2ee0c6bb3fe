package harness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/scheduler"
)

func parseTuning(without, preset string) (Tuning, error) {
	f, err := scheduler.ParseFeatures(without)
	if err != nil {
		return Tuning{}, err
	}
	p, err := scheduler.ParsePreset(preset)
	return Tuning{Without: f, Preset: p}, err
}

// script plays frames of these lengths, in ms, and says when each began, what it
// was late by and what it showed, in ms from the first line.
func script(t *testing.T, line, target time.Duration, lengths ...float64) [][3]float64 {
	t.Helper()
	c := &fakeClock{now: 1e9}
	g := &fakeGame{clock: c, took: func(i int) time.Duration { return time.Duration(lengths[i] * 1e6) }}
	tl := &timeline{names: []string{"combat"}, ends: []time.Duration{time.Hour}, jobs: []load.Source{load.Idle{}}}
	l, err := newLoop(c, g, tl, line, target)
	if err != nil {
		t.Fatal(err)
	}
	var out [][3]float64
	for range lengths {
		var r frameRecord
		if !l.next(&r) {
			t.Fatal("a jump")
		}
		out = append(out, [3]float64{ms(r.Start - 1e9), ms(r.Overrun), ms(r.Interval)})
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func TestLateFramesTakeTheNextFreeLine(t *testing.T) {
	const line = 10 * time.Millisecond
	for name, c := range map[string]struct {
		target  time.Duration
		lengths []float64
		want    [][3]float64 // start, overrun, interval
	}{
		"in time":        {line, []float64{4, 10, 4}, [][3]float64{{0, -6, 10}, {10, 0, 10}, {20, -6, 10}}},
		"one late":       {line, []float64{4, 13, 4}, [][3]float64{{0, -6, 10}, {10, 3, 20}, {30, -6, 10}}},
		"very late":      {line, []float64{45, 4}, [][3]float64{{0, 35, 50}, {50, -6, 10}}},
		"exactly a line": {line, []float64{20, 4}, [][3]float64{{0, 10, 20}, {20, -6, 10}}},
		"capped":         {2 * line, []float64{13, 21, 4}, [][3]float64{{0, -7, 20}, {20, 1, 30}, {50, -16, 20}}},
	} {
		if diff := cmp.Diff(c.want, script(t, line, c.target, c.lengths...)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestFramesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "frames")
		took := rapid.SliceOfN(rapid.Int64Range(0, int64(90*time.Millisecond)), n, n).Draw(t, "work")
		lines := rapid.IntRange(1, 3).Draw(t, "lines")
		const line = 8333 * time.Microsecond
		c := &fakeClock{now: 42}
		g := &fakeGame{clock: c, took: func(i int) time.Duration { return time.Duration(took[i]) }}
		tl := &timeline{names: []string{"combat"}, ends: []time.Duration{time.Hour}, jobs: []load.Source{load.Idle{}}}
		l, err := newLoop(c, g, tl, line, time.Duration(lines)*line)
		if err != nil {
			t.Fatal(err)
		}
		var played, at time.Duration = 0, 42
		for i := range n {
			var r frameRecord
			if !l.next(&r) {
				t.Fatal("a jump")
			}
			if r.Start != at || (r.Start-42)%line != 0 || r.WakeErr != 0 {
				t.Fatalf("frame %d begins at %v, want %v on a line", i, r.Start, at)
			}
			if want := time.Duration(took[i]) - time.Duration(lines)*line; r.Overrun != want {
				t.Fatalf("frame %d is late by %v, want %v", i, r.Overrun, want)
			}
			if longer := r.Interval - time.Duration(lines)*line; longer < 0 || r.Overrun > 0 && longer < r.Overrun {
				t.Fatalf("frame %d is shown for %v, late by %v", i, r.Interval, r.Overrun)
			}
			at += r.Interval
			played += r.Interval
		}
		if l.played != played {
			t.Fatalf("%v played, want %v", l.played, played)
		}
	})
}

func TestPhasesFollowThePlayedTime(t *testing.T) {
	c := &fakeClock{now: 1}
	g := &fakeGame{clock: c, took: func(i int) time.Duration {
		if i == 1 {
			return 25 * time.Millisecond
		}
		return time.Millisecond
	}}
	second := &load.Synthetic{Workers: 1, CPU: time.Millisecond, Rates: []float64{1, 2}, Period: time.Millisecond,
		Length: 40 * time.Millisecond}
	tl := &timeline{
		names: []string{"loading", "combat"}, ends: []time.Duration{40 * time.Millisecond, 80 * time.Millisecond},
		jobs: []load.Source{load.Idle{}, second},
	}
	l, err := newLoop(c, g, tl, 10*time.Millisecond, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for l.played < tl.total() {
		var r frameRecord
		l.next(&r)
		got = append(got, r.Frame.Phase)
		if r.Frame.Phase == "combat" && l.inPhase == 1 && l.job.Rate != 1 {
			t.Errorf("the first frame of combat streams %v GB/s", l.job.Rate)
		}
	}
	want := []string{"loading", "loading", "combat", "combat", "combat", "combat"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoopDoesNotAllocate(t *testing.T) {
	c := &fakeClock{now: 1}
	g := &fakeGame{clock: c, took: steady}
	tl := &timeline{names: []string{"combat"}, ends: []time.Duration{time.Hour}, jobs: []load.Source{
		&load.Synthetic{Workers: 2, CPU: time.Millisecond, Jitter: 0.1},
	}}
	l, err := newLoop(c, g, tl, testPeriod, testPeriod)
	if err != nil {
		t.Fatal(err)
	}
	var r frameRecord
	if n := testing.AllocsPerRun(200, func() { l.next(&r) }); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func TestSelftest(t *testing.T) {
	for _, c := range Selftest() {
		if !c.OK || c.Detail == "" {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
}

// The self-test must be able to fail: a game that is janky by itself, and
// numbers that a stall does not move.
func TestSelftestCanFail(t *testing.T) {
	if c := (Check{}).noticed(nil); c.OK {
		t.Error("no jump was made, and one was noticed")
	}
	r, err := rehearsed(func(int) time.Duration { return 20 * time.Millisecond }, nil)
	if err != nil || r.JankRate != 1 {
		t.Errorf("jank_rate %v, %v", r.JankRate, err)
	}
}

func TestClockJumps(t *testing.T) {
	for name, by := range map[string]int64{"forwards": 3600e9, "backwards": -3600e9, "a little": 60e6} {
		rec, err := rehearse(50, steady, func(i int, c *fakeClock) {
			if i == 10 || i == 30 {
				c.now += by
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRun(rec, contextOf{policy: "x", repeat: 1, cores: 1})
		if err != nil || rec.jumps != 2 || r.Frames != 48 || r.JankRate != 0 || r.Unusable["clock-jump"] != 2 {
			t.Errorf("%s: %d jumps, %d frames, %v, jank %v, %v", name, rec.jumps, r.Frames, r.Unusable, r.JankRate, err)
		}
	}
}
