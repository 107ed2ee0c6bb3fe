package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

// SpeculateConfig says what Speculate measures.
type SpeculateConfig struct {
	Target string        // GGUF file; the library is loaded already
	Draft  string        // draft model's GGUF file; "" is none
	Admit  llm.AdmitFunc // the rule at the gate

	Rounds  int // of all conversations with all methods; default 10
	Tokens  int // of each reply at most; default 48
	Threads int // default 1
	Stops   int // preemptions of the draft model; default 300
	Seed    uint64

	Progress func(what string, done, of int) // may be nil
}

func (c *SpeculateConfig) complete() error {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Rounds, 10)
	set(&c.Tokens, 48)
	set(&c.Threads, 1)
	set(&c.Stops, 300)
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	for name, x := range map[string][2]int{"Rounds": {c.Rounds, 10_000}, "Tokens": {c.Tokens, speculateTokens},
		"Threads": {c.Threads, 256}, "Stops": {c.Stops, 1_000_000}} {
		if x[0] < 1 || x[0] > x[1] {
			return fmt.Errorf("bench: %s %d: want 1…%d", name, x[0], x[1])
		}
	}
	return nil
}

const (
	// speculateContext holds the longest conversation and its reply.
	speculateContext = 1024
	speculateTokens  = 512

	// fewTokens is 8: of a shorter reply the rate is that of the clock.
	fewTokens = 8
)

// Methods of Speculate.
const (
	Plain     = "plain"
	NGram     = "ngram"
	WithDraft = "model"
)

// VerifyCost is one width of one number of threads.
type VerifyCost struct {
	Width     int      `json:"width"`
	Ratio     float64  `json:"ratio"`              // T(width)/T(1)
	EvenNGram *float64 `json:"break_even_ngram"`   // chance of a candidate; nil: even 1 does not pay
	EvenModel *float64 `json:"break_even_model"`   // the same, drafting paid; nil without a draft model
	Won       float64  `json:"speed_up_all_right"` // where every candidate is right
}

// SpeculateCosts are the costs measured first.
type SpeculateCosts struct {
	Threads int          `json:"threads"`
	TokenMs float64      `json:"token_ms"`
	Draft   float64      `json:"draft_token"` // in tokens of the target; 0 without
	Widths  []VerifyCost `json:"widths"`
}

// SpeculateRow is one method on one kind of text.
type SpeculateRow struct {
	Kind      string         `json:"kind"`
	Method    string         `json:"method"`
	Rate      metrics.Spread `json:"tokens_per_s"`
	Ratio     metrics.Spread `json:"ratio_to_plain"` // of the rounds
	Low       float64        `json:"ratio_low"`      // 95 % interval of the median
	High      float64        `json:"ratio_high"`
	Predicted float64        `json:"predicted"` // by acceptance and costs, before each round

	Acceptance   map[string]float64 `json:"acceptance"` // by source
	Judged       map[string]uint64  `json:"judged"`
	Batches      uint64             `json:"verify_batches"`
	VerifyTokens uint64             `json:"verify_tokens"`
	PlainTokens  uint64             `json:"plain_tokens"`
	Off          string             `json:"off,omitempty"`
}

// Difference is a reply that is not the plain one.
type Difference struct {
	Prompt string  `json:"prompt"`
	Method string  `json:"method"`
	At     int     `json:"token"`     // the first that differs
	Gap    float64 `json:"logit_gap"` // of the two tokens there, computed plainly
}

// Replies says whether guessing changed what was said.
type Replies struct {
	Compared    int          `json:"compared"`
	Equal       int          `json:"equal"`
	Differences []Difference `json:"differences"`
	LargestGap  float64      `json:"largest_logit_gap"`
}

// Check is a claim with what the data says: "yes", "no", "undecided" or "does not apply".
type Check struct {
	Claim  string `json:"claim"`
	Answer string `json:"answer"`
	Why    string `json:"why"`
}

// SpeculateReport is everything that Speculate measured.
type SpeculateReport struct {
	Target      string           `json:"target"`
	Draft       string           `json:"draft"`
	Gate        string           `json:"gate"`
	Threads     int              `json:"threads"`
	Rounds      int              `json:"rounds"`
	Tokens      int              `json:"tokens_per_reply"`
	Costs       []SpeculateCosts `json:"costs"`
	Rows        []SpeculateRow   `json:"rows"`
	Preemption  *Preemption      `json:"preemption"` // nil without a draft model
	Replies     Replies          `json:"replies"`
	Checks      []Check          `json:"checks"`
	Interrupted bool             `json:"interrupted,omitempty"`
}

// Speculate compares plain decoding with guessing ahead, on talk and on texts
// that are read back. When ctx ends early the report holds what was finished,
// beside the error.
func Speculate(ctx context.Context, cfg SpeculateConfig) (report SpeculateReport, err error) {
	if err := cfg.complete(); err != nil {
		return report, err
	}
	b, err := openSpeculation(ctx, cfg)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	report = SpeculateReport{Target: b.target.Info().Name, Gate: llamacpp.GateKind, Threads: cfg.Threads,
		Tokens: cfg.Tokens, Replies: Replies{Differences: []Difference{}}}
	if b.draft != nil {
		report.Draft = b.draft.Info().Name
	}
	costs, err := b.measure(ctx)
	if err != nil {
		return report, err
	}
	report.Costs = costRows(costs, b.draft != nil)
	if err := b.prepare(costs); err != nil {
		return report, err
	}
	err = b.rounds(ctx)
	report.Rounds = b.done
	if err == nil && b.draft != nil {
		report.Preemption, err = b.preempt(ctx)
	}
	report.Interrupted = ctx.Err() != nil
	b.summarise(&report)
	if gaps := b.compare(&report); err == nil {
		err = gaps
	}
	report.Checks = checks(&report, costs.Row(cfg.Threads))
	return report, err
}

// speculation is one run of Speculate.
type speculation struct {
	cfg    SpeculateConfig
	clock  llm.Clock
	random *rand.Rand

	target, draft *llamacpp.Model // draft: nil without
	texts         []*conversation
	methods       []*method
	turn          *turns
	engine        *llm.Engine
	done          int // rounds
}

func openSpeculation(ctx context.Context, cfg SpeculateConfig) (*speculation, error) {
	b := &speculation{cfg: cfg, clock: llm.NewClock(), random: rand.New(rand.NewPCG(cfg.Seed, 2)), turn: &turns{}}
	opt := llamacpp.Options{Clock: b.clock, Admit: cfg.Admit, Context: speculateContext, MaxSequences: 2, MaxBatch: 256,
		Threads: cfg.Threads}
	var err error
	if b.target, err = llamacpp.Open(ctx, cfg.Target, opt); err != nil {
		return nil, err
	}
	if cfg.Draft != "" {
		opt.Gate, opt.MaxSequences = b.target.Gate(), 3
		if b.draft, err = llamacpp.Open(ctx, cfg.Draft, opt); err != nil {
			return nil, errors.Join(err, b.close())
		}
		if err := speculative.Compatible(b.target, b.draft); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if !b.target.Info().CanTruncate {
		return nil, errors.Join(fmt.Errorf("bench: %s can't take tokens back: nothing is guessed ahead with it",
			b.target.Info().Name), b.close())
	}
	if b.texts, err = conversations(b.target); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *speculation) close() error {
	if b.engine != nil {
		b.engine.Close()
	}
	for _, m := range b.methods {
		for _, s := range m.speculators {
			s.Close()
		}
	}
	var err error
	if b.draft != nil {
		err = b.draft.Close()
	}
	return errors.Join(err, b.target.Close())
}

// measure finds what verifying costs, with more rounds than at a game's start.
func (b *speculation) measure(ctx context.Context) (speculative.Costs, error) {
	cfg := speculative.MeasureConfig{
		Threads: []int{b.cfg.Threads}, Rounds: 15, Widths: []int{2, 3, 4, 5, 6, 8}, Budget: 20e9,
		Progress: func(done, of int) { b.cfg.Progress("costs", done, of) },
	}
	if b.draft != nil {
		cfg.Draft = b.draft
	}
	return speculative.Measure(ctx, b.target, cfg)
}

func costRows(costs speculative.Costs, model bool) []SpeculateCosts {
	var list []SpeculateCosts
	for _, r := range costs.Rows {
		row := SpeculateCosts{Threads: r.Threads, TokenMs: r.Token.Seconds() * 1e3, Draft: r.Draft}
		for _, p := range r.Verify {
			if p.Width < 2 {
				continue
			}
			c := VerifyCost{Width: p.Width, Ratio: p.Ratio, Won: float64(p.Width) / p.Ratio}
			c.EvenNGram = breakEven(r, p.Width, false)
			if model {
				c.EvenModel = breakEven(r, p.Width, true)
			}
			row.Widths = append(row.Widths, c)
		}
		list = append(list, row)
	}
	return list
}

func breakEven(r speculative.Row, width int, model bool) *float64 {
	if x, ok := r.BreakEven(width, model); ok {
		return &x
	}
	return nil
}
