package scheduler

import "time"

const (
	// fullShare is the share of a frame above which a resource fills it: the
	// threshold of Unity's frame timing rule. stayShare is a little lower, for
	// the class that holds, as Adaptive Performance does (.90 in, .87 to stay).
	fullShare = 0.8
	stayShare = 0.77

	// presentWaitSeen is the wait in present above which a frame waits for the
	// display rather than for work. Unity's value; below it lies call overhead.
	presentWaitSeen = 500 * time.Microsecond

	// onTarget is how much longer than its target a frame may take and still
	// count as on target: Adaptive Performance's 2 %, about the jitter of vsync.
	onTarget = 1.02

	// voteWeight is what one frame weighs in the classifier: it forgets in 16.
	voteWeight = 1.0 / 16

	// inferredWeight is what a frame weighs whose GPU or CPU time was not
	// measured but concluded from the rest.
	inferredWeight = voteWeight / 2

	// voteLead is by how much the votes of another class must exceed those of
	// the present one: a scene on the edge between two does not flap.
	voteLead = 0.2
)

// Classify says what one frame waited for. full is from present to present,
// target the period wanted (0: unknown). Where a frame is longer than its
// target, vsync may have stretched it, so the shares are taken of the target.
//
// Unity's rule: CPU or GPU is the bottleneck where it alone fills 0.8 of the
// frame; with neither, a wait in present means a cap or the display. Two
// cases go beyond it: where both fill the frame, the larger counts; and where
// one of the times is not measured, it is concluded: a frame over its target
// whose other resource has room waits for the one unseen. Safe for concurrent
// use.
func Classify(full, target time.Duration, t FrameTimings) Bottleneck {
	b, _ := classify(full, target, t, BoundUnknown)
	return b
}

func classify(full, target time.Duration, t FrameTimings, stay Bottleneck) (b Bottleneck, inferred bool) {
	if full <= 0 {
		return BoundUnknown, false
	}
	budget := full
	if target > 0 && target < full {
		budget = target
	}
	fills := func(busy time.Duration, as Bottleneck) bool {
		share := fullShare
		if stay == as {
			share = stayShare
		}
		return float64(busy) > share*float64(budget)
	}
	cpu, gpu := max(t.MainBusy, t.RenderBusy, 0), max(t.GPUBusy, 0)
	cpuFull, gpuFull := fills(cpu, BoundCPU), fills(gpu, BoundGPU)
	waits := t.PresentWaitKnown && t.PresentWait > presentWaitSeen
	missed := target > 0 && float64(full) > onTarget*float64(target)
	switch {
	case cpuFull && gpuFull && gpu > cpu, gpuFull && !cpuFull:
		return BoundGPU, false
	case cpuFull:
		return BoundCPU, false
	case cpu == 0 && gpu == 0:
		if waits && !missed {
			return BoundPresent, true
		}
		return BoundUnknown, false
	case gpu == 0 && missed:
		return BoundGPU, true
	case cpu == 0 && missed:
		return BoundCPU, true
	case waits:
		return BoundPresent, cpu == 0 || gpu == 0
	}
	return BoundNone, cpu == 0 || gpu == 0
}

// classifier holds the bottleneck still: each frame votes, and another class
// takes over only with a clear lead and after the dwell.
type classifier struct {
	votes   [len(boundNames)]float64 // of recent frames, each ≥ 0, sum ≤ 1
	current Bottleneck
	changed Instant
}

// observe takes one frame whose length is judged against what it should be:
// its target, or its longest part where that is longer. So a game that runs
// freely above its target is not bound by anything.
func (c *classifier) observe(s *FrameSample, now Instant, dwell time.Duration) {
	t := FrameTimings{s.MainBusy, s.RenderBusy, s.GPUBusy, s.PresentWait, s.PresentWaitKnown}
	span := s.End.Sub(s.Start)
	if s.Marked && t.MainBusy == 0 {
		t.MainBusy = span // between the marks there is only the game's own work
	}
	full := max(s.Target, span, t.MainBusy, t.RenderBusy, t.GPUBusy)
	b, inferred := classify(full, s.Target, t, c.current)
	weight := voteWeight
	if inferred {
		weight = inferredWeight
	}
	best := c.current
	for i := range c.votes {
		c.votes[i] -= float64(weight * c.votes[i])
		if Bottleneck(i) == b {
			c.votes[i] += weight
		}
		if c.votes[i] > c.votes[best] {
			best = Bottleneck(i)
		}
	}
	if c.current == BoundUnknown {
		dwell = 0 // any knowledge is better than none
	}
	if best != c.current && c.votes[best] > c.votes[c.current]+voteLead && now.Sub(c.changed) >= dwell {
		c.current, c.changed = best, now
	}
}

func (c *classifier) confidence() float64 { return c.votes[c.current] }
