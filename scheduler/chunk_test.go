package scheduler

import (
	"testing"
	"time"
)

// TestPromptChunk: a layer of a prompt's chunk fits into half of the frame's idle
// time where that is more than the quantum of 2 ms, however long the prompt; and no
// chunk is narrower than what the device says is worth its time.
func TestPromptChunk(t *testing.T) {
	for _, c := range []struct {
		name         string
		target, work time.Duration
		perToken     time.Duration // of one layer
		least, want  int
	}{
		{"60 Hz, 5.7 ms idle", 16667 * time.Microsecond, 11 * time.Millisecond, 80 * time.Microsecond, 0, 16},
		{"30 Hz, 22 ms idle", 33333 * time.Microsecond, 11 * time.Millisecond, 80 * time.Microsecond, 0, 64},
		{"120 Hz, 2.8 ms idle", 8333 * time.Microsecond, 5500 * time.Microsecond, 80 * time.Microsecond, 0, 16},
		{"a slow device", 16667 * time.Microsecond, 11 * time.Millisecond, time.Millisecond, 0, 8},
		{"whose batches take alike", 16667 * time.Microsecond, 11 * time.Millisecond, time.Millisecond, 64, 64},
	} {
		cfg := DefaultConfig()
		cfg.Layers, cfg.LowPriorityBase, cfg.MinPrefillChunk = 30, true, c.least
		cfg.Features &^= FeatureFeedback // windows stay what they are
		cfg.StartOpenness = windowShare
		cfg.Devices.Default = "CPU"
		control, err := New(cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		var d Decision
		for i := range 200 {
			start := Instant(time.Duration(i) * c.target)
			run := c.perToken * 30 * 64
			control.Report(Work{Stage: StagePrefill, Tokens: 64, Threads: 1, Pending: 1,
				Start: start, End: start.Add(run)})
			d = control.Step(FrameSample{Start: start, End: start.Add(c.work), Target: c.target,
				Deadline: start.Add(c.target), Marked: true, Phase: PhaseExplore})
		}
		if d.Gate != GateWindow || d.PrefillChunk != c.want {
			t.Errorf("%s: %d tokens at gate %v, want %d", c.name, d.PrefillChunk, d.Gate, c.want)
		}
	}
}
