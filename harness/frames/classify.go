package frames

import (
	"time"

	"github.com/lull-npc/lull/scheduler"
)

// Sample is what a classifier sees of a frame. A busy time of 0 means that it
// was not measured.
type Sample struct {
	FrameTime        time.Duration
	Target           time.Duration // 0: nobody said what is wanted
	CPUBusy, GPUBusy time.Duration
	PresentWait      time.Duration
	PresentWaitKnown bool
}

// Classifier says frame by frame what limits a game. Call from one goroutine at
// a time.
type Classifier interface {
	// Classify returns the bottleneck after this frame.
	Classify(Sample) scheduler.Bottleneck
	// Reset forgets the frames before, at the border of a segment.
	Reset()
}

const (
	// WindowFrames is what WindowClassifier averages over. Unity's debugger
	// takes 60 frames, a second at 60 Hz; fewer flap with single frames, more
	// hide a fight of some seconds.
	WindowFrames = 60

	// staying is by how much the busy time of the side that is the bottleneck
	// counts for more: it becomes one at 90 % and stays one down to 87 % in
	// Unity's Adaptive Performance, and likewise here from 80 % to 77.3 %.
	staying = 0.90 / 0.87
)

// WindowClassifier is the scheduler's rule (scheduler.Classify: Unity's, with
// what is missing concluded from the rest) over the averages of the last 60
// frames, with a hysteresis. Until 60 frames are in, the answer is unknown. A
// busy time that less than half of them know is not measured. Call from one
// goroutine at a time.
type WindowClassifier struct {
	window [WindowFrames]Sample
	n      int
	sum    Sample
	known  struct{ cpu, gpu, wait int }
	now    scheduler.Bottleneck
}

// Reset forgets the frames before.
func (c *WindowClassifier) Reset() { *c = WindowClassifier{} }

// Classify takes one frame and returns the bottleneck of the last 60.
func (c *WindowClassifier) Classify(s Sample) scheduler.Bottleneck {
	slot := &c.window[c.n%WindowFrames]
	if c.n >= WindowFrames {
		c.count(slot, -1)
	}
	*slot = s
	c.count(slot, 1)
	if c.n++; c.n == 2*WindowFrames { // so that n never overflows
		c.n = WindowFrames
	}
	if c.n < WindowFrames {
		return scheduler.BoundUnknown
	}
	c.now = c.decide()
	return c.now
}

func (c *WindowClassifier) count(s *Sample, sign int) {
	d := time.Duration(sign)
	c.sum.FrameTime += d * s.FrameTime
	c.sum.Target += d * s.Target
	c.sum.CPUBusy += d * s.CPUBusy
	c.sum.GPUBusy += d * s.GPUBusy
	if s.CPUBusy > 0 {
		c.known.cpu += sign
	}
	if s.GPUBusy > 0 {
		c.known.gpu += sign
	}
	if s.PresentWaitKnown {
		c.sum.PresentWait += d * s.PresentWait
		c.known.wait += sign
	}
}

func (c *WindowClassifier) decide() scheduler.Bottleneck {
	mean := func(sum time.Duration, n int) time.Duration {
		if 2*n < WindowFrames {
			return 0
		}
		return sum / time.Duration(n)
	}
	frame, target := c.sum.FrameTime/WindowFrames, c.sum.Target/WindowFrames
	t := scheduler.FrameTimings{
		MainBusy: mean(c.sum.CPUBusy, c.known.cpu), GPUBusy: mean(c.sum.GPUBusy, c.known.gpu),
		PresentWait: mean(c.sum.PresentWait, c.known.wait), PresentWaitKnown: 2*c.known.wait >= WindowFrames,
	}
	held := t
	switch c.now {
	case scheduler.BoundCPU:
		held.MainBusy = time.Duration(float64(t.MainBusy) * staying)
	case scheduler.BoundGPU:
		held.GPUBusy = time.Duration(float64(t.GPUBusy) * staying)
	}
	return scheduler.Classify(frame, target, held)
}
