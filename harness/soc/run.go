package soc

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

// record is what happened in one run.
type record struct {
	frames     *metrics.Collector
	length     map[string]time.Duration
	embedded   map[string]int // by phase in which it ended
	begun      map[string]int // in which it began
	reasons    [scheduler.Reasons]int
	controlled int

	asked, failed, replies int
	ttft, decode, total    []float64 // s
	generated              int       // tokens of complete replies

	tokens              map[string]int           // by phase
	game                map[string]time.Duration // work of its frames, by phase
	uses                map[string]*use          // of the engine, by phase
	ran                 [5]float64               // ns by llm.Stage
	waited              [4]float64               // ns by llm.GateMode
	batches             map[int]float64          // ns of verify batches by width
	prefilled           int
	scores, stalls      []float64
	stallBusy, stallAll float64
	guessed             speculative.Stats
}

// use is what the engine did with its time in a phase.
type use struct {
	ran     float64    // ns
	waited  [4]float64 // ns by llm.GateMode
	passes  int        // of the model over new tokens
	tokens  int        // that those made
	drafts  int        // batches of the draft model
	stopped int        // of them, at the gate
}

func newRecord() *record {
	c, err := metrics.New(metrics.DefaultConfig())
	if err != nil {
		c = nil // the default is valid
	}
	return &record{frames: c, length: map[string]time.Duration{}, embedded: map[string]int{}, begun: map[string]int{},
		tokens: map[string]int{}, batches: map[int]float64{}, game: map[string]time.Duration{},
		uses: map[string]*use{}}
}

func (r *record) frame(f metrics.Frame) {
	if r.frames.Add(f) == metrics.Used {
		r.length[f.Phase] += f.Interval
		r.game[f.Phase] += f.Work
	}
}

func (r *record) reply(u llm.Usage) {
	r.replies++
	r.generated += u.Generated
	r.ttft = append(r.ttft, u.TTFT.Seconds())
	r.total = append(r.total, u.Total.Seconds())
	r.decode = append(r.decode, (u.Total - u.TTFT).Seconds())
}

// work takes a step of the engine.
func (r *record) work(x *steerer, w *llm.Work) {
	run := float64(w.End - w.Start - int64(w.Waited))
	mode, phase := x.target.gate.Window().Mode, x.phase.String()
	r.ran[w.Stage] += run
	r.waited[mode] += float64(w.Waited)
	r.tokens[phase] += w.Generated
	u := r.uses[phase]
	if u == nil {
		u = &use{}
		r.uses[phase] = u
	}
	u.ran += run
	u.waited[mode] += float64(w.Waited)
	switch w.Stage {
	case llm.Decode, llm.Verify:
		u.passes++
		u.tokens += w.Generated
	case llm.Draft:
		u.drafts++
		if w.Stopped {
			u.stopped++
		}
	}
	switch w.Stage {
	case llm.Prefill:
		r.prefilled += w.Tokens
	case llm.Verify:
		r.batches[w.Drafted+1] += run
	}
}

// Options say what to simulate.
type Options struct {
	Chip    *Chip
	App     *App
	Target  *Network
	Draft   *Network
	Policy  Policy
	Preset  scheduler.Preset
	Without scheduler.Features
	Seconds float64 // of play
	Seed    uint64

	watch func(s scheduler.FrameSample, d scheduler.Decision)
}

// Load fills the options with what is shipped under these names.
func (o *Options) Load(chip, app, target, draft string) (err error) {
	var all []error
	o.Chip, err = LoadChip(chip)
	all = append(all, err)
	o.App, err = LoadApp(app)
	all = append(all, err)
	o.Target, err = LoadNetwork(target)
	all = append(all, err)
	o.Draft, err = LoadNetwork(draft)
	return errors.Join(append(all, err)...)
}

// MostSeconds bounds a run: six hours of play.
const MostSeconds = 6 * 3600

func (o *Options) validate() error {
	if o.Chip == nil || o.App == nil || o.Target == nil || o.Draft == nil {
		return fmt.Errorf("%w: a chip, an app and two models are wanted", ErrParameters)
	}
	if !(o.Seconds > 0 && o.Seconds <= MostSeconds) {
		return fmt.Errorf("%w: %v seconds of play: want more than 0, at most %d", ErrParameters, o.Seconds, MostSeconds)
	}
	return nil
}

// stuckSteps is how many steps of the engine in a row may take no time: more are
// a loop that never ends.
const stuckSteps = 10_000

// session is a run that is prepared.
type session struct {
	world *world
	steer *steerer
	game  *game
}

func newSession(o *Options) (*session, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w := newWorld(o.Chip)
	x, err := newSteerer(w, setup{policy: o.Policy, preset: o.Preset, without: o.Without, target: o.Target,
		draft: o.Draft, seed: o.Seed, streams: &streams{seed: o.Seed, app: o.App, by: map[llm.Token]*stream{}}})
	if err != nil {
		return nil, err
	}
	w.restart()
	g := newGame(w, o.App, x, o.Seed, o.Seconds)
	g.watch = o.watch
	if x.spec != nil {
		g.rec.guessed = x.spec.Stats()
	}
	return &session{w, x, g}, nil
}

// restart begins to count anew: what was measured before the game is not play.
func (w *world) restart() {
	w.modelJoules, w.gigabytes, w.throttled, w.spent, w.joules = 0, 0, 0, 0, 0
	w.governorChanges = 0
	w.celsius = w.chip.Thermal.Ambient.Value + mul(w.chip.Thermal.Idle.Value, w.chip.Thermal.Resistance.Value)
	w.hottest = w.celsius
}

// play lets the session run to its end.
func (s *session) play() error {
	end, stuck := s.game.end, 0
	for s.world.now < end {
		if s.steer.engine == nil || !s.steer.engine.HasWork() {
			s.world.step(never)
			continue
		}
		before := s.world.now
		w, err := s.steer.engine.Step(s.steer.grants)
		if err != nil {
			return fmt.Errorf("soc: %w", err)
		}
		if w.End > w.Start {
			s.game.rec.work(s.steer, &w)
		}
		s.steer.report(w)
		s.note()
		if stuck++; s.world.now > before {
			stuck = 0
		}
		if stuck > stuckSteps {
			return errors.New("soc: the engine steps without doing anything: this is a bug of the simulator")
		}
	}
	if s.steer.engine != nil {
		s.steer.engine.Close()
		s.game.poll()
	}
	return nil
}

// note pairs the last score with what the game's waits for memory were since.
func (s *session) note() {
	n := len(s.steer.works)
	if n == 0 {
		return
	}
	score := s.steer.works[n-1].Contention
	if score.State != scheduler.ScoreGood || score.Samples < 16 {
		return
	}
	r, w := s.game.rec, s.world
	busy, all := w.cpu.busy+w.gpu.busy, w.cpu.waiting+w.gpu.waiting
	if busy-r.stallBusy < 20e6 { // 20 ms of work
		return
	}
	r.scores = append(r.scores, score.Value)
	r.stalls = append(r.stalls, (all-r.stallAll)/(busy-r.stallBusy))
	r.stallBusy, r.stallAll = busy, all
}

// Simulate plays one policy.
func Simulate(o Options) (*Run, error) {
	s, err := newSession(&o)
	if err != nil {
		return nil, err
	}
	if err := s.play(); err != nil {
		return nil, err
	}
	return s.result(&o), nil
}

// Pair holds two quantiles; nil where nothing was measured.
type Pair struct {
	P50 *float64 `json:"p50"`
	P95 *float64 `json:"p95,omitempty"`
	P99 *float64 `json:"p99,omitempty"`
}

// Phase holds the numbers of one phase of a run.
type Phase struct {
	Frames          int64   `json:"frames"`
	JankRate        float64 `json:"jank_rate"`
	Seconds         float64 `json:"seconds"`
	Tokens          int     `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_s"`

	// Shares of the phase's time: the game works on a frame, the engine has
	// something to do, it computes, it waits for windows, rests, and is shut out.
	Game      float64 `json:"game_share"`
	Busy      float64 `json:"asked_share"`
	Computing float64 `json:"computing_share"`
	Windows   float64 `json:"window_wait_share"`
	Resting   float64 `json:"rest_share"`
	Shut      float64 `json:"shut_share"`
	PerPass   float64 `json:"tokens_per_pass"` // of the model, prompts aside
	Stopped   float64 `json:"drafts_stopped"`  // of the draft model's batches, the share that the gate stopped
}

// Run holds the simulated numbers of one policy. Those that have the name of a
// measured one are made in the same way.
type Run struct {
	Policy      string  `json:"policy"`
	Repeat      int     `json:"repeat"`
	Simulated   bool    `json:"simulated"`
	Seconds     float64 `json:"seconds"`
	Frames      int64   `json:"frames"`
	JankRate    float64 `json:"jank_rate"`
	HitchMsPerS float64 `json:"hitch_ms_per_s"`
	BigJank     int64   `json:"big_jank"`
	Low1FPS     float64 `json:"low1_fps"`

	Overrun metrics.Overrun `json:"overrun_ms"`
	FrameMs metrics.FrameMs `json:"frame_ms"`

	Tokens          int     `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_s"`
	TTFT            Pair    `json:"ttft_ms"`
	Replies         int     `json:"replies"`
	Asked           int     `json:"asked"`
	Failed          int     `json:"failed"`
	GameThread      Pair    `json:"game_thread_us"` // never simulated: null

	Embeddings map[string]int     `json:"embeddings"`
	Pending    int                `json:"embeddings_pending"`
	Shares     metrics.Shares     `json:"shares"`
	Acceptance map[string]float64 `json:"acceptance"`
	Accepted   float64            `json:"acceptance_all"` // of all candidates
	Contention Pair               `json:"contention"`
	Reasons    map[string]float64 `json:"reasons"`
	Phases     map[string]Phase   `json:"phases"`

	Prefill    float64 `json:"prefill_s"`
	Decode     float64 `json:"decode_s"`
	Latency    float64 `json:"latency_s"`
	DecodeTPS  float64 `json:"decode_tokens_per_s"` // while a reply is decoded
	PrefillTPS float64 `json:"prefill_tokens_per_s"`

	// Scores are speeds of the game's work; against native where that was played.
	CPUScore   float64            `json:"foreground_cpu_score"`
	GPUScore   float64            `json:"foreground_gpu_score"`
	Stall      float64            `json:"stall_ratio"` // of its waits for memory, likewise
	PerJoule   float64            `json:"tokens_per_joule"`
	StallR     *float64           `json:"contention_stall_r"`
	Widths     map[string]float64 `json:"verify_shares"` // of the engine's computing time, by width
	ModelWatts float64            `json:"model_w"`
	Watts      float64            `json:"power_w"`
	Hottest    float64            `json:"hottest_c"`
	Throttled  float64            `json:"throttled_share"`
	Traffic    float64            `json:"dram_gb_per_s"`
}

// six rounds to six digits, so that the last bits of sums that other packages
// make do not matter.
func six(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil || math.IsNaN(y) || math.IsInf(y, 0) {
		return 0
	}
	return y
}

func quantile(xs []float64, p float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(xs))
	x := six(s[min(len(s)-1, int(mul(p, float64(len(s)))))])
	return &x
}

func mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return six(a / b)
}

func (s *session) result(o *Options) *Run {
	rec, w := s.game.rec, s.world
	m := rec.frames.Result()
	r := &Run{
		Policy: o.Policy.Name, Repeat: 1, Simulated: true, Seconds: six(m.Seconds), Frames: m.Frames,
		JankRate: six(m.JankRate), HitchMsPerS: six(m.HitchMsPerS), BigJank: m.BigJank, Low1FPS: six(m.Low1FPS),
		Overrun: m.Overrun, FrameMs: m.FrameMs, Asked: rec.asked, Failed: rec.failed, Replies: rec.replies,
		Embeddings: rec.embedded, Pending: s.game.pending, Acceptance: map[string]float64{},
		Reasons: map[string]float64{}, Phases: map[string]Phase{}, Widths: map[string]float64{},
		CPUScore: ratio(w.cpu.worked, w.cpu.busy), GPUScore: ratio(w.gpu.worked, w.gpu.busy),
		Stall: ratio(w.cpu.waiting+w.gpu.waiting, w.cpu.busy+w.gpu.busy), Hottest: six(w.hottest),
	}
	r.Overrun.P50, r.Overrun.P90, r.Overrun.P95 = six(r.Overrun.P50), six(r.Overrun.P90), six(r.Overrun.P95)
	r.Overrun.P99, r.FrameMs.P50, r.FrameMs.P99 = six(r.Overrun.P99), six(r.FrameMs.P50), six(r.FrameMs.P99)
	for name, p := range m.Phases {
		length := rec.length[name].Seconds()
		n := rec.tokens[name]
		r.Phases[name] = rec.phase(name, Phase{Frames: p.Frames, JankRate: six(p.JankRate), Seconds: six(length),
			Tokens: n, TokensPerSecond: ratio(float64(n), length)})
		if name != metrics.Loading {
			r.Tokens += n
		}
	}
	r.TokensPerSecond = ratio(float64(r.Tokens), m.Seconds)
	for i, n := range rec.reasons {
		if n > 0 {
			r.Reasons[scheduler.Reason(i).String()] = ratio(float64(n), float64(rec.controlled))
		}
	}
	s.modelResult(o, r)
	return r
}

// phase fills in where a phase's time went.
func (r *record) phase(name string, p Phase) Phase {
	length := float64(r.length[name])
	p.Game = ratio(float64(r.game[name]), length)
	if u := r.uses[name]; u != nil {
		p.Computing, p.Windows = ratio(u.ran, length), ratio(u.waited[llm.GateWindow], length)
		p.Resting, p.Shut = ratio(u.waited[llm.GatePaced], length), ratio(u.waited[llm.GateClosed], length)
		p.Busy = six(p.Computing + p.Windows + p.Resting + p.Shut + ratio(u.waited[llm.GateFree], length))
		p.PerPass = ratio(float64(u.tokens), float64(u.passes))
		p.Stopped = ratio(float64(u.stopped), float64(u.drafts))
	}
	return p
}

func (s *session) modelResult(o *Options, r *Run) {
	rec, w := s.game.rec, s.world
	wall := o.Seconds * 1e9
	r.Watts, r.ModelWatts = ratio(w.spent, o.Seconds), ratio(w.modelJoules, o.Seconds)
	r.Throttled, r.Traffic = ratio(w.throttled, wall), ratio(w.gigabytes, o.Seconds)
	if s.steer.engine == nil {
		return
	}
	ms := make([]float64, len(rec.ttft))
	for i, x := range rec.ttft {
		ms[i] = x * 1e3
	}
	r.TTFT = Pair{P50: quantile(ms, 0.5), P99: quantile(ms, 0.99)}
	r.Contention = Pair{P50: quantile(rec.scores, 0.5), P95: quantile(rec.scores, 0.95)}
	r.Prefill, r.Decode, r.Latency = six(mean(rec.ttft)), six(mean(rec.decode)), six(mean(rec.total))
	if r.Decode > 0 {
		r.DecodeTPS = ratio(float64(rec.generated)/float64(rec.replies), r.Decode)
	}
	r.PrefillTPS = ratio(float64(rec.prefilled)*1e9, rec.ran[llm.Prefill])
	total := 0
	for _, n := range rec.tokens {
		total += n
	}
	r.PerJoule = ratio(float64(total), w.modelJoules)
	r.Shares = metrics.Shares{
		Draft: ratio(rec.ran[llm.Draft], wall), Verify: ratio(rec.ran[llm.Verify], wall),
		Prefill: ratio(rec.ran[llm.Prefill], wall), Decode: ratio(rec.ran[llm.Decode], wall),
		Sleep: ratio(rec.waited[llm.GatePaced], wall), WindowWait: ratio(rec.waited[llm.GateWindow], wall),
		Closed: ratio(rec.waited[llm.GateClosed], wall),
	}
	computing := rec.ran[llm.Draft] + rec.ran[llm.Verify] + rec.ran[llm.Decode]
	for width, ns := range rec.batches {
		r.Widths[strconv.Itoa(width)] = ratio(ns, computing)
	}
	r.StallR = correlation(rec.scores, rec.stalls)
	s.guesses(r)
}

// guesses computes how many candidates of each source were right.
func (s *session) guesses(r *Run) {
	if s.steer.spec == nil {
		return
	}
	judged, accepted := uint64(0), uint64(0)
	for i, x := range s.steer.spec.Stats().Sources {
		was := s.game.rec.guessed.Sources[i]
		x.Judged, x.Accepted = x.Judged-was.Judged, x.Accepted-was.Accepted
		if x.Judged > 0 {
			r.Acceptance[speculative.Source(i).String()] = six(x.Acceptance())
		}
		judged, accepted = judged+x.Judged, accepted+x.Accepted
	}
	r.Accepted = ratio(float64(accepted), float64(judged))
}

// correlation is Pearson's r; nil where it says nothing.
func correlation(xs, ys []float64) *float64 {
	if len(xs) < 3 {
		return nil
	}
	mx, my := mean(xs), mean(ys)
	var xx, yy, xy float64
	for i := range xs {
		dx, dy := xs[i]-mx, ys[i]-my
		xx, yy, xy = xx+mul(dx, dx), yy+mul(dy, dy), xy+mul(dx, dy)
	}
	if xx <= 0 || yy <= 0 {
		return nil
	}
	r := six(xy / math.Sqrt(mul(xx, yy)))
	return &r
}

// against turns speeds and waits into those relative to the game alone.
func (r *Run) against(native *Run) {
	r.CPUScore, r.GPUScore = ratio(r.CPUScore, native.CPUScore), ratio(r.GPUScore, native.GPUScore)
	r.Stall = ratio(r.Stall, native.Stall)
}
