package meter

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// barCount is how many frames the graph shows: its width in pixels.
const barCount = 290

// rateOver is the stretch over which tokens a second are told.
const rateOver = 2 * time.Second

// Frame is one frame as the loop saw it.
type Frame struct {
	metrics.Frame
	Ours time.Duration // that our calls took, of Work
	Ran  bool          // layers of the model ran beside the work
}

// Meter counts. Observe may be called from any goroutine, the rest from one at
// a time.
type Meter struct {
	frames  *metrics.Collector
	target  time.Duration
	bars    [barCount]ui.Bar
	next    int
	late    [ui.Causes]int
	total   int
	reasons [scheduler.Reasons]int
	lengths map[string]time.Duration
	ours    []float64 // µs
	begin   time.Duration
	end     time.Duration
	waits   [3]time.Duration // sleep, window, closed

	mu     sync.Mutex // what follows
	phase  string
	gate   scheduler.Gate
	tokens map[string]int
	run    map[llm.Stage]time.Duration
	drafts [2]int // judged, accepted
	recent []sample
	last   llm.Work
}

type sample struct {
	at     int64
	tokens int
}

// maxOurs bounds what is kept for quantiles: an hour at 60 Hz.
const maxOurs = 60 * 3600

// New begins to count.
func New(target time.Duration) (*Meter, error) {
	c, err := metrics.New(metrics.DefaultConfig())
	if err != nil {
		return nil, err
	}
	return &Meter{frames: c, target: target, lengths: map[string]time.Duration{}, tokens: map[string]int{},
		run: map[llm.Stage]time.Duration{}}, nil
}

// Observe takes what the engine did in a step.
func (m *Meter) Observe(w llm.Work) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.Stage == llm.Idle {
		return
	}
	wait := w.Waited
	m.run[w.Stage] += max(0, time.Duration(w.End-w.Start)-wait)
	switch m.gate {
	case scheduler.GatePaced:
		m.waits[0] += wait
	case scheduler.GateWindow:
		m.waits[1] += wait
	case scheduler.GateClosed:
		m.waits[2] += wait
	}
	m.tokens[m.phase] += w.Generated
	m.drafts[0] += w.Drafted
	m.drafts[1] += w.Accepted
	w.Samples = nil
	m.last = w
	if w.Generated > 0 {
		m.recent = append(m.recent, sample{w.End, w.Generated})
	}
}

// Add takes a frame, and what was decided at its end.
func (m *Meter) Add(f Frame, d scheduler.Decision, steered bool) {
	m.mu.Lock()
	m.phase, m.gate = f.Phase, d.Gate
	m.mu.Unlock()
	if m.total == 0 {
		m.begin = f.Start
	}
	m.total++
	m.end = f.Start + f.Interval
	if m.frames.Add(f.Frame) == metrics.Used {
		m.lengths[f.Phase] += f.Interval
	}
	if steered {
		m.reasons[d.Reason]++
	}
	if len(m.ours) < maxOurs {
		m.ours = append(m.ours, float64(f.Ours)/1e3)
	}
	cause := ui.Punctual
	if f.Overrun > 0 && f.Phase != metrics.Loading {
		switch {
		case f.Ours >= f.Overrun:
			cause = ui.LateOurs
		case f.Ran:
			cause = ui.LateModel
		default:
			cause = ui.LateGame
		}
	}
	m.late[cause]++
	m.bars[m.next%barCount] = ui.Bar{Ms: float32(f.Work.Seconds() * 1e3), Cause: cause}
	m.next++
}

// Late is how many frames were late, by cause.
func (m *Meter) Late() [ui.Causes]int { return m.late }

// rate is tokens a second lately.
func (m *Meter) rate(now int64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for len(m.recent) > 0 && m.recent[0].at < now-int64(rateOver) {
		m.recent = m.recent[1:]
	}
	for _, s := range m.recent {
		n += s.tokens
	}
	return float64(n) / rateOver.Seconds()
}

// HUD says what F1 shows.
func (m *Meter) HUD(policy string, s talk.Stats, ttftMs []float64, now int64) *ui.HUD {
	h := &ui.HUD{Policy: policy, TargetMs: m.target.Seconds() * 1e3, Late: m.late, Frames: m.total}
	for i := max(0, m.next-barCount); i < m.next; i++ {
		h.Bars = append(h.Bars, m.bars[i%barCount])
	}
	d := s.Decision
	first := "-"
	if n := len(ttftMs); n > 0 {
		first = fmt.Sprintf("%.0f ms", ttftMs[n-1])
	}
	h.Lines = []string{fmt.Sprintf("late by game %d, model %d, lull %d", m.late[ui.LateGame], m.late[ui.LateModel],
		m.late[ui.LateOurs])}
	switch {
	case policy == harness.PolicyNative:
		h.Lines = append(h.Lines, "no model runs: the game alone")
	case !s.Steered:
		h.Lines = append(h.Lines, "nobody decides: every core, whenever")
	default:
		h.Lines = append(h.Lines,
			fmt.Sprintf("bottleneck %s (%.2f), reason %s", d.Bottleneck, d.Confidence, d.Reason),
			fmt.Sprintf("gate %s, open %.2f, margin %.1f ms", d.Gate, d.Openness, d.Margin.Seconds()*1e3),
			fmt.Sprintf("%s, threads %d, chunk %d, verify %d", device(s.Device), d.Threads, d.PrefillChunk,
				d.VerifyWidth),
			fmt.Sprintf("contention %.2f, draft %s", d.Contention, d.Draft))
	}
	h.Lines = append(h.Lines, fmt.Sprintf("tokens/s %.1f, first word %s", m.rate(now), first))
	memory := fmt.Sprintf("memories %d, pending %d", s.Memories, s.Pending)
	switch {
	case !s.Embeds:
		memory += ", by words"
	case d.IndexTime > 0:
		memory += fmt.Sprintf(", index %.1f ms", d.IndexTime.Seconds()*1e3)
	default:
		memory += ", index waits"
	}
	h.Lines = append(h.Lines, memory)
	return h
}

func device(name string) string {
	if name == "" {
		return "no device"
	}
	return "on " + name
}

// Run is what was counted, as package harness reports it.
func (m *Meter) Run(policy string, repeat int, replies, failed int, ttftMs []float64) harness.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := harness.Run{Policy: policy, Repeat: repeat, Result: *m.frames.Result(), Replies: replies,
		Asked:  replies + failed,
		Failed: failed, Embeddings: map[string]int{}, Acceptance: map[string]float64{}, Reasons: map[string]float64{},
		Phases: map[string]harness.PhaseRun{}, MemoryReasons: map[string]float64{},
		ScoreOverTime: []harness.ScorePoint{}}
	for name, p := range r.Result.Phases {
		seconds := m.lengths[name].Seconds()
		run := harness.PhaseRun{Phase: p, Seconds: seconds, Tokens: m.tokens[name]}
		if seconds > 0 {
			run.TokensPerSecond = float64(run.Tokens) / seconds
		}
		r.Phases[name] = run
		if name != metrics.Loading {
			r.Tokens += run.Tokens
		}
	}
	if r.Seconds > 0 {
		r.TokensPerSecond = float64(r.Tokens) / r.Seconds
	}
	r.TTFT = pair(ttftMs)
	r.GameThread = pair(m.ours)
	if m.drafts[0] > 0 {
		r.Acceptance["all"] = float64(m.drafts[1]) / float64(m.drafts[0])
	}
	decided := 0
	for _, n := range m.reasons {
		decided += n
	}
	for reason, n := range m.reasons {
		if n > 0 {
			r.Reasons[scheduler.Reason(reason).String()] = float64(n) / float64(decided)
		}
	}
	if wall := float64(m.end - m.begin); wall > 0 {
		share := func(d time.Duration) float64 { return float64(d) / wall }
		r.Shares = metrics.Shares{Draft: share(m.run[llm.Draft]), Verify: share(m.run[llm.Verify]),
			Prefill: share(m.run[llm.Prefill]), Decode: share(m.run[llm.Decode]),
			Sleep: share(m.waits[0]), WindowWait: share(m.waits[1]), Closed: share(m.waits[2])}
	}
	return r
}

func pair(xs []float64) harness.Pair {
	if len(xs) == 0 {
		return harness.Pair{}
	}
	p50, p99 := metrics.Quantile(sorted(xs), 0.5), metrics.Quantile(sorted(xs), 0.99)
	return harness.Pair{P50: &p50, P99: &p99}
}

func sorted(xs []float64) []float64 { return slices.Sorted(slices.Values(xs)) }
