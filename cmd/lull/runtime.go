package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/speculative"
)

// interruptHook, when set, is asked first at Ctrl-C: true means that it dealt
// with it, and the program goes on.
var interruptHook atomic.Pointer[func() bool]

// openStages are those that take long enough to be shown.
var openStages = map[string]string{
	"model": "loading the model", "draft": "loading the draft model",
	"speculation": "measuring once what guessing ahead costs here",
}

// open starts a runtime with the global flags, showing how far loading is.
func (a *app) open(ctx context.Context, cfg local.Config) (*local.Runtime, error) {
	cfg.Assets = a.assetOptions()
	started, progress := "", a.ui.progress()
	if cfg.Progress == nil && cfg.OpenModel == nil {
		cfg.Progress = func(stage string, done float64) {
			title := openStages[stage]
			if title == "" || stage == started {
				return
			}
			if started != "" {
				progress.Done(nil)
			}
			started = stage
			progress.Start(title, 0)
		}
	}
	if cfg.Note == nil {
		cfg.Note = func(text string) { a.ui.notef("%s", text) }
	}
	r, err := local.Open(ctx, cfg)
	if started != "" {
		progress.Done(err)
	}
	return r, advise(flagOf(err))
}

// option finds a limit that package llamacpp states by the names of its own
// options. Those that commands have flags for are spelled like them.
var option = regexp.MustCompile(`(?:^|: )(Context|Threads) (-?\d+), want (\S+)$`)

// flagOf makes a wrong number for the engine an error about the flag that gave it.
func flagOf(err error) error {
	if err == nil {
		return nil
	}
	m := option.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	return &usageError{err: &told{fmt.Sprintf("--%s %s: want %s", strings.ToLower(m[1]), m[2], m[3]), err}}
}

// advise adds what to do to the errors of loading.
func advise(err error) error {
	switch {
	case err == nil || hintOf(err) != "":
		return err
	case errors.Is(err, speculative.ErrDraft):
		return hinted{err, "take a smaller model of the same family, or --speculate ngram without --draft"}
	case errors.Is(err, llamacpp.ErrDevice):
		return hinted{err, "`lull devices` lists them"}
	case errors.Is(err, llamacpp.ErrLibraryVersion), errors.Is(err, llamacpp.ErrLibraryMissing):
		return hinted{err, "`lull doctor` says what is wrong; `lull assets fetch` brings a library that fits"}
	case errors.Is(err, llamacpp.ErrModelFile):
		return hinted{err, "`lull assets fetch` brings a model that is known to work; --model FILE takes another"}
	}
	return err
}
