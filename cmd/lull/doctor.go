package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/probe"
)

type check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check that everything lull needs is here and works",
		Long: `Check the cache, the package clients, llama.cpp's library and its structs, the
devices, the model file, low-priority threads, and let the model say a word.
Nothing is fetched. A warning is something you can live with.`,
		Example: `  lull doctor
  lull doctor --json | jq '.checks[] | select(.status != "ok")'
  lull doctor --model my-npc.gguf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := a.examine(cmd.Context())
			if ctx := cmd.Context(); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			ok := true
			for _, c := range checks {
				ok = ok && c.Status != "fail"
			}
			if a.json {
				if err := a.ui.object(map[string]any{"ok": ok, "checks": checks}); err != nil {
					return err
				}
			} else {
				a.showChecks(checks)
			}
			if !ok {
				return &reportedError{exitFailed}
			}
			return nil
		},
	}
}

func (a *app) showChecks(checks []check) {
	marks := map[string]string{"ok": a.ui.paint(green, "✓"), "warn": a.ui.paint(yellow, "!"),
		"fail": a.ui.paint(red, "✗")}
	for _, c := range checks {
		a.ui.printf("%s %-13s %s\n", marks[c.Status], c.Name, c.Detail)
		if c.Hint != "" {
			a.ui.printf("  %-13s → %s\n", "", c.Hint)
		}
	}
}

// examine runs the checks in the order in which a start needs them. What
// depends on something that failed is left out.
func (a *app) examine(ctx context.Context) []check {
	checks := []check{checkMachine(), checkPriority(), checkSignals()}
	o := a.assetOptions()
	o.Offline = true
	store, err := assets.Open(o)
	if err != nil {
		return append(checks, failed("cache", err))
	}
	checks = append(checks, checkCache(store.Root()), checkClient("npm", "npm"),
		checkClient("pip", "python3", "python", "pip3", "pip"))
	library, err := store.LocateLibrary()
	if err != nil {
		return append(checks, failed("library", err))
	}
	if err := llamacpp.Load(library.Path); err != nil {
		return append(checks, failed("library", advise(err)))
	}
	checks = append(checks, check{"library", "ok",
		fmt.Sprintf("llama.cpp %s in %s (from the %s), structs as expected, %s gate",
			llamacpp.Version, library.Path, library.Source, llamacpp.GateKind), ""}, checkDevices())
	model, err := store.LocateModel()
	if err != nil {
		return append(checks, failed("model", err))
	}
	checks = append(checks, check{"model", "ok", fmt.Sprintf("%s (from the %s)", model.Path, model.Source), ""})
	return append(checks, a.checkSpeech(ctx))
}

func failed(name string, err error) check {
	return check{name, "fail", printable(plain(err)), hintOf(err)}
}

func checkMachine() check {
	c := check{Name: "machine", Status: "ok", Detail: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU())}
	if runtime.NumCPU() < 2 {
		c.Status, c.Hint = "warn", "with one core the model only runs in the frame's idle time"
	}
	return c
}

// checkPriority tries on a thread that ends afterwards: it can't be undone.
func checkPriority() check {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- llamacpp.LowerThread()
	}()
	if err := <-result; err != nil {
		return check{"priority", "warn", err.Error(),
			"the model's threads will compete with the game's; windows still hold them back"}
	}
	return check{"priority", "ok", "threads can be given the lowest priority", ""}
}

// probeGap lies between two readings, since pressure and power are rates.
const probeGap = 300 * time.Millisecond

// checkSignals says what the machine tells of heat, power and pressure. What is
// missing costs nothing but knowledge.
func checkSignals() check {
	source, began := probe.Host(), time.Now()
	source.Read(0, probe.All)
	time.Sleep(probeGap)
	s := source.Read(int64(time.Since(began)), probe.All)
	show := func(name string, r probe.Reading, format string, scale float64) string {
		if r.Outcome == probe.OK {
			return name + " " + fmt.Sprintf(format, r.Value*scale)
		}
		return name + " " + r.Outcome.String()
	}
	c := check{Name: "signals", Status: "ok", Detail: strings.Join([]string{
		show("heat", s.Headroom, "%.2f of 1", 1),
		show("memory pressure", s.Pressure.Memory, "%.0f %%", 100),
		show("memory free", s.Memory.Available, "%.1f GB", 1e-9),
		show("clocks", s.Clocks.Share, "%.0f %%", 100),
		show("battery", s.Battery.Level, "%.0f %%", 100),
		show("package power", s.Power, "%.1f W", 1),
		"on " + s.Source + " power",
	}, ", ")}
	if s.Headroom.Outcome != probe.OK {
		c.Hint = "without temperatures the scheduler learns of heat only from the game: " + printable(s.Headroom.Detail)
	}
	return c
}

func checkCache(root string) check {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return check{"cache", "warn", err.Error(),
			"set LULL_CACHE to a folder that can be written; what is there can still be used"}
	}
	f, err := os.CreateTemp(root, "doctor-*")
	if err != nil {
		return check{"cache", "warn", err.Error(),
			"set LULL_CACHE to a folder that can be written; what is there can still be used"}
	}
	f.Close()
	os.Remove(f.Name())
	return check{"cache", "ok", root, ""}
}

func checkClient(name string, programs ...string) check {
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return check{name, "ok", path, ""}
		}
	}
	return check{name, "warn", "not found",
		"only fetching needs it; install it, or bring files of your own with --llama-lib and --model"}
}

func checkDevices() check {
	list, err := llamacpp.Devices()
	if err != nil {
		return failed("devices", err)
	}
	detail := ""
	for i, d := range list {
		if i > 0 {
			detail += ", "
		}
		detail += fmt.Sprintf("%s (%s)", d.ID, d.Kind)
	}
	return check{"devices", "ok", detail, ""}
}

// checkSpeech loads the model and lets it speak a few tokens.
func (a *app) checkSpeech(ctx context.Context) check {
	cfg := local.Config{Spec: local.Spec{Steer: local.SteerNone}, Context: 256, MaxSequences: 1}
	began := time.Now()
	r, err := a.open(ctx, cfg)
	if err != nil {
		return failed("speech", err)
	}
	defer r.Close()
	loaded := time.Since(began)
	prompt, err := r.Model.Tokenize(nil, "The innkeeper said:", false)
	if bos, wanted := r.Model.BOS(); err == nil && wanted {
		prompt = append([]llm.Token{bos}, prompt...)
	}
	if err == nil {
		_, err = r.Engine.Submit(llm.Request{Prompt: prompt, MaxTokens: 8})
	}
	if err != nil {
		return failed("speech", err)
	}
	text, usage, err := listen(ctx, r.Engine, nil)
	if err != nil {
		return failed("speech", err)
	}
	return check{"speech", "ok", fmt.Sprintf("%s: loaded in %.1f s, first word after %.2f s, said %q",
		r.Model.Info().Name,
		loaded.Seconds(), usage.TTFT.Seconds(), text), ""}
}

// pollEvery is how often a command without frames looks for events: smooth to
// read, and no load.
const pollEvery = 10 * time.Millisecond

// listen polls until the one request that runs has ended, and passes each event
// to hear, which may be nil.
func listen(ctx context.Context, e *llm.Engine, hear func(llm.Event)) (string, llm.Usage, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var events []llm.Event
	text := ""
	for {
		events = e.Poll(events[:0])
		for _, x := range events {
			if hear != nil {
				hear(x)
			}
			switch x.Kind {
			case llm.EventText:
				text += x.Text
			case llm.EventDone, llm.EventCancelled:
				return text, x.Usage, nil
			case llm.EventFailed:
				return text, x.Usage, x.Err
			}
		}
		select {
		case <-ctx.Done():
			return text, llm.Usage{}, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
