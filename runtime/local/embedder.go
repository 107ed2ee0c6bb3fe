package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
)

// EmbedderConfig says how a sentence embedder is opened. The zero value is
// right for a program without a game beside it; Runtime.OpenEmbedder fills in
// what a game needs.
type EmbedderConfig struct {
	Assets assets.Options // where library and embedder come from; Offline unless the game fetches
	File   string         // a GGUF file, or an embedder's name in the catalogue; "" is assets.DefaultEmbedder
	Device string         // ggml device id; default the CPU

	// Threads of one pass; default 1. A memory can wait, and a second thread
	// would take a core from the game for a third of the time saved.
	Threads int

	// Gate is the one of the model that speaks: no pass begins, and none goes on
	// beyond a layer, while it is closed. nil is always open.
	Gate  llm.Gate
	Clock llm.Clock // of the gate; default the computer's

	// LowPriority runs passes only when nobody else wants the core.
	LowPriority bool

	// Observe is told what each text took, on the embedder's thread. What
	// Work.Samples holds is valid during the call.
	Observe func(llm.Work)
}

// Embedder makes vectors of texts, on an OS thread of its own; it is a
// rag.Embedder. Safe for concurrent use: texts wait for each other.
type Embedder struct {
	model    *llamacpp.Embedder
	identity rag.Identity
	observe  func(llm.Work)
	jobs     chan embedJob
	quit     chan struct{}
	ended    chan struct{}
	once     sync.Once
}

type embedJob struct {
	ctx  context.Context
	text string
	done chan embedded // holds one, so that the thread never waits for who asked
}

type embedded struct {
	vector []float32
	took   time.Duration // computing
	err    error
}

// OpenEmbedder opens an embedder behind the gate of r's model, at r's priority.
// Close it before r. It takes a second and may fetch: call it from a goroutine
// of its own.
func (r *Runtime) OpenEmbedder(ctx context.Context, cfg EmbedderConfig) (*Embedder, error) {
	cfg.Gate, cfg.Clock, cfg.LowPriority = r.Model.Gate(), r.Clock, r.spec.LowPriority
	return OpenEmbedder(ctx, cfg)
}

// LocateEmbedder fetches the library and the default embedder if they are missing,
// unless o.Offline, and derives the latter.
func LocateEmbedder(ctx context.Context, o assets.Options) error {
	o.Derive = Derivation(o)
	if _, err := assets.EnsureLibrary(ctx, o); err != nil {
		return err
	}
	_, err := assets.EnsureEmbedder(ctx, o, "")
	return err
}

// OpenEmbedder finds, loads and starts an embedder. On error nothing is left
// running.
func OpenEmbedder(ctx context.Context, cfg EmbedderConfig) (*Embedder, error) {
	o := cfg.Assets
	o.Derive = Derivation(o)
	library, err := assets.EnsureLibrary(ctx, o)
	if err != nil {
		return nil, err
	}
	found, err := assets.EnsureEmbedder(ctx, o, cfg.File)
	if err != nil {
		return nil, err
	}
	if err := llamacpp.LoadNamed(library.Path, o.Word(assets.SettingLlamaLib)); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = llm.NewClock()
	}
	model, err := llamacpp.OpenEmbedder(ctx, found.Path, llamacpp.Options{
		Device: cfg.Device, Threads: cfg.Threads, Clock: cfg.Clock, Admit: Admit, Gate: cfg.Gate,
		Setting: o.Word(assets.SettingEmbedder)})
	if err != nil {
		return nil, err
	}
	if cfg.Gate != nil && model.Gate() != cfg.Gate {
		return nil, errors.Join(errors.New("local: the gate is none of llama.cpp's, so an embedder can't share it"),
			model.Close())
	}
	e := &Embedder{model: model, identity: identityOf(model.Identity()), observe: cfg.Observe,
		jobs: make(chan embedJob), quit: make(chan struct{}), ended: make(chan struct{})}
	ready := make(chan error, 1)
	go e.work(cfg.LowPriority, ready)
	if err := <-ready; err != nil {
		return nil, errors.Join(fmt.Errorf("local: %w", err), model.Close())
	}
	return e, nil
}

// work computes on a thread whose priority can't be given back, so the thread
// ends with it. The pool's threads inherit the priority.
func (e *Embedder) work(lowPriority bool, ready chan<- error) {
	defer close(e.ended)
	if lowPriority {
		runtime.LockOSThread()
		if err := llamacpp.LowerThread(); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for {
		select {
		case <-e.quit:
			return
		case j := <-e.jobs:
			v, w, err := e.model.EmbedLong(j.ctx, nil, j.text, llm.Grant{})
			if e.observe != nil {
				e.observe(w)
			}
			j.done <- embedded{v, max(0, time.Duration(w.End-w.Start)-w.Waited), err}
		}
	}
}

// Identity implements rag.Embedder.
func (e *Embedder) Identity() rag.Identity { return e.identity }

// identityOf puts the hash into the name: a file of the same name may hold
// other weights.
func identityOf(id llamacpp.Identity) rag.Identity {
	return rag.Identity{Model: id.Name + " " + id.SHA256[:hashDigits], Pooling: id.Pooling, Dimension: id.Dimension}
}

// hashDigits of a model's hash tell apart all the files that a developer ever
// tries, and leave a line that a person can read.
const hashDigits = 16

// Embed implements rag.Embedder. A text longer than one pass is split. Errors
// that wrap rag.ErrInterrupted say that the text may be tried again, those that
// wrap rag.ErrNoContent that it never has a vector.
func (e *Embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	x, _, err := e.EmbedTimed(ctx, text)
	return x, err
}

// EmbedTimed implements rag.Timed: waiting at the gate is no cost.
func (e *Embedder) EmbedTimed(ctx context.Context, text string) ([]float32, time.Duration, error) {
	j := embedJob{ctx, text, make(chan embedded, 1)}
	select {
	case e.jobs <- j:
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("local: %w: %w", rag.ErrInterrupted, context.Cause(ctx))
	case <-e.quit:
		return nil, 0, fmt.Errorf("local: embed: %w", llm.ErrClosed)
	}
	r := <-j.done // soon: the pass ends when ctx does
	switch {
	case r.err == nil:
		return r.vector, r.took, nil
	case errors.Is(r.err, llamacpp.ErrNoContent):
		return nil, 0, fmt.Errorf("local: %w: %w", rag.ErrNoContent, r.err)
	case errors.Is(r.err, llm.ErrStopped), ctx.Err() != nil:
		return nil, r.took, fmt.Errorf("local: %w: %w", rag.ErrInterrupted, r.err)
	}
	return nil, r.took, fmt.Errorf("local: %w", r.err)
}

// Stop ends a running pass within one node of the graph, and every later one
// at its start, until Resume.
func (e *Embedder) Stop() { e.model.Stop() }

// Resume takes Stop back.
func (e *Embedder) Resume() { e.model.Resume() }

// Close ends what runs, joins the thread and frees the model.
func (e *Embedder) Close() error {
	var err error
	e.once.Do(func() {
		close(e.quit)
		e.model.Stop()
		<-e.ended
		err = e.model.Close()
	})
	return err
}
