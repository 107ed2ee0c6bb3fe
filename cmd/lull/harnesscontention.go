package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/runtime/local"
)

type contentionFlags struct {
	rates, json, plot string
	seconds           float64
	seed              uint64
	threads, samples  int
}

func newHarnessContention(a *app) *cobra.Command {
	f := contentionFlags{}
	c := &cobra.Command{
		Use:   "contention",
		Short: "Does the score follow the memory bandwidth that was used beside the model?",
		Long: `A thread streams memory while the model decodes, without a game. Every second
another rate is drawn, in random order, so that a drift of the machine can't pass
for a correlation. The score of the layers, (T - T0)/T0, is compared with the bytes
that were really read: a table, Pearson's r with its 95 % interval, and a plot.

T0 is timed at rest in the first seconds. Other programs use memory too: keep the
machine quiet, or their traffic is in the scores. With fewer groups of layers than
--samples, or fewer than six rates, the command ends with 3. Ctrl-C prints what
there is.`,
		Example: `  lull harness contention
  lull harness contention --seconds 240 --plot contention.png --json contention.json
  lull harness contention --rates 0,2,4,6,8,10 --threads 2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && f.json == toStandardOutput {
				return nil
			}
			return fmt.Errorf("it takes no argument, and got %q", args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 { // the flag library takes a file after --json and a blank for an argument
				f.json = args[0]
			}
			return a.harnessContention(cmd.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.rates, "rates", "0,1.5,3,4.5,6,7.5,9,10", "`LIST` of GB/s that the thread should stream")
	flags.Float64Var(&f.seconds, "seconds", 96, "length of all slices together, `T`")
	flags.Uint64Var(&f.seed, "seed", 1, "order of the rates")
	flags.IntVar(&f.threads, "threads", 1, "threads of the model; leave a core to the stream")
	flags.IntVar(&f.samples, "samples", harness.DefaultContentionSamples, "groups of layers that it takes at least")
	flags.StringVar(&f.plot, "plot", "", "draw a scatter plot into `FILE`.png or .svg")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`; - is standard output")
	flags.Lookup("json").NoOptDefVal = toStandardOutput
	return c
}

// options turns the flags into what to measure.
func (f *contentionFlags) options() (harness.ContentionOptions, error) {
	o := harness.ContentionOptions{Seconds: f.seconds, Seed: f.seed, Threads: f.threads, MinSamples: f.samples}
	for field := range strings.SplitSeq(f.rates, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(rate >= 0 && rate <= 1000) || slices.Contains(o.Rates, rate) {
			return o, usagef("--rates %s: %q: want different numbers of GB/s, 0 … 1000, split by commas",
				f.rates, field)
		}
		o.Rates = append(o.Rates, rate)
	}
	if len(o.Rates) < 2 {
		return o, usagef("--rates %s: want two rates at least, six for a correlation", f.rates)
	}
	if least := float64(len(o.Rates)); !(f.seconds >= least && f.seconds <= 3600) {
		return o, usagef("--seconds %v: want %v (one for each rate) … 3600", f.seconds, least)
	}
	if f.threads < 1 || f.threads > 256 {
		return o, usagef("--threads %d: want 1 … 256", f.threads)
	}
	if f.samples < 1 {
		return o, usagef("--samples %d: want 1 or more", f.samples)
	}
	if ext := strings.ToLower(filepath.Ext(f.plot)); f.plot != "" && !slices.Contains(harness.PlotFormats(), ext) {
		return o, usagef("--plot %s: want a file that ends in %s", f.plot, strings.Join(harness.PlotFormats(), " or "))
	}
	return o, nil
}

func (a *app) harnessContention(ctx context.Context, f contentionFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if f.json != toStandardOutput {
		err = checkFolder("--json", f.json)
	}
	if err = errors.Join(err, checkFolder("--plot", f.plot)); err != nil {
		return err // before minutes of measuring, not after
	}
	o.Version = versionLine()
	o.Model.Assets = a.assetOptions()
	o.Model.Note = func(text string) { a.ui.notef("%s", text) }
	if _, err := local.Locate(ctx, o.Model.Assets); err != nil {
		return advise(err)
	}
	show, finish := a.harnessProgress()
	o.Progress = show
	report, err := harness.Contention(ctx, o)
	finish()
	if report == nil {
		return advise(err)
	}
	if failed := a.contentionWrite(report, f); failed != nil {
		return failed
	}
	switch {
	case err != nil:
		return advise(err)
	case !report.Enough:
		return objectivef("not enough for a correlation: %d groups of layers at %d rates: want %d at %d",
			report.Samples, len(report.Rates), f.samples, harness.MinContentionRates)
	}
	return nil
}

// contentionWrite shows a report, whole or in part.
func (a *app) contentionWrite(r *harness.ContentionReport, f contentionFlags) error {
	if r.Samples > 0 {
		if err := a.writePlot(f.plot, r.Plot); err != nil {
			return err
		}
	}
	return a.writeReport(f.json, r, func(w io.Writer) error {
		if r.Samples == 0 {
			a.ui.notef("no slice of a second was complete after %.4g s", r.Seconds)
		}
		return r.WriteText(w)
	})
}
