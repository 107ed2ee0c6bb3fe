package main

import (
	"context"
	"fmt"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/bench"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/local"
)

func newBenchCommand(a *app) *cobra.Command {
	return newGroup("bench", "Measure what lull costs on this machine", `
Benchmarks run every candidate in each round, in a changing order, and report
ratios within one run: absolute rates differ from day to day.`, `
  lull bench engine
  lull bench engine --rounds 30 --json
  lull bench speculate --draft smollm2-135m-instruct-q4_0
  lull bench npc --replies 1000`,
		newBenchEngine(a), newBenchSpeculate(a), newBenchNPC(a))
}

func newBenchEngine(a *app) *cobra.Command {
	cfg := bench.Config{}
	c := &cobra.Command{
		Use:   "engine",
		Short: "The layer gate against plain llama.cpp, and how fast a batch stops",
		Long: `Decode and prefill with plain llama.cpp in several settings and with lull's
layer gate, interleaved; then stop running batches at random moments.

Keep the machine quiet meanwhile. A build without cgo (CGO_ENABLED=0) has the
purego gate, and this prints what that costs.`,
		Example: `  lull bench engine
  lull bench engine --rounds 30 --tokens 96 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.benchEngine(cmd.Context(), cfg) },
	}
	c.Flags().IntVar(&cfg.Rounds, "rounds", 15, "rounds of all candidates")
	c.Flags().IntVar(&cfg.Tokens, "tokens", 48, "tokens that each candidate decodes in a round")
	c.Flags().IntVar(&cfg.Prefill, "prefill", 128, "tokens that each candidate prefills in a round")
	c.Flags().IntVar(&cfg.Stops, "stops", 400, "stops measured in each of decode, prefill and decode with a free gate")
	c.Flags().Uint64Var(&cfg.Seed, "seed", 1, "order of the candidates and moments of the stops")
	return c
}

func (a *app) benchEngine(ctx context.Context, cfg bench.Config) error {
	for name, v := range map[string]int{"rounds": cfg.Rounds, "tokens": cfg.Tokens, "prefill": cfg.Prefill,
		"stops": cfg.Stops} {
		if v < 1 || v > 1_000_000 {
			return usagef("--%s %d: want 1 or more", name, v)
		}
	}
	if cfg.Prefill > 256 || cfg.Tokens > 512 {
		return usagef("--prefill is at most 256 and --tokens at most 512: one context holds both")
	}
	var err error
	if cfg.Model, err = a.benchModel(ctx); err != nil {
		return err
	}
	cfg.Admit = local.Admit
	var bar *progressbar.ProgressBar
	if a.ui.errTerminal && !a.quiet {
		bar = progressbar.NewOptions(1, progressbar.OptionSetWriter(a.ui.errOut), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetPredictTime(true))
		cfg.Progress = func(done, of int) { bar.ChangeMax(of); _ = bar.Set(min(done, of-1)) }
	}
	report, err := bench.Engine(ctx, cfg)
	if bar != nil {
		_ = bar.Clear()
	}
	if report.Rounds > 0 {
		if show := a.showBench(report); show != nil {
			return show
		}
	}
	return advise(err)
}

// count is a flag that says how many, and how many there may be.
type count struct {
	flag    string
	v, most int
}

// checkCounts refuses the first that can't be.
func checkCounts(list ...count) error {
	for _, x := range list {
		if x.v < 1 || x.v > x.most {
			return usagef("--%s %d: want 1 … %d", x.flag, x.v, x.most)
		}
	}
	return nil
}

// benchModel finds, and fetches where it is missing, the model to measure, and
// loads llama.cpp.
func (a *app) benchModel(ctx context.Context) (path string, err error) {
	found, err := local.Locate(ctx, a.assetOptions())
	if err != nil {
		return "", err
	}
	return found.Model.Path, advise(llamacpp.Load(found.Library.Path))
}

func (a *app) showBench(r bench.Report) error {
	if a.json {
		return a.ui.object(r)
	}
	a.ui.printf("%s, %s gate, %d rounds; tokens/s as median [quartiles], ratios within rounds\n\n", r.Model, r.Gate,
		r.Rounds)
	t := a.ui.table("setting", "decode", "prefill", "÷ best plain", "95 % interval", "÷ plain, same threads",
		"÷ plain, same pool")
	for _, x := range r.Rows {
		t.AppendRow([]any{x.Name, fmt.Sprintf("%.1f [%.1f–%.1f]", x.Decode.Median, x.Decode.Q1, x.Decode.Q3),
			fmt.Sprintf("%.0f", x.Prefill.Median), fmt.Sprintf("%.3f", x.Ratio.Median),
			fmt.Sprintf("%.3f–%.3f", x.RatioLow, x.RatioHigh), fmt.Sprintf("%.3f", x.Same.Median),
			fmt.Sprintf("%.3f", x.Alike.Median)})
	}
	a.ui.render(t)
	a.ui.printf("\nbest plain setting: %s\n", r.Best)
	for _, s := range r.Stops {
		a.ui.printf("stop in %-30s p50 %.2f ms, p99 %.2f ms, max %.2f ms (n = %d)\n", s.Stage+":", s.P50, s.P99,
			s.Max, s.N)
	}
	return nil
}
