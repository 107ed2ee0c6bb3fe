package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/bench"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/speculative"
)

func newBenchSpeculate(a *app) *cobra.Command {
	cfg := bench.SpeculateConfig{}
	draft := ""
	c := &cobra.Command{
		Use:   "speculate",
		Short: "Plain decoding against guessing ahead, on talk and on texts read back",
		Long: `Measure what verifying several tokens at once costs here, then run the same
conversations plainly, with n-grams and with a draft model, interleaved and
greedy. Half of them are talk, half are lists, logs and calls that are read
back. With --draft, shut the gate at random moments of a draft and measure how
fast it gives way.

A ratio is the speed of a method by that of plain decoding in the same round,
after the first token. The draft model has to read each conversation first; that
is in its ratio. Keep the machine quiet meanwhile. Ctrl-C prints what there is.`,
		Example: `  lull bench speculate
  lull bench speculate --model smollm2-135m-instruct-q8_0 --draft smollm2-135m-instruct-q4_0
  lull bench speculate --threads 2 --rounds 20 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.benchSpeculate(cmd.Context(), cfg, draft) },
	}
	c.Flags().StringVar(&draft, "draft", "", "draft model: a GGUF `FILE`, or a model's name in the cache")
	c.Flags().IntVar(&cfg.Rounds, "rounds", 10, "rounds of all conversations and methods")
	c.Flags().IntVar(&cfg.Tokens, "tokens", 48, "tokens of each reply at most")
	c.Flags().IntVar(&cfg.Threads, "threads", 1, "threads of the models")
	c.Flags().IntVar(&cfg.Stops, "stops", 300, "preemptions of the draft model")
	c.Flags().Uint64Var(&cfg.Seed, "seed", 1, "order of the conversations and moments of the preemptions")
	return c
}

func (a *app) benchSpeculate(ctx context.Context, cfg bench.SpeculateConfig, draft string) error {
	err := checkCounts(count{"rounds", cfg.Rounds, 10_000}, count{"tokens", cfg.Tokens, 512},
		count{"threads", cfg.Threads, 256}, count{"stops", cfg.Stops, 1_000_000})
	if err != nil {
		return err
	}
	cfg.Threads = min(cfg.Threads, llamacpp.DefaultThreads())
	if cfg.Target, err = a.benchModel(ctx); err != nil {
		return err
	}
	cfg.Admit = local.Admit
	if draft != "" {
		o := a.assetOptions()
		o.Model = draft
		d, err := assets.EnsureModel(ctx, o, assets.SettingDraft)
		if err != nil {
			return err
		}
		cfg.Draft = d.Path
	}
	clear := a.showSteps(&cfg.Progress)
	report, err := bench.Speculate(ctx, cfg)
	clear()
	if len(report.Costs) > 0 {
		if show := a.showSpeculate(report); show != nil {
			return show
		}
	}
	return advise(err)
}

// showSteps draws a bar that begins anew with each step of the benchmark.
func (a *app) showSteps(tell *func(what string, done, of int)) (clear func()) {
	switch {
	case a.quiet:
		return func() {}
	case !a.ui.errTerminal:
		last := ""
		*tell = func(what string, done, of int) {
			if what != last {
				last = what
				a.ui.notef("%s …", what)
			}
		}
		return func() {}
	}
	var bar *progressbar.ProgressBar
	last := ""
	clear = func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
	*tell = func(what string, done, of int) {
		if what != last {
			clear()
			last = what
			bar = progressbar.NewOptions(of, progressbar.OptionSetWriter(a.ui.errOut),
				progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
				progressbar.OptionSetPredictTime(true))
		}
		bar.ChangeMax(of)
		_ = bar.Set(min(done, of-1))
	}
	return clear
}

func (a *app) showSpeculate(r bench.SpeculateReport) error {
	if a.json {
		return a.ui.object(r)
	}
	beside := ""
	if r.Draft != "" {
		beside = " with " + r.Draft + " as its draft model"
	}
	a.ui.printf("%s%s, %s gate, %s, %d rounds of replies of %d tokens\n", r.Target, beside, r.Gate,
		threadCount(r.Threads), r.Rounds, r.Tokens)
	a.showCosts(r)
	if r.Rounds > 0 {
		a.showRatios(r)
	}
	for _, d := range r.Replies.Differences {
		a.ui.printf("near-tie: %s, %s, token %d, logits differ by %.3f\n", d.Prompt, d.Method, d.At, d.Gap)
	}
	if p := r.Preemption; p != nil {
		a.ui.printf("\na draft gives way after p50 %.2f ms, p99 %.2f ms, max %.2f ms (n = %d); a layer takes %.2f ms\n",
			p.P50, p.P99, p.Max, p.N, p.LayerMs)
	}
	a.ui.printf("\n")
	a.showClaims(r.Checks)
	return nil
}

func (a *app) showCosts(r bench.SpeculateReport) {
	for _, c := range r.Costs {
		a.ui.printf("\ndecoding a token takes %.2f ms with %s", c.TokenMs, threadCount(c.Threads))
		if c.Draft > 0 {
			a.ui.printf(", the draft model's %.2f of that", c.Draft)
		}
		a.ui.printf("\n\n")
		t := a.ui.table("width", "T(B)/T(1)", "all right", "break-even n-gram", "break-even model")
		for _, w := range c.Widths {
			t.AppendRow([]any{w.Width, fmt.Sprintf("%.2f", w.Ratio), fmt.Sprintf("× %.2f", w.Won), even(w.EvenNGram),
				evenModel(c, w)})
		}
		a.ui.render(t)
	}
}

func threadCount(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func evenModel(c bench.SpeculateCosts, w bench.VerifyCost) string {
	if c.Draft == 0 {
		return "-"
	}
	return even(w.EvenModel)
}

// even is a chance of acceptance from which on a batch pays.
func even(x *float64) string {
	if x == nil {
		return "never"
	}
	return fmt.Sprintf("%.0f %%", 100**x)
}

func (a *app) showRatios(r bench.SpeculateReport) {
	a.ui.printf("\n")
	t := a.ui.table("text", "method", "tokens/s", "÷ plain", "95 % interval", "predicted", "guessed",
		"accepted by source")
	for _, x := range r.Rows {
		if x.Method == bench.Plain {
			t.AppendRow([]any{x.Kind, x.Method, spread(x), "1", "", "", "", ""})
			continue
		}
		guessed := 0.0
		if n := x.VerifyTokens + x.PlainTokens; n > 0 {
			guessed = float64(x.VerifyTokens) / float64(n)
		}
		t.AppendRow([]any{x.Kind, x.Method, spread(x), fmt.Sprintf("%.3f", x.Ratio.Median),
			fmt.Sprintf("%.3f–%.3f", x.Low, x.High), fmt.Sprintf("%.3f", x.Predicted),
			fmt.Sprintf("%.0f %%", 100*guessed), accepted(x)})
	}
	a.ui.render(t)
	for _, x := range r.Rows {
		if x.Off != "" {
			a.ui.printf("%s, %s: nothing is guessed: %s\n", x.Kind, x.Method, x.Off)
		}
	}
	a.ui.printf("\n%d of %d replies equal the plain ones\n", r.Replies.Equal, r.Replies.Compared)
}

func spread(x bench.SpeculateRow) string {
	return fmt.Sprintf("%.1f [%.1f–%.1f]", x.Rate.Median, x.Rate.Q1, x.Rate.Q3)
}

// accepted lists the sources in the order of their trust.
func accepted(x bench.SpeculateRow) string {
	var parts []string
	for s := speculative.FromReply; s <= speculative.FromModel; s++ {
		if n := x.Judged[s.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f %% of %d", s, 100*x.Acceptance[s.String()], n))
		}
	}
	return strings.Join(parts, ", ")
}
