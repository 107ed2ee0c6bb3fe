package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/local"
)

// commands lists the subcommands; each lives in a file of its own and stands
// on a line of its own here.
var commands = []func(*app) *cobra.Command{
	newAssetsCommand,
	newBenchCommand,
	newCalibrateCommand,
	newChatCommand,
	newDemoCommand,
	newDeviceProfileCommand,
	newDevicesCommand,
	newDoctorCommand,
	newFramesCommand,
	newHarnessCommand,
	newMemoryCommand,
	newNPCCommand,
	newQuantCheckCommand,
}

// app is what every subcommand gets: the global flags, the output, and hooks
// that the program's composition fills.
type app struct {
	ui *ui

	// Global flags.
	json     bool
	quiet    bool
	model    string
	llamaLib string

	// derive tells how to make derived models. If it is nil, or gives no
	// quantiser, they are skipped with a note.
	derive func(assets.Options) assets.Derivation

	// platform and catalog are set by tests; zero is this machine and the
	// embedded catalogue.
	platform string
	catalog  *assets.Catalog
}

func newApp(in io.Reader, out, errOut io.Writer) *app {
	return &app{ui: newUI(in, out, errOut, os.Getenv), derive: local.Derivation}
}

// assetOptions are the options of package assets with the global flags in them.
func (a *app) assetOptions() assets.Options {
	o := assets.Options{Model: a.model, LlamaLib: a.llamaLib, Platform: a.platform, Catalog: a.catalog,
		Progress: a.ui.progress()}
	if a.derive != nil {
		o.Derive = a.derive(o)
	}
	return o
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, a *app) int {
	root := newRoot(a)
	root.SetArgs(args)
	a.ui.json = wantsObject(args) // until the flags are parsed
	err := root.ExecuteContext(ctx)
	if lost := a.ui.lost(); err == nil && lost != nil {
		err = fmt.Errorf("the result could not be written: %w", lost)
	}
	code := exitCode(ctx, err)
	var reported *reportedError
	if err != nil && !errors.As(err, &reported) {
		a.ui.failure(err)
		a.ui.failureObject(err)
	}
	return code
}

func newRoot(a *app) *cobra.Command {
	root := newGroup("lull", "NPCs that talk through an on-device language model, in the lulls of your frame", `
lull schedules a language model on the player's device so that the game keeps
its frames. This command fetches what the runtime needs, measures a device and
what the model costs a game, and plays scenarios.

Results go to standard output, everything else to standard error. With --json
standard output holds one object; of an error it is {"error": {"message", "hint"}}.

Exit codes: 0 done; 1 failed, also a file that can't be used; 2 wrong usage: an
unknown command, flag or name, or a value out of range; 3 an objective not met;
130 interrupted.`, `
  lull chat                    # talk to a character; fetches what is missing
  lull doctor                  # is everything here and does it work?
  lull assets fetch            # llama.cpp and a small model, into the cache
  lull bench engine            # what the layer gate costs on this machine`)
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.ui.in)
	root.SetOut(a.ui.out)
	root.SetErr(a.ui.errOut)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print one JSON object on standard output")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no notes on standard error")
	flags.StringVar(&a.model, "model", "", "GGUF `FILE`, or a model's name in the cache"+fallback(assets.EnvModel))
	flags.StringVar(&a.llamaLib, "llama-lib", "",
		"`DIR` with llama.cpp's shared libraries"+fallback(assets.EnvLlamaLib))
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		// A command may have a --json of its own, which takes a file.
		value := cmd.Flag("json").Value.String()
		a.ui.json, a.ui.quiet = a.json || value == toStandardOutput, a.quiet
		return finite(cmd)
	}
	for _, c := range commands {
		root.AddCommand(c(a))
	}
	root.SetHelpCommand(newHelpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	strict(root)
	return root
}

func fallback(variable string) string { return " (else $" + variable + ", else the cache)" }

// newGroup makes a command that only has subcommands: alone it shows its help.
func newGroup(use, short, long, example string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: strings.TrimSpace(long), Example: strings.Trim(example, "\n")}
	asGroup(c)
	c.AddCommand(subs...)
	return c
}

// versionLine says what a bug report needs: this version, the library release
// that fits, and the build.
func versionLine() string {
	v, binding := version, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, m := range info.Deps {
			if m.Path == "github.com/hybridgroup/yzma" {
				binding = ", yzma " + m.Version
			}
		}
	}
	if v == "" {
		v = "(devel)"
	}
	holds := ""
	if c, err := assets.DefaultCatalog(); err == nil && len(c.Assets) > 0 {
		holds = ", for " + c.Assets[0].Holds
	}
	return fmt.Sprintf("lull %s%s%s, %s %s/%s", v, holds, binding, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
