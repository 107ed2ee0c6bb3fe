package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A game that is late by itself in 3 % of its frames, whatever the LLM does: as
// long as the gate says that no layer ran in those frames, that costs the LLM
// nothing, and no probe is needed to find out.
func TestQuietFramesAreTheGamesOwn(t *testing.T) {
	c := lowPriority(t, nil)
	random := rand.New(rand.NewPCG(1, 2))
	const target = 16 * time.Millisecond
	start := Instant(0)
	reasons := map[Reason]int{}
	for frame := range uint64(3000) {
		work := 11 * time.Millisecond
		if random.Float64() < 0.03 {
			work = 18 * time.Millisecond
		}
		end := start.Add(work)
		c.Report(Work{Stage: StageDecode, Tokens: 1, Generated: 1, Threads: 2, Start: start, End: end, Pending: 1})
		d := c.Step(FrameSample{Frame: frame, Start: start, End: end, Deadline: start.Add(target), Target: target,
			Marked: true, Quiet: true})
		reasons[d.Reason]++
		start = start.Add(2 * target)
	}
	d := c.Decision()
	if d.Openness < 0.5 || d.Gate == GateClosed || reasons[ReasonProbe]+reasons[ReasonClosed]+reasons[ReasonLate] > 0 {
		t.Errorf("openness %.2f, gate %v, reasons %v: want the idle time at least, and nothing held against the LLM",
			d.Openness, d.Gate, reasons)
	}
	if own := c.lateness.ownRate(); own < 0.015 || own > 0.045 {
		t.Errorf("the game's own rate is put at %.4f, want about 0.03", own)
	}
}

// Work whose end lies in a future that never comes does not make the engine busy
// for ever: frames of an idle engine tell the game's own lateness again.
func TestAbsurdWorkIsForgotten(t *testing.T) {
	c := lowPriority(t, nil)
	c.Report(Work{Stage: StageDecode, Tokens: 1, End: Forever})
	const period = 16 * time.Millisecond
	for i := range 20 {
		start := Instant(i) * Instant(period)
		c.Step(FrameSample{Frame: uint64(i), Start: start, End: start.Add(period - 1), Target: period, Marked: true})
	}
	if c.idleFor < 18 || c.lateness.offFrames < 16 {
		t.Errorf("20 frames after absurd work: idle for %d, %v frames tell of the game alone", c.idleFor,
			c.lateness.offFrames)
	}
}
