package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/probe"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

// Config says what to run. The zero value with DefaultSpec is right for a
// game whose files are in the cache.
type Config struct {
	Spec   Spec
	Assets assets.Options // where library and model come from; Offline unless the game fetches

	Device string // ggml device id; default the CPU

	// Devices says in a text where the model runs, instead of Device and Placement:
	//
	//	""                            the CPU
	//	"auto"                        what `lull calibrate` found best here, in each frame anew; without
	//	                              figures that hold it is the CPU, and Note is told why
	//	"Vulkan0"                     that device
	//	"prefill=Vulkan0,decode=CPU"  prompts on one and replies on the other
	//	"offload=Vulkan0"             the CPU, and of prompts the large products there: one copy of the weights
	//
	// ChooseDevices shows what "auto" comes to.
	Devices string

	// Placement holds the model on more devices than Device and lets the
	// controller choose between them; nil: Device alone.
	Placement *PlacementConfig

	Context      int // tokens a conversation may hold; default 2048
	MaxSequences int // conversations kept in the cache; default 4
	MaxBatch     int // tokens in one batch; default 256
	MaxQueue     int // requests waiting; default 64

	// Heads keeps what was computed of the beginnings that prompts share (lore,
	// persona sheets) over a restart of the game; nil keeps none.
	Heads llm.HeadStore

	// Speculate says what may guess tokens ahead, where Spec.Speculation lets
	// it: by default all there is, as far as it pays on this device.
	Speculate speculative.Mode
	Draft     string // draft model: a GGUF file, or a model's name in the cache; "" is none

	// Costs says what verifying guesses costs here. Without rows it is read
	// from the device profile in the cache, or measured, which takes seconds
	// once, and kept there.
	Costs speculative.Costs

	// Progress is told the stage ("library", "model", "draft", "speculation")
	// and the share done.
	Progress func(stage string, done float64)

	// Note is told in a sentence what went otherwise than expected, and that
	// nevertheless everything works; nil: nobody is.
	Note func(text string)

	// Observe is told what each step of the engine did, on the worker's thread.
	// What Work.Samples holds is valid during the call.
	Observe func(llm.Work)

	// Probe says how heat, pressure, battery and memory are read: by default from
	// this machine, twice a second on a goroutine of their own. NoProbe leaves
	// them to SetHost.
	Probe   probe.PollerConfig
	NoProbe bool

	// OpenModel replaces llama.cpp, for tests and simulation.
	// OpenDraft does the same for the draft model. Costs are then not measured.
	OpenModel func(ctx context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error)
	OpenDraft func(ctx context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error)
	Clock     llm.Clock // default the computer's

	draftFile string // what Draft is
}

// Open finds, loads and starts everything. It takes seconds and may fetch:
// call it from a goroutine of its own, and cancel ctx to give up. On error
// nothing is left running.
func Open(ctx context.Context, cfg Config) (*Runtime, error) {
	if err := errors.Join(cfg.Spec.validate(), cfg.validateGuess(), CheckDevices(cfg.Devices)); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = llm.NewClock()
	}
	openModel := cfg.OpenModel
	if openModel == nil {
		openModel = cfg.openLlama
	}
	model, err := openModel(ctx, cfg.Clock, Admit)
	if err != nil {
		return nil, err
	}
	guess, err := cfg.newGuessing(ctx, model)
	if err != nil {
		return nil, errors.Join(err, model.Close())
	}
	sense, err := cfg.newSensing(ctx, model, guess.model())
	if err != nil {
		return nil, errors.Join(err, guess.close(), model.Close())
	}
	r, err := start(model, guess, sense, cfg)
	if err != nil {
		return nil, errors.Join(err, guess.close(), model.Close())
	}
	return r, nil
}

// openLlama resolves the files, fetching them unless Assets.Offline, and loads.
func (cfg *Config) openLlama(ctx context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
	found, err := Locate(ctx, cfg.Assets)
	if err != nil {
		return nil, err
	}
	if err := llamacpp.LoadNamed(found.Library.Path, cfg.Assets.Word(assets.SettingLlamaLib)); err != nil {
		return nil, err
	}
	cfg.tell("library", 1)
	if err := ctx.Err(); err != nil { // the library itself can't be stopped half way
		return nil, err
	}
	if err := cfg.placeByDevices(found); err != nil {
		return nil, err
	}
	if err := cfg.locateDraft(ctx); err != nil { // a wrong name should not cost the target's loading
		return nil, err
	}
	opt := cfg.llamaOptions(clock, admit, "model")
	opt.MaxSequences = cfg.MaxSequences
	if cfg.Placement != nil {
		return cfg.openPlaced(ctx, found.Model.Path, opt)
	}
	return llamacpp.Open(ctx, found.Model.Path, opt)
}

// llamaOptions are those that target and draft model share.
func (cfg *Config) llamaOptions(clock llm.Clock, admit llm.AdmitFunc, stage string) llamacpp.Options {
	opt := llamacpp.Options{
		Device: cfg.Device, Context: cfg.Context, MaxBatch: cfg.MaxBatch, Threads: cfg.Spec.Threads,
		Clock: clock, Admit: admit, Progress: func(done float64) { cfg.tell(stage, done) },
		Setting: cfg.Assets.Word(assets.SettingModel),
	}
	if cfg.Spec.Plain {
		opt.NoGate, opt.Poll = true, plainPoll
	}
	return opt
}

// plainPoll is ggml's default for the pools that llama.cpp's programs make.
const plainPoll = 50

func (cfg *Config) tell(stage string, done float64) {
	if cfg.Progress != nil {
		cfg.Progress(stage, done)
	}
}

// Locate answers which library and model will be used, fetches what is missing
// unless o.Offline, and derives the Q4_0 model that this processor wants.
func Locate(ctx context.Context, o assets.Options) (assets.Located, error) {
	o.Derive = Derivation(o)
	return assets.Ensure(ctx, o)
}

// Derivation is llama.cpp's quantiser for the assets, with the library that o
// names.
func Derivation(o assets.Options) assets.Derivation {
	quantize := func(ctx context.Context, src, dst, format string, progress func(float64)) error {
		o.Offline, o.Derive = true, assets.Derivation{}
		store, err := assets.Open(o)
		if err != nil {
			return err
		}
		library, err := store.LocateLibrary()
		if err != nil {
			return err
		}
		if err := llamacpp.LoadNamed(library.Path, o.Word(assets.SettingLlamaLib)); err != nil {
			return err
		}
		return makeModel(ctx, src, dst, format, progress)
	}
	return assets.Derivation{Quantize: quantize, Library: "llama.cpp " + llamacpp.Version}
}

// Admit is the scheduler's rule in the engine's types, an llm.AdmitFunc.
func Admit(now, lastEnd int64, w llm.Window, next time.Duration, tentative bool) (llm.Verdict, int64) {
	v, until := scheduler.Admit(scheduler.Instant(now), scheduler.Instant(lastEnd), scheduler.Window{
		Gate: scheduler.Gate(w.Mode), Open: scheduler.Instant(w.Open), Close: scheduler.Instant(w.Close),
		Pause:   w.Pause,
		Expires: scheduler.Instant(w.Expires),
	}, next, tentative)
	return llm.Verdict(v), int64(until)
}

// onThread is what the thread that computes begins with; nil: nothing.
func (cfg *Config) onThread() func() error {
	if cfg.Spec.LowPriority && cfg.OpenModel == nil {
		return llamacpp.LowerThread
	}
	return nil
}

// likeWorker runs do on a thread like the worker's, since the threads of a model's
// pool take the class of the one that decodes first. It delivers do's error.
func (cfg *Config) likeWorker(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: its priority was changed
		if lower := cfg.onThread(); lower != nil {
			if err := lower(); err != nil {
				done <- err
				return
			}
		}
		done <- do()
	}()
	return done
}

// start makes engine, controller and worker around a loaded model.
func start(model llm.Model, guess *guessing, sense *sensing, cfg Config) (*Runtime, error) {
	engine, err := llm.NewEngine(model, llm.EngineConfig{MaxQueue: cfg.MaxQueue, Clock: cfg.Clock,
		Heads: cfg.Heads, Speculator: guess.speculator()})
	if err != nil {
		return nil, err
	}
	r := &Runtime{Engine: engine, Model: model, Clock: cfg.Clock, spec: cfg.Spec, guess: guess, sense: sense,
		observe: cfg.Observe}
	r.placed, _ = model.(*Placed)
	if err := r.makeSteering(); err != nil {
		engine.Close()
		return nil, err
	}
	worker := llm.WorkerConfig{Grant: r.grant, Report: r.report, OnThread: cfg.onThread()}
	if r.control != nil && cfg.Spec.LowPriority {
		r.relief = startRelief(r)
	}
	if r.worker, err = llm.StartWorker(engine, worker); err != nil {
		if r.relief != nil {
			r.relief.close()
		}
		engine.Close()
		return nil, fmt.Errorf("local: %w", err)
	}
	r.startProbe(&cfg)
	return r, nil
}
