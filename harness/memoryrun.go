package harness

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/harness/page"
)

// MemoryRun holds the numbers of what characters remembered in a run.
type MemoryRun struct {
	Remembered   int            `json:"remembered"`   // memories
	Acknowledged int            `json:"acknowledged"` // of them, durable
	Indexed      int            `json:"indexed"`      // of them, with their vectors
	GivenUp      int            `json:"given_up"`     // of them, that get none
	Pending      map[string]int `json:"pending"`      // by phase: without vectors at its end
	Questions    int            `json:"questions"`    // embedded for recalls
	Stopped      int            `json:"stopped"`      // embeddings that were begun and not finished
	EmbedMs      *float64       `json:"embed_ms"`     // computing, of one vector; nil: none was made
	Remember     Pair           `json:"remember_us"`  // on the game thread

	Recalls    int     `json:"recalls"`
	RecallMs   Pair    `json:"recall_ms"`   // from the request until its prompt is ready
	DenseShare float64 `json:"dense_share"` // of recalls, by vectors too
	FoundShare float64 `json:"found_share"` // of recalls, that found something
	Failed     int     `json:"failed"`      // memories that were refused
	Error      string  `json:"error,omitempty"`
}

// measureMemories computes what concerns what was remembered.
func (r *Run) measureMemories(rec *recording) {
	m := rec.memory
	if m == nil {
		return
	}
	out := &MemoryRun{
		Remembered: m.ids, Acknowledged: m.acked, Pending: map[string]int{}, Remember: micro(m.remember),
		Indexed: m.after.Indexed - m.before.Indexed, GivenUp: m.after.GivenUp - m.before.GivenUp,
		Questions: m.after.Questions - m.before.Questions, Stopped: m.after.Stopped - m.before.Stopped,
		Recalls: len(m.recall), Failed: m.failed,
	}
	made := 0
	for _, name := range rec.phases {
		p, _ := parsePhase(name)
		r.Embeddings[name] = m.embeddings(p)
	}
	for _, n := range r.Embeddings {
		made += n
	}
	for i, name := range rec.phases { // of a phase that comes again, the last time counts
		if n, ok := m.pending[i]; ok {
			out.Pending[name] = n
		}
	}
	if made > 0 {
		each := (m.after.Busy - m.before.Busy).Seconds() * 1e3 / float64(made)
		out.EmbedMs = &each
	}
	recalls := milliseconds(m.recall)
	out.RecallMs = Pair{quantile(recalls, 0.5), quantile(recalls, 0.99)}
	if n := float64(len(m.recall)); n > 0 {
		out.DenseShare, out.FoundShare = float64(m.dense)/n, float64(m.found)/n
	}
	if m.err != nil {
		out.Error = m.err.Error()
	}
	r.Memory = out
}

// memoryTable shows what was remembered, where somebody remembers; nil: nobody.
func (r *Report) memoryTable() table.Writer {
	t := page.NewTable("policy", "remembered", "durable", "with vectors", "stopped", "embed ms", "recall p50/p99 ms",
		"by vectors", "found", "remember p99 µs")
	rows := 0
	for _, name := range r.order() {
		list := r.remembering(name)
		if len(list) == 0 {
			continue
		}
		rows++
		of := func(f func(*MemoryRun) *float64, format string) string { return medianOf(list, f, format) }
		whole := func(f func(*MemoryRun) int) string {
			return of(func(m *MemoryRun) *float64 { x := float64(f(m)); return &x }, "%.0f")
		}
		share := func(f func(*MemoryRun) float64) string {
			return of(func(m *MemoryRun) *float64 { x := 100 * f(m); return &x }, "%.0f %%")
		}
		t.AppendRow(table.Row{
			name, whole(func(m *MemoryRun) int { return m.Remembered }),
			whole(func(m *MemoryRun) int { return m.Acknowledged }),
			whole(func(m *MemoryRun) int { return m.Indexed }), whole(func(m *MemoryRun) int { return m.Stopped }),
			of(func(m *MemoryRun) *float64 { return m.EmbedMs }, "%.1f"),
			of(func(m *MemoryRun) *float64 { return m.RecallMs.P50 }, "%.1f") + " / " +
				of(func(m *MemoryRun) *float64 { return m.RecallMs.P99 }, "%.1f"),
			share(func(m *MemoryRun) float64 { return m.DenseShare }),
			share(func(m *MemoryRun) float64 { return m.FoundShare }),
			of(func(m *MemoryRun) *float64 { return m.Remember.P99 }, "%.1f"),
		})
	}
	if rows == 0 {
		return nil
	}
	return t
}

// medianOf writes the median over runs of what was measured.
func medianOf(list []*Run, f func(*MemoryRun) *float64, format string) string {
	var xs []float64
	for _, run := range list {
		if x := f(run.Memory); x != nil {
			xs = append(xs, *x)
		}
	}
	if len(xs) == 0 {
		return nothing
	}
	return fmt.Sprintf(format, metrics.Quartiles(xs).Median)
}

// inPhase writes what was embedded in a phase, and what waited at its end.
func (r *Report) inPhase(policy, phase string) (embedded, waiting string) {
	list := r.remembering(policy)
	if len(list) == 0 {
		return nothing, nothing
	}
	var made, left []float64
	for _, run := range list {
		made = append(made, float64(run.Embeddings[phase]))
		if n, ok := run.Memory.Pending[phase]; ok {
			left = append(left, float64(n))
		}
	}
	embedded, waiting = fmt.Sprintf("%.0f", metrics.Quartiles(made).Median), nothing
	if len(left) > 0 {
		waiting = fmt.Sprintf("%.0f", metrics.Quartiles(left).Median)
	}
	return embedded, waiting
}

// remembering lists the complete runs of a policy in which somebody remembers.
func (r *Report) remembering(policy string) (list []*Run) {
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == policy && run.Memory != nil && !run.Interrupted {
			list = append(list, run)
		}
	}
	return list
}
