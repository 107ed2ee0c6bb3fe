package harness

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
)

// Check is one thing that the self-test tried.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Selftest tries whether the instruments show what they should: on a clock that
// is made up, where every number is known, and on this machine's.
func Selftest() []Check {
	checks := []Check{checkStall(), checkStallNumbers(), checkMultiplier()}
	checks = append(checks, checkJump("forwards", 10*time.Second), checkJump("backwards", -10*time.Second))
	return append(checks, checkSuspend(), checkRepeatable(), checkMachine())
}

// fakeClock is time that passes only where somebody says so.
type fakeClock struct {
	now   int64
	check int64
}

func (c *fakeClock) Now() int64   { return c.now }
func (c *fakeClock) Check() int64 { return c.check }

func (c *fakeClock) CPU() time.Duration { return 0 }

func (c *fakeClock) SleepUntil(t int64) { c.pass(t - c.now) }

// pass lets time pass on both clocks.
func (c *fakeClock) pass(ns int64) {
	if ns > 0 {
		c.now += ns
		c.check += ns
	}
}

// fakeGame takes as long as its script says.
type fakeGame struct {
	clock *fakeClock
	n     int
	took  func(frame int) time.Duration
}

func (g *fakeGame) begin(uint64, int, time.Duration, int64) {}

func (g *fakeGame) work(*load.Job, int64) load.Done {
	g.clock.pass(int64(g.took(g.n)))
	g.n++
	return load.Done{}
}

func (g *fakeGame) end(uint64, *load.Job, int64, int64) {}

// testFrames: one frame of 1000 is less than 1 %, so a single stall must not
// move any percentile that a report shows.
const testFrames = 1000

// testPeriod is 60 Hz.
const testPeriod = time.Second / 60

// steady is a game of 11.0, 11.2, … 11.8 ms a frame. Each level holds a fifth of
// the frames, and every percentile that is shown lies inside of one.
func steady(frame int) time.Duration {
	return 11*time.Millisecond + time.Duration(frame%5)*200*time.Microsecond
}

// rehearse plays frames on a made-up clock. The hook is called before each.
func rehearse(n int, took func(int) time.Duration, hook func(int, *fakeClock)) (*recording, error) {
	c := &fakeClock{now: int64(time.Hour), check: 1}
	g := &fakeGame{clock: c, took: took}
	t := &timeline{names: []string{"explore"}, ends: []time.Duration{time.Hour}, jobs: []load.Source{load.Idle{}}}
	l, err := newLoop(c, g, t, testPeriod, testPeriod)
	if err != nil {
		return nil, err
	}
	rec := &recording{works: newObserver()}
	for i := range n {
		if hook != nil {
			hook(i, c)
		}
		var r frameRecord
		if l.next(&r) {
			rec.frames = append(rec.frames, r)
		}
	}
	rec.jumps = l.jumps
	return rec, nil
}

func rehearsed(took func(int) time.Duration, hook func(int, *fakeClock)) (Run, error) {
	rec, err := rehearse(testFrames, took, hook)
	if err != nil {
		return Run{}, err
	}
	return newRun(rec, contextOf{policy: "rehearsal", repeat: 1, cores: 1})
}

const (
	stallFrame = 500
	stall      = 100 * time.Millisecond
)

func stalled(frame int) time.Duration {
	if frame == stallFrame {
		return steady(frame) + stall
	}
	return steady(frame)
}

// moved is what one stall of 100 ms moves, and nothing else: it makes one frame
// late by 95 ms, which is shown six lines later.
var moved = []string{
	"jank_rate", "jank_rate_2pct", "hitch_ms_per_s", "perfdog_jank", "stutter_share", "ue_hitches",
	"ue_hitches_per_min", "ue_missed_vsync_share", "avg_fps", "seconds", "low1_fps", "chrome_windows", "phases",
}

// checkStall compares every metric of two runs that differ by one stall.
func checkStall() Check {
	c := Check{Name: "a stall of 100 ms moves exactly the metrics that it should"}
	before, err := rehearsed(steady, nil)
	if err != nil {
		return c.failed("%v", err)
	}
	after, err := rehearsed(stalled, nil)
	if err != nil {
		return c.failed("%v", err)
	}
	var wrong, right []string
	a, b := reflect.ValueOf(before.Result), reflect.ValueOf(after.Result)
	for i := range a.NumField() {
		key, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		differs := !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface())
		switch {
		case differs && slices.Contains(moved, key):
			right = append(right, key)
		case differs:
			wrong = append(wrong, key+" moved")
		case slices.Contains(moved, key):
			wrong = append(wrong, key+" did not move")
		}
	}
	if len(wrong) > 0 {
		return c.failed("%s", strings.Join(wrong, ", "))
	}
	return c.passed("moved: %s; all others stayed", strings.Join(right, ", "))
}

// checkStallNumbers says by how much.
func checkStallNumbers() Check {
	c := Check{Name: "the stall has the size that it should"}
	r, err := rehearsed(stalled, nil)
	if err != nil {
		return c.failed("%v", err)
	}
	late := steady(stallFrame) + stall - testPeriod
	played := time.Duration(testFrames+int((late+testPeriod-1)/testPeriod)) * testPeriod
	hitch := 1000 * float64(late) / float64(played)
	switch {
	case r.JankRate != 1.0/testFrames:
		return c.failed("jank_rate %v, want 1 of %d", r.JankRate, testFrames)
	case math.Abs(r.HitchMsPerS-hitch) > 1e-3*hitch:
		return c.failed("hitch_ms_per_s %v, want %v", r.HitchMsPerS, hitch)
	case r.PerfDogJank != 1 || r.UnrealHitches != 1:
		return c.failed("perfdog_jank %d, ue_hitches %d: want 1 and 1", r.PerfDogJank, r.UnrealHitches)
	}
	return c.passed("1 of %d frames late by %.1f ms: hitch %.2f ms/s, one jank, one hitch", testFrames,
		float64(late)/1e6, r.HitchMsPerS)
}

func checkMultiplier() Check {
	c := Check{Name: "a threshold of zero makes every frame janky"}
	rec, err := rehearse(testFrames, steady, nil)
	if err != nil {
		return c.failed("%v", err)
	}
	rates := map[float64]float64{}
	for _, m := range []float64{0, 1} {
		counter, err := metrics.New(metrics.Config{JankMultiplier: m})
		if err != nil {
			return c.failed("%v", err)
		}
		for i := range rec.frames {
			counter.Add(rec.frames[i].Frame)
		}
		rates[m] = counter.Result().JankRate
	}
	if rates[0] != 1 || rates[1] != 0 {
		return c.failed("jank_rate %v with threshold 0 and %v with 1, want 1 and 0", rates[0], rates[1])
	}
	return c.passed("1 with threshold 0, 0 with threshold 1")
}

// checkJump sets the clock while a frame runs.
func checkJump(which string, by time.Duration) Check {
	c := Check{Name: "a clock that jumps " + which + " is noticed"}
	return c.noticed(func(i int, k *fakeClock) {
		if i == stallFrame {
			k.now += int64(by)
		}
	})
}

// checkSuspend lets only the second clock go on, as when a laptop sleeps.
func checkSuspend() Check {
	c := Check{Name: "a machine that slept is noticed"}
	return c.noticed(func(i int, k *fakeClock) {
		if i == stallFrame {
			k.check += int64(time.Hour)
		}
	})
}

func (c Check) noticed(hook func(int, *fakeClock)) Check {
	r, err := rehearsed(steady, hook)
	switch {
	case err != nil:
		return c.failed("%v", err)
	case r.Unusable["clock-jump"] != 1:
		return c.failed("unusable frames: %v, want one clock-jump", r.Unusable)
	case r.Frames != testFrames-1 || r.JankRate != 0 || r.HitchMsPerS != 0:
		return c.failed("%d frames, jank_rate %v, hitch %v: the jump got into the numbers", r.Frames, r.JankRate,
			r.HitchMsPerS)
	}
	return c.passed("one frame named clock-jump, the other %d unharmed", r.Frames)
}

func checkRepeatable() Check {
	c := Check{Name: "the same seed gives the same game"}
	jobs := func(seed uint64) (list []load.Job) {
		s := &load.Synthetic{Workers: 2, CPU: 10 * time.Millisecond, Jitter: 0.3, Seed: seed}
		for i := range uint64(100) {
			var j load.Job
			s.Job(i, 0, &j)
			list = append(list, j)
		}
		return list
	}
	if !reflect.DeepEqual(jobs(1), jobs(1)) {
		return c.failed("two games of seed 1 differ")
	}
	if reflect.DeepEqual(jobs(1), jobs(2)) {
		return c.failed("seeds 1 and 2 give the same game")
	}
	return c.passed("100 frames of two workers are equal with one seed and differ with another")
}

// checkMachine burns and stalls on the real clocks. A busy machine makes it
// late, never early: only that is wrong.
func checkMachine() Check {
	c := Check{Name: "work on this machine takes at least the CPU time asked for"}
	const burn = 5 * time.Millisecond
	done := make(chan Check, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the timer changed the thread
		timer, err := load.NewTimer(llm.NewClock())
		if err != nil {
			done <- c.failed("%v", err)
			return
		}
		defer timer.Close()
		team, err := load.NewTeam(load.Needs{Workers: 2}, timer)
		if err != nil {
			done <- c.failed("%v", err)
			return
		}
		defer team.Close()
		begin := timer.Now()
		d := team.Run(&load.Job{Workers: 2, CPU: burn}, begin)
		took := time.Duration(timer.Now() - begin)
		until := timer.Now() + int64(burn)
		timer.SleepUntil(until)
		late := time.Duration(timer.Now() - until)
		switch {
		case d.CPU < 2*burn || took < burn:
			done <- c.failed("2 × %v were asked, %v of CPU time burnt in %v", burn, d.CPU, took)
		case late < 0:
			done <- c.failed("a sleep ended %v early", -late)
		default:
			done <- c.passed("2 × %v asked, %.2f ms burnt in %.2f ms; a sleep ended %.0f µs late", burn,
				float64(d.CPU)/1e6, float64(took)/1e6, float64(late)/1e3)
		}
	}()
	return <-done
}

func (c Check) passed(format string, args ...any) Check {
	c.OK, c.Detail = true, fmt.Sprintf(format, args...)
	return c
}

func (c Check) failed(format string, args ...any) Check {
	c.OK, c.Detail = false, fmt.Sprintf(format, args...)
	return c
}
