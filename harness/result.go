package harness

import (
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

// Pair holds two quantiles; nil where nothing was measured.
type Pair struct {
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
}

// Scores holds the quantiles of the contention score; nil where there is none.
type Scores struct {
	P50 *float64 `json:"p50"`
	P95 *float64 `json:"p95"`
}

// Replying is the time in which a request waited or ran, and how fast the replies
// came in it: what a player waits for, where people speak only now and then.
type Replying struct {
	Seconds         float64  `json:"seconds"`
	TokensPerSecond *float64 `json:"tokens_per_s"` // null: nobody was asked
}

// NewReplying is so many tokens in so many seconds.
func NewReplying(tokens int, seconds float64) Replying {
	r := Replying{Seconds: seconds}
	if seconds > 0 {
		rate := float64(tokens) / seconds
		r.TokensPerSecond = &rate
	}
	return r
}

// PhaseRun holds the numbers of one phase of a run.
type PhaseRun struct {
	metrics.Phase
	Seconds         float64 `json:"seconds"`
	Tokens          int     `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_s"`
}

// MemoryStep is a step of a memory load: what was asked and what was read.
type MemoryStep struct {
	Asked    float64 `json:"asked_gb_per_s"`
	Streamed float64 `json:"streamed_gb_per_s"`
	Frames   int     `json:"frames"`
	JankRate float64 `json:"jank_rate"`
}

// Run holds the numbers of one run of a policy. Definitions says what they
// mean. All but Phases leave out the frames, time and tokens of loading.
type Run struct {
	Policy string `json:"policy"`
	Repeat int    `json:"repeat"` // from 1
	metrics.Result
	Tokens          int                 `json:"tokens"`
	TokensPerSecond float64             `json:"tokens_per_s"`
	TTFT            Pair                `json:"ttft_ms"`
	Replying        Replying            `json:"replying"`
	Replies         int                 `json:"replies"` // that were complete
	GameThread      Pair                `json:"game_thread_us"`
	GameThreadCPU   Pair                `json:"game_thread_cpu_us"`
	GameThreadParts map[string]Pair     `json:"game_thread_parts_us"` // marks, wake, poll, submit
	Embeddings      map[string]int      `json:"embeddings"`           // by phase
	Memory          *MemoryRun          `json:"memory"`               // null: nobody remembers
	Shares          metrics.Shares      `json:"shares"`
	Acceptance      map[string]float64  `json:"acceptance"` // of drafted tokens, by source
	Contention      Scores              `json:"contention"`
	Reasons         map[string]float64  `json:"reasons"` // share of frames
	Phases          map[string]PhaseRun `json:"phases"`

	Decisions *Decisions `json:"decisions"` // null without a controller
	IdleUse   *IdleUse   `json:"idle_use"`  // likewise

	MemoryReasons map[string]float64 `json:"memory_reasons"` // of the contention loop, share of frames
	Preemptions   Preemptions        `json:"preemptions"`
	ScoreOverTime []ScorePoint       `json:"score_over_time"`

	// SpeculationOff says why no token was guessed ahead; empty where some were.
	SpeculationOff string `json:"speculation_off,omitempty"`

	LimitShare    *float64 `json:"limit_share"`     // tokens_per_s of limit_tokens_per_s
	IdleRateShare *float64 `json:"idle_rate_share"` // tokens_per_s of the same repeat's without a game

	Asked        int          `json:"asked"`     // requests
	Cancelled    int          `json:"cancelled"` // by the end of the run
	Failed       int          `json:"failed"`    // requests that were refused or failed
	Error        string       `json:"error,omitempty"`
	WakeUp       Pair         `json:"wake_up_us"`        // from a line of the grid to the game's first instruction
	WarmUpFrames int          `json:"warm_up_frames"`    // before the others, not counted
	CPUShare     float64      `json:"process_cpu_share"` // of all cores, this process, game and model
	OtherCPU     *float64     `json:"other_cpu_share"`   // of all cores, other processes; nil: not known
	Collections  uint32       `json:"gc_count"`          // of Go's garbage collector
	GPUBusyMs    float64      `json:"gpu_busy_ms"`       // mean of what frames waited for a GPU
	Streamed     float64      `json:"streamed_gb_per_s"` // memory that the load read
	MemorySteps  []MemoryStep `json:"memory_steps,omitempty"`
	Interrupted  bool         `json:"interrupted,omitempty"` // a part of a run, left out of the summary
}

// contextOf is what a run's numbers are made with.
type contextOf struct {
	policy string
	repeat int
	cores  int
	base   scheduler.Baselines
}

// newRun computes the numbers of a recording.
func newRun(rec *recording, c contextOf) (Run, error) {
	r := Run{
		Policy: c.policy, Repeat: c.repeat, Interrupted: rec.interrupted, Collections: rec.collections,
		WarmUpFrames: rec.warmFrames, Embeddings: map[string]int{}, Acceptance: map[string]float64{},
		Reasons: map[string]float64{}, Phases: map[string]PhaseRun{}, MemoryReasons: map[string]float64{},
		ScoreOverTime: []ScorePoint{},
		Asked:         rec.talk.asked, Cancelled: rec.talk.cancelled, Failed: rec.talk.failed + rec.talk.refused,
		Replies: rec.talk.done,
	}
	if rec.talk.err != nil {
		r.Error = rec.talk.err.Error()
	}
	if err := r.measureFrames(rec); err != nil {
		return r, err
	}
	r.measureMachine(rec, c.cores)
	r.measureMemory(rec)
	r.measureMemories(rec)
	r.measureModel(rec, c)
	return r, nil
}

func (r *Run) measureFrames(rec *recording) error {
	c, err := metrics.New(metrics.DefaultConfig())
	if err != nil {
		return err
	}
	length := map[string]time.Duration{}
	for i := range rec.frames {
		f := &rec.frames[i]
		if f.Resumed {
			c.Restart()
		}
		if c.Add(f.Frame) == metrics.Used {
			length[f.Frame.Phase] += f.Interval
			if f.Replying && f.Frame.Phase != metrics.Loading {
				r.Replying.Seconds += f.Interval.Seconds()
			}
		}
	}
	r.Result = *c.Result()
	if rec.jumps > 0 {
		r.Result.Unusable["clock-jump"] += rec.jumps
	}
	for name, p := range r.Result.Phases {
		r.Phases[name] = PhaseRun{Phase: p, Seconds: length[name].Seconds()}
	}
	return nil
}

func (r *Run) measureMachine(rec *recording, cores int) {
	var wake, ours, oursCPU []time.Duration
	var gpu time.Duration
	for i := range rec.frames {
		f := &rec.frames[i]
		if f.Woke {
			wake = append(wake, time.Duration(f.WakeErr))
		}
		ours = append(ours, time.Duration(f.Ours))
		oursCPU = append(oursCPU, time.Duration(f.OursCPU))
		gpu += f.GPU
	}
	r.WakeUp = micro(wake)
	if rec.works != nil && rec.info.Name != "" {
		r.GameThread, r.GameThreadCPU = micro(ours), micro(oursCPU)
		r.GameThreadParts = gameThreadParts(rec.frames)
	}
	if n := len(rec.frames); n > 0 {
		r.GPUBusyMs = float64(gpu) / float64(n) / 1e6
	}
	wall := float64(rec.end-rec.begin) * float64(cores)
	if wall <= 0 {
		return
	}
	r.CPUShare = float64(rec.cpu) / wall
	if m := rec.machine; m.known && m.busy+m.idle > 0 {
		other := max(0, float64(m.busy)/float64(m.busy+m.idle)-r.CPUShare)
		r.OtherCPU = &other
	}
}

func micro(ds []time.Duration) Pair {
	xs := milliseconds(ds)
	for i := range xs {
		xs[i] *= 1000
	}
	return Pair{quantile(xs, 0.5), quantile(xs, 0.99)}
}

func (r *Run) measureMemory(rec *recording) {
	steps := map[float32]*MemoryStep{}
	length := map[float32]time.Duration{}
	bytes := map[float32]int64{}
	var all int64
	var total time.Duration
	for i := range rec.frames {
		f := &rec.frames[i]
		total += f.Interval
		all += f.Streamed
		s := steps[f.Rate]
		if s == nil {
			s = &MemoryStep{Asked: float64(f.Rate)}
			steps[f.Rate] = s
		}
		s.Frames++
		s.JankRate += float64(btoi(f.Overrun > 0))
		length[f.Rate] += f.Interval
		bytes[f.Rate] += f.Streamed
	}
	if total > 0 {
		r.Streamed = float64(all) / float64(total)
	}
	if all == 0 {
		return
	}
	for rate, s := range steps {
		s.JankRate /= float64(s.Frames)
		s.Streamed = float64(bytes[rate]) / float64(length[rate])
		r.MemorySteps = append(r.MemorySteps, *s)
	}
	slices.SortFunc(r.MemorySteps, func(a, b MemoryStep) int { return int(1000 * (a.Asked - b.Asked)) })
}

// measureModel computes what concerns the model.
func (r *Run) measureModel(rec *recording, c contextOf) {
	if rec.info.Name == "" {
		return
	}
	ttft := milliseconds(rec.talk.ttft)
	r.TTFT = Pair{quantile(ttft, 0.5), quantile(ttft, 0.99)}
	s := spend(rec.works.works, spans(rec.frames), rec.begin, rec.end)
	for name, n := range s.tokens {
		p := r.Phases[name]
		p.Tokens = n
		if p.Seconds > 0 {
			p.TokensPerSecond = float64(n) / p.Seconds
		}
		r.Phases[name] = p
		if name != metrics.Loading {
			r.Tokens += n
		}
	}
	if r.Seconds > 0 {
		r.TokensPerSecond = float64(r.Tokens) / r.Seconds
	}
	r.Replying = NewReplying(r.Tokens, r.Replying.Seconds)
	if wall := float64(rec.end - rec.begin); wall > 0 {
		r.Shares = metrics.Shares{
			Draft: float64(s.run[llm.Draft]) / wall, Verify: float64(s.run[llm.Verify]) / wall,
			Prefill: float64(s.run[llm.Prefill]) / wall, Decode: float64(s.run[llm.Decode]) / wall,
			Sleep:      float64(s.wait[scheduler.GatePaced]) / wall,
			WindowWait: float64(s.wait[scheduler.GateWindow]) / wall,
			Closed:     float64(s.wait[scheduler.GateClosed]) / wall,
		}
	}
	r.measureGuesses(rec.guessed[0], rec.guessed[1])
	r.measureContention(rec, c.base)
	r.reasons(rec)
	if r.Decisions != nil {
		r.IdleUse = idleUse(rec.frames, time.Duration(s.total()), r.Contention)
	}
}

// measureGuesses computes how many candidates of each source were right between
// two moments.
func (r *Run) measureGuesses(before, after speculative.Stats) {
	r.SpeculationOff = after.Off
	for i, x := range after.Sources {
		x.Judged -= before.Sources[i].Judged
		x.Accepted -= before.Sources[i].Accepted
		if x.Judged > 0 {
			r.Acceptance[speculative.Source(i).String()] = x.Acceptance()
		}
	}
}

func (r *Run) reasons(rec *recording) {
	total := 0
	for _, n := range rec.reasons {
		total += n
	}
	if !rec.steered || total == 0 {
		return
	}
	r.Decisions = decisions(rec.frames)
	for i, n := range rec.reasons {
		if n > 0 {
			r.Reasons[scheduler.Reason(i).String()] = float64(n) / float64(total)
		}
	}
}

// Decisions are the controller's, over the frames of a run.
type Decisions struct {
	Openness      Pair50  `json:"openness"`     // [0,1]; above 0.5 layers may begin before the game's work is done
	MarginMs      Pair50  `json:"margin_ms"`    // before the deadline
	WindowMs      Pair50  `json:"window_ms"`    // from FrameEnd to the deadline less the margin
	Threads       float64 `json:"threads_mean"` // granted
	LayersPerStop float64 `json:"layers_per_stop_mean"`
	PrefillChunk  float64 `json:"prefill_chunk_mean"`
	VerifyWidth   float64 `json:"verify_width_mean"`
	SleepMs       float64 `json:"sleep_ms_mean"` // between groups of layers, for memory's sake
	Pressure      Pair50  `json:"pressure"`      // of the contention loop, [0,1]
}

// Pair50 is a median with the tenth below and above it.
type Pair50 struct {
	P10 *float64 `json:"p10"`
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
}

func pair50(xs []float64) Pair50 {
	slices.Sort(xs)
	return Pair50{quantile(xs, 0.1), quantile(xs, 0.5), quantile(xs, 0.9)}
}

func decisions(frames []frameRecord) *Decisions {
	if len(frames) == 0 {
		return nil
	}
	var out Decisions
	var open, margin, window, pressure []float64
	for i := range frames {
		f := &frames[i]
		d := &f.Decision
		open = append(open, d.Openness)
		margin = append(margin, d.Margin.Seconds()*1e3)
		window = append(window, max(0, (-f.Overrun-d.Margin).Seconds()*1e3))
		out.Threads += float64(d.Threads) / float64(len(frames))
		out.LayersPerStop += float64(d.LayersPerStop) / float64(len(frames))
		out.PrefillChunk += float64(d.PrefillChunk) / float64(len(frames))
		out.VerifyWidth += float64(d.VerifyWidth) / float64(len(frames))
		out.SleepMs += d.Sleep.Seconds() * 1e3 / float64(len(frames))
		pressure = append(pressure, d.Pressure)
	}
	out.Openness, out.MarginMs, out.WindowMs = pair50(open), pair50(margin), pair50(window)
	out.Pressure = pair50(pressure)
	return &out
}

// Summary holds medians and quartiles over the complete runs of a policy.
type Summary struct {
	JankRate        metrics.Spread  `json:"jank_rate"`
	TokensPerSecond metrics.Spread  `json:"tokens_per_s"`
	HitchMsPerS     metrics.Spread  `json:"hitch_ms_per_s"`
	TTFTMsP50       *metrics.Spread `json:"ttft_ms_p50"`

	Replying    *metrics.Spread `json:"replying_tokens_per_s"`
	Repeats     int             `json:"repeats"`
	OverrunP99  metrics.Spread  `json:"overrun_ms_p99"`
	FrameP50    metrics.Spread  `json:"frame_ms_p50"`
	FrameP99    metrics.Spread  `json:"frame_ms_p99"`
	LimitShare  *metrics.Spread `json:"limit_share"`
	GameThread  *metrics.Spread `json:"game_thread_us_p99"`
	JankPaired  *metrics.Paired `json:"jank_rate_against_native,omitempty"`
	HitchPaired *metrics.Paired `json:"hitch_ms_per_s_against_native,omitempty"`
}

// summarise joins the complete runs by policy.
func summarise(runs []Run, seed uint64) map[string]Summary {
	by := map[string][]Run{}
	for _, r := range runs {
		if !r.Interrupted {
			by[r.Policy] = append(by[r.Policy], r)
		}
	}
	out := map[string]Summary{}
	for name, list := range by {
		all := func(f func(*Run) *float64) *metrics.Spread {
			var xs []float64
			for i := range list {
				if x := f(&list[i]); x != nil {
					xs = append(xs, *x)
				}
			}
			if len(xs) == 0 {
				return nil
			}
			s := metrics.Quartiles(xs)
			return &s
		}
		s := Summary{
			Repeats:         len(list),
			JankRate:        *all(func(r *Run) *float64 { return &r.JankRate }),
			TokensPerSecond: *all(func(r *Run) *float64 { return &r.TokensPerSecond }),
			HitchMsPerS:     *all(func(r *Run) *float64 { return &r.HitchMsPerS }),
			OverrunP99:      *all(func(r *Run) *float64 { return &r.Overrun.P99 }),
			FrameP50:        *all(func(r *Run) *float64 { return &r.FrameMs.P50 }),
			FrameP99:        *all(func(r *Run) *float64 { return &r.FrameMs.P99 }),
			TTFTMsP50:       all(func(r *Run) *float64 { return r.TTFT.P50 }),
			Replying:        all(func(r *Run) *float64 { return r.Replying.TokensPerSecond }),
			LimitShare:      all(func(r *Run) *float64 { return r.LimitShare }),
			GameThread:      all(func(r *Run) *float64 { return r.GameThread.P99 }),
		}
		if native := by[PolicyNative]; name != PolicyNative {
			s.JankPaired = pair(native, list, seed, func(r *Run) float64 { return r.JankRate })
			s.HitchPaired = pair(native, list, seed, func(r *Run) float64 { return r.HitchMsPerS })
		}
		out[name] = s
	}
	return out
}

// pair compares the repeats that both have.
func pair(a, b []Run, seed uint64, f func(*Run) float64) *metrics.Paired {
	n := min(len(a), len(b))
	var xs, ys []float64
	for i := range n {
		xs, ys = append(xs, f(&a[i])), append(ys, f(&b[i]))
	}
	p, err := metrics.Pair(xs, ys, seed)
	if err != nil {
		return nil // fewer than two of both
	}
	return &p
}
