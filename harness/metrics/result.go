package metrics

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Overrun holds quantiles in milliseconds.
type Overrun struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// FrameMs holds quantiles in milliseconds.
type FrameMs struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Chrome holds the numbers of fixed windows of 64 frames.
type Chrome struct {
	Windows         int64   `json:"windows"`
	DelayedShare    float64 `json:"delayed_share"`       // mean over the windows
	DelayedWorst    float64 `json:"delayed_share_worst"` // of one window
	MissedSum       float64 `json:"missed_vsyncs"`       // mean over the windows
	MissedSumWorst  int64   `json:"missed_vsyncs_worst"` // of one window
	MissedMostFrame int64   `json:"missed_vsyncs_max"`   // of one frame
}

// Phase holds the numbers of one phase.
type Phase struct {
	Frames      int64   `json:"frames"`
	JankRate    float64 `json:"jank_rate"`
	HitchMsPerS float64 `json:"hitch_ms_per_s"`
	AverageFPS  float64 `json:"avg_fps"`
	FrameMs     FrameMs `json:"frame_ms"`
	Overrun     Overrun `json:"overrun_ms"`
}

// Result holds all metrics of a run; Definitions says what each means. A share
// is a fraction of 1. A pointer is nil where the run is too short to say.
type Result struct {
	Frames      int64   `json:"frames"` // used, loading not among them
	Seconds     float64 `json:"seconds"`
	JankRate    float64 `json:"jank_rate"`
	HitchMsPerS float64 `json:"hitch_ms_per_s"`
	BigJank     int64   `json:"big_jank"`
	Low1FPS     float64 `json:"low1_fps"`
	Overrun     Overrun `json:"overrun_ms"`
	FrameMs     FrameMs `json:"frame_ms"`

	ClearJankRate   float64  `json:"jank_rate_2pct"`
	AverageFPS      float64  `json:"avg_fps"`
	Low1P1FPS       float64  `json:"low1_p1_fps"`
	Low1IntegralFPS float64  `json:"low1_integral_fps"`
	PerfDogJank     int64    `json:"perfdog_jank"`
	StutterShare    float64  `json:"stutter_share"`
	UnrealHitches   int64    `json:"ue_hitches"`
	HitchesPerMin   float64  `json:"ue_hitches_per_min"`
	MissedVSync     float64  `json:"ue_missed_vsync_share"`
	Slow20FPSShare  *float64 `json:"android_slow_20fps_share"`
	Slow30FPSShare  *float64 `json:"android_slow_30fps_share"`
	SlowSession     *bool    `json:"android_slow_session"`
	Chrome          *Chrome  `json:"chrome_windows"`

	LoadingFrames int64            `json:"loading_frames"`
	Phases        map[string]Phase `json:"phases,omitempty"`
	Unusable      map[string]int64 `json:"unusable_frames,omitempty"`
	Exact         bool             `json:"exact"` // whether quantiles are of all frames
	KeptFrames    int              `json:"kept_frames"`
}

// Result computes the metrics of the frames so far. More may be added after.
func (c *Collector) Result() *Result {
	r := &Result{Frames: c.play.frames, Exact: c.used == int64(len(c.kept)), KeptFrames: len(c.kept)}
	r.Unusable = map[string]int64{}
	for o := Negative; o < numOutcomes; o++ {
		if n := c.outcomes[o]; n > 0 {
			r.Unusable[o.String()] = n
		}
	}
	r.Phases = map[string]Phase{}
	for i := range c.phases {
		p := &c.phases[i]
		if p.name == Loading {
			r.LoadingFrames = p.frames
		}
		if p.name != "" {
			r.Phases[p.name] = c.phaseResult(i)
		}
	}
	c.play.rates(r)
	q := c.sorted(func(s *sample) bool { return c.phases[s.phase].name != Loading })
	r.Overrun, r.FrameMs = q.overrun(), q.frame()
	r.Low1FPS, r.Low1P1FPS, r.Low1IntegralFPS = low1(q.interval)
	return r
}

func (c *Collector) phaseResult(i int) Phase {
	s := &c.phases[i].series
	q := c.sorted(func(s *sample) bool { return int(s.phase) == i })
	return Phase{
		Frames: s.frames, JankRate: ratio(s.janky, s.frames), HitchMsPerS: s.hitch(), AverageFPS: s.fps(),
		FrameMs: q.frame(), Overrun: q.overrun(),
	}
}

func (s *series) hitch() float64 {
	if s.interval <= 0 {
		return 0
	}
	return 1000 * float64(s.late) / float64(s.interval)
}

func (s *series) fps() float64 {
	if s.interval <= 0 {
		return 0
	}
	return float64(s.frames) / s.interval.Seconds()
}

// rates fills in what needs no quantile.
func (s *series) rates(r *Result) {
	r.Seconds = s.interval.Seconds()
	r.JankRate = ratio(s.janky, s.frames)
	r.ClearJankRate = ratio(s.clear, s.frames)
	r.HitchMsPerS = s.hitch()
	r.AverageFPS = s.fps()
	r.PerfDogJank, r.BigJank = s.perfdog.jank, s.perfdog.big
	r.UnrealHitches = s.unreal.hitches
	if s.interval > 0 {
		r.StutterShare = float64(s.perfdog.stutter) / float64(s.interval)
		r.HitchesPerMin = float64(s.unreal.hitches) / s.interval.Minutes()
	}
	if s.targets > 0 {
		r.MissedVSync = max(0, s.targets-float64(s.frames)) / s.targets
	}
	if a := s.android; a.frames > 0 {
		slow20, slow30 := ratio(a.slow20, a.frames), ratio(a.slow30, a.frames)
		slow := slow20 > androidShare
		r.Slow20FPSShare, r.Slow30FPSShare, r.SlowSession = &slow20, &slow30, &slow
	}
	if c := s.chrome; c.windows > 0 {
		frames := c.windows * chromeWindow
		r.Chrome = &Chrome{
			Windows:      c.windows,
			DelayedShare: ratio(c.delayedAll, frames), DelayedWorst: ratio(c.delayedWorst, chromeWindow),
			MissedSum: ratio(c.missedAll, c.windows), MissedSumWorst: c.missedWorst, MissedMostFrame: c.missedMost,
		}
	}
}

// columns are sorted milliseconds.
type columns struct{ interval, work, over []float64 }

func (c *Collector) sorted(want func(*sample) bool) columns {
	var q columns
	for i := range c.kept {
		if s := &c.kept[i]; want(s) {
			q.interval = append(q.interval, ms(s.interval))
			q.work = append(q.work, ms(s.work))
			q.over = append(q.over, ms(s.overrun))
		}
	}
	slices.Sort(q.interval)
	slices.Sort(q.work)
	slices.Sort(q.over)
	return q
}

func (q columns) overrun() Overrun {
	return Overrun{Quantile(q.over, 0.5), Quantile(q.over, 0.9), Quantile(q.over, 0.95), Quantile(q.over, 0.99)}
}

func (q columns) frame() FrameMs { return FrameMs{Quantile(q.work, 0.5), Quantile(q.work, 0.99)} }

// Quantile is the smallest value of sorted xs with at least the share p of the
// values at or below it (gonum's stat.Empirical); 0 of none. Safe for
// concurrent use.
func Quantile(xs []float64, p float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return stat.Quantile(p, stat.Empirical, xs, nil)
}

// low1 computes the three things that are called "1 % low". All look at the
// slowest frames of sorted intervals in ms.
func low1(xs []float64) (average, p1, integral float64) {
	if len(xs) == 0 {
		return 0, 0, 0
	}
	// The 1 % quantile of fps is that of the longest frames: counted from above.
	slowest := int(math.Ceil(0.01 * float64(len(xs))))
	p1 = 1000 / xs[len(xs)-slowest]

	limit := Quantile(xs, 0.99)
	from, _ := slices.BinarySearch(xs, limit)
	average = 1000 / stat.Mean(xs[from:], nil)

	total := 0.0
	for _, x := range xs {
		total += x
	}
	sum := 0.0
	for i := len(xs) - 1; i >= 0; i-- {
		if sum += xs[i]; sum >= total/100 {
			integral = 1000 / xs[i]
			break
		}
	}
	return average, p1, integral
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func ratio(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// Shares says where the time of a run went, as fractions of it. The engine is
// computing (prefill, decode, verify, draft), waiting (sleep, window_wait,
// closed) or without work (the rest).
type Shares struct {
	Draft      float64 `json:"draft"`
	Verify     float64 `json:"verify"`
	Sleep      float64 `json:"sleep"`
	WindowWait float64 `json:"window_wait"`
	Closed     float64 `json:"closed"`
	Prefill    float64 `json:"prefill"`
	Decode     float64 `json:"decode"`
}
