package main

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/soc"
)

type fuzzFlags struct {
	seeds   uint64
	seed    uint64
	workers int
}

func newHarnessFuzz(a *app) *cobra.Command {
	var f fuzzFlags
	c := &cobra.Command{
		Use:   "fuzz",
		Short: "Simulate random chips and games, and look for broken promises",
		Long: `Each seed is a random simulated chip with a random game, policy, preset and set of
features, played under the real scheduler and engine. Promises that must hold: no more
tokens than granted, no layer in a closed gate, no actuator that flaps within its
dwell, no reply below its floor, no memory work in combat, only finite decisions.

A broken one ends the command with 1 and names the seed; --seed plays that seed alone.`,
		Example: "  lull harness fuzz --seeds 10000\n  lull harness fuzz --seed 4711 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("seed") && !cmd.Flags().Changed("seeds") {
				f.seeds = 1
			}
			return a.harnessFuzz(cmd.Context(), f)
		},
	}
	flags := c.Flags()
	flags.Uint64Var(&f.seeds, "seeds", 1000, "how many seeds, `N`")
	flags.Uint64Var(&f.seed, "seed", 1, "the first seed, `S`; alone, only this one")
	flags.IntVar(&f.workers, "workers", runtime.NumCPU(), "seeds played at one time")
	return c
}

// shownViolations is how many broken promises are listed: the first ones say what
// is wrong.
const shownViolations = 20

// fuzzed is what came of a range of seeds.
type fuzzed struct {
	Simulated  bool            `json:"simulated"`
	First      uint64          `json:"first_seed"`
	Seeds      uint64          `json:"seeds"` // that were played
	Violations []soc.Violation `json:"violations"`

	mu    sync.Mutex
	next  uint64
	broke uint64
	err   error
}

func (a *app) harnessFuzz(ctx context.Context, f fuzzFlags) error {
	if f.seeds < 1 || f.workers < 1 || f.workers > 256 || f.seed+f.seeds < f.seed {
		return usagef("--seeds %d from --seed %d with --workers %d: want 1 or more seeds, and 1 … 256 workers",
			f.seeds, f.seed, f.workers)
	}
	r := &fuzzed{Simulated: true, First: f.seed, Violations: []soc.Violation{}}
	var wait sync.WaitGroup
	for range f.workers {
		wait.Go(func() { r.run(ctx, f, a) })
	}
	wait.Wait()
	slices.SortFunc(r.Violations, func(a, b soc.Violation) int { return cmp.Compare(a.Seed, b.Seed) })
	if a.json {
		if err := a.ui.object(r); err != nil {
			return err
		}
	} else {
		a.ui.printf("%d simulated games from seed %d: %d broke a promise\n", r.Seeds, r.First, r.broke)
		for i := range r.Violations {
			a.ui.printf("%s\n  lull harness fuzz --seed %d\n", r.Violations[i].String(), r.Violations[i].Seed)
		}
	}
	switch {
	case r.err != nil:
		return r.err
	case r.broke > 0:
		return hinted{errors.New("promises were broken in simulated games"), "play a seed alone with --seed"}
	}
	return context.Cause(ctx)
}

// run plays seed after seed until there is none left.
func (r *fuzzed) run(ctx context.Context, f fuzzFlags, a *app) {
	for ctx.Err() == nil {
		r.mu.Lock()
		i := r.next
		r.next++
		r.mu.Unlock()
		if i >= f.seeds {
			return
		}
		v, err := soc.Fuzz(f.seed + i)
		r.mu.Lock()
		r.Seeds++
		if r.err = errors.Join(r.err, err); err != nil {
			r.next = f.seeds
		}
		if v != nil {
			if r.broke++; len(r.Violations) < shownViolations {
				r.Violations = append(r.Violations, *v)
			}
		}
		if r.Seeds%1000 == 0 {
			a.ui.notef("%d of %d seeds", r.Seeds, f.seeds)
		}
		r.mu.Unlock()
	}
}
