package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/soc"
	"github.com/lull-npc/lull/scheduler"
)

func newHarnessSoC(a *app) *cobra.Command {
	return newGroup("soc", "Simulate a phone's chip under the real scheduler", `
A simulated system on a chip (memory with priorities, CPU, GPU, NPU, heat) on which
the real scheduler, engine and speculation run in virtual time. Nobody measured
these numbers: everything says "simulated". The same seed gives the same bytes.`, `
  lull harness soc list
  lull harness soc run --soc 8-elite --app social --policy native,vanilla-spec,sereno,lull
  lull harness soc run --session mixed --plot mixed.png`,
		newSoCRun(a), newSoCList(a), newSoCFit(a))
}

type socFlags struct {
	chip, app, policies, preset, without string
	target, draft, session, plot, json   string
	task                                 string
	ablate                               bool
	frames, repeat                       int
	seconds                              float64
	seed                                 uint64
}

const (
	// socSeconds is the length of a run unless it is given.
	socSeconds = 60
	// mixedSeconds is that of the mixed session: its parts three and a half times.
	mixedSeconds = 1800
	mixedSession = "mixed"
)

func newSoCRun(a *app) *cobra.Command {
	var f socFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Play an app on a simulated chip with each policy",
		Long: `Play an app on a simulated chip with each policy in turn and print what a measured
run prints, and the scores of the foreground (relative to native), energy, heat and
waits for memory. --session mixed plays 30 minutes of a game whose bottleneck moves.`,
		Example: `  lull harness soc run --app social --policy sereno --seed 7 --json run.json
  lull harness soc run --soc 8-elite --app gaming-a --policy native,vanilla,sereno,lull --frames 36000
  lull harness soc run --session mixed --plot mixed.svg
  lull harness soc run --app social --policy lull --without probe,sleep
  lull harness soc run --session mixed --policy native,lull --ablate --task code`,
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
			return a.socRun(cmd, f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.chip, "soc", "8-elite", "`NAME` of a chip: "+strings.Join(soc.Names("chips"), ", "))
	flags.StringVar(&f.app, "app", "social", "`NAME` of an app: "+strings.Join(soc.Names("apps"), ", "))
	flags.StringVar(&f.policies, "policy", "native,vanilla-spec,sereno,lull", "`NAMES` of policies, see soc list")
	flags.StringVar(&f.preset, "preset", "balanced", "`NAME` of a controller's preset: balanced, ui-first, llm-first")
	flags.StringVar(&f.without, "without", "", "`FEATURES` to switch off: "+
		strings.Join(scheduler.FeatureNames(), ", "))
	flags.StringVar(&f.target, "model", "llama-3.1-8b", "`NAME` of the model: "+
		strings.Join(soc.Names("models"), ", "))
	flags.StringVar(&f.draft, "draft", "llama-3.2-1b", "`NAME` of the draft model")
	flags.StringVar(&f.task, "task", "", "`NAME` of a kind of text instead of the app's: "+
		strings.Join(soc.Names("tasks"), ", "))
	flags.BoolVar(&f.ablate, "ablate", false, "play lull without each of its features too")
	flags.StringVar(&f.session, "session", "", "mixed: 30 minutes whose bottleneck moves, all policies, --ablate")
	flags.IntVar(&f.frames, "frames", 0, "length of a run in frames of the app's rate, `N`")
	flags.Float64Var(&f.seconds, "seconds", socSeconds, "length of a run, unless --frames says it")
	flags.IntVar(&f.repeat, "repeat", 1, "runs of each policy, with seeds that follow one another")
	flags.Uint64Var(&f.seed, "seed", 1, "of frames, questions, texts and layers")
	flags.StringVar(&f.plot, "plot", "", "draw late frames against tokens/s into `FILE`.png or .svg")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`; - is standard output")
	flags.Lookup("json").NoOptDefVal = toStandardOutput
	return c
}

// plan turns the flags into what to simulate.
func (f *socFlags) plan(cmd *cobra.Command) (soc.Plan, error) {
	p := soc.Plan{Repeat: f.repeat, Lull: versionLine()}
	if f.session != "" {
		if f.session != mixedSession {
			return p, usagef("--session %s: there is %s", f.session, mixedSession)
		}
		f.app = mixedSession
		if !cmd.Flags().Changed("seconds") {
			f.seconds = mixedSeconds
		}
		if !cmd.Flags().Changed("policy") {
			var names []string
			for _, p := range soc.Policies() {
				names = append(names, p.Name)
			}
			for _, base := range []string{"sereno", soc.PolicyLull} { // as many points for their fronts
				names = append(names, base+"-"+scheduler.UIFirst.String(), base+"-"+scheduler.LLMFirst.String())
			}
			f.policies = strings.Join(names, ",")
			f.ablate = f.ablate || !cmd.Flags().Changed("ablate")
		}
	}
	if f.ablate {
		for _, name := range scheduler.FeatureNames() {
			f.policies += "," + soc.PolicyLull + "-no-" + name
		}
	}
	var errs [4]error
	errs[0] = p.Load(f.chip, f.app, f.target, f.draft)
	p.Policies, errs[1] = soc.ParsePolicies(f.policies)
	p.Preset, errs[2] = scheduler.ParsePreset(f.preset)
	p.Without, errs[3] = scheduler.ParseFeatures(f.without)
	if err := errors.Join(errs[:]...); err != nil {
		return p, usagef("%w", err)
	}
	if f.task != "" {
		task, err := soc.LoadTask(f.task)
		if err != nil {
			return p, usagef("%w", err)
		}
		p.App = p.App.With(task)
	}
	p.Seconds, p.Seed = f.seconds, f.seed
	if f.frames < 0 {
		return p, usagef("--frames %d: want 1 or more", f.frames)
	}
	if f.frames > 0 {
		p.Seconds = float64(f.frames) / p.App.Hz.Value
	}
	if !(p.Seconds > 0 && p.Seconds <= soc.MostSeconds) {
		return p, usagef("%v seconds of play: want more than 0, at most %d", p.Seconds, soc.MostSeconds)
	}
	if f.repeat < 1 || f.repeat > 1000 {
		return p, usagef("--repeat %d: want 1 … 1000", f.repeat)
	}
	if ext := strings.ToLower(filepath.Ext(f.plot)); f.plot != "" && !slices.Contains(soc.PlotFormats(), ext) {
		return p, usagef("--plot %s: want a file that ends in %s", f.plot, strings.Join(soc.PlotFormats(), " or "))
	}
	return p, nil
}

func (a *app) socRun(cmd *cobra.Command, f socFlags) error {
	a.ui.json = f.json == toStandardOutput
	p, err := f.plan(cmd)
	if err != nil {
		return err
	}
	if f.json != toStandardOutput {
		err = checkFolder("--json", f.json)
	}
	if err = errors.Join(err, checkFolder("--plot", f.plot)); err != nil {
		return err
	}
	p.Progress = func(done, of int) {
		if of > 4 && done%4 == 0 {
			a.ui.notef("simulated %d of %d runs", done, of)
		}
	}
	r, err := soc.Play(cmd.Context(), p)
	if err != nil {
		return err
	}
	if err := a.writePlot(f.plot, r.Plot); err != nil {
		return err
	}
	return a.writeReport(f.json, r, r.WriteText)
}

func newSoCList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "The simulated chips, apps, models and policies",
		Example: "  lull harness soc list\n  lull harness soc list --json | jq '.chips[].name'",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.socList() },
	}
}

func (a *app) socList() error {
	type entry struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	list := map[string][]entry{"chips": {}, "apps": {}, "models": {}, "tasks": {}, "policies": {}}
	for _, name := range soc.Names("chips") {
		c, err := soc.LoadChip(name)
		if err != nil {
			return err
		}
		list["chips"] = append(list["chips"], entry{name, c.Description})
	}
	for _, name := range soc.Names("apps") {
		x, err := soc.LoadApp(name)
		if err != nil {
			return err
		}
		list["apps"] = append(list["apps"], entry{name, x.Description})
	}
	for _, name := range soc.Names("models") {
		n, err := soc.LoadNetwork(name)
		if err != nil {
			return err
		}
		list["models"] = append(list["models"], entry{name,
			fmt.Sprintf("%g billion parameters, %g GB, %d layers", n.Params.Value, n.Weights.Value, n.Layers)})
	}
	for _, name := range soc.Names("tasks") {
		x, err := soc.LoadTask(name)
		if err != nil {
			return err
		}
		list["tasks"] = append(list["tasks"], entry{name, x.Description})
	}
	for _, p := range soc.Policies() {
		list["policies"] = append(list["policies"], entry{p.Name, p.Description})
	}
	if a.json {
		return a.ui.object(list)
	}
	for _, kind := range []string{"chips", "apps", "models", "tasks", "policies"} {
		t := a.ui.table("simulated "+kind, "what")
		for _, e := range list[kind] {
			t.AppendRow([]any{e.Name, e.Description})
		}
		a.ui.render(t)
		a.ui.printf("\n")
	}
	return nil
}
