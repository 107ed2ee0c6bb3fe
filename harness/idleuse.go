package harness

import (
	"fmt"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/scheduler"
)

// IdleUse says where the time went that frames left between the end of the
// game's work and their deadline. It explains a policy's share of the limit:
//
//	tokens/s ≈ idle time per second · ran · (tokens/s without a game) / pace
//
// What is missing from ran is what windows lose at their two ends: the margin
// (1 - open), waking threads, and a rest that no layer fits into.
type IdleUse struct {
	IdleSeconds float64 `json:"idle_s"`
	OpenShare   float64 `json:"open_share"` // of that time the gate was open
	RanShare    float64 `json:"ran_share"`  // computing, of that time; above 1 where it also ran beside the game
	Pace        float64 `json:"pace"`       // what layers took, of what they take at rest; median, 0 is not known
}

// idleUse adds up the frames of a run.
func idleUse(frames []frameRecord, ran time.Duration, scores Scores) *IdleUse {
	var idle, open time.Duration
	for i := range frames {
		f := &frames[i]
		left := max(0, -f.Overrun)
		idle += left
		switch d := &f.Decision; scheduler.Gate(f.Gate) {
		case scheduler.GateClosed:
		case scheduler.GateWindow:
			open += max(0, left-d.Margin)
		default:
			open += left
		}
	}
	if idle <= 0 {
		return nil
	}
	u := &IdleUse{IdleSeconds: idle.Seconds(), OpenShare: float64(open) / float64(idle),
		RanShare: float64(ran) / float64(idle)}
	if scores.P50 != nil {
		u.Pace = 1 + *scores.P50
	}
	return u
}

// idleLines tells it for each policy that a controller steered.
func (r *Report) idleLines() []string {
	var lines []string
	for _, name := range r.order() {
		var idle, open, ran, pace []float64
		for i := range r.Runs {
			x := &r.Runs[i]
			if u := x.IdleUse; u != nil && x.Policy == name && !x.Interrupted {
				idle = append(idle, u.IdleSeconds/x.Seconds)
				open = append(open, u.OpenShare)
				ran = append(ran, u.RanShare)
				pace = append(pace, u.Pace)
			}
		}
		if len(idle) == 0 {
			continue
		}
		median := func(xs []float64) float64 { return metrics.Quartiles(xs).Median }
		line := fmt.Sprintf("%s: frames left %.0f %% of the time; for %.0f %% of it the gate was open, and the model "+
			"ran for %.0f %% as much", name, 100*median(idle), 100*median(open), 100*median(ran))
		if p := median(pace); p > 0 {
			line += fmt.Sprintf(", at %.2f of what layers take at rest", p)
		}
		lines = append(lines, line)
	}
	return lines
}
