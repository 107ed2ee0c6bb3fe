package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/rag/locomo"
)

type memoryEvalFlags struct {
	embedder string
	split    string
	minGain  float64
	fusionK  float64
	bonus    float64
	k1, b    float64
	depth    int
	recency  float64
	weight   float64
}

func newMemoryEvalCommand(a *app) *cobra.Command {
	var f memoryEvalFlags
	d := rag.DefaultConfig("")
	c := &cobra.Command{
		Use:   "eval FILE",
		Short: "Measure recall on conversations in LoCoMo's format, beside baselines",
		Long: `Remember the conversations of FILE, ask its questions, and measure the share of
evidence turns among the first 5 and 10 memories, as the mean over all questions
with evidence. Beside it stand baselines from the same run: BM25 over each turn,
BM25 over each turn with the one before it, and vectors alone.

Settings are chosen on one part of the conversations, the first two fifths
(tune), and what they are worth is seen on the others (report). The result shows
both apart. --split measures one of them alone. --min-gain G ends with exit code
3 unless recall at 5 and at 10 are both above bm25_window by G.`,
		Example: `  lull memory eval locomo.json --embedder none
  lull memory eval locomo.json --split tune --fusion-k 20
  lull memory eval locomo.json --split report --min-gain 0.03 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.memoryEval(cmd.Context(), args[0], f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.embedder, "embedder", "",
		"`NAME` or file of the embedder; none is by words only; else the default one")
	fl.StringVar(&f.split, "split", "all", "which conversations: tune, report or all")
	fl.Float64Var(&f.minGain, "min-gain", 0,
		"the gain over bm25_window that is wanted, or exit code 3; 0 asks for none")
	fl.Float64Var(&f.fusionK, "fusion-k", d.FusionK, "rank fusion: 1/(K + rank)")
	fl.Float64Var(&f.bonus, "speaker-bonus", d.SpeakerBonus, "added to the cosine where the question names the speaker")
	fl.Float64Var(&f.k1, "k1", d.K1, "BM25: how fast repeated words saturate")
	fl.Float64Var(&f.b, "b", d.B, "BM25: how much long texts are held back")
	fl.IntVar(&f.depth, "depth", d.Depth, "how many of each list are fused")
	fl.Float64Var(&f.recency, "recency", d.Weights.Recency, "weight of recency; that of relevance is 1")
	fl.Float64Var(&f.weight, "importance", d.Weights.Importance, "weight of importance")
	return c
}

func (f memoryEvalFlags) config() rag.Config {
	cfg := rag.DefaultConfig("")
	cfg.FusionK, cfg.SpeakerBonus, cfg.K1, cfg.B, cfg.Depth = f.fusionK, f.bonus, f.k1, f.b, f.depth
	cfg.Weights = rag.Weights{Relevance: 1, Recency: f.recency, Importance: f.weight}
	return cfg
}

func (a *app) memoryEval(ctx context.Context, path string, f memoryEvalFlags) (err error) {
	cfg := f.config()
	if err := cfg.Validate(); err != nil {
		return usagef("%w", err)
	}
	all, err := a.conversations(path, f.split)
	if err != nil {
		return err
	}
	e, free, err := a.openEmbedder(ctx, f.embedder)
	if err != nil {
		return err
	}
	defer freeing(&err, free)
	cfg.Embedder = e
	said := a.ui.now()
	r, err := locomo.Eval(ctx, all, cfg, func(done, of int) {
		if now := a.ui.now(); now.Sub(said) >= plainEvery {
			said = now
			a.ui.notef("%d of %d texts embedded", done, of)
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return adviseEval(err)
	}
	parts := evalParts(r, all, f.split)
	if a.json {
		if err := a.ui.object(evalObject{r, f.split, parts}); err != nil {
			return err
		}
	}
	a.printEval(r, parts)
	floor := r.Baselines[locomo.BM25Window]
	if f.minGain > 0 && (r.Recall.At5 < floor.At5+f.minGain || r.Recall.At10 < floor.At10+f.minGain) {
		return objectivef("recall is %+.3f at 5 and %+.3f at 10 above bm25_window: want %+.3f at least",
			r.Recall.At5-floor.At5, r.Recall.At10-floor.At10, f.minGain)
	}
	return nil
}

// evalObject adds to a report which conversations it is of.
type evalObject struct {
	locomo.Report
	Split string                   `json:"split"`
	Parts map[string]locomo.Report `json:"parts,omitempty"`
}

// partNames are those of --split, in the order in which they are shown.
var partNames = []string{"tune", "report"}

// evalParts tells what settings were chosen on from the rest, where both were
// measured.
func evalParts(r locomo.Report, all []locomo.Conversation, split string) map[string]locomo.Report {
	tune, report := locomo.Split(all)
	if split != "all" || len(report) == 0 {
		return nil
	}
	return map[string]locomo.Report{partNames[0]: r.Of(tune), partNames[1]: r.Of(report)}
}

func adviseEval(err error) error {
	if errors.Is(err, locomo.ErrFormat) {
		return hinted{err, "give a file in the format of LoCoMo: a JSON array with conversation and qa"}
	}
	return err
}

func (a *app) conversations(path, split string) ([]locomo.Conversation, error) {
	if !slices.Contains([]string{"tune", "report", "all"}, split) {
		return nil, usagef("--split %q: want tune, report or all", split)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, notes, err := locomo.Parse(file)
	if err != nil {
		return nil, adviseEval(err)
	}
	for _, n := range notes {
		a.ui.notef("evidence that names no turn is left out: %s", n)
	}
	tune, report := locomo.Split(all)
	switch split {
	case "tune":
		all = tune
	case "report":
		if all = report; len(all) == 0 {
			return nil, usagef("--split report: the file has one conversation, which is for tuning")
		}
	}
	return all, nil
}

func (a *app) printEval(r locomo.Report, parts map[string]locomo.Report) {
	a.ui.printf("%d questions about %d memories, embedder %s\n", r.Questions, r.Memories, printable(r.Embedder))
	t := a.ui.table("", "recall@5", "recall@10", "any@5", "any@10", "questions")
	t.AppendRow([]any{"recall", number(r.Recall.At5), number(r.Recall.At10), number(r.Any.At5), number(r.Any.At10),
		r.Questions})
	for _, name := range slices.Sorted(maps.Keys(r.ByCategory)) {
		c := r.ByCategory[name]
		t.AppendRow([]any{"  " + name, number(c.Recall.At5), number(c.Recall.At10), number(c.Any.At5),
			number(c.Any.At10), c.Questions})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Baselines)) {
		b := r.Baselines[name]
		t.AppendRow([]any{name, number(b.At5), number(b.At10)})
	}
	for _, name := range partNames {
		p, ok := parts[name]
		if !ok {
			continue
		}
		t.AppendRow([]any{"--split " + name, number(p.Recall.At5), number(p.Recall.At10), number(p.Any.At5),
			number(p.Any.At10), p.Questions})
		b := p.Baselines[locomo.BM25Window]
		t.AppendRow([]any{"  " + locomo.BM25Window, number(b.At5), number(b.At10)})
	}
	a.ui.render(t)
}
