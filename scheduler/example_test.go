package scheduler_test

import (
	"fmt"
	"time"

	"github.com/lull-npc/lull/scheduler"
)

// A game marks three frames of 11 ms and one of 17 ms at 60 Hz, while a reply
// is running. Each frame gives a decision, and two windows to publish.
func Example() {
	cfg := scheduler.DefaultConfig()
	cfg.StartOpenness, cfg.LowPriorityBase = 0.75, true
	c, err := scheduler.New(cfg, 0)
	if err != nil {
		panic(err)
	}
	c.Report(scheduler.Work{Pending: 1})

	const target = time.Second / 60
	var m scheduler.Marks
	var line []byte
	for i, work := range []time.Duration{11, 11, 17, 11} {
		begin := scheduler.Instant(0).Add(time.Duration(i) * target)
		if i == 3 {
			begin = begin.Add(target) // the late frame took two lines of the grid
		}
		w, _ := m.Begin(uint64(i), target, begin)
		early := "shut until FrameEnd"
		if w.Open < w.Close {
			early = fmt.Sprintf("open after %.2f ms", float64(w.Open.Sub(begin))/1e6)
		}
		s, _ := m.End(uint64(i), begin.Add(target), begin.Add(work*time.Millisecond))
		d := c.Step(s)
		w = m.Plan(d)
		line = scheduler.Trace(line[:0], s, d)
		until := float64(w.Close.Sub(begin)) / 1e6
		fmt.Printf("%s\n  was %s; openness %.4f, open until %.2f ms\n", line, early, d.Openness, until)
	}
	// Output:
	// 0 explore 11.0/16.6ms -5.7 | window 0.75 after 5.4ms thr 1 lps 1 chunk 32 index 1.5ms | unknown 0.00 | return
	//   was shut until FrameEnd; openness 0.7511, open until 16.67 ms
	// 1 explore 11.0/16.6ms -5.7 | window 0.75 after 5.4ms thr 1 lps 1 chunk 32 index 1.5ms | unknown 0.00 | return
	//   was open after 5.48 ms; openness 0.7522, open until 16.67 ms
	// 2 explore 17.0/16.6ms +0.3 | window 0.65 after 8.1ms thr 1 lps 1 chunk 32 | unknown 0.00 | late
	//   was open after 5.45 ms; openness 0.6533, open until 33.33 ms
	// 3 explore 11.0/16.6ms -5.7 | window 0.65 after 8.0ms thr 1 lps 1 chunk 32 | unknown 0.00 | return
	//   was open after 8.15 ms; openness 0.6544, open until 16.67 ms
}
