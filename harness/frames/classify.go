package frames

import "time"

// Sample is what a classifier sees of a frame. A busy time of 0 means that it
// was not measured.
type Sample struct {
	FrameTime        time.Duration
	Target           time.Duration
	CPUBusy, GPUBusy time.Duration
	PresentWait      time.Duration
	PresentWaitKnown bool
}

// Classifier says frame by frame what limits a game. Call from one goroutine at
// a time.
type Classifier interface {
	// Classify returns the name of the bottleneck after this frame.
	Classify(Sample) string
	// Reset forgets the frames before, at the border of a segment.
	Reset()
}

// Names of bottlenecks.
const (
	BottleneckCPU      = "cpu"
	BottleneckGPU      = "gpu"
	BottleneckPresent  = "present-limited"
	BottleneckBalanced = "balanced"
	BottleneckUnknown  = "unknown"
)

const (
	// windowFrames: Unity's debugger averages over 60 frames, a second at 60 Hz;
	// fewer flap with single frames, more hide a fight of some seconds.
	windowFrames = 60
	// nearFull: Unity calls a side the bottleneck beyond 80 % of the frame.
	nearFull = 0.8
	// waitsAtPresent: Unity's mark for a CPU that waits for the display.
	waitsAtPresent = 500 * time.Microsecond
	// enterShare and leaveShare: Adaptive Performance's hysteresis, for cases
	// that Unity's rule leaves open (both sides near full, GPU not measured).
	enterShare = 0.90
	leaveShare = 0.87
)

// UnityClassifier is the rule of Unity's rendering debugger over the averages
// of the last 60 frames. Where that leaves the matter open (both sides near
// full, or one not measured), a side that is busy for more than 90 % of the
// frame is the bottleneck until it falls below 87 %, as in Unity's Adaptive
// Performance. Until 60 frames are in, and where nothing was measured, the
// answer is unknown. Call from one goroutine at a time.
type UnityClassifier struct {
	window [windowFrames]Sample
	n      int
	sum    Sample
	known  struct{ cpu, gpu, wait int }
	state  string // the answer for the frame before
}

// Reset forgets the frames before.
func (c *UnityClassifier) Reset() { *c = UnityClassifier{} }

// Classify takes one frame and returns the bottleneck of the last 60.
func (c *UnityClassifier) Classify(s Sample) string {
	slot := &c.window[c.n%windowFrames]
	if c.n >= windowFrames {
		c.count(slot, -1)
	}
	*slot = s
	c.count(slot, 1)
	c.n++
	if c.n < windowFrames {
		return BottleneckUnknown
	}
	c.state = c.decide()
	return c.state
}

func (c *UnityClassifier) count(s *Sample, sign int) {
	d := time.Duration(sign)
	c.sum.FrameTime += d * s.FrameTime
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

// decide works on means over the frames in which a value was measured; a value
// measured in less than half of them counts as unknown.
func (c *UnityClassifier) decide() string {
	frame := float64(c.sum.FrameTime) / windowFrames
	if frame <= 0 {
		return BottleneckUnknown
	}
	share := func(sum time.Duration, n int) (float64, bool) {
		if 2*n < windowFrames {
			return 0, false
		}
		return float64(sum) / float64(n) / frame, true
	}
	cpu, cpuKnown := share(c.sum.CPUBusy, c.known.cpu)
	gpu, gpuKnown := share(c.sum.GPUBusy, c.known.gpu)
	wait, waitKnown := share(c.sum.PresentWait, c.known.wait)
	if cpuKnown && gpuKnown {
		waits := waitKnown && wait*frame > float64(waitsAtPresent)
		switch {
		case gpu > nearFull && cpu < nearFull:
			return BottleneckGPU
		case cpu > nearFull && gpu < nearFull:
			return BottleneckCPU
		case waits && gpu < nearFull && cpu < nearFull:
			return BottleneckPresent
		}
	}
	return c.open(cpu, cpuKnown, gpu, gpuKnown)
}

func (c *UnityClassifier) open(cpu float64, cpuKnown bool, gpu float64, gpuKnown bool) string {
	mark := func(name string) float64 {
		if c.state == name {
			return leaveShare
		}
		return enterShare
	}
	switch {
	case cpuKnown && cpu > gpu && cpu > mark(BottleneckCPU):
		return BottleneckCPU
	case gpuKnown && gpu > cpu && gpu > mark(BottleneckGPU):
		return BottleneckGPU
	case cpuKnown && gpuKnown:
		return BottleneckBalanced
	}
	return BottleneckUnknown
}
