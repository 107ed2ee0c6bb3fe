package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/headless"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/runtime/local"
)

// gameFlags are those of the demo game.
type gameFlags struct {
	script   string // played by itself; "" plays a person
	policy   string // names of package harness, split by commas
	lang     string
	scripted bool // a scripted model in virtual time
}

// tourScript is what is played where nobody can press keys.
const tourScript = "tour"

func (f *gameFlags) check() error {
	for p := range strings.SplitSeq(f.policy, ",") {
		if _, err := harness.FindPolicy(p); err != nil {
			return &usageError{err, "`lull harness list` shows the policies"}
		}
	}
	if f.lang != "" && f.lang != "en" && f.lang != "ko" {
		return usagef("--lang %q: want en or ko", f.lang)
	}
	if _, err := f.read(); err != nil {
		return &usageError{err, "see `lull demo --help`"}
	}
	return nil
}

// read reads the script: one that is built in, or a file.
func (f *gameFlags) read() (*input.Script, error) {
	name := f.script
	if name == "" {
		name = tourScript
	}
	if raw, err := os.ReadFile(name); err == nil {
		return input.ParseScript(name, string(raw))
	}
	return input.Named(name)
}

// windowProgram is the demo game's window beside this program, if it was built.
func windowProgram() (string, bool) {
	self, err := os.Executable()
	if err != nil {
		return "", false
	}
	name := filepath.Join(filepath.Dir(self), "lull-demo")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	info, err := os.Stat(name)
	return name, err == nil && !info.IsDir()
}

// demoWindow starts the window and waits for its end.
func (a *app) demoWindow(ctx context.Context, program string, f demoFlags) error {
	if err := a.demoAssets(ctx); err != nil {
		return err
	}
	args := []string{"--policy", f.game.policy}
	for flag, value := range map[string]string{"--model": a.model, "--llama-lib": a.llamaLib, "--lang": f.game.lang,
		"--script": f.game.script} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = a.ui.out, a.ui.errOut
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == exitInterrupted:
		return errInterrupted
	case err != nil:
		return hinted{fmt.Errorf("the window of the demo ended: %w", err),
			"`lull demo --headless --script tour` plays it without one, `lull demo --terminal` shows frames here"}
	}
	return nil
}

// demoAssets fetches what is missing, with progress, before the game starts.
func (a *app) demoAssets(ctx context.Context) error {
	_, err := local.Locate(ctx, a.assetOptions())
	return advise(err)
}

// demoScript plays the game without a window and writes its report.
func (a *app) demoScript(ctx context.Context, f demoFlags) error {
	if f.json != "" && f.json != toStandardOutput {
		if err := checkFolder("--json", f.json); err != nil {
			return err // before the play, not after
		}
	}
	script, err := f.game.read()
	if err == nil {
		script, err = script.Measured()
	}
	if err != nil {
		return &usageError{err, "see `lull demo --help`"}
	}
	name := f.game.script
	if name == "" {
		name = tourScript
	}
	o := headless.Options{Script: script, Name: name, Policies: strings.Split(f.game.policy, ","), Lang: f.game.lang,
		Version: versionLine(), Open: talk.Scripted, Virtual: true}
	if !f.game.scripted {
		if err := a.demoAssets(ctx); err != nil {
			return err
		}
		note := func(text string) { a.ui.notef("%s", text) }
		o.Virtual = false
		o.Said = func(_ string, s play.Spoken) { a.ui.notef("%6.1f s  %-8s %s", s.Seconds, s.NPC, s.Text) }
		o.Open = func(g *data.Game) talk.Opener { return talk.Real(g, a.assetOptions(), "", note) }
		a.ui.notef("%s takes %.0f s for each policy: %s", name, float64(script.Length())/60, f.game.policy)
	}
	report, err := headless.Play(ctx, o)
	if report == nil {
		return advise(err)
	}
	return errors.Join(a.writeReport(f.json, report, report.WriteText), advise(err))
}
