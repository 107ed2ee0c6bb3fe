//go:build windows || cgo

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lull-npc/lull/demo-game/data"
	_ "github.com/lull-npc/lull/demo-game/display/require" // before Ebitengine asks for a display
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/runtime/assets"
)

// version is set by the linker.
var version = "devel"

// started is when Go began.
var started = time.Now()

// options are what the command line says.
type options struct {
	lang, policy, script, dir string
	width, height             int
	full, mute, scripted, hud bool
	serve                     bool // frames are drawn when somebody asks for them
	shotDir                   string
	shots                     map[int64]bool
	measure                   []string
	repeat                    int
	json                      string
	seconds                   float64
	assets                    assets.Options
}

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// start returns the exit code.
func start(args []string, out, diag io.Writer) int {
	o, err := parse(args, diag)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(diag, "lull-demo:", err)
		return 2
	}
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	w, err := newWindow(o, diag)
	if err == nil {
		go func() { // the second signal ends the process, whatever it does
			<-stop
			w.interrupt.Store(true)
			<-stop
			os.Exit(130)
		}()
		err = w.run()
	}
	switch {
	case err != nil || o.script == "" || o.scripted && len(o.measure) == 0:
	case len(o.measure) > 0:
		err = w.write(out)
	default:
		w.tell(w.start.String())
	}
	switch {
	case err != nil:
		fmt.Fprintln(diag, "lull-demo:", err)
		return 1
	case w.interrupt.Load():
		return 130
	}
	return 0
}

func parse(args []string, diag io.Writer) (*options, error) {
	o := &options{shots: map[int64]bool{}}
	f := flag.NewFlagSet("lull-demo", flag.ContinueOnError)
	f.SetOutput(diag)
	f.StringVar(&o.lang, "lang", "", "language of the screen: en or ko (default: as last time, at first the system's)")
	f.StringVar(&o.policy, "policy", harness.PolicyLull, "what runs the model: "+strings.Join(talk.Policies, ", "))
	f.StringVar(&o.script, "script", "", "play a script instead of a person: tour, or a file")
	f.StringVar(&o.dir, "dir", "", "folder of saves, memories and settings (default: the user's configuration folder)")
	size := f.String("size", "1280x720", "size of the window")
	f.BoolVar(&o.full, "fullscreen", false, "fill the screen")
	f.BoolVar(&o.mute, "mute", false, "no sound")
	f.BoolVar(&o.hud, "hud", false, "show why from the start, as F1 does")
	f.BoolVar(&o.scripted, "scripted", false, "a model that says what a script says, for pictures and tests")
	f.BoolVar(&o.serve, "serve", false, "for lull harness: draw a frame of the tour for each byte on standard input, "+
		"and answer it when it is shown")
	f.StringVar(&o.shotDir, "screenshot", "", "write pictures of the window into this folder")
	shots := f.String("shots", "", "at these ticks of the script, split by commas")
	measure := f.String("measure", "", "measure these policies in turn, split by commas, with --script")
	f.IntVar(&o.repeat, "repeat", 1, "how often each is measured")
	f.StringVar(&o.json, "json", "", "write what was measured to this file; - is standard output")
	f.Float64Var(&o.seconds, "seconds", 0, "end a script after this many seconds; 0: at its end")
	f.StringVar(&o.assets.Model, "model", "", "model: a GGUF file, or a name in the cache")
	f.StringVar(&o.assets.LlamaLib, "llama-lib", "", "folder of llama.cpp's libraries")
	f.BoolVar(&o.assets.Offline, "offline", false, "fetch nothing")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: lull-demo takes flags only, see --help", f.Args())
	}
	if _, err := fmt.Sscanf(*size, "%dx%d", &o.width, &o.height); err != nil || o.width < 320 || o.height < 180 ||
		o.width > 7680 || o.height > 4320 {
		return nil, fmt.Errorf("--size %q: want WIDTHxHEIGHT, 320x180 … 7680x4320", *size)
	}
	for s := range strings.SplitSeq(*shots, ",") {
		if s == "" {
			continue
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("--shots %q: want numbers split by commas", *shots)
		}
		o.shots[n] = true
	}
	return o, o.check(*measure)
}

func (o *options) check(measure string) error {
	if measure != "" {
		o.measure = strings.Split(measure, ",")
	}
	for _, p := range append([]string{o.policy}, o.measure...) {
		if _, err := harness.FindPolicy(p); err != nil {
			return err
		}
	}
	if o.serve {
		o.script, o.scripted, o.policy = "tour", true, harness.PolicyNative
	}
	switch {
	case o.serve && (len(o.measure) > 0 || len(o.shots) > 0):
		return errors.New("--serve excludes --measure and --shots")
	case len(o.measure) > 0 && o.script == "":
		return errors.New("--measure wants a --script: the same game for each policy")
	case o.json != "" && len(o.measure) == 0:
		return errors.New("--json takes what was measured: name policies with --measure")
	case o.repeat < 1 || o.repeat > 100:
		return fmt.Errorf("--repeat %d: want 1 … 100", o.repeat)
	case o.lang != "" && o.lang != "en" && o.lang != "ko":
		return fmt.Errorf("--lang %q: want en or ko", o.lang)
	case !(o.seconds >= 0 && o.seconds <= 24*3600):
		return fmt.Errorf("--seconds %v: want 0 … 86400", o.seconds)
	case len(o.shots) > 0 && o.shotDir == "":
		return errors.New("--shots wants a folder: --screenshot DIR")
	}
	if o.dir == "" {
		base, err := os.UserConfigDir()
		if err != nil {
			return fmt.Errorf("no folder for saves: %w; name one with --dir", err)
		}
		o.dir = filepath.Join(base, "lull-demo")
	}
	return nil
}

// readScript reads a script that is built in, or a file.
func (o *options) readScript() (*input.Script, error) {
	if o.script == "" {
		return nil, nil
	}
	var s *input.Script
	raw, err := os.ReadFile(o.script)
	if err == nil {
		s, err = input.ParseScript(o.script, string(raw))
	} else {
		s, err = input.Named(o.script)
	}
	if err != nil || len(o.measure) == 0 && !o.serve {
		return s, err
	}
	return s.Measured()
}

func (o *options) opener(g *data.Game, memories string, note func(string)) talk.Opener {
	if o.scripted {
		return talk.Scripted(g)
	}
	return talk.Real(g, o.assets, memories, note)
}

// secondsOf is how long a script plays.
func (o *options) secondsOf(s *input.Script) float64 {
	whole := float64(s.Length()) / rules.TicksPerSecond
	if o.seconds > 0 {
		return min(o.seconds, whole)
	}
	return whole
}
