package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/cmd/lull/demo"
	"github.com/lull-npc/lull/cmd/lull/mute"
	"github.com/lull-npc/lull/demo-game/display"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

func init() { mute.Restore() }

type demoFlags struct {
	hz, loadMs float64
	workers    int
	headless   bool
	seconds    float64
	json       string
	terminal   bool
	game       gameFlags
	warmUp     time.Duration // of each run with --headless; 0: the harness's own
}

func newDemoCommand(a *app) *cobra.Command {
	var f demoFlags
	usual := demo.DefaultSetting()
	c := &cobra.Command{
		Use:   "demo",
		Short: "A village whose people speak with a model, and what that costs its frames",
		Long: `A small village game: its people speak with a language model on this machine, F1 shows
why no frame waits for it, F2 compares with other ways to run a model, and a tour
plays by itself. Where a display is, the window (bin/lull-demo) is started; else,
and with --headless --script NAME, the script is played without one, and what was
said and what it cost is the result. What is missing is fetched first.

With --terminal, or one of its flags, a game loop that burns CPU time runs in the
terminal instead, and late frames are counted as they come:

  1  nothing: the LLM is off      +  more load      t  say something yourself
  2  llama.cpp as it comes        -  less load      q  quit
  3  lull

With --headless and without --script, those three modes run in turn, twice. --json
gives the object of "lull harness run".`,
		Example: `  lull demo
  lull demo --script tour --lang ko
  lull demo --headless --script tour --json tour.json
  lull demo --headless --script tour --scripted     # virtual time, equal each time
  lull demo --terminal --hz 120 --load-ms 4
  lull demo --headless --seconds 20`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && f.json == toStandardOutput {
				return nil
			}
			return fmt.Errorf("demo takes no argument, and got %q", args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 { // --json FILE with a blank between
				f.json = args[0]
			}
			a.ui.json = f.json == toStandardOutput
			for _, name := range []string{"hz", "load-ms", "workers"} {
				f.terminal = f.terminal || cmd.Flags().Changed(name)
			}
			if f.playsGame() {
				return a.demoGame(cmd.Context(), f)
			}
			if a.showsDemo(f) {
				if err := needs(cmd, "--headless", "seconds"); err != nil {
					return err
				}
			}
			return a.demo(cmd.Context(), f)
		},
	}
	flags := c.Flags()
	flags.Float64Var(&f.hz, "hz", usual.Hz, "frames a second")
	flags.Float64Var(&f.loadMs, "load-ms", float64(usual.Load)/1e6, "CPU time that each worker burns in a frame, `MS`")
	flags.IntVar(&f.workers, "workers", usual.Workers, "threads that burn it")
	flags.BoolVar(&f.headless, "headless", false, "no screen: run the modes in turn and print a table")
	flags.Float64Var(&f.seconds, "seconds", 10, "length of each mode with --headless, `S`")
	flags.BoolVar(&f.terminal, "terminal", false, "the game loop in the terminal instead of the village")
	flags.StringVar(&f.game.script, "script", "", "play `NAME` by itself: tour, or a file")
	flags.StringVar(&f.game.policy, "policy", harness.PolicyLull, "what runs the model in the village, `P,P…`")
	flags.StringVar(&f.game.lang, "lang", "", "language of the village's screen, en or ko")
	flags.BoolVar(&f.game.scripted, "scripted", false, "with --script: a scripted model, in virtual time")
	flags.StringVar(&f.json, "json", "", "with --headless, write the report as JSON to `FILE`; - is standard output")
	flags.Lookup("json").NoOptDefVal = toStandardOutput
	return c
}

func (f *demoFlags) setting() demo.Setting {
	return demo.Setting{Hz: f.hz, Load: time.Duration(f.loadMs * float64(time.Millisecond)), Workers: f.workers}
}

// playsGame reports whether the village is played, not the loop in the terminal.
func (f *demoFlags) playsGame() bool {
	return f.game.script != "" || !f.terminal && !f.headless
}

// demoGame plays the village: in its window where there can be one.
func (a *app) demoGame(ctx context.Context, f demoFlags) error {
	if err := f.game.check(); err != nil {
		return err
	}
	if f.headless || f.json != "" || f.game.scripted || !display.Reachable() {
		return a.demoScript(ctx, f)
	}
	program, built := windowProgram()
	if !built {
		a.ui.notef("there is no %s: `make demo` builds it. Playing without a window", program)
		return a.demoScript(ctx, f)
	}
	return a.demoWindow(ctx, program, f)
}

// showsDemo reports whether the demo is drawn. A dumb terminal has no screen.
func (a *app) showsDemo(f demoFlags) bool {
	return !f.headless && f.json == "" && a.ui.outTerminal && os.Getenv("TERM") != "dumb"
}

// check says which flag is wrong.
func (f *demoFlags) check() error {
	most := demo.MaxLoad.Seconds() * 1e3
	switch {
	case !(f.hz >= demo.MinHz && f.hz <= demo.MaxHz):
		return usagef("--hz %v: want %v…%v", f.hz, demo.MinHz, demo.MaxHz)
	case !(f.loadMs >= 0 && f.loadMs <= most):
		return usagef("--load-ms %v: want 0…%v", f.loadMs, most)
	case f.workers < 1 || f.workers > load.MaxWorkers:
		return usagef("--workers %d: want 1…%d", f.workers, load.MaxWorkers)
	case !(f.seconds >= 1 && f.seconds <= demo.MaxHeadless.Seconds()):
		return usagef("--seconds %v: want 1…%v", f.seconds, demo.MaxHeadless.Seconds())
	}
	return nil
}

func (a *app) demo(ctx context.Context, f demoFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	s := f.setting()
	if !a.showsDemo(f) {
		return a.demoHeadless(ctx, s, f, local.Config{})
	}
	clock := llm.NewClock()
	var end atomic.Pointer[func()]
	hook := func() bool { // the first signal ends the screen, the second the process
		stop := end.Swap(nil)
		if stop != nil {
			(*stop)()
		}
		return stop != nil
	}
	defer interruptHook.Store(nil)
	table, err := demo.Run(ctx, demo.Options{
		Setting: s, Clock: clock, Out: a.ui.screen, Colour: a.ui.colourOut,
		Open: func(ctx context.Context, m demo.Mode, observe func(llm.Work)) (*local.Runtime, error) {
			a.ui.notef("%s …", m)
			return a.open(ctx, local.Config{Spec: *m.Spec(), Observe: observe, Clock: clock})
		},
		Program: func(interrupt func()) {
			end.Store(&interrupt)
			interruptHook.Store(&hook)
		},
	})
	a.ui.printf("%s", table)
	if errors.Is(err, demo.ErrInterrupted) {
		return errInterrupted
	}
	return err
}

// demoHeadless runs the modes in turn under the harness. model says what to
// load besides the assets.
func (a *app) demoHeadless(ctx context.Context, s demo.Setting, f demoFlags, model local.Config) error {
	if f.json != toStandardOutput {
		if err := checkFolder("--json", f.json); err != nil {
			return err // before the play, not after
		}
	}
	o, err := demo.Headless(s, time.Duration(f.seconds*float64(time.Second)))
	if err != nil {
		return &usageError{err, "see `lull demo --help`"}
	}
	o.Version = versionLine()
	o.Model, o.WarmUp = model, f.warmUp
	o.Model.Assets = a.assetOptions()
	if o.Model.OpenModel == nil {
		if err := a.prepare(ctx, o); err != nil {
			return err
		}
	}
	show, finish := a.harnessProgress()
	o.Progress = show
	report, err := harness.Play(ctx, o)
	finish()
	if report == nil {
		return advise(err)
	}
	return errors.Join(a.writeReport(f.json, report, report.WriteText), advise(err))
}
