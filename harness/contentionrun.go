package harness

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/harness/page"
	"github.com/lull-npc/lull/scheduler"
)

// Preemptions says how often drafts gave way.
type Preemptions struct {
	Decided int     `json:"decided"`        // the draft model was dropped
	Stopped int     `json:"drafts_stopped"` // in the middle of a batch
	Share   float64 `json:"share"`          // of frames without the draft model
}

// ScorePoint is the contention of one stretch of a run.
type ScorePoint struct {
	Begin    float64  `json:"t_s"`     // since the run began
	Seconds  float64  `json:"seconds"` // its length
	Score    *float64 `json:"score"`   // null: no layer ran
	N        int      `json:"n"`       // groups of layers
	Pressure float64  `json:"pressure"`
	SleepMs  float64  `json:"sleep_ms"`
	Width    float64  `json:"verify_width"`
	Dropped  float64  `json:"preempted"` // share of frames
	Streamed float64  `json:"streamed_gb_per_s"`
	Late     float64  `json:"jank_rate"`
}

const (
	// maxPoints bounds score_over_time: what a plot can show.
	maxPoints = 120

	// pointLength is the shortest stretch: a second has 60 frames and 30 tokens
	// or so.
	pointLength = time.Second
)

// measureContention computes the scores of a run, and what the contention loop
// did.
func (r *Run) measureContention(rec *recording, base scheduler.Baselines) {
	scores := rec.works.contention(base)
	inside := scores[:0]
	var values []float64
	for _, s := range scores {
		if s.at >= rec.begin && s.at <= rec.end {
			inside, values = append(inside, s), append(values, s.cs)
		}
	}
	slices.Sort(values)
	r.Contention = Scores{quantile(values, 0.5), quantile(values, 0.95)}
	r.scoreOverTime(rec, inside)
	r.Preemptions.Stopped = rec.works.stopped(rec.begin, rec.end)
	if !rec.steered || len(rec.frames) == 0 {
		return
	}
	before, share := false, 1/float64(len(rec.frames))
	for i := range rec.frames {
		d := &rec.frames[i].Decision
		r.MemoryReasons[d.Memory.String()] += share
		if d.Preempted && !before {
			r.Preemptions.Decided++
		}
		if before = d.Preempted; before {
			r.Preemptions.Share += share
		}
	}
}

// scoreOverTime cuts a run into stretches.
func (r *Run) scoreOverTime(rec *recording, scores []scoredLayer) {
	total := time.Duration(rec.end - rec.begin)
	if total <= 0 {
		return
	}
	n := min(maxPoints, max(1, int(total/pointLength)))
	length := total / time.Duration(n)
	bin := func(at int64) int { return min(max(int((at-rec.begin)/int64(length)), 0), n-1) }
	points := make([]ScorePoint, n)
	values, frames := make([][]float64, n), make([]float64, n)
	for _, s := range scores {
		values[bin(s.at)] = append(values[bin(s.at)], s.cs)
	}
	for i := range rec.frames {
		f := &rec.frames[i]
		k := bin(int64(f.Start))
		p, d := &points[k], &f.Decision
		frames[k]++
		p.Pressure += d.Pressure
		p.SleepMs += d.Sleep.Seconds() * 1e3
		p.Width += float64(d.VerifyWidth)
		p.Dropped += float64(btoi(d.Preempted))
		p.Late += float64(btoi(f.Overrun > 0))
		p.Streamed += float64(f.Streamed)
	}
	for i := range points {
		p := &points[i]
		p.Begin, p.Seconds, p.N = (time.Duration(i) * length).Seconds(), length.Seconds(), len(values[i])
		p.Streamed /= float64(length) // bytes a nanosecond are GB/s
		of := max(frames[i], 1)
		p.Pressure, p.SleepMs, p.Width = p.Pressure/of, p.SleepMs/of, p.Width/of
		p.Dropped, p.Late = p.Dropped/of, p.Late/of
		if p.N > 0 {
			score := midmean(values[i])
			p.Score = &score
		}
	}
	r.ScoreOverTime = points
}

// midmean sorts xs and is the mean of their middle half, as the scheduler's
// sensor has it.
func midmean(xs []float64) float64 {
	slices.Sort(xs)
	cut := len(xs) / 4
	sum := 0.0
	for _, x := range xs[cut : len(xs)-cut] {
		sum += x
	}
	return sum / float64(len(xs)-2*cut)
}

// modelTable shows what the model did with its time and what memory did to it.
func (r *Report) modelTable() table.Writer {
	t := page.NewTable("policy", "prefill", "decode", "draft", "verify", "sleep", "wait", "closed", "accepted",
		"preempted", "score p50/p95", "score over time")
	any := false
	for _, name := range r.order() {
		runs := r.complete(name)
		if name == PolicyNative || len(runs) == 0 {
			continue
		}
		any = true
		share := func(f func(*Run) float64) string {
			if x := median(runs, f); x > 0 {
				return fmt.Sprintf("%.0f %%", 100*x)
			}
			return "–"
		}
		score := "–"
		if runs[0].Contention.P50 != nil && runs[0].Contention.P95 != nil {
			score = fmt.Sprintf("%.2f / %.2f", median(runs, func(r *Run) float64 { return value(r.Contention.P50) }),
				median(runs, func(r *Run) float64 { return value(r.Contention.P95) }))
		}
		t.AppendRow(table.Row{
			name, share(func(r *Run) float64 { return r.Shares.Prefill }),
			share(func(r *Run) float64 { return r.Shares.Decode }),
			share(func(r *Run) float64 { return r.Shares.Draft }),
			share(func(r *Run) float64 { return r.Shares.Verify }),
			share(func(r *Run) float64 { return r.Shares.Sleep }),
			share(func(r *Run) float64 { return r.Shares.WindowWait }),
			share(func(r *Run) float64 { return r.Shares.Closed }), accepted(runs[0]),
			share(func(r *Run) float64 { return r.Preemptions.Share }), score, sparks(runs[0].ScoreOverTime),
		})
	}
	if !any {
		return nil
	}
	return t
}

func (r *Report) complete(policy string) (list []*Run) {
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == policy && !run.Interrupted {
			list = append(list, run)
		}
	}
	return list
}

func median(runs []*Run, f func(*Run) float64) float64 {
	var xs []float64
	for _, r := range runs {
		xs = append(xs, f(r))
	}
	return metrics.Quartiles(xs).Median
}

func value(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

// accepted lists the sources whose candidates were judged.
func accepted(r *Run) string {
	var list []string
	for source, rate := range r.Acceptance {
		list = append(list, fmt.Sprintf("%s %.0f %%", source, 100*rate))
	}
	if len(list) == 0 {
		return "–"
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

const (
	// sparkWidth is the most characters of a line of sparks.
	sparkWidth = 30

	// sparkFull is the score of a full one: a layer that takes half as long
	// again.
	sparkFull = 0.5
)

// sparks draws the score of the first run: each character up to sparkFull.
func sparks(points []ScorePoint) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	n := min(len(points), sparkWidth)
	line := make([]rune, n)
	for i := range line {
		most := math.Inf(-1)
		for _, p := range points[i*len(points)/n : (i+1)*len(points)/n] {
			if p.Score != nil {
				most = max(most, *p.Score)
			}
		}
		switch {
		case math.IsInf(most, -1):
			line[i] = '·'
		default:
			line[i] = levels[min(max(1+int(most/sparkFull*float64(len(levels)-2)), 1), len(levels)-1)]
		}
	}
	return string(line)
}
