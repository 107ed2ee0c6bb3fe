package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/bench"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/local"
)

func newBenchNPC(a *app) *cobra.Command {
	cfg := bench.NPCConfig{}
	c := &cobra.Command{
		Use:   "npc",
		Short: "How long a player waits for a character, alone and in a crowd; what choosing an action costs",
		Long: `Four measurements, interleaved where two things are compared:

  crowd    the time to the first text of one character alone, and of the same one
           among 100 of whom 8 speak; each has a secret word that no other may say
  barks    the time from the player's line to the bark, at 60 frames a second
  persona  the first reply of a persona of 500 tokens, its second, and the first
           after everything was loaded anew, with the head of the prompt on disk
  calls    sampled replies within the grammars of actions with every type of
           parameter, each beside a free reply to the same prompt

A ratio is of the two in the same round. Keep the machine quiet meanwhile. Ctrl-C
prints what there is.`,
		Example: `  lull bench npc
  lull bench npc --replies 1000 --rounds 30 --json
  lull bench npc --threads 1 --replies 20 --rounds 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.benchNPC(cmd.Context(), cfg) },
	}
	c.Flags().IntVar(&cfg.Rounds, "rounds", 10, "rounds of crowd and persona")
	c.Flags().IntVar(&cfg.Replies, "replies", 100, "sampled replies within a grammar")
	c.Flags().IntVar(&cfg.Barks, "barks", 100, "lines said to measure barks")
	c.Flags().IntVar(&cfg.Threads, "threads", llamacpp.DefaultThreads(), "threads of the model")
	c.Flags().Uint64Var(&cfg.Seed, "seed", 1, "order of what is measured, and what is drawn")
	return c
}

func (a *app) benchNPC(ctx context.Context, cfg bench.NPCConfig) error {
	err := checkCounts(count{"rounds", cfg.Rounds, 10_000}, count{"replies", cfg.Replies, 1_000_000},
		count{"barks", cfg.Barks, 1_000_000}, count{"threads", cfg.Threads, 256})
	if err != nil {
		return err
	}
	cfg.Threads = min(cfg.Threads, llamacpp.DefaultThreads())
	if cfg.Model, err = a.benchModel(ctx); err != nil {
		return err
	}
	cfg.Admit = local.Admit
	clear := a.showSteps(&cfg.Progress)
	report, err := bench.NPCs(ctx, cfg)
	clear()
	if report.Crowd != nil {
		if show := a.showNPC(report); show != nil {
			return show
		}
	}
	return advise(err)
}

func (a *app) showNPC(r bench.NPCReport) error {
	if a.json {
		return a.ui.object(r)
	}
	a.ui.printf("%s, %s gate, %s; times in ms as median [quartiles]\n\n", r.Model, r.Gate, threadCount(r.Threads))
	t := a.ui.table("measured", "value", "÷ the first", "95 % interval", "beside")
	if c := r.Crowd; c.Rounds > 0 {
		t.AppendRow([]any{"first text, alone", quartiles(c.Lone), "1", "", fmt.Sprintf("%d rounds", c.Rounds)})
		t.AppendRow([]any{fmt.Sprintf("first text, %d of %d speak", c.Speaking, c.NPCs), quartiles(c.Crowd),
			fmt.Sprintf("%.2f", c.Paired.Median), interval(c.Paired),
			fmt.Sprintf("%.2f of the medians; %d turns at least", c.P50Ratio, c.Fewest)})
	}
	if p := r.Persona; p != nil && p.Rounds > 0 {
		t.AppendRow([]any{fmt.Sprintf("persona of %d tokens, cold", p.Tokens), quartiles(p.Cold), "1", "",
			fmt.Sprintf("%.0f tokens prefilled", p.ColdPrefilled)})
		t.AppendRow([]any{"its second reply", quartiles(p.Second), fmt.Sprintf("%.2f", p.SecondRatio.Median),
			interval(p.SecondRatio), fmt.Sprintf("%.0f prefilled, %.0f new", p.SecondPrefilled, p.SecondNew)})
		t.AppendRow([]any{"its first after a restart", quartiles(p.Restart), fmt.Sprintf("%.2f", p.RestartRatio.Median),
			interval(p.RestartRatio), fmt.Sprintf("%.0f prefilled", p.RestartPrefilled)})
	}
	if c := r.Calls; c != nil && c.Replies > 0 {
		t.AppendRow([]any{"free text, tokens/s", quartiles(c.Free), "1", "", ""})
		t.AppendRow([]any{"calls, useful tokens/s", quartiles(c.Constrained), fmt.Sprintf("%.2f", c.Ratio.Median),
			interval(c.Ratio), fmt.Sprintf("%d chosen, %d forced", c.Chosen, c.Forced)})
	}
	a.ui.render(t)
	if b := r.Barks; b != nil && b.N > 0 {
		a.ui.printf("\nbark after p50 %.1f ms, p99 %.1f ms, max %.1f ms (n = %d)\n", b.P50, b.P99, b.Max, b.N)
	}
	if c := r.Calls; c != nil {
		a.ui.printf("values chosen: %s\n", counts(c.Kinds))
		for _, text := range c.Examples {
			a.ui.printf("invalid: %s\n", printable(text))
		}
	}
	a.ui.printf("\n")
	a.showClaims(r.Checks)
	return nil
}

// showClaims shows what the data says to each claim.
func (a *app) showClaims(list []bench.Check) {
	for _, c := range list {
		colour := yellow
		switch c.Answer {
		case "yes":
			colour = green
		case "no":
			colour = red
		}
		a.ui.printf("%s  %s (%s)\n", a.ui.paint(colour, fmt.Sprintf("%-14s", c.Answer)), c.Claim, c.Why)
	}
}

func quartiles(x metrics.Spread) string {
	return fmt.Sprintf("%.1f [%.1f–%.1f]", x.Median, x.Q1, x.Q3)
}

func interval(r bench.Ratio) string { return fmt.Sprintf("%.2f–%.2f", r.Low, r.High) }

// counts lists numbers by name.
func counts(m map[string]int) string {
	var parts []string
	for _, k := range []string{"int", "real", "bool", "enum", "text", "target"} {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
