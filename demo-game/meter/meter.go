package meter

import (
	"slices"
	"sync"
	"time"

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

	Replying bool // a request waited or ran when it ended

	Policy string // that is on; "" while one is being opened
}

// Meter counts. Observe may be called from any goroutine, the rest from one at
// a time.
type Meter struct {
	frames  *metrics.Collector
	target  time.Duration
	bars    [barCount]ui.Bar
	next    int
	total   int
	reasons [scheduler.Reasons]int
	lengths map[string]time.Duration
	replies time.Duration // in which a request waited or ran
	ours    []float64     // µs
	begin   time.Duration
	end     time.Duration
	waits   [3]time.Duration // sleep, window, closed

	mu     sync.Mutex // what follows
	phase  string
	policy string
	past   map[string]*past
	gate   scheduler.Gate
	tokens map[string]int
	run    map[llm.Stage]time.Duration
	drafts [2]int // judged, accepted
	recent []sample
	last   llm.Work
}

// past is what a policy did while it was on.
type past struct {
	causes [ui.Causes]int
	tokens int
	spoke  time.Duration // how long its layers ran
}

// late is how many of its frames were late, of how many.
func (p *past) late() (late, of int) {
	for _, n := range p.causes[ui.LateGame:] {
		late += n
	}
	return late, late + p.causes[ui.Punctual]
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
		run: map[llm.Stage]time.Duration{}, past: map[string]*past{}}, nil
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
	if p := m.past[m.policy]; p != nil {
		p.tokens += w.Generated
	}
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
	m.phase, m.gate, m.policy = f.Phase, d.Gate, f.Policy
	cause := f.cause()
	m.account(&f, cause)
	m.mu.Unlock()
	if m.total == 0 {
		m.begin = f.Start
	}
	m.total++
	m.end = f.Start + f.Interval
	if m.frames.Add(f.Frame) == metrics.Used {
		m.lengths[f.Phase] += f.Interval
		if f.Replying && f.Phase != metrics.Loading {
			m.replies += f.Interval
		}
	}
	if steered {
		m.reasons[d.Reason]++
	}
	if len(m.ours) < maxOurs {
		m.ours = append(m.ours, float64(f.Ours)/1e3)
	}
	m.bars[m.next%barCount] = ui.Bar{Ms: float32(f.Work.Seconds() * 1e3), Cause: cause}
	m.next++
}

// cause is whose doing it is where the frame is late.
func (f *Frame) cause() ui.Cause {
	switch {
	case f.Overrun <= 0 || f.Phase == metrics.Loading:
		return ui.Punctual
	case f.Ours >= f.Overrun:
		return ui.LateOurs
	case f.Ran:
		return ui.LateModel
	}
	return ui.LateGame
}

// account adds a frame to what its policy did.
func (m *Meter) account(f *Frame, cause ui.Cause) {
	if f.Policy == "" || f.Phase == metrics.Loading {
		return
	}
	p := m.past[f.Policy]
	if p == nil {
		p = &past{}
		m.past[f.Policy] = p
	}
	p.causes[cause]++
	if f.Ran {
		p.spoke += f.Interval
	}
}

// Late is how many frames there were under a policy, by cause. Loading is nobody's.
func (m *Meter) Late(policy string) [ui.Causes]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.past[policy]; p != nil {
		return p.causes
	}
	return [ui.Causes]int{}
}

// rate is tokens a second lately. The meter is locked.
func (m *Meter) rate(now int64) float64 {
	n := 0
	for len(m.recent) > 0 && m.recent[0].at < now-int64(rateOver) {
		m.recent = m.recent[1:]
	}
	for _, s := range m.recent {
		n += s.tokens
	}
	return float64(n) / rateOver.Seconds()
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
	r.Replying = harness.NewReplying(r.Tokens, m.replies.Seconds())
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
