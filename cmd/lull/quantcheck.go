package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// villageText is what models are compared on when the user has no text: a
// page of the kind of story that characters tell, written for this.
//
//go:embed text/village.txt
var villageText string

type quantFlags struct {
	text     string
	window   int
	maxRatio float64
	minAgree float64
}

// quantWindow is how many tokens are scored together. Longer windows need more
// memory for logits (49152 × 4 bytes a token) and change the comparison little.
const quantWindow = 128

// mostRatio bounds --max-ratio: beyond it, B knows nothing of what A knows.
const mostRatio = 1e6

func newQuantCheckCommand(a *app) *cobra.Command {
	var f quantFlags
	c := &cobra.Command{
		Use:   "quant-check A B",
		Short: "Compare two quantisations of a model on a text",
		Long: `Compare models A and B token by token on a text: the perplexity of each (lower
is better), and how often both would choose the same next token. A and B are
GGUF files or names from ` + "`lull assets list`" + `. Both must have the same vocabulary.

B passes if its perplexity is at most --max-ratio times A's and the agreement
is at least --min-agreement; else the exit code is 3.`,
		Example: `  lull quant-check smollm2-135m-instruct-q4_1 smollm2-135m-instruct-q4_0
  lull quant-check npc-q8.gguf npc-q4.gguf --text dialogues.txt --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.quantCheck(cmd.Context(), args[0], args[1], f) },
	}
	c.Flags().StringVar(&f.text, "text", "", "text `FILE`; without it a page that comes with lull")
	c.Flags().IntVar(&f.window, "window", quantWindow, "tokens scored together; the first quarter is context only")
	c.Flags().Float64Var(&f.maxRatio, "max-ratio", 1.05, "perplexity of B over that of A, at most")
	c.Flags().Float64Var(&f.minAgree, "min-agreement", 0.8,
		"share of positions where both choose the same token, at least")
	return c
}

// check says which flag is wrong.
func (f *quantFlags) check() error {
	switch {
	case f.window < 8 || f.window > 1024:
		return usagef("--window %d: want 8…1024", f.window)
	case !(f.maxRatio > 0 && f.maxRatio <= mostRatio):
		return usagef("--max-ratio %v: want more than 0, up to %v", f.maxRatio, mostRatio)
	case !(f.minAgree >= 0 && f.minAgree <= 1):
		return usagef("--min-agreement %v: want 0…1", f.minAgree)
	}
	return nil
}

func (a *app) quantCheck(ctx context.Context, nameA, nameB string, f quantFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	text := villageText
	if f.text != "" {
		data, err := readBounded(f.text, 64<<20)
		if err != nil {
			return fmt.Errorf("--text: %w", err)
		}
		text = llm.ValidText(string(data))
	}
	var ppl [2]float64
	var best [2][]llm.Token
	var tokens [2][]llm.Token
	for i, name := range []string{nameA, nameB} {
		var err error
		if ppl[i], tokens[i], best[i], err = a.score(ctx, name, text, f.window); err != nil {
			return advise(err)
		}
	}
	if len(best[0]) != len(best[1]) || len(tokens[0]) != len(tokens[1]) {
		return fmt.Errorf("%s makes %d tokens of the text and %s %d: they have different vocabularies",
			nameA, len(tokens[0]), nameB, len(tokens[1]))
	}
	same := 0
	for i := range best[0] {
		if best[0][i] == best[1][i] {
			same++
		}
	}
	agreement := float64(same) / float64(len(best[0]))
	ok := ppl[1] <= f.maxRatio*ppl[0] && agreement >= f.minAgree
	if a.json {
		if err := a.ui.object(map[string]any{"perplexity": map[string]float64{"a": ppl[0], "b": ppl[1]},
			"top1_agreement": agreement, "tokens": len(best[0]), "ok": ok}); err != nil {
			return err
		}
	}
	a.ui.printf("perplexity  %.3f  %s\n            %.3f  %s (%+.1f %%)\nsame choice %.1f %% of %d tokens\n",
		ppl[0], nameA, ppl[1], nameB, 100*(ppl[1]/ppl[0]-1), 100*agreement, len(best[0]))
	if !ok {
		return objectivef("%s differs too much from %s: perplexity × %.3f (at most %.3f), same choice %.3f (%.3f)",
			nameB, nameA, ppl[1]/ppl[0], f.maxRatio, agreement, f.minAgree)
	}
	return nil
}

// score loads one model and runs the text through it.
func (a *app) score(ctx context.Context, name, text string, window int) (float64, []llm.Token, []llm.Token, error) {
	o := a.assetOptions()
	o.Model = name
	o.Progress = nil
	found, err := local.Locate(ctx, o)
	var asset *assets.Error
	if errors.Is(err, assets.ErrNoSuchPath) && errors.As(err, &asset) && asset.Name == "--model" {
		return 0, nil, nil, hinted{&told{fmt.Sprintf("%q is no GGUF file and no model's name", name), err},
			"`lull assets list` shows the names"}
	}
	if err != nil {
		return 0, nil, nil, err
	}
	if err := llamacpp.Load(found.Library.Path); err != nil {
		return 0, nil, nil, err
	}
	steps := a.ui.steps(name)
	defer steps.clear()
	m, err := llamacpp.Open(ctx, found.Model.Path, llamacpp.Options{Clock: llm.NewClock(), Admit: local.Admit,
		Context: max(window, 64), MaxSequences: 1, MaxBatch: window, MaxOutputs: window})
	if err != nil {
		return 0, nil, nil, err
	}
	defer m.Close()
	tokens, err := m.Tokenize(nil, text, false)
	if err != nil {
		return 0, nil, nil, err
	}
	var best []llm.Token
	scored := len(tokens) / window * (window - 1 - window/4)
	ppl, _, err := m.Perplexity(ctx, tokens, window, func(t llm.Token) {
		best = append(best, t)
		steps.set(len(best), scored)
	})
	if errors.Is(err, llm.ErrRequest) {
		text := fmt.Sprintf("the text has %d tokens, fewer than --window %d", len(tokens), window)
		err = hinted{&told{text, err}, "give a longer --text, or a smaller --window"}
	}
	return ppl, tokens, best, err
}
