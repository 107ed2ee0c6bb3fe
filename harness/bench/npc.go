package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
)

// NPCConfig says what NPCs measures.
type NPCConfig struct {
	Model string        // GGUF file; the library is loaded already
	Admit llm.AdmitFunc // the rule at the gate

	Rounds  int // of the crowd and of the persona; default 10
	Replies int // sampled replies within a grammar; default 100
	Barks   int // lines said to measure barks; default 100
	Threads int // default llamacpp's
	Seed    uint64

	// Open replaces llama.cpp, for tests.
	Open func(ctx context.Context, tokens, sequences int) (llm.Model, error)

	Progress func(what string, done, of int) // may be nil
}

func (c *NPCConfig) complete() error {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Rounds, 10)
	set(&c.Replies, 100)
	set(&c.Barks, 100)
	set(&c.Threads, llamacpp.DefaultThreads())
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	for name, x := range map[string][2]int{"Rounds": {c.Rounds, 10_000}, "Replies": {c.Replies, 1_000_000},
		"Barks": {c.Barks, 1_000_000}, "Threads": {c.Threads, 256}} {
		if x[0] < 1 || x[0] > x[1] {
			return fmt.Errorf("bench: %s %d: want 1…%d", name, x[0], x[1])
		}
	}
	return nil
}

func (c *NPCConfig) open(ctx context.Context, clock llm.Clock, tokens, sequences int) (llm.Model, error) {
	if c.Open != nil {
		return c.Open(ctx, tokens, sequences)
	}
	return llamacpp.Open(ctx, c.Model, llamacpp.Options{Clock: clock, Admit: c.Admit, Context: tokens,
		MaxSequences: sequences, MaxBatch: 256, Threads: c.Threads})
}

// NPCCrowd compares a character that is alone with the same one among many.
// Times to first text are from Say to the first text polled.
type NPCCrowd struct {
	NPCs     int            `json:"npcs"`
	Speaking int            `json:"speaking"`
	Rounds   int            `json:"rounds"`
	Lone     metrics.Spread `json:"lone_ttft_ms"`
	Crowd    metrics.Spread `json:"crowd_ttft_ms"`
	P50Ratio float64        `json:"ttft_p50_ratio"` // crowd's median by the lone one's
	Paired   Ratio          `json:"ttft_ratio"`     // of the rounds

	Mixed  int            `json:"mixed_words"` // a secret word that somebody else said
	Own    int            `json:"own_words"`   // and that its owner said, when asked
	Turns  map[string]int `json:"turns"`       // of each who speaks
	Fewest int            `json:"fewest_turns"`
}

// Ratio is a ratio of paired rounds with the 95 % interval of its median.
type Ratio struct {
	metrics.Spread
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

func ratioOf(xs []float64) Ratio {
	r := Ratio{Spread: metrics.Quartiles(xs)}
	r.Low, r.High = medianInterval(xs)
	return r
}

// NPCPersona compares the first reply of a persona with its second and with the
// first after a restart of everything.
type NPCPersona struct {
	Tokens       int            `json:"persona_tokens"`
	Rounds       int            `json:"rounds"`
	Cold         metrics.Spread `json:"cold_ttft_ms"`
	Second       metrics.Spread `json:"second_ttft_ms"`
	Restart      metrics.Spread `json:"restart_ttft_ms"`
	SecondRatio  Ratio          `json:"second_ratio"`
	RestartRatio Ratio          `json:"restart_ratio"`

	ColdPrefilled    float64 `json:"cold_prefilled"` // tokens, medians
	SecondPrefilled  float64 `json:"second_prefilled"`
	RestartPrefilled float64 `json:"restart_prefilled"`
	SecondNew        float64 `json:"second_new"` // tokens of the prompt that no earlier prompt or reply had
}

// NPCCalls are sampled replies within the grammars of offers, and free ones to
// the same prompts.
type NPCCalls struct {
	Replies     int            `json:"replies"`
	Invalid     int            `json:"invalid"`
	Examples    []string       `json:"invalid_examples"`
	Kinds       map[string]int `json:"kinds"` // values of each type of parameter
	Actions     map[string]int `json:"actions"`
	Chosen      int            `json:"tokens_chosen"`
	Forced      int            `json:"tokens_forced"`
	Constrained metrics.Spread `json:"constrained_tokens_per_s"` // useful ones: of the call as it is tokenised
	Free        metrics.Spread `json:"free_tokens_per_s"`
	Ratio       Ratio          `json:"ratio"` // constrained by free, of blocks of pairs
	Blocks      int            `json:"blocks"`
}

// NPCBarks are the times from Say to the bark, at 60 frames a second.
type NPCBarks struct {
	N        int     `json:"n"`
	Silent   int     `json:"silent"` // no bark came
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	Disorder int     `json:"disorder"` // a bark after words of its turn, or within another's
}

// NPCReport is everything that NPCs measured. A part that was not reached is
// nil.
type NPCReport struct {
	Model       string      `json:"model"`
	Gate        string      `json:"gate"`
	Threads     int         `json:"threads"`
	Crowd       *NPCCrowd   `json:"crowd"`
	Barks       *NPCBarks   `json:"barks"`
	Persona     *NPCPersona `json:"persona"`
	Calls       *NPCCalls   `json:"calls"`
	Checks      []Check     `json:"checks"`
	Interrupted bool        `json:"interrupted,omitempty"`
}

// NPCs measures what characters are worth to a player: how long one waits for
// an answer alone and in a crowd, cold and known, and what a choice within a
// grammar costs. When ctx ends early the report holds what was finished, beside
// the error.
func NPCs(ctx context.Context, cfg NPCConfig) (NPCReport, error) {
	if err := cfg.complete(); err != nil {
		return NPCReport{}, err
	}
	report := NPCReport{Gate: llamacpp.GateKind, Threads: cfg.Threads}
	random := rand.New(rand.NewPCG(cfg.Seed, 3))
	var err error
	for _, part := range []func(context.Context, *NPCConfig, *rand.Rand, *NPCReport) error{
		benchCrowd, benchPersona, benchCalls,
	} {
		if err = part(ctx, &cfg, random, &report); err != nil {
			break
		}
	}
	report.Interrupted = errors.Is(err, context.Canceled)
	report.check()
	return report, err
}

// The objectives of the checks.
const (
	maxCrowdRatio   = 1.3
	maxSecondRatio  = 0.25
	maxBarkMs       = 100
	minCallsRatio   = 1
	leastRoundsSaid = 5 // with fewer an interval says nothing
)

func (r *NPCReport) check() {
	say := func(claim string, yes bool, why string, args ...any) {
		answer := map[bool]string{true: "yes", false: "no"}[yes]
		r.Checks = append(r.Checks, Check{claim, answer, fmt.Sprintf(why, args...)})
	}
	// at most and at least, where the interval decides it.
	bound := func(claim string, x Ratio, n int, limit float64, most bool) {
		c := Check{claim, "undecided", fmt.Sprintf("median %.3f, 95 %% interval %.3f–%.3f, limit %.2f", x.Median, x.Low,
			x.High, limit)}
		within, beyond := x.High <= limit, x.Low > limit
		if !most {
			within, beyond = x.Low >= limit, x.High < limit
		}
		switch {
		case n < leastRoundsSaid:
		case within:
			c.Answer = "yes"
		case beyond:
			c.Answer = "no"
		}
		r.Checks = append(r.Checks, c)
	}
	if c := r.Crowd; c != nil && c.Rounds > 0 {
		bound(fmt.Sprintf("in a crowd of %d, %d speaking, the player waits at most %.1f × as long", c.NPCs, c.Speaking,
			maxCrowdRatio), c.Paired, c.Rounds, maxCrowdRatio, true)
		say("nobody says another's secret word", c.Mixed == 0, "%d did; owners said theirs %d times", c.Mixed, c.Own)
		say("everyone who speaks gets a turn", c.Fewest >= c.Rounds, "%d turns at least in %d rounds", c.Fewest,
			c.Rounds)
	}
	if b := r.Barks; b != nil && b.N > 0 {
		say("a bark is there within 100 ms", b.P99 <= maxBarkMs && b.Silent == 0,
			"p99 %.1f ms of %d, %d without one", b.P99, b.N, b.Silent)
		say("barks and words keep their order", b.Disorder == 0, "%d out of order", b.Disorder)
	}
	if p := r.Persona; p != nil && p.Rounds > 0 {
		bound("the second reply begins in a quarter of the time", p.SecondRatio, p.Rounds, maxSecondRatio, true)
		say("it prefills only what is new", p.SecondPrefilled <= p.SecondNew, "%.0f tokens, %.0f are new",
			p.SecondPrefilled, p.SecondNew)
		bound("so does the first after a restart", p.RestartRatio, p.Rounds, maxSecondRatio, true)
	}
	if c := r.Calls; c != nil && c.Replies > 0 {
		say("every call is valid", c.Invalid == 0, "%d of %d are not", c.Invalid, c.Replies)
		missing := []string{}
		for k := npc.ParamInt; k <= npc.ParamTarget; k++ {
			if c.Kinds[k.String()] == 0 {
				missing = append(missing, k.String())
			}
		}
		say("every type of parameter was chosen", len(missing) == 0, "missing: %v", missing)
		bound("a call costs no more a useful token than free text", c.Ratio, c.Blocks, minCallsRatio, false)
	}
}
