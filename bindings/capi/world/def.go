package world

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// Def says what a world runs. 0 means the default that lull.h states.
type Def struct {
	Scripted                      bool
	Model, Library, Cache, Device string
	Context, Sequences            int
	Batch, Requests, Threads      int
	Preset                        scheduler.Preset
	LowPriority, Fetch            bool
	TokenTime                     time.Duration // scripted: of one token
	Player                        string        // empty: "Player"
	Lore, Rules, Blocked          []string
	MemoryMode                    MemoryMode
	MemoryFolder, Embedder        string
	Seed                          uint32
	GameTime                      int64 // the story's time when the world begins
	BarkQuiet, ActionTimeout      time.Duration
	ContentHook                   bool
	ContentTimeout                time.Duration
}

// scriptedContext is roomy: the scripted model has few words and makes four
// times as many tokens of a persona as a real one.
const scriptedContext = 16384

// defaultRequests is the engine's own default.
const defaultRequests = 64

func (d *Def) complete() error {
	for _, x := range []struct {
		name      string
		v         *int
		low, high int
	}{
		{"context_tokens", &d.Context, 64, 1 << 20},
		{"sequences_max", &d.Sequences, 1, 64},
		{"batch_tokens_max", &d.Batch, 1, 4096},
		{"requests_max", &d.Requests, 1, 4096},
		{"threads", &d.Threads, 1, 16},
	} {
		if *x.v != 0 && (*x.v < x.low || *x.v > x.high) {
			return Errorf(InvalidArgument, "%s is %d: want %d ... %d, or 0 for the default",
				x.name, *x.v, x.low, x.high)
		}
	}
	if d.Preset > scheduler.LLMFirst {
		return Errorf(InvalidArgument, "preset is %d: want one of enum lull_preset", d.Preset)
	}
	if d.TokenTime < 0 || d.TokenTime > time.Minute {
		return Errorf(InvalidArgument, "scripted_token_ns is %d: want 0 ... %d", d.TokenTime, time.Minute)
	}
	if err := local.CheckDevices(d.Device); err != nil {
		return Errorf(InvalidArgument, "device: %v", err)
	}
	switch {
	case d.Scripted && d.Device != "":
		return Errorf(InvalidArgument, "device is %q: a scripted model runs on none", d.Device)
	case d.MemoryMode < MemoryNone || d.MemoryMode > MemoryFolder:
		return Errorf(InvalidArgument, "memory_mode is %d: want one of enum lull_memory_mode", d.MemoryMode)
	case (d.MemoryMode == MemoryFolder) != (d.MemoryFolder != ""):
		return Errorf(InvalidArgument, "memory_folder is %q: want a folder with LULL_MEMORY_FOLDER, and only then",
			d.MemoryFolder)
	case d.MemoryMode == MemoryNone && d.Embedder != "":
		return Errorf(InvalidArgument, "embedder is %q: want memory_mode, too, since it is for memories", d.Embedder)
	case d.Scripted && d.Embedder != "":
		return Errorf(InvalidArgument, "embedder is %q: a scripted model has no gate that it could share", d.Embedder)
	case d.BarkQuiet < 0 || d.ActionTimeout < 0 || d.ContentTimeout < 0:
		return Errorf(InvalidArgument, "bark_quiet_ns, action_timeout_ns or content_timeout_ns is below 0")
	}
	if err := d.absolute(); err != nil {
		return Errorf(InvalidArgument, "a path of def: %v", err)
	}
	if d.Player == "" {
		d.Player = "Player"
	}
	if d.Requests == 0 {
		d.Requests = defaultRequests
	}
	return nil
}

// absolute takes paths from where the host is now: loading reads them later,
// when it may be elsewhere. What is there under no path is a name of the catalogue.
func (d *Def) absolute() error {
	for _, path := range []*string{&d.Model, &d.Library, &d.Cache, &d.MemoryFolder, &d.Embedder} {
		if *path == "" {
			continue
		}
		if _, err := os.Stat(*path); err != nil && path != &d.Cache && path != &d.MemoryFolder {
			continue
		}
		full, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = full
	}
	return nil
}

func (d Def) assets() assets.Options {
	return assets.Options{Model: d.Model, LlamaLib: d.Library, CacheDir: d.Cache, Offline: !d.Fetch, Words: hostWords}
}

// hostWords are what a host calls the settings of its files.
var hostWords = map[assets.Setting]string{assets.SettingModel: "def.model",
	assets.SettingLlamaLib: "def.library", assets.SettingEmbedder: "def.embedder"}

// config is the def as package local takes it.
func (d Def) config(w *World) local.Config {
	spec := local.DefaultSpec()
	spec.LowPriority, spec.Threads = d.LowPriority, d.Threads
	spec.Scheduler = spec.Scheduler.WithPreset(d.Preset)
	cfg := local.Config{
		Spec:    spec,
		Assets:  d.assets(),
		Devices: d.Device, Context: d.Context, MaxSequences: d.Sequences, MaxBatch: d.Batch,
		MaxQueue: d.Requests, Clock: Clock, Progress: w.progressed, Observe: w.observe,
		Note: w.log.note,
	}
	if d.Scripted {
		cfg.OpenModel = d.openScripted
	}
	return cfg
}

func (d Def) openScripted(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
	size := d.Context
	if size == 0 {
		size = scriptedContext
	}
	return scripted.New(scripted.Config{
		Script: scripted.Echo, Context: size, MaxSequences: d.Sequences, MaxBatch: d.Batch,
		Clock: clock, Admit: admit, Cost: scripted.Cost{TailNS: float64(d.TokenTime)},
	})
}

// loadText is the text of a failed load, with the advice that it brings.
func loadText(err error) string {
	text := err.Error()
	var missing *assets.Error
	if errors.As(err, &missing) && missing.Hint() != "" {
		text += "; " + missing.Hint()
	}
	return text
}

// loadCode is the result of a failed load.
func loadCode(err error) Code {
	if errors.Is(err, context.Canceled) {
		return Cancelled
	}
	return Load
}
