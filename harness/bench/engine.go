package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
)

// Config says what to measure. Model and clock rules are those of llamacpp.
type Config struct {
	Model   string        // GGUF file; the library is loaded already
	Admit   llm.AdmitFunc // the rule at the gate
	Rounds  int           // of all candidates; default 15
	Tokens  int           // decoded by each candidate in a round; default 48
	Prefill int           // tokens of the prompt that each candidate prefills in a round; default 128
	Stops   int           // stops measured in each stage; default 400
	Seed    uint64

	Progress func(done, of int) // rounds and stops finished; may be nil
}

func (c *Config) complete() {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&c.Rounds, 15)
	set(&c.Tokens, 48)
	set(&c.Prefill, 128)
	set(&c.Stops, 400)
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
}

// candidate is one way to run the model.
type candidate struct {
	name    string
	plain   bool // counts as llama.cpp as it comes
	options func(*llamacpp.Options)
	window  llm.Window
	threads int
	poll    int  // of the pool's threads; as options sets it
	noPool  bool // llama.cpp makes its threads anew for each batch
	stops   stopMark

	model   *llamacpp.Model
	decode  []float64 // tokens/s of each round
	prefill []float64
}

// stopMark says of which stops a candidate is the example.
type stopMark uint8

const (
	stopsNone stopMark = iota
	stopsGated
	stopsFree
	stopsWhole
)

func candidates() []*candidate {
	all := runtime.NumCPU()
	plain := func(poll int, noPool bool) func(*llamacpp.Options) {
		return func(o *llamacpp.Options) { o.NoGate, o.NoPool, o.Poll = true, noPool, poll }
	}
	ours := func(*llamacpp.Options) {}
	each := llm.Window{LayersPerStop: 1}
	list := []*candidate{
		{name: "plain, 1 thread", plain: true, options: plain(50, false), threads: 1},
		{name: fmt.Sprintf("plain, %d threads, poll 50", all), plain: true, options: plain(50, false), threads: all,
			poll: 50},
		{name: fmt.Sprintf("plain, %d threads, poll 0", all), plain: true, options: plain(0, false), threads: all},
		{name: fmt.Sprintf("plain, %d threads, no pool", all), plain: true, options: plain(0, true), threads: all,
			noPool: true},
		{name: "lull, free gate, 1 thread", options: ours, threads: 1},
		{name: "lull, stop at each layer, 1 thread", options: ours, threads: 1, window: each},
		{name: fmt.Sprintf("lull, free gate, %d threads", all), options: ours, threads: all, stops: stopsFree},
		{name: fmt.Sprintf("lull, free gate, %d threads, whole head", all), threads: all, stops: stopsWhole,
			options: func(o *llamacpp.Options) { o.WholeHead = true }},
		{name: fmt.Sprintf("lull, stop at each layer, %d threads", all), options: ours, threads: all, window: each,
			stops: stopsGated},
		{name: fmt.Sprintf("lull, stop at each layer, %d threads, pool that polls", all), threads: all, window: each,
			options: func(o *llamacpp.Options) { o.Poll = 50 }, poll: 50},
	}
	return list
}

// Row is one candidate's result. Rates are tokens per second.
type Row struct {
	Name      string         `json:"name"`
	Plain     bool           `json:"plain"`
	Threads   int            `json:"threads"`
	Decode    metrics.Spread `json:"decode_tokens_per_s"`
	Prefill   metrics.Spread `json:"prefill_tokens_per_s"`
	Ratio     metrics.Spread `json:"decode_ratio_to_best_plain"`
	RatioLow  float64        `json:"decode_ratio_low"` // 95 % interval of the median
	RatioHigh float64        `json:"decode_ratio_high"`
	Same      metrics.Spread `json:"decode_ratio_to_plain_same_threads"`
	Alike     metrics.Spread `json:"decode_ratio_to_plain_same_pool"` // same threads that wait in the same way
}

// Stop is a distribution of stop latencies, in milliseconds.
type Stop struct {
	Stage string  `json:"stage"`
	N     int     `json:"n"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// Report is everything measured.
type Report struct {
	Gate   string `json:"gate"` // "C" or "purego"
	Model  string `json:"model"`
	Rounds int    `json:"rounds"`
	Best   string `json:"best_plain"`
	Rows   []Row  `json:"rows"`
	Stops  []Stop `json:"stops"`
}

// Engine runs the benchmark. When ctx ends early the report holds the rounds
// that were finished, beside the error.
func Engine(ctx context.Context, cfg Config) (Report, error) {
	cfg.complete()
	clock := llm.NewClock()
	list := candidates()
	defer func() {
		for _, c := range list {
			if c.model != nil {
				c.model.Close()
			}
		}
	}()
	for _, c := range list {
		opt := llamacpp.Options{Clock: clock, Admit: cfg.Admit, Context: 1024, MaxSequences: 1, MaxBatch: 256,
			Threads: c.threads}
		c.options(&opt)
		var err error
		if c.model, err = llamacpp.Open(ctx, cfg.Model, opt); err != nil {
			return Report{}, err
		}
		c.model.Gate().Publish(c.window)
	}
	report := Report{Gate: llamacpp.GateKind, Model: list[0].model.Info().Name}
	err := rounds(ctx, cfg, list, &report)
	report.summarise(list)
	if err != nil {
		return report, err
	}
	return report, report.stopAll(ctx, cfg, list)
}

// stopAll measures stops of one batch after another, in the candidates that are
// marked for it.
func (r *Report) stopAll(ctx context.Context, cfg Config, list []*candidate) error {
	for _, x := range []struct {
		name  string
		in    stopMark
		width int
	}{
		{"decode", stopsGated, 1},
		{"prefill", stopsGated, stopChunk},
		{"decode, free gate", stopsFree, 1},
		{"decode, free gate, whole head", stopsWhole, 1},
	} {
		at := slices.IndexFunc(list, func(c *candidate) bool { return c.stops == x.in })
		s, err := stops(ctx, cfg, list[at].model, x.name, x.width)
		if s.N > 0 {
			r.Stops = append(r.Stops, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func rounds(ctx context.Context, cfg Config, list []*candidate, report *Report) error {
	random := rand.New(rand.NewPCG(cfg.Seed, 1))
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	for round := -1; round < cfg.Rounds; round++ { // round -1 warms caches and pools, it does not count
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			c := list[i]
			prefill, decode, err := oneRound(ctx, c, cfg)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", c.name, err)
			}
			if round >= 0 {
				c.prefill, c.decode = append(c.prefill, prefill), append(c.decode, decode)
			}
		}
		report.Rounds = round + 1
		cfg.Progress(round+1, cfg.Rounds)
	}
	return nil
}

// oneRound prefills a prompt and decodes after it, greedy.
func oneRound(ctx context.Context, c *candidate, cfg Config) (prefill, decode float64, err error) {
	s, err := c.model.NewSequence()
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	sampler, err := c.model.NewSampler(llm.Sampling{})
	if err != nil {
		return 0, 0, err
	}
	defer sampler.Close()
	prompt := promptTokens(c.model, cfg.Prefill)
	var b llm.Batch
	for i, t := range prompt {
		b.Add(s, t, i == len(prompt)-1)
	}
	start := time.Now()
	if _, err := c.model.Decode(&b, llm.Grant{Threads: c.threads}); err != nil {
		return 0, 0, err
	}
	prefill = float64(len(prompt)) / time.Since(start).Seconds()
	start = time.Now()
	for range cfg.Tokens {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		next, err := sampler.Sample(0)
		if err != nil {
			return 0, 0, err
		}
		b.Reset()
		b.Add(s, next, true)
		if _, err := c.model.Decode(&b, llm.Grant{Threads: c.threads}); err != nil {
			return 0, 0, err
		}
	}
	return prefill, float64(cfg.Tokens) / time.Since(start).Seconds(), nil
}

// promptTokens are n ordinary tokens, the same each time.
func promptTokens(m *llamacpp.Model, n int) []llm.Token {
	const text = "The innkeeper wiped the counter and told the traveller what had happened in the village that winter. "
	var out []llm.Token
	for len(out) < n {
		var err error
		if out, err = m.Tokenize(out, text, false); err != nil {
			break
		}
	}
	return out[:n]
}

func (r *Report) summarise(list []*candidate) {
	if r.Rounds == 0 {
		return
	}
	var best *candidate
	for _, c := range list {
		if c.plain && (best == nil || metrics.Quartiles(c.decode).Median > metrics.Quartiles(best.decode).Median) {
			best = c
		}
	}
	r.Best = best.name
	for _, c := range list {
		row := Row{Name: c.name, Plain: c.plain, Threads: c.threads,
			Decode: metrics.Quartiles(c.decode), Prefill: metrics.Quartiles(c.prefill)}
		row.Ratio = metrics.Quartiles(ratios(c, best))
		row.RatioLow, row.RatioHigh = medianInterval(ratios(c, best))
		sameThreads := func(p *candidate) bool { return p.threads == c.threads }
		row.Same = metrics.Quartiles(ratios(c, bestPlain(list, sameThreads)))
		row.Alike = metrics.Quartiles(ratios(c, bestPlain(list, c.alike)))
		r.Rows = append(r.Rows, row)
	}
}

// alike tells whether p's threads are as many and wait in the same way: a gate
// halts them, so what waking them costs is no cost of the gate. One thread waits
// for nobody.
func (c *candidate) alike(p *candidate) bool {
	return p.threads == c.threads && (c.threads == 1 || p.poll == c.poll && p.noPool == c.noPool)
}

func bestPlain(list []*candidate, among func(*candidate) bool) *candidate {
	var best *candidate
	for _, c := range list {
		if c.plain && among(c) &&
			(best == nil || metrics.Quartiles(c.decode).Median > metrics.Quartiles(best.decode).Median) {
			best = c
		}
	}
	return best
}

func ratios(a, b *candidate) []float64 {
	out := make([]float64, min(len(a.decode), len(b.decode)))
	for i := range out {
		out[i] = a.decode[i] / b.decode[i]
	}
	return out
}

// errLate is a Decode that was over before the stop came.
var errLate = errors.New("the batch ended before the stop")
