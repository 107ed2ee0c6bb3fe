package load

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/harness/frames"
	"github.com/lull-npc/lull/runtime/llm"
)

func TestSyntheticIsAFunctionOfSeedAndFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Synthetic{
			Workers: rapid.IntRange(0, MaxWorkers).Draw(t, "workers"),
			CPU:     time.Duration(rapid.Int64Range(0, int64(MaxCPU)).Draw(t, "cpu")),
			Jitter:  rapid.Float64Range(0, 0.99).Draw(t, "jitter"),
			Seed:    rapid.Uint64().Draw(t, "seed"),
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		i := rapid.Uint64().Draw(t, "frame")
		var a, b Job
		s.Job(i, 0, &a)
		s.Job(i+1, 0, &b)
		s.Job(i, time.Hour, &b)
		if a != b {
			t.Fatal("the frames before changed this one")
		}
		for w := range s.Workers {
			low, high := float64(s.CPU)*(1-s.Jitter-1e-6)-1, float64(s.CPU)*(1+s.Jitter+1e-6)+1
			if c := float64(a.cpu(w)); c < low || c > high {
				t.Fatalf("worker %d burns %v: want %v ± %v", w, a.cpu(w), s.CPU, s.Jitter)
			}
		}
	})
}

func TestJitterSpreads(t *testing.T) {
	s := &Synthetic{Workers: 2, CPU: 10 * time.Millisecond, Jitter: 0.5, Seed: 3}
	var sum, low, high time.Duration
	var j Job
	for i := range uint64(1000) {
		s.Job(i, 0, &j)
		c := j.cpu(0)
		sum += c
		if i == 0 || c < low {
			low = c
		}
		high = max(high, c)
		if j.cpu(0) == j.cpu(1) {
			t.Fatalf("frame %d: both workers burn %v", i, c)
		}
	}
	if mean := sum / 1000; mean < 9700*time.Microsecond || mean > 10300*time.Microsecond {
		t.Errorf("the mean is %v, want about 10 ms", mean)
	}
	if low > 5200*time.Microsecond || high < 14800*time.Microsecond {
		t.Errorf("from %v to %v, want about 5 … 15 ms", low, high)
	}
}

func TestMemorySteps(t *testing.T) {
	s := &Synthetic{Rates: []float64{0, 2, 4}, Period: 10 * time.Millisecond, Length: 3 * time.Second}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]int64{
		0: 0, 999 * time.Millisecond: 0, time.Second: 20e6, 2500 * time.Millisecond: 40e6, time.Hour: 40e6,
	} {
		var j Job
		if s.Job(0, at, &j); j.Bytes != want {
			t.Errorf("at %v: %d bytes, want %d", at, j.Bytes, want)
		}
	}
	if n := s.Needs(); !n.Stream || n.Workers != 0 {
		t.Errorf("needs %+v", n)
	}
}

func TestSyntheticRefuses(t *testing.T) {
	nan := 0.0
	nan /= nan
	for want, s := range map[string]Synthetic{
		"workers":  {Workers: MaxWorkers + 1},
		"CPU time": {CPU: -1},
		"jitter":   {Jitter: nan},
		"GB/s":     {Rates: []float64{-1}, Period: 1},
		"period":   {Rates: []float64{1}},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

const pm2 = `Application,ProcessID,CPUStartTime,FrameTime,CPUBusy,CPUWait,GPUBusy
a.exe,1,0,10,4,6,5
a.exe,1,10,10,6,4,7
a.exe,1,20,10,NA,2,NA
a.exe,1,30,10,NA,NA,9
`

func capture(t *testing.T, text string) *frames.Capture {
	t.Helper()
	c, err := frames.Load(strings.NewReader(text), frames.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTrace(t *testing.T) {
	tr, err := NewTrace(capture(t, pm2), TraceConfig{Scale: 2, Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := []traced{{8, 10}, {12, 14}, {16, 0}, {20, 18}} // 10-2 and 10: CPU busy unknown
	for i := range uint64(8) {
		var j Job
		tr.Job(i, 0, &j)
		w := want[i%4]
		if j.CPU != w.cpu*time.Millisecond || j.GPU != w.gpu*time.Millisecond || j.Workers != 3 {
			t.Errorf("frame %d: %v, %v by %d workers: want %d and %d ms", i, j.CPU, j.GPU, j.Workers, w.cpu, w.gpu)
		}
	}
	for _, part := range []string{"× 2", "time in Present in 1 frames", "whole frame time burnt in 1",
		"not waited for in 1"} {
		if !strings.Contains(tr.Derivation(), part) {
			t.Errorf("%q does not say %q", tr.Derivation(), part)
		}
	}
}

func TestTraceFills(t *testing.T) {
	tr, err := NewTrace(capture(t, pm2), TraceConfig{Fill: 0.6, Period: 14 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for i := range uint64(4) {
		var j Job
		tr.Job(i, 0, &j)
		sum += j.CPU
	}
	want := 4 * 8400 * time.Microsecond // 0.6 × 14 ms, of 7 ms on average
	if d := sum - want; d < -4 || d > 4 || tr.Scale() < 1.199 || tr.Scale() > 1.201 {
		t.Errorf("four frames burn %v, want %v; scale %v", sum, want, tr.Scale())
	}
}

func TestTraceRefuses(t *testing.T) {
	c := capture(t, pm2)
	for _, cfg := range []TraceConfig{
		{Scale: -1}, {Scale: 1e9}, {Fill: -0.1, Period: 1}, {Fill: 0.5}, {Fill: 0.5, Scale: 1, Period: 1},
		{Workers: -1},
	} {
		if _, err := NewTrace(c, cfg); !errors.Is(err, ErrTrace) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestTraceOfRealCaptures(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/frames/*.csv")
	if len(files) == 0 {
		t.Skip("no real captures beside the checkout: see shared/data/frames")
	}
	for _, f := range files {
		r, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		c, err := frames.Load(r, frames.Options{})
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		tr, err := NewTrace(c, TraceConfig{Fill: 0.6, Period: time.Second / 60})
		if err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		for i := range uint64(c.Len()) {
			var j Job
			if tr.Job(i, 0, &j); j.CPU <= 0 || j.GPU < 0 {
				t.Fatalf("%s: frame %d burns %v and waits %v", f, i, j.CPU, j.GPU)
			}
			sum += j.CPU
		}
		if share := float64(sum) / float64(c.Len()) / float64(time.Second/60); share < 0.59 || share > 0.61 {
			t.Errorf("%s fills %v, want 0.6", f, share)
		}
	}
}

// onThread runs f as a game thread.
func onThread(t *testing.T, f func(*Timer)) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		timer, err := NewTimer(llm.NewClock())
		if err == nil {
			f(timer)
			timer.Close()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestTeamDoesTheWork(t *testing.T) {
	onThread(t, func(timer *Timer) {
		team, err := NewTeam(Needs{Workers: 3, Stream: true}, timer)
		if err != nil {
			t.Error(err)
			return
		}
		defer team.Close()
		const cpu = time.Millisecond
		for _, workers := range []int{3, 0, 1, 2, 3} {
			begin := timer.Now()
			cpuBefore := timer.CPU()
			d := team.Run(&Job{Workers: workers, CPU: cpu, Bytes: 3 << 20, GPU: 2 * cpu}, begin)
			if d.CPU < time.Duration(workers)*cpu {
				t.Errorf("%d workers burnt %v, want %v each", workers, d.CPU, cpu)
			}
			if d.Streamed < 3<<20 || d.Streamed > 3<<20+streamStep {
				t.Errorf("%d bytes streamed, want %d", d.Streamed, 3<<20)
			}
			if took := time.Duration(timer.Now() - begin); took < 2*cpu {
				t.Errorf("it ended after %v, before the GPU", took)
			}
			if timer.CPU() < cpuBefore {
				t.Error("the thread's clock went back")
			}
		}
		team.Close() // twice does nothing
	})
}

func TestNothingToDo(t *testing.T) {
	onThread(t, func(timer *Timer) {
		team, err := NewTeam(Needs{}, timer)
		if err != nil {
			t.Error(err)
			return
		}
		defer team.Close()
		if d := team.Run(&Job{Workers: 5, CPU: time.Second, Bytes: 1 << 40}, timer.Now()); d != (Done{}) {
			t.Errorf("nobody did %+v", d)
		}
	})
	if _, err := NewTeam(Needs{Workers: -1}, nil); err == nil {
		t.Error("-1 workers")
	}
}

func TestSleepIsNeverShort(t *testing.T) {
	onThread(t, func(timer *Timer) {
		for range 20 {
			check := timer.Check()
			until := timer.Now() + int64(300*time.Microsecond)
			timer.SleepUntil(until)
			if now := timer.Now(); now < until {
				t.Errorf("%d ns early", until-now)
			}
			if timer.Check() <= check {
				t.Error("the second clock stood still")
			}
		}
		timer.SleepUntil(0) // past: at once
	})
}

func TestProcessors(t *testing.T) {
	if n := Processors(Needs{Workers: 2}); n < runtime.NumCPU()+2 {
		t.Errorf("%d", n)
	}
}
