package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

func newHarnessCommand(a *app) *cobra.Command {
	return newGroup("harness", "Play a game beside the model and count what it costs", `
The harness plays a game (CPU time burnt, memory streamed, or a capture replayed)
on a fixed grid of frames, with and without a model beside it, and reports late
frames, tokens and the time that lull takes on the game thread. Keep the machine
quiet meanwhile.`, `
  lull harness list
  lull harness run cpu-bound-60 --policy native,vanilla,lull --repeat 3
  lull harness selftest`,
		newHarnessRun(a), newHarnessList(a), newHarnessContention(a), newHarnessSelftest(a),
		newHarnessSoC(a), newHarnessFuzz(a))
}

type harnessFlags struct {
	policies, without, preset string
	repeat, workers           int
	seed                      uint64
	seconds, scale, fill      float64
	slo, trace, json, csv     string
	draft                     string
	definitions, lengthGiven  bool
}

func newHarnessRun(a *app) *cobra.Command {
	var f harnessFlags
	c := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Play a scenario with each policy in turn",
		Long: `Play a scenario (a shipped name, or a YAML file) with each policy in turn, A B C
A B C, and compare. Each run loads the model anew and warms up before it counts.

An objective of the scenario or of --slo that is missed ends the command with 3.
Repeats that other processes disturbed (5 % of the cores) are not judged by; an
objective without another is undecided, which is said and is no failure. A file
for --slo, with keys of a run in the JSON as metrics:

` + indented(harness.SampleObjectives) + `
--definitions says what each number means, and plays nothing.
Ctrl-C prints what there is.`,
		Example: `  lull harness run cpu-bound-60 --policy native,vanilla --repeat 3
  lull harness run tavern --seconds 30 --policy native,lull --json report.json
  lull harness run cpu-bound-120 --policy native,lull,lull-no-window,idle-1 --repeat 5
  lull harness run light-app --trace game.csv --fill 0.6 --policy native,lull
  lull harness run my-game.yaml --slo limits.yaml --json -`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1, len(args) == 2 && f.json == toStandardOutput, len(args) == 0 && f.definitions:
				return nil
			case len(args) == 0:
				return fmt.Errorf("which scenario? want one of %s, or a YAML file", strings.Join(harness.Names(), ", "))
			}
			return fmt.Errorf("one SCENARIO at a time, not %d", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			scenario := f.arguments(args)
			a.ui.json = f.json == toStandardOutput
			if f.definitions {
				return a.harnessDefinitions(f)
			}
			if f.trace == "" {
				if err := needs(cmd, "--trace FILE", "scale", "fill", "workers"); err != nil {
					return err
				}
			}
			f.lengthGiven = cmd.Flags().Changed("seconds")
			return a.harnessRun(cmd.Context(), scenario, f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.policies, "policy", "native,vanilla,lull", "`NAMES` of policies, see `lull harness list`")
	flags.IntVar(&f.repeat, "repeat", 3, "runs of each policy")
	flags.Uint64Var(&f.seed, "seed", 1, "jitter of the load, order of the questions, the replies")
	flags.Float64Var(&f.seconds, "seconds", 0, "length of a run, `S`; phases keep their proportions")
	flags.StringVar(&f.without, "without", "", "`FEATURES` of lull to switch off: "+
		strings.Join(harness.FeatureNames(), ", "))
	flags.StringVar(&f.preset, "preset", "balanced", "`NAME` of lull's preset: balanced, ui-first, llm-first")
	flags.StringVar(&f.draft, "draft", "",
		"draft model for policies that guess ahead: a GGUF `FILE`, or a name in the cache")
	flags.StringVar(&f.slo, "slo", "", "YAML `FILE` with further objectives")
	flags.StringVar(&f.trace, "trace", "", "replay a capture `FILE` instead of the scenario's load")
	flags.Float64Var(&f.scale, "scale", 0, "factor on the capture's times (default 1)")
	flags.Float64Var(&f.fill, "fill", 0, "choose the factor so that CPU busy fills this share of a frame")
	flags.IntVar(&f.workers, "workers", 1, "threads that each burn the capture's CPU busy time")
	flags.StringVar(&f.csv, "frames-csv", "", "write every frame into a capture `FILE` that lull frames reads")
	flags.BoolVar(&f.definitions, "definitions", false, "only say what each number means")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`; - is standard output")
	flags.Lookup("json").NoOptDefVal = toStandardOutput
	return c
}

// indented sets a file into a help text.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// toStandardOutput is what --json means without a file.
const toStandardOutput = "-"

// arguments tells the scenario from a file that stands after --json with a
// blank between, which the flag library takes for an argument.
func (f *harnessFlags) arguments(args []string) (scenario string) {
	switch len(args) {
	case 0:
		return ""
	case 1:
		return args[0]
	}
	scenario, file := args[0], args[1]
	if scenario == toStandardOutput || strings.HasSuffix(scenario, ".json") {
		scenario, file = file, scenario
	}
	f.json = file
	return scenario
}

// options turns the flags into what to play. A wrong flag is a usage error, a
// file that can't be used a failure.
func (f *harnessFlags) options(name string) (harness.Options, error) {
	o := harness.Options{Repeat: f.repeat, Seed: f.seed}
	var err error
	if o.Scenario, err = harness.LoadScenario(name); err != nil {
		return o, scenarioError(err)
	}
	if err := f.chosen(&o); err != nil {
		return o, err
	}
	if f.repeat < 1 || f.repeat > 1000 {
		return o, usagef("--repeat %d: want 1…1000", f.repeat)
	}
	if f.slo != "" {
		if o.Objectives, err = harness.LoadObjectives(f.slo); err != nil {
			return o, hinted{under("--slo", harness.ErrScenario, err), "`lull harness run --help` shows a sample"}
		}
	}
	if f.trace != "" {
		if err := f.traced(); err != nil {
			return o, err
		}
		o.Scenario = o.Scenario.WithTrace(f.trace, f.scale, f.fill, f.workers)
	}
	if f.lengthGiven {
		if o.Scenario, err = o.Scenario.WithSeconds(f.seconds); err != nil {
			return o, &usageError{err: under("--seconds", harness.ErrScenario, err)}
		}
	}
	return o, nil
}

// scenarioError says what to do about a scenario that can't be played: a name
// was mistyped, or a file is at fault.
func scenarioError(err error) error {
	const list = "`lull harness list` shows the shipped ones"
	var file *harness.FileError
	var path *fs.PathError
	switch {
	case errors.As(err, &file): // it says which line is wrong
		return err
	case errors.As(err, &path):
		return hinted{under("SCENARIO", harness.ErrScenario, err), list}
	}
	return &usageError{under("SCENARIO", harness.ErrScenario, err), list}
}

// chosen takes the policies and what tunes them.
func (f *harnessFlags) chosen(o *harness.Options) error {
	var err error
	if o.Policies, err = harness.ParsePolicies(f.policies); err != nil {
		return &usageError{under("--policy", harness.ErrPolicy, err), "`lull harness list` says what they are"}
	}
	if o.Tuning.Without, o.Tuning.Memory, err = harness.ParseFeatures(f.without); err != nil {
		return &usageError{err: under("--without", scheduler.ErrConfig, err)}
	}
	if o.Tuning.Preset, err = scheduler.ParsePreset(f.preset); err != nil || o.Tuning.Preset == scheduler.Custom {
		// A custom one would need numbers that flags can't give.
		return &usageError{err: &told{fmt.Sprintf("--preset %q: want balanced, ui-first or llm-first", f.preset), err}}
	}
	tuned := slices.ContainsFunc(o.Policies, func(p harness.Policy) bool { return p.Tuned })
	if !tuned && (f.without != "" || o.Tuning.Preset != scheduler.Balanced) {
		return usagef("--without and --preset are for lull, sereno and their variants, and --policy %s has none",
			f.policies)
	}
	return nil
}

// traced checks the flags of --trace.
func (f *harnessFlags) traced() error {
	switch {
	case f.scale < 0 || f.fill < 0:
		return usagef("--scale %v, --fill %v: want more than 0", f.scale, f.fill)
	case f.scale != 0 && f.fill != 0:
		return usagef("--scale and --fill exclude each other: --fill chooses the factor")
	case f.workers < 1 || f.workers > load.MaxWorkers:
		return usagef("--workers %d: want 1…%d", f.workers, load.MaxWorkers)
	}
	return nil
}

// harnessDefinitions says what the numbers of a report mean.
func (a *app) harnessDefinitions(f harnessFlags) error {
	if f.json == "" {
		return harness.WriteDefinitions(a.ui.out)
	}
	return a.writeJSON(f.json, map[string]any{"definitions": harness.Definitions()})
}

// writeJSON writes an object to standard output, or into a file.
func (a *app) writeJSON(file string, v any) error {
	if file == toStandardOutput {
		return a.ui.object(v)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return writeReportFile(file, text.Bytes())
}

// writeReport writes an object to --json's file, if one is given, and shows it to
// people, unless the object went to standard output.
func (a *app) writeReport(file string, v any, show func(io.Writer) error) error {
	if file != "" {
		if err := a.writeJSON(file, v); err != nil || file == toStandardOutput {
			return err
		}
	}
	return show(a.ui.out)
}

// writePlot draws into --plot's file, if one is given.
func (a *app) writePlot(file string, draw func(file string) ([]byte, error)) error {
	if file == "" {
		return nil
	}
	picture, err := draw(file)
	if err != nil {
		return err
	}
	if err := writeReportFile(file, picture); err != nil {
		return err
	}
	a.ui.notef("plot in %s", file)
	return nil
}

func (a *app) harnessRun(ctx context.Context, name string, f harnessFlags) error {
	o, err := f.options(name)
	if err != nil {
		return err
	}
	if f.json != toStandardOutput {
		err = checkFolder("--json", f.json)
	}
	if err = errors.Join(err, checkFolder("--frames-csv", f.csv)); err != nil {
		return err // before minutes of play, not after
	}
	o.Version = versionLine()
	o.Model.Assets, o.Model.Draft = a.assetOptions(), f.draft
	o.Model.Note = func(text string) { a.ui.notef("%s", text) }
	if err := a.prepare(ctx, o); err != nil {
		return err
	}
	var csv bytes.Buffer
	if f.csv != "" {
		o.FramesCSV = &csv
	}
	show, finish := a.harnessProgress()
	o.Progress = show
	report, err := harness.Play(ctx, o)
	finish()
	if report == nil {
		if f.trace != "" && errors.Is(err, harness.ErrScenario) {
			err = under("--trace", harness.ErrScenario, err) // the scenario was checked when it was read
		}
		return advise(err)
	}
	if failed := a.harnessWrite(report, f, csv.Bytes()); failed != nil {
		return failed
	}
	if err != nil {
		return advise(err)
	}
	a.tellUndecided(report)
	return unmet(report)
}

// tellUndecided is for those who only read standard error and the exit code.
func (a *app) tellUndecided(r *harness.Report) {
	n, why := 0, ""
	for _, v := range r.Objectives {
		if v.Status == harness.Undecided {
			n, why = n+1, v.Why
		}
	}
	if n > 0 {
		a.ui.notef("%d of %d objectives undecided: %s", n, len(r.Objectives), why)
	}
}

// prepare fetches what is missing before the clock runs.
func (a *app) prepare(ctx context.Context, o harness.Options) error {
	if !slices.ContainsFunc(o.Policies, func(p harness.Policy) bool { return p.Spec != nil }) {
		return nil
	}
	if _, err := local.Locate(ctx, o.Model.Assets); err != nil {
		return advise(err)
	}
	if !o.Remembers() {
		return nil
	}
	return advise(local.LocateEmbedder(ctx, o.Model.Assets))
}

// harnessWrite shows a report, whole or in part.
func (a *app) harnessWrite(r *harness.Report, f harnessFlags, csv []byte) error {
	if f.csv != "" {
		if err := writeReportFile(f.csv, csv); err != nil {
			return err
		}
		a.ui.notef("frames in %s: lull frames %s --target-hz %.6g", f.csv, f.csv, 1000/r.Setting.PeriodMs)
	}
	return a.writeReport(f.json, r, r.WriteText)
}

func writeReportFile(name string, text []byte) error {
	if err := writeFile(name, text); err != nil {
		return hinted{err, "give a file in a folder that exists"}
	}
	return nil
}

// unmet is the error of objectives that are not met.
func unmet(r *harness.Report) error {
	failed := r.Failed()
	if len(failed) == 0 {
		return nil
	}
	var list []string
	for _, v := range failed {
		list = append(list, v.Result())
	}
	return objectivef("%d of %d objectives not met: %s", len(failed), len(r.Objectives), strings.Join(list, "; "))
}

// harnessProgress shows how far it is on a terminal, and a line for each run
// elsewhere.
func (a *app) harnessProgress() (show func(harness.Progress), finish func()) {
	last := ""
	what := func(p harness.Progress) string {
		if p.Of == 0 {
			return p.What
		}
		return fmt.Sprintf("%s %d/%d", p.What, p.Repeat, p.Of)
	}
	if a.ui.quiet || !a.ui.errTerminal {
		return func(p harness.Progress) {
			if w := what(p); w != last {
				last = w
				a.ui.notef("%s, about %s left", w, (p.Total - p.Done).Round(time.Second))
			}
		}, func() {}
	}
	var bar *progressbar.ProgressBar
	return func(p harness.Progress) {
			if bar == nil {
				bar = progressbar.NewOptions64(int64(p.Total/time.Millisecond),
					progressbar.OptionSetWriter(a.ui.errOut), progressbar.OptionClearOnFinish(),
					progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
					progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionFullWidth())
			}
			bar.Describe(fmt.Sprintf("%s, %s left", what(p), (p.Total - p.Done).Round(time.Second)))
			_ = bar.Set64(min(int64(p.Done/time.Millisecond), bar.GetMax64()-1))
		}, func() {
			if bar != nil {
				_ = bar.Clear()
			}
		}
}

func newHarnessList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "The shipped scenarios, and the policies",
		Example: `  lull harness list
  lull harness list --json | jq '.scenarios[].name'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.harnessList() },
	}
}

func (a *app) harnessList() error {
	type policyJSON struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	list := struct {
		Scenarios []*harness.Scenario `json:"scenarios"`
		Policies  []policyJSON        `json:"policies"`
	}{}
	scenarios, policies := a.ui.table("scenario", "Hz", "seconds", "what"), a.ui.table("policy", "what")
	for _, name := range harness.Names() {
		s, err := harness.LoadScenario(name)
		if err != nil {
			return err
		}
		list.Scenarios = append(list.Scenarios, s)
		scenarios.AppendRow([]any{s.Name, s.TargetHz, s.Seconds(), s.Description})
	}
	for _, p := range harness.Policies() {
		list.Policies = append(list.Policies, policyJSON{p.Name, p.Description})
		policies.AppendRow([]any{p.Name, p.Description})
	}
	if a.json {
		return a.ui.object(list)
	}
	a.ui.render(scenarios)
	a.ui.printf("\n")
	a.ui.render(policies)
	return nil
}

func newHarnessSelftest(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "selftest",
		Short: "Do the instruments show what they should?",
		Long: `Play made-up games in which every number is known (a stall, a threshold of zero,
clocks that jump), and burn some CPU time on this machine.`,
		Example: "  lull harness selftest\n  lull harness selftest --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.harnessSelftest() },
	}
}

func (a *app) harnessSelftest() error {
	checks, bad := harness.Selftest(), 0
	for _, c := range checks {
		mark := a.ui.paint(green, "✓")
		if !c.OK {
			mark = a.ui.paint(red, "✗")
			bad++
		}
		a.ui.printf("%s %s\n  %s\n", mark, c.Name, c.Detail)
	}
	if a.json {
		if err := a.ui.object(map[string]any{"ok": bad == 0, "checks": checks}); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks failed: numbers of the harness can't be trusted here", bad, len(checks))
	}
	return nil
}
