package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/soc/fit"
)

type socFitFlags struct {
	seconds              float64
	seed                 uint64
	evals, folds, foldEv int
	sensitivity          bool
	json                 string
}

func newSoCFit(a *app) *cobra.Command {
	var f socFitFlags
	c := &cobra.Command{
		Use:   "fit FACTS.csv",
		Short: "Compare the simulated chip with published figures, and fit it",
		Long: `Read published figures (name, value, unit, condition, source, relation, kind, note),
simulate what they are of, and list the errors. With --evals the parameters that are
marked "fitted" move within their physical bounds (Nelder-Mead); --folds fits to a part of
the rows and predicts the others; --sensitivity moves each parameter by a tenth.
It prints the parameters and changes no file.`,
		Example: `  lull harness soc fit facts.csv
  lull harness soc fit facts.csv --evals 300 --folds 5 --fold-evals 150 --sensitivity --json fit.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 && f.json == toStandardOutput {
				return nil
			}
			return fmt.Errorf("which file of facts? want one FACTS.csv, got %d arguments", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 { // the flag library takes a file after --json and a blank for an argument
				f.json = args[1]
			}
			return a.socFit(cmd.Context(), args[0], f)
		},
	}
	flags := c.Flags()
	flags.Float64Var(&f.seconds, "seconds", 40, "of play of each experiment")
	flags.Uint64Var(&f.seed, "seed", 1, "of the experiments, the optimiser and the folds")
	flags.IntVar(&f.evals, "evals", 0, "evaluations of the optimiser; 0 compares what is shipped")
	flags.IntVar(&f.folds, "folds", 0, "leave-out: parts that the rows are dealt into; as many as rows leave out one")
	flags.IntVar(&f.foldEv, "fold-evals", 0, "evaluations for each fold (default: --evals)")
	flags.BoolVar(&f.sensitivity, "sensitivity", false, "move each parameter by a tenth")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`; - is standard output")
	flags.Lookup("json").NoOptDefVal = toStandardOutput
	return c
}

func (a *app) socFit(ctx context.Context, name string, f socFitFlags) error {
	a.ui.json = f.json == toStandardOutput
	if f.json != toStandardOutput {
		if err := checkFolder("--json", f.json); err != nil {
			return err
		}
	}
	if f.folds == 1 || f.folds < 0 || f.evals < 0 || f.foldEv < 0 {
		return usagef("--folds %d, --evals %d, --fold-evals %d: want no negative numbers, and 2 folds or more", f.folds,
			f.evals, f.foldEv)
	}
	file, err := os.Open(name)
	if err != nil {
		return hinted{err, "give a CSV file of published figures"}
	}
	defer file.Close()
	facts, err := fit.ReadFacts(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r, err := fit.Run(ctx, facts, fit.Options{Seconds: f.seconds, Seed: f.seed, Evaluations: f.evals, Folds: f.folds,
		FoldEvals: f.foldEv, Sensitivity: f.sensitivity, Progress: func(what string) { a.ui.notef("%s", what) }})
	if err != nil {
		return err
	}
	return a.writeReport(f.json, r, r.WriteText)
}
