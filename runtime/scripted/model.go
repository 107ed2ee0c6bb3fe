package scripted

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
)

// Library is the version that Info names and that saved states are tied to.
const Library = "scripted 1"

// Config sets a Model up. A zero field means its default.
type Config struct {
	Name         string        // default "scripted"
	Script       Script        // nil babbles
	Layers       int           // default 8
	Context      int           // tokens of one sequence; default 2048
	MaxBatch     int           // tokens of one Decode; default 64
	MaxSequences int           // default 4
	CacheTokens  int           // that all sequences share; default enough for all
	Threads      int           // of the pool; default 1
	NoTruncate   bool          // behave as a recurrent model
	Clock        llm.Clock     // default llm.NewClock()
	Admit        llm.AdmitFunc // default llm.PlainAdmit
	Cost         Cost

	// Fault may fail the n-th Decode, counted from 1, before it computes; nil
	// never does. Called from the goroutine that decodes.
	Fault func(n int, b *llm.Batch) error
}

// FailAt is a Config.Fault that fails the n-th Decode with err.
func FailAt(n int, err error) func(int, *llm.Batch) error {
	return func(i int, _ *llm.Batch) error {
		if i == n {
			return err
		}
		return nil
	}
}

// Model is a deterministic llm.Model.
type Model struct {
	cfg    Config
	info   llm.Info
	gate   *llm.SoftGate
	closed atomic.Bool

	// The rest belongs to the goroutine that uses the model.
	open    []*sequence
	decodes int
	rows    []llm.Token // what each row of the last batch would say
	samples []llm.LayerSample
}

var _ llm.Model = (*Model)(nil)

// New returns a model, or an error that names the field that is out of range.
func New(cfg Config) (*Model, error) {
	for _, f := range []struct {
		name  string
		v     *int
		usual int
	}{
		{"Layers", &cfg.Layers, 8}, {"Context", &cfg.Context, 2048}, {"MaxBatch", &cfg.MaxBatch, 64},
		{"MaxSequences", &cfg.MaxSequences, 4}, {"Threads", &cfg.Threads, 1}, {"CacheTokens", &cfg.CacheTokens, 0},
	} {
		if *f.v < 0 || *f.v > 1<<20 {
			return nil, fmt.Errorf("scripted: Config.%s %d: want 1…%d, or 0 for %d", f.name, *f.v, 1<<20, f.usual)
		}
		if *f.v == 0 {
			*f.v = f.usual
		}
	}
	if cfg.CacheTokens == 0 {
		cfg.CacheTokens = cfg.Context * cfg.MaxSequences
	}
	if cfg.Name == "" {
		cfg.Name = "scripted"
	}
	if cfg.Clock == nil {
		cfg.Clock = llm.NewClock()
	}
	m := &Model{cfg: cfg, gate: llm.NewGate(cfg.Clock, cfg.Admit)}
	m.info = llm.Info{
		Name: cfg.Name, Architecture: "scripted", Device: "CPU", Library: Library,
		Layers: cfg.Layers, Vocab: vocabSize, Context: cfg.Context, TrainContext: cfg.Context,
		MaxBatch: cfg.MaxBatch, MaxSequences: cfg.MaxSequences, CanTruncate: !cfg.NoTruncate,
	}
	return m, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.info }

// Gate implements llm.Model.
func (m *Model) Gate() llm.Gate { return m.gate }

// Stop implements llm.Model.
func (m *Model) Stop() { m.gate.Stop() }

// Resume implements llm.Model.
func (m *Model) Resume() { m.gate.Resume() }

// Close implements llm.Model.
func (m *Model) Close() error {
	m.closed.Store(true)
	m.open = nil
	return nil
}

// Decodes is how many times Decode was called. Call from the goroutine that
// uses the model.
func (m *Model) Decodes() int { return m.decodes }

// Decode implements llm.Model.
func (m *Model) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	m.decodes++
	if m.closed.Load() {
		return llm.Work{}, llm.ErrClosed
	}
	if m.cfg.Fault != nil {
		if err := m.cfg.Fault(m.decodes, b); err != nil {
			return llm.Work{}, err
		}
	}
	if err := m.check(b); err != nil {
		return llm.Work{}, err
	}
	w := llm.Work{Threads: m.cfg.Threads, Start: m.cfg.Clock.Now()}
	if g.Threads > 0 {
		w.Threads = min(g.Threads, w.Threads)
	}
	m.rows = m.rows[:0] // the logits are gone, whatever happens now
	ok := m.run(b, &w)
	w.End = m.cfg.Clock.Now()
	if !ok {
		w.Stopped = true
		return w, llm.ErrStopped
	}
	w.Tokens = len(b.Entries)
	for _, e := range b.Entries {
		s := e.Sequence.(*sequence)
		s.tokens = append(s.tokens, e.Token)
		if e.Logits {
			m.rows = append(m.rows, s.next(len(s.tokens)))
		}
	}
	return w, nil
}

// check refuses what no batch may hold, and what the cache has no room for.
func (m *Model) check(b *llm.Batch) error {
	if n := len(b.Entries); n == 0 || n > m.cfg.MaxBatch {
		return fmt.Errorf("scripted: batch of %d tokens: want 1…%d: %w", n, m.cfg.MaxBatch, llm.ErrBatch)
	}
	for i, e := range b.Entries {
		s, ok := e.Sequence.(*sequence)
		if !ok || s == nil || s.model != m || s.closed {
			return fmt.Errorf("scripted: entry %d: sequence is closed or of another model: %w", i, llm.ErrBatch)
		}
		if e.Token < 0 || int(e.Token) >= vocabSize {
			return fmt.Errorf("scripted: entry %d: token %d: want 0…%d: %w", i, e.Token, vocabSize-1, llm.ErrBatch)
		}
		s.pending = 0
	}
	for _, e := range b.Entries {
		s := e.Sequence.(*sequence)
		if s.pending++; len(s.tokens)+s.pending > m.cfg.Context {
			return fmt.Errorf("scripted: sequence of %d tokens has no room for more (context %d): %w",
				len(s.tokens), m.cfg.Context, llm.ErrContextFull)
		}
	}
	held := 0
	for _, s := range m.open {
		held += len(s.tokens)
	}
	if held+len(b.Entries) > m.cfg.CacheTokens {
		return fmt.Errorf("scripted: cache holds %d tokens, %d more do not fit in %d: %w",
			held, len(b.Entries), m.cfg.CacheTokens, llm.ErrContextFull)
	}
	return nil
}

// run lets the time of the batch pass, group by group under the gate. It
// reports false when it was stopped.
func (m *Model) run(b *llm.Batch, w *llm.Work) bool {
	defer m.gate.Leave()
	width, rows := len(b.Entries), 0
	for _, e := range b.Entries {
		if e.Logits {
			rows++
		}
	}
	m.samples = m.samples[:0]
	lastEnd := w.Start
	for first := 0; first < m.cfg.Layers; {
		size := m.groupSize(first)
		next := time.Duration(size) * m.cfg.Cost.layer(m.cfg.Clock.Now(), width, w.Threads)
		waited, ok := m.gate.Pass(lastEnd, next, b.Tentative)
		w.Waited += waited
		w.Stops++
		if !ok {
			return false
		}
		begin := m.cfg.Clock.Now()
		last, ok := m.runGroup(first, size, width, w.Threads)
		if !ok {
			return false
		}
		lastEnd = m.cfg.Clock.Now()
		m.sample(first, last, width, w.Threads, lastEnd-begin)
		first = last + 1
	}
	head := m.cfg.Cost.head(rows, w.Threads)
	if !m.spend(head) {
		return false
	}
	m.sample(m.cfg.Layers, m.cfg.Layers, width, w.Threads, int64(head))
	w.Samples = m.samples
	return true
}

func (m *Model) sample(first, last, width, threads int, ns int64) {
	m.samples = append(m.samples, llm.LayerSample{First: int16(first), Last: int16(last),
		Width: int16(width), Threads: int16(threads), Duration: time.Duration(ns)})
}

func (m *Model) groupSize(first int) int {
	size := m.gate.Window().LayersPerStop
	if size < 1 {
		size = m.cfg.Layers
	}
	return min(size, m.cfg.Layers-first)
}

// runGroup runs up to size layers and returns the last one. A group that began
// at a free gate ends early when the gate is free no more.
func (m *Model) runGroup(first, size, width, threads int) (int, bool) {
	free := m.gate.Window().Mode == llm.GateFree
	for layer := first; ; layer++ {
		if !m.spend(m.cfg.Cost.layer(m.cfg.Clock.Now(), width, threads)) {
			return layer, false
		}
		if layer == first+size-1 || free && m.gate.Window().Mode != llm.GateFree {
			return layer, true
		}
	}
}

// spend lets time pass, and reports false as soon as the model is stopped.
func (m *Model) spend(d time.Duration) bool {
	end := m.cfg.Clock.Now() + int64(d)
	for !m.gate.Stopped() {
		if m.cfg.Clock.Now() >= end {
			return true
		}
		m.cfg.Clock.WaitUntil(end, m.gate.Wake())
	}
	return false
}
