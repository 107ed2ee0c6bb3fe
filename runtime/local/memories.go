package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// maxStores of one runtime: a game has one, a tool that compares a few.
	maxStores = 16

	// lookEvery is how often the worker looks for memories that were remembered
	// since: often enough that a menu of a second is used, rarely enough that
	// nobody notices.
	lookEvery = 100 * time.Millisecond

	// maxCredit bounds what decisions add up to: one decision's worth where frames
	// are nobody's concern. What takes longer is begun when it is due.
	maxCredit = 100 * time.Millisecond

	// framelessAfter is when a game that marks no frame counts as one that shows
	// none: longer than any hitch.
	framelessAfter = time.Second

	// shutAfter is how long pressure lasts before what runs is ended. Shorter
	// pressure is the gate's matter: work that is stopped is done again.
	shutAfter = 250 * time.Millisecond

	// mostFrame bounds what one frame adds to the time of play, which a laptop
	// that slept must not move.
	mostFrame = 250 * time.Millisecond

	// questionWait is how long a recall waits for the vector of its question
	// before it looks at words only: a part of the second that a reply may take.
	questionWait = 300 * time.Millisecond

	memoryPhases = int(scheduler.PhaseBackground) + 1
)

// MemoryConfig says what the memory stores of a runtime share. The zero value is
// right for a game whose files are in the cache.
type MemoryConfig struct {
	Embedder  EmbedderConfig
	WordsOnly bool // open no embedder

	// Clock counts play, for the bound by which memories have vectors; nil: the
	// time in which frames are marked.
	Clock func() time.Duration

	// Eager embeds each memory as soon as it is there, in any phase: an ablation.
	Eager bool

	// OpenEmbedder replaces llama.cpp's, for tests and simulation. What it gives
	// is closed with the runtime if it is an io.Closer.
	OpenEmbedder func(ctx context.Context) (rag.Embedder, error)
}

// Memories are the memory stores of a runtime. They share an embedder behind the
// model's gate and a goroutine that embeds in the time that decisions grant. Safe
// for concurrent use.
type Memories struct {
	clock    llm.Clock
	cfg      MemoryConfig
	embedder *sharedEmbedder // nil: words only

	mu     sync.Mutex
	stores []*rag.Store
	closed bool
	turn   int // the store that is served first

	// From the game thread to the worker.
	phase     atomic.Int32
	granted   atomic.Int64 // ns, IndexTime of the last decision
	credit    atomic.Int64 // ns that decisions granted and nobody used yet
	published atomic.Int64 // when the last decision was made
	played    atomic.Int64 // ns in which frames were marked
	free      atomic.Bool  // frames are nobody's concern
	shut      atomic.Bool  // no text is embedded, and what runs has to end
	want      atomic.Int64 // ns that the next text takes; 0: none waits
	wake      chan struct{}

	// Game thread.
	looked, denied int64 // when the worker was woken last; since when nothing is granted, 0: it is

	indexed, givenUp atomic.Int64

	ctx    context.Context // of the worker's slices
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

// OpenMemories opens the embedder and starts the goroutine that embeds; a runtime
// has one Memories. It takes a second and may fetch: call it from a goroutine of
// its own. Close of the runtime closes them.
//
// A store embeds in the time of Decision.IndexTime, which adds up until the next
// text fits, and while no frames are marked. In combat and cutscenes no text is
// embedded, and what is under way when they begin is stopped. A memory that has
// waited for half of rag.Config.EmbedWithin is embedded in the next frames that
// grant anything. A runtime that nobody steers grants all the time.
func (r *Runtime) OpenMemories(ctx context.Context, cfg MemoryConfig) (*Memories, error) {
	m := &Memories{clock: r.Clock, cfg: cfg, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	m.published.Store(math.MinInt64 / 2)
	open := cfg.OpenEmbedder
	if open == nil {
		open = func(ctx context.Context) (rag.Embedder, error) { return r.OpenEmbedder(ctx, cfg.Embedder) }
	}
	if !cfg.WordsOnly {
		e, err := open(ctx)
		if err != nil {
			return nil, err
		}
		m.embedder = newSharedEmbedder(m, e)
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	switch {
	case r.ended:
		return nil, errors.Join(fmt.Errorf("local: memories: %w", llm.ErrClosed), m.embedder.close())
	case r.memories.Load() != nil:
		return nil, errors.Join(errors.New("local: the runtime has its memories already"), m.embedder.close())
	}
	m.ctx, m.cancel = context.WithCancelCause(withSlice(context.Background()))
	go m.run()
	r.memories.Store(m)
	return m, nil
}

// Open opens a store that embeds in granted time. cfg begins with
// rag.DefaultConfig; its Embedder, Clock, Stopwatch and Eager are set here. Close
// of the runtime closes the store, unless that was done before.
func (m *Memories) Open(cfg rag.Config) (*rag.Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fmt.Errorf("local: memories: %w", llm.ErrClosed)
	case len(m.stores) == maxStores:
		return nil, fmt.Errorf("local: %d stores are open, the most that a runtime serves", maxStores)
	}
	cfg.Embedder, cfg.Eager = nil, false
	if m.embedder != nil {
		cfg.Embedder = m.embedder
	}
	if cfg.Clock = m.cfg.Clock; cfg.Clock == nil {
		cfg.Clock = func() time.Duration { return time.Duration(m.played.Load()) }
	}
	cfg.Stopwatch = func() time.Duration { return time.Duration(m.clock.Now()) }
	s, err := rag.Open(cfg)
	if err != nil {
		return nil, err
	}
	m.stores = append(slices.Clip(m.stores), s) // the worker may go through the old list
	return s, nil
}

// NPC is a store as the memory of an npc.World. In frames that grant no time it
// recalls by words only.
func (m *Memories) NPC(s *rag.Store) npc.Memory { return worldMemory{npc.StoreMemory(s), m} }

type worldMemory struct {
	npc.Memory
	of *Memories
}

// Recall implements npc.Memory.
func (w worldMemory) Recall(q npc.Query) ([]npc.Recalled, error) {
	q.Quick = q.Quick || !w.of.MayEmbed()
	return w.Memory.Recall(q)
}

// MayEmbed reports whether a question may be embedded now; if not, recall with
// rag.Query.LexicalOnly, which does not even try.
func (m *Memories) MayEmbed() bool {
	if m.embedder == nil {
		return false
	}
	return m.cfg.Eager || m.mayWork()
}

func (m *Memories) mayWork() bool {
	return !m.shut.Load() && (m.granted.Load() > 0 || m.frameless())
}

func (m *Memories) frameless() bool {
	return m.clock.Now()-m.published.Load() > int64(framelessAfter)
}

// MemoryStats counts since OpenMemories.
type MemoryStats struct {
	Embeddings [memoryPhases]int // vectors made, of memories and questions, by scheduler.Phase
	Questions  int               // of them
	Stopped    int               // begun and not finished: a phase began that allows none, or it took too long
	Indexed    int               // memories that got their vectors
	GivenUp    int               // memories that get none: found by their words
	Busy       time.Duration     // that embedding took, without waiting at the gate
}

// Stats counts what was done. It waits for nothing.
func (m *Memories) Stats() MemoryStats {
	s := MemoryStats{Indexed: int(m.indexed.Load()), GivenUp: int(m.givenUp.Load())}
	if e := m.embedder; e != nil {
		for i := range s.Embeddings {
			s.Embeddings[i] = int(e.made[i].Load())
		}
		s.Questions, s.Stopped = int(e.questions.Load()), int(e.stopped.Load())
		s.Busy = time.Duration(e.busy.Load())
	}
	return s
}

// setPhase ends at once what may not run in the phase. Call from the game thread.
func (m *Memories) setPhase(p scheduler.Phase) {
	if int(p) >= memoryPhases || m.phase.Load() == int32(p) {
		return
	}
	m.phase.Store(int32(p))
	if p.Guarded() {
		m.deny()
		return
	}
	m.denied = 0
	m.shut.Store(false)
}

// deny takes back what was granted and ends what runs. Call from the game thread.
func (m *Memories) deny() {
	m.granted.Store(0)
	m.credit.Store(0)
	if !m.shut.Swap(true) && !m.cfg.Eager {
		m.embedder.halt()
	}
}

// publish tells the worker what a decision grants. Call from the game thread; it
// neither allocates nor waits.
func (m *Memories) publish(d *scheduler.Decision, now int64) {
	if last := m.published.Swap(now); last > 0 && now > last {
		m.played.Add(min(now-last, int64(mostFrame)))
	}
	grant := int64(d.IndexTime)
	m.granted.Store(grant)
	m.free.Store(grant > 0 && d.Reason == scheduler.ReasonPhaseFree)
	switch guarded := m.guarded(); {
	case grant > 0 && !guarded:
		m.denied = 0
		m.shut.Store(false)
		if have := m.credit.Load(); have < int64(maxCredit) {
			m.credit.Add(min(grant, int64(maxCredit)-have))
		}
	case m.denied == 0:
		m.denied = now
		m.credit.Store(0)
	case guarded || now-m.denied > int64(shutAfter):
		m.deny()
	}
	want := m.want.Load()
	if want > 0 && (grant > 0 && m.credit.Load() >= want) || now-m.looked >= int64(lookEvery) || m.cfg.Eager {
		m.looked = now
		notify(m.wake)
	}
}

func (m *Memories) guarded() bool { return scheduler.Phase(m.phase.Load()).Guarded() }

// run is the worker: it embeds in granted time.
func (m *Memories) run() {
	defer close(m.ended)
	tick := time.NewTicker(framelessAfter) // a game that marks no frames wakes nobody
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.wake:
		case <-tick.C:
		}
		m.slice()
	}
}

// slice serves the stores in turn, beginning with another one each time.
func (m *Memories) slice() {
	m.mu.Lock()
	stores := m.stores
	m.turn++
	first := m.turn
	m.mu.Unlock()
	want := time.Duration(0)
	for i := range stores {
		if next := m.serve(stores[(first+i)%len(stores)]); next > 0 && (want == 0 || next < want) {
			want = next
		}
	}
	m.want.Store(int64(want))
}

// serve gives one store its slice, and says what its next text takes; 0: none
// waits.
func (m *Memories) serve(s *rag.Store) (next time.Duration) {
	due := s.Due()
	if !m.cfg.Eager && !m.mayWork() {
		return due.Budget
	}
	budget := time.Duration(m.credit.Load())
	if m.cfg.Eager || m.frameless() {
		budget = maxCredit
	}
	if due.Due || m.cfg.Eager || m.free.Load() || m.frameless() {
		budget = max(budget, due.Budget)
	}
	if budget < due.Budget && due.Budget <= maxCredit {
		return due.Budget // soon: in the order in which they came
	}
	busy := m.busy()
	done := s.WorkContext(m.ctx, budget) // the store tells of other errors itself
	if errors.Is(done.Err, rag.ErrClosed) {
		m.leave(s)
		return 0
	}
	m.credit.Add(-int64(m.busy() - busy))
	m.indexed.Add(int64(done.Indexed))
	m.givenUp.Add(int64(done.GivenUp))
	return done.Next
}

// leave forgets a store that its owner closed.
func (m *Memories) leave(s *rag.Store) {
	m.mu.Lock()
	m.stores = slices.DeleteFunc(slices.Clone(m.stores), func(o *rag.Store) bool { return o == s })
	m.mu.Unlock()
}

func (m *Memories) busy() time.Duration {
	if m.embedder == nil {
		return 0
	}
	return time.Duration(m.embedder.busy.Load())
}

// close ends the worker, writes what the stores hold, closes them and frees the
// embedder. A store that can't be written is abandoned, and the error says so.
func (m *Memories) close() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	m.closed = true
	stores := m.stores
	m.mu.Unlock()
	m.cancel(llm.ErrClosed)
	<-m.ended
	var all []error
	for _, s := range stores {
		if err := s.Close(); err != nil {
			all = append(all, err, s.Abandon())
		}
	}
	return errors.Join(append(all, m.embedder.close())...)
}

// sharedEmbedder is the embedder of all stores. It embeds only while that is
// allowed, and counts.
type sharedEmbedder struct {
	of    *Memories
	inner rag.Embedder

	mu      sync.Mutex
	running map[*context.CancelCauseFunc]struct{}
	halts   chan struct{}
	quit    chan struct{}
	once    sync.Once

	closed   atomic.Bool
	touching atomic.Int32 // calls of Stop and Resume under way

	made                     [memoryPhases]atomic.Int64
	questions, stopped, busy atomic.Int64
}

// stopper is what an embedder has that ends a pass within a node of its graph.
type stopper interface {
	Stop()
	Resume()
}

// errDenied is why a text is not embedded.
var errDenied = fmt.Errorf("local: no time for memories in these frames: %w", rag.ErrInterrupted)

func newSharedEmbedder(m *Memories, e rag.Embedder) *sharedEmbedder {
	s := &sharedEmbedder{of: m, inner: e, running: map[*context.CancelCauseFunc]struct{}{},
		halts: make(chan struct{}, 1), quit: make(chan struct{})}
	go s.watch()
	return s
}

// halt ends what runs. Call from the game thread: it neither allocates nor waits.
func (e *sharedEmbedder) halt() {
	if e == nil {
		return
	}
	e.touch(stopper.Stop)
	notify(e.halts)
}

// touch stops or resumes the embedder, unless it is being freed.
func (e *sharedEmbedder) touch(call func(stopper)) {
	s, ok := e.inner.(stopper)
	if !ok {
		return
	}
	e.touching.Add(1)
	if !e.closed.Load() {
		call(s)
	}
	e.touching.Add(-1)
}

// watch ends the contexts of what runs, which the game thread must not do itself.
func (e *sharedEmbedder) watch() {
	for {
		select {
		case <-e.quit:
			return
		case <-e.halts:
		}
		e.mu.Lock()
		for cancel := range e.running {
			(*cancel)(errDenied)
		}
		e.mu.Unlock()
	}
}

type sliceKey struct{}

// withSlice marks a context as that of memory work; all others ask questions.
func withSlice(ctx context.Context) context.Context { return context.WithValue(ctx, sliceKey{}, true) }

// Identity implements rag.Embedder.
func (e *sharedEmbedder) Identity() rag.Identity { return e.inner.Identity() }

// Embed implements rag.Embedder.
func (e *sharedEmbedder) Embed(ctx context.Context, text string) ([]float32, error) {
	x, _, err := e.EmbedTimed(ctx, text)
	return x, err
}

// EmbedTimed implements rag.Timed.
func (e *sharedEmbedder) EmbedTimed(ctx context.Context, text string) ([]float32, time.Duration, error) {
	question := ctx.Value(sliceKey{}) == nil
	if question {
		limited, done := context.WithTimeoutCause(ctx, questionWait,
			fmt.Errorf("local: the question waited for %v: %w", questionWait, rag.ErrInterrupted))
		defer done()
		ctx = limited
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.mu.Lock()
	e.running[&cancel] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.running, &cancel)
		e.mu.Unlock()
	}()
	if !e.begin() {
		return nil, 0, errDenied
	}
	x, took, err := e.timed(ctx, text)
	e.busy.Add(int64(took))
	switch {
	case err == nil:
		e.made[e.of.phase.Load()].Add(1)
		if question {
			e.questions.Add(1)
		}
	case ctx.Err() != nil || errors.Is(err, rag.ErrInterrupted):
		e.stopped.Add(1)
		if !errors.Is(err, rag.ErrInterrupted) {
			err = fmt.Errorf("%w: %w", rag.ErrInterrupted, err)
		}
	}
	return x, took, err
}

// begin takes an earlier stop back where embedding is allowed. A stop that comes
// meanwhile stays.
func (e *sharedEmbedder) begin() bool {
	if !e.of.MayEmbed() {
		return false
	}
	e.touch(stopper.Resume)
	if !e.of.MayEmbed() {
		e.touch(stopper.Stop)
		return false
	}
	return true
}

func (e *sharedEmbedder) timed(ctx context.Context, text string) ([]float32, time.Duration, error) {
	if t, ok := e.inner.(rag.Timed); ok {
		return t.EmbedTimed(ctx, text)
	}
	before := e.of.clock.Now()
	x, err := e.inner.Embed(ctx, text)
	return x, time.Duration(e.of.clock.Now() - before), err
}

// close ends what runs and frees the embedder, if it is to be freed.
func (e *sharedEmbedder) close() (err error) {
	if e == nil {
		return nil
	}
	e.once.Do(func() {
		close(e.quit)
		e.closed.Store(true)
		for e.touching.Load() > 0 { // a few instructions of another thread
			runtime.Gosched()
		}
		if c, ok := e.inner.(io.Closer); ok {
			err = c.Close()
		}
	})
	return err
}
