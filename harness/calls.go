package harness

import (
	"fmt"
	"strings"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
)

// parts is what our calls of a frame took, in ns.
type parts struct {
	marks  int32 // SetPhase, FrameBegin, FrameTimings, FrameEnd, without wake
	wake   int32 // system calls in them that wake the model's sleeping thread; 0: none
	poll   int32 // Poll, with what the harness does about the events
	submit int32 // Submit; 0: nobody was asked
}

// partNames are the keys of game_thread_parts_us, in the order of a frame.
var partNames = [...]string{"marks", "wake", "poll", "submit"}

// gameThreadParts takes our calls apart, those of a kind over the frames that have it.
func gameThreadParts(frames []frameRecord) map[string]Pair {
	var took [len(partNames)][]time.Duration
	for i := range frames {
		p := &frames[i].Parts
		for k, ns := range [len(partNames)]int32{p.marks, p.wake, p.poll, p.submit} {
			if ns > 0 {
				took[k] = append(took[k], time.Duration(ns))
			}
		}
	}
	out := map[string]Pair{}
	for k, name := range partNames {
		if len(took[k]) > 0 {
			out[name] = micro(took[k])
		}
	}
	return out
}

// callLines says of each policy that a controller steered what its calls took the
// game thread, part by part.
func (r *Report) callLines() []string {
	var lines []string
	for _, name := range r.order() {
		var p50s, p99s [len(partNames)][]float64
		for i := range r.Runs {
			x := &r.Runs[i]
			if x.Policy != name || x.Interrupted || x.IdleUse == nil {
				continue
			}
			for k, part := range partNames {
				if p, ok := x.GameThreadParts[part]; ok {
					p50s[k], p99s[k] = append(p50s[k], *p.P50), append(p99s[k], *p.P99)
				}
			}
		}
		var texts []string
		for k, part := range partNames {
			if len(p50s[k]) > 0 {
				texts = append(texts, fmt.Sprintf("%s %.0f / %.0f", part, metrics.Quartiles(p50s[k]).Median,
					metrics.Quartiles(p99s[k]).Median))
			}
		}
		if len(texts) > 0 {
			lines = append(lines, name+": our calls, µs a frame (p50 / p99): "+strings.Join(texts, ", "))
		}
	}
	return lines
}
