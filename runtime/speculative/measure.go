package speculative

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// defaultRounds is 9: the median of 9 is the true one within a few percent
	// even when every third measurement was disturbed.
	defaultRounds = 9
	maxRounds     = 1000

	// fewestRounds is 3, the fewest that a median can throw anything out of.
	fewestRounds = 3

	// defaultBudget is 3 s for each number of threads, where a small model on 2
	// cores takes 2 s. Beside another busy program two threads may take fifty
	// times as long, since each waits for the other at every node.
	defaultBudget = 3 * time.Second

	// overBudget is how many budgets the fewest rounds may take. What is
	// measured on so busy a machine says nothing of it.
	overBudget = 4

	// defaultContext is 64 tokens, about a persona's. What verifying costs
	// beside decoding hardly depends on it, since both read the same cache.
	defaultContext = 64
)

// ErrBusy is wrapped when something else keeps the machine so busy that nothing
// can be measured.
var ErrBusy = errors.New("speculative: measure: the machine is busy")

// MeasureConfig says what to measure. The zero value is right at warm-up, when
// the game does not run yet: 5 widths in 9 rounds, about 100 tokens of decoding.
type MeasureConfig struct {
	Widths  []int     // tokens in a verify batch, 2…32; nil means 2, 4, 6 and 8
	Threads []int     // numbers of threads; nil means the model's default
	Rounds  int       // measurements of each; 0 means 9. One more goes first and is left out
	Context int       // tokens in the cache before; 0 means 64
	Draft   llm.Model // measured beside; nil: none

	// Budget is the time for one number of threads; 0 means 3 s. When it is
	// over, the rounds until then have to do.
	Budget time.Duration

	// Progress is told how many batches are done, from Measure's goroutine.
	Progress func(done, of int)
}

func (c *MeasureConfig) complete(info llm.Info) error {
	if c.Rounds == 0 {
		c.Rounds = defaultRounds
	}
	if c.Context == 0 {
		c.Context = min(defaultContext, info.Context/2)
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if c.Widths == nil {
		c.Widths = []int{2, 4, 6, 8}
	}
	if c.Threads == nil {
		c.Threads = []int{0}
	}
	c.Widths, c.Threads = unique(c.Widths), unique(c.Threads)
	if c.Budget < 0 {
		return fmt.Errorf("speculative: measure for %v: want more than 0, or 0 for %v", c.Budget, defaultBudget)
	}
	if c.Rounds < 1 || c.Rounds > maxRounds {
		return fmt.Errorf("speculative: measure %d rounds: want 1…%d, or 0 for %d", c.Rounds, maxRounds, defaultRounds)
	}
	for _, w := range c.Widths {
		if w < 2 || w > min(maxWidth, info.MaxBatch) {
			return fmt.Errorf("speculative: measure width %d: want 2…%d", w, min(maxWidth, info.MaxBatch))
		}
	}
	for _, n := range c.Threads {
		if n < 0 || n > maxThreads {
			return fmt.Errorf("speculative: measure with %d threads: want 1…%d, or 0 for the default", n, maxThreads)
		}
	}
	if last := c.Context + maxWidth; c.Context < 1 || last > info.Context {
		return fmt.Errorf("speculative: measure after %d tokens: want 1…%d", c.Context, info.Context-maxWidth)
	}
	if !info.CanTruncate {
		return fmt.Errorf("speculative: %s can't take tokens back: there is nothing to measure", info.Name)
	}
	return nil
}

func unique(xs []int) []int { return slices.Compact(slices.Sorted(slices.Values(xs))) }

// Measure decodes batches of each width in turn, so that a disturbance meets
// all alike, and compares within each round. It opens a sequence of each model
// and closes it. The gate has to be open, or it waits. Call from the goroutine
// that uses the models.
func Measure(ctx context.Context, m llm.Model, cfg MeasureConfig) (Costs, error) {
	if err := cfg.complete(m.Info()); err != nil {
		return Costs{}, err
	}
	target, err := newProbe(ctx, m, cfg.Context)
	if err != nil {
		return Costs{}, err
	}
	defer target.seq.Close()
	var draft *probe
	if cfg.Draft != nil {
		if draft, err = newProbe(ctx, cfg.Draft, min(cfg.Context, cfg.Draft.Info().Context-1)); err != nil {
			return Costs{}, err
		}
		defer draft.seq.Close()
	}
	var c Costs
	done := 0
	progress := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, len(cfg.Threads)*(cfg.Rounds+1)*(len(cfg.Widths)+1))
		}
	}
	for _, threads := range cfg.Threads {
		row, err := measureRow(ctx, target, draft, threads, cfg, progress)
		if err != nil {
			return Costs{}, err
		}
		// The pool clamps: two numbers asked for may be one.
		if !slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Threads == row.Threads }) {
			c.Rows = append(c.Rows, row)
		}
	}
	slices.SortFunc(c.Rows, func(a, b Row) int { return cmp.Compare(a.Threads, b.Threads) })
	if err := c.Validate(); err != nil {
		return Costs{}, fmt.Errorf("%w: the clock of %s is too coarse, or stands", err, m.Info().Name)
	}
	return c, nil
}

// measured are the samples of one number of threads, a value a round.
type measured struct {
	threads int
	token   []float64   // ns
	draft   []float64   // in tokens
	ratios  [][]float64 // by width
}

// measureRow measures with one number of threads.
func measureRow(ctx context.Context, target, draft *probe, threads int, cfg MeasureConfig, tick func()) (Row, error) {
	g := llm.Grant{Threads: threads}
	widths := append([]int{1}, cfg.Widths...)
	m := measured{threads: max(1, threads), ratios: make([][]float64, len(widths))}
	spent := 0.0
	for round := range cfg.Rounds + 1 {
		took := make([]float64, len(widths))
		for i := range widths {
			at := (i + round) % len(widths) // each width has each place in a round
			ns, used, err := target.time(ctx, widths[at], g)
			if err != nil {
				return Row{}, err
			}
			took[at], m.threads = ns, max(1, used)
			spent += ns
			tick()
		}
		draftNS := 0.0
		if draft != nil {
			var err error
			if draftNS, _, err = draft.time(ctx, 1, g); err != nil {
				return Row{}, err
			}
			spent += draftNS
		}
		if round > 0 { // in the first one threads start and pages are read in
			m.add(took, draftNS)
		}
		over := spent / float64(cfg.Budget)
		if over > 1 && round >= fewestRounds {
			break
		}
		if over > overBudget {
			return Row{}, fmt.Errorf("%w: %d rounds with %d threads took %v: measure again when the machine is quiet",
				ErrBusy, round+1, m.threads, time.Duration(spent))
		}
	}
	return m.row(widths), nil
}

func (m *measured) add(took []float64, draftNS float64) {
	m.token, m.draft = append(m.token, took[0]), append(m.draft, draftNS/took[0])
	for i, ns := range took {
		m.ratios[i] = append(m.ratios[i], ns/took[0])
	}
}

func (m *measured) row(widths []int) Row {
	r := Row{Threads: m.threads, Token: time.Duration(median(m.token)), Draft: median(m.draft)}
	for i, w := range widths {
		r.Verify = append(r.Verify, Point{w, median(m.ratios[i])})
	}
	return r
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return (xs[len(xs)/2] + xs[(len(xs)-1)/2]) / 2
}

// sentence fills the cache. What it says does not matter.
const sentence = "The old road leads over the hills to the inn. "

// probe is a model with some tokens in a sequence.
type probe struct {
	m      llm.Model
	seq    llm.Sequence
	tokens []llm.Token
	batch  llm.Batch
}

func newProbe(ctx context.Context, m llm.Model, held int) (*probe, error) {
	p := &probe{m: m}
	if bos, ok := m.BOS(); ok {
		p.tokens = append(p.tokens, bos)
	}
	for len(p.tokens) < held+maxWidth {
		n := len(p.tokens)
		var err error
		if p.tokens, err = m.Tokenize(p.tokens, sentence, false); err != nil {
			return nil, fmt.Errorf("speculative: measure %s: %w", m.Info().Name, err)
		}
		if len(p.tokens) == n {
			return nil, fmt.Errorf("speculative: measure %s: a sentence has no tokens", m.Info().Name)
		}
	}
	var err error
	if p.seq, err = m.NewSequence(); err != nil {
		return nil, fmt.Errorf("speculative: measure %s: %w", m.Info().Name, err)
	}
	for at := 0; at < held; {
		n := min(held-at, m.Info().MaxBatch)
		if _, err := p.decode(ctx, at, n, llm.Grant{}); err != nil {
			p.seq.Close()
			return nil, err
		}
		at += n
	}
	return p, nil
}

func (p *probe) decode(ctx context.Context, at, n int, g llm.Grant) (llm.Work, error) {
	if ctx.Err() != nil {
		return llm.Work{}, fmt.Errorf("speculative: measure %s: %w", p.m.Info().Name, context.Cause(ctx))
	}
	p.batch.Reset()
	for _, t := range p.tokens[at : at+n] {
		p.batch.Add(p.seq, t, true)
	}
	w, err := p.m.Decode(&p.batch, g)
	if err != nil {
		if errors.Is(err, llm.ErrStopped) {
			err = fmt.Errorf("%w: measure before the game begins", err)
		}
		return w, fmt.Errorf("speculative: measure %s: %w", p.m.Info().Name, err)
	}
	return w, nil
}

// time returns how long a batch of a width takes, and with how many threads.
func (p *probe) time(ctx context.Context, width int, g llm.Grant) (ns float64, threads int, err error) {
	before := len(p.seq.Tokens())
	w, err := p.decode(ctx, before, width, g)
	if err != nil {
		return 0, 0, err
	}
	if err := p.seq.Truncate(before); err != nil {
		return 0, 0, fmt.Errorf("speculative: measure %s: %w", p.m.Info().Name, err)
	}
	if got := len(p.seq.Tokens()); got != before {
		return 0, 0, fmt.Errorf("speculative: measure %s: its cache was cleared instead of cut: no guessing with it",
			p.m.Info().Name)
	}
	return float64(busy(w)), w.Threads, nil
}
