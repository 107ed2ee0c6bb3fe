package harness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/scheduler"
)

func TestIdleUse(t *testing.T) {
	frame := func(g scheduler.Gate, left, margin time.Duration) frameRecord {
		return frameRecord{Frame: metrics.Frame{Overrun: -left}, Gate: uint8(g),
			Decision: scheduler.Decision{Margin: margin}}
	}
	const ms = time.Millisecond
	frames := []frameRecord{
		frame(scheduler.GateWindow, 4*ms, ms),
		frame(scheduler.GateWindow, ms, 2*ms), // the margin is all of it
		frame(scheduler.GateFree, 3*ms, 0),
		frame(scheduler.GateClosed, 2*ms, 0),
		frame(scheduler.GateWindow, -5*ms, 0), // late: nothing was left
	}
	half := 0.5
	got := idleUse(frames, 5*ms, Scores{P50: &half})
	want := &IdleUse{IdleSeconds: 0.010, OpenShare: 0.6, RanShare: 0.5, Pace: 1.5}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if u := idleUse(frames[4:], ms, Scores{}); u != nil {
		t.Errorf("without idle time: %+v", u)
	}
}
