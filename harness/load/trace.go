package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/lull-npc/lull/harness/frames"
)

// ErrTrace is wrapped by every error about replaying a capture.
var ErrTrace = errors.New("load: the capture can't be replayed")

// TraceConfig says how a capture becomes load.
type TraceConfig struct {
	// Scale multiplies the times of the capture; 0 means 1, or what Fill wants.
	Scale float64
	// Fill chooses the scale so that the mean CPU busy time is this share of
	// Period; 0 leaves Scale.
	Fill    float64
	Period  time.Duration
	Workers int // threads that each burn the CPU busy time; 0 means 1
}

// maxScale keeps a capture from turning into hours; minScale from nothing.
const (
	minScale = 0.001
	maxScale = 1000
)

// Trace replays a capture, from its begin again where a phase is longer. Safe
// for concurrent use once made.
type Trace struct {
	frames     []traced
	workers    int
	scale      float64
	derivation string
}

type traced struct{ cpu, gpu time.Duration }

// NewTrace makes load of a capture.
func NewTrace(c *frames.Capture, cfg TraceConfig) (*Trace, error) {
	if cfg.Workers == 0 {
		cfg.Workers = 1
	}
	if cfg.Workers < 1 || cfg.Workers > MaxWorkers {
		return nil, fmt.Errorf("%w: %d workers: want 1…%d", ErrTrace, cfg.Workers, MaxWorkers)
	}
	if c.Len() == 0 {
		return nil, fmt.Errorf("%w: it has no frame", ErrTrace)
	}
	t := &Trace{workers: cfg.Workers, frames: make([]traced, 0, c.Len())}
	var sum, sumGPU time.Duration
	var fromWait, fromFrame, noGPU int
	for _, f := range c.All {
		x := traced{cpu: f.CPUBusy, gpu: f.GPUBusy}
		if !f.Known.Has(frames.FieldCPUBusy) {
			x.cpu = f.FrameTime
			if f.Known.Has(frames.FieldCPUWait) && f.CPUWait < f.FrameTime {
				x.cpu -= f.CPUWait
				fromWait++
			} else {
				fromFrame++
			}
		}
		if !f.Known.Has(frames.FieldGPUBusy) {
			noGPU++
		}
		sum += x.cpu
		sumGPU += x.gpu
		t.frames = append(t.frames, x)
	}
	mean := sum / time.Duration(len(t.frames))
	if err := t.choose(cfg, mean); err != nil {
		return nil, err
	}
	for i := range t.frames {
		f := &t.frames[i]
		f.cpu, f.gpu = t.scaled(f.cpu), t.scaled(f.gpu)
	}
	t.derivation = fmt.Sprintf("%s %d frames, times × %.4g: CPU busy mean %.2f ms burnt by %d worker(s), "+
		"GPU busy mean %.2f ms waited from the begin of the frame.",
		c.Derivation, len(t.frames), t.scale, ms(t.scaled(mean)), t.workers,
		ms(t.scaled(sumGPU/time.Duration(len(t.frames)))))
	for _, d := range []struct {
		n    int
		text string
	}{
		{fromWait, "CPU busy taken as frame time - time in Present"},
		{fromFrame, "CPU busy unknown, the whole frame time burnt"},
		{noGPU, "GPU busy unknown, not waited for"},
	} {
		if d.n > 0 {
			t.derivation += fmt.Sprintf(" %s in %d frames.", d.text, d.n)
		}
	}
	return t, nil
}

func (t *Trace) choose(cfg TraceConfig, mean time.Duration) error {
	t.scale = cfg.Scale
	switch {
	case cfg.Fill != 0 && cfg.Scale != 0:
		return fmt.Errorf("%w: both a scale and a share to fill: give one", ErrTrace)
	case cfg.Fill != 0:
		if !(cfg.Fill > 0 && cfg.Fill <= 10) {
			return fmt.Errorf("%w: fill %v of the period: want more than 0, up to 10", ErrTrace, cfg.Fill)
		}
		if cfg.Period <= 0 || mean <= 0 {
			return fmt.Errorf("%w: fill %v of a period of %v with a mean of %v", ErrTrace, cfg.Fill, cfg.Period, mean)
		}
		t.scale = cfg.Fill * float64(cfg.Period) / float64(mean)
	case cfg.Scale == 0:
		t.scale = 1
	}
	if !(t.scale >= minScale && t.scale <= maxScale) {
		return fmt.Errorf("%w: times × %v: want %v…%v", ErrTrace, t.scale, minScale, maxScale)
	}
	return nil
}

func (t *Trace) scaled(d time.Duration) time.Duration {
	return min(time.Duration(float64(d)*t.scale), MaxCPU)
}

// Derivation says how the load was made of the capture.
func (t *Trace) Derivation() string { return t.derivation }

// Scale is the factor on the capture's times.
func (t *Trace) Scale() float64 { return t.scale }

// Job implements Source.
func (t *Trace) Job(i uint64, _ time.Duration, j *Job) {
	f := &t.frames[i%uint64(len(t.frames))]
	*j = Job{Workers: t.workers, CPU: f.cpu, GPU: f.gpu}
}

// Needs implements Source.
func (t *Trace) Needs() Needs { return Needs{Workers: t.workers} }

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
