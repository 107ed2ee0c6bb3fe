package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/frames"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/scheduler"
)

// ErrOptions means that the caller asked for something that can't be.
var ErrOptions = errors.New("frames: wrong option")

// Target rates that make sense: a slide show to the fastest screens.
const (
	minHz = 1
	maxHz = 1000
)

// jitterShare is the share of frames late by a hair from which on the report
// says that they are not what jank means.
const jitterShare = 0.05

// Options say how to look at a capture.
type Options struct {
	TargetHz   float64           // 0: the median frame time
	Process    string            // see frames.Options
	Classifier frames.Classifier // nil: a frames.WindowClassifier
}

// Validate says what is wrong with o.
func (o Options) Validate() error {
	if o.TargetHz != 0 && !(o.TargetHz >= minHz && o.TargetHz <= maxHz) {
		return fmt.Errorf("%w: target of %v Hz: want %d…%d, or 0 for the median frame time",
			ErrOptions, o.TargetHz, minHz, maxHz)
	}
	return nil
}

// Span is a stretch of frames with one bottleneck.
type Span struct {
	Bottleneck scheduler.Bottleneck
	First, End int // frames, End exclusive
}

// Analysis is what a capture shows. Safe for concurrent use once made.
type Analysis struct {
	File       string
	Capture    *frames.Capture
	Metrics    *metrics.Result
	Target     time.Duration
	TargetFrom string // how the target was chosen
	Spans      []Span
	Notes      []string // what a reader of the numbers should know
	median     bool
	AnimErr    metrics.FrameMs // quantiles of the absolute animation error
	AnimErrN   int             // frames that have one
	frameMs    []float64       // sorted
}

// Analyse reads a capture. File is only named.
func Analyse(r io.Reader, file string, o Options) (*Analysis, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := frames.Load(r, frames.Options{Process: o.Process})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	a := &Analysis{File: file, Capture: c, Notes: slices.Clone(c.Notes)}
	a.chooseTarget(o)
	if err := a.measure(); err != nil {
		return nil, err
	}
	if a.Metrics.Frames == 0 {
		return nil, fmt.Errorf("%s: %w: %v", file, frames.ErrNoFrames, a.Metrics.Unusable)
	}
	k := o.Classifier
	if k == nil {
		k = &frames.WindowClassifier{}
	}
	a.classify(k, o.TargetHz != 0)
	return a, nil
}

func (a *Analysis) chooseTarget(o Options) {
	var errs []float64
	for _, f := range a.Capture.All {
		a.frameMs = append(a.frameMs, ms(f.FrameTime))
		if f.Known.Has(frames.FieldAnimationError) {
			errs = append(errs, ms(f.AnimationError.Abs()))
		}
	}
	slices.Sort(a.frameMs)
	slices.Sort(errs)
	a.AnimErrN = len(errs)
	a.AnimErr = metrics.FrameMs{P50: metrics.Quantile(errs, 0.5), P99: metrics.Quantile(errs, 0.99)}
	if o.TargetHz != 0 {
		// Rounded up: a frame that takes just its period is not late.
		a.Target = time.Duration(math.Ceil(float64(time.Second) / o.TargetHz))
		a.TargetFrom = "as asked for"
		return
	}
	a.median = true
	a.Target = max(1, time.Duration(metrics.Quantile(a.frameMs, 0.5)*1e6+0.5))
	a.TargetFrom = "the median frame time, as no target was given; about half of all frames are above a median, " +
		"so read jank and hitches as spread"
}

func (a *Analysis) measure() error {
	c, err := metrics.New(metrics.DefaultConfig())
	if err != nil {
		return err
	}
	segment := int32(-1)
	for _, f := range a.Capture.All {
		if f.Segment != segment {
			c.Restart()
			segment = f.Segment
		}
		m := metrics.FromCapture(f.Start, f.FrameTime, a.Target)
		m.NoClock = !f.Known.Has(frames.FieldStart)
		c.Add(m)
	}
	a.Metrics = c.Result()
	if m := a.Metrics; m.JankRate-m.ClearJankRate > jitterShare && !a.median {
		a.Notes = append(a.Notes, fmt.Sprintf("%.0f %% of the frames miss the target by less than 2 %% of it: the "+
			"jitter of frames that are locked to a screen; jank_rate_2pct leaves them out",
			100*(m.JankRate-m.ClearJankRate)))
	}
	return nil
}

// classify walks the capture once and joins equal answers to spans. Answers of
// a window that is not full yet are replaced by the first that is not unknown
// of the same segment, within a window's length.
func (a *Analysis) classify(k frames.Classifier, wanted bool) {
	target := a.Target
	if !wanted {
		target = 0 // a median is no wish
	}
	segment, opened := int32(-1), 0
	for i, f := range a.Capture.All {
		if f.Segment != segment {
			k.Reset()
			segment, opened = f.Segment, i
		}
		b := k.Classify(frames.Sample{
			FrameTime: f.FrameTime, Target: target, CPUBusy: f.CPUBusy, GPUBusy: f.GPUBusy, PresentWait: f.CPUWait,
			PresentWaitKnown: f.Known.Has(frames.FieldCPUWait),
		})
		n := len(a.Spans)
		if n > 0 && a.Spans[n-1].Bottleneck == b && a.Spans[n-1].First >= opened {
			a.Spans[n-1].End = i + 1
			continue
		}
		first := i
		if n > 0 && a.Spans[n-1].First == opened && a.Spans[n-1].Bottleneck == scheduler.BoundUnknown &&
			i-opened < frames.WindowFrames {
			first = opened
			a.Spans = a.Spans[:n-1]
		}
		a.Spans = append(a.Spans, Span{b, first, i + 1})
	}
}

// Shares returns the share of frames under each bottleneck.
func (a *Analysis) Shares() map[string]float64 {
	m := map[string]float64{}
	for _, s := range a.Spans {
		m[s.Bottleneck.String()] += float64(s.End-s.First) / float64(a.Capture.Len())
	}
	return m
}

// Unusable counts by reason all that could not be used: rows, single values of
// usable rows, columns that are not there, and frames beside the clock.
func (a *Analysis) Unusable() map[string]int64 {
	all := a.Capture.Rejected
	for i := range a.Capture.Stream.Values {
		all.Add(&a.Capture.Stream.Values[i])
	}
	m := all.Map()
	for reason, n := range a.Metrics.Unusable {
		m[reason] += n
	}
	return m
}

// UnusableValues counts by field and reason the values of usable rows.
func (a *Analysis) UnusableValues() map[string]map[string]int64 {
	m := map[string]map[string]int64{}
	for f := range a.Capture.Stream.Values {
		if c := &a.Capture.Stream.Values[f]; c.Sum() > 0 {
			m[frames.Field(f).String()] = c.Map()
		}
	}
	return m
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
