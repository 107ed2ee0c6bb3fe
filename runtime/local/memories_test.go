package local

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// wordVectors gives texts that share words like vectors.
type wordVectors struct {
	took  time.Duration // what a text is said to take
	begin func(ctx context.Context, text string) error

	mu    sync.Mutex
	texts []string
}

func (e *wordVectors) Identity() rag.Identity {
	return rag.Identity{Model: "words", Pooling: "sum", Dimension: 32}
}

func (e *wordVectors) Embed(ctx context.Context, text string) ([]float32, error) {
	x, _, err := e.EmbedTimed(ctx, text)
	return x, err
}

func (e *wordVectors) EmbedTimed(ctx context.Context, text string) ([]float32, time.Duration, error) {
	if e.begin != nil {
		if err := e.begin(ctx, text); err != nil {
			return nil, 0, err
		}
	}
	e.mu.Lock()
	e.texts = append(e.texts, text)
	e.mu.Unlock()
	x := make([]float32, e.Identity().Dimension)
	for word := range strings.FieldsSeq(text) {
		h := fnv.New64a()
		h.Write([]byte(word))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		for i := range x {
			x[i] += float32(r.NormFloat64())
		}
	}
	return x, max(e.took, time.Microsecond), nil
}

func (e *wordVectors) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.texts)
}

// keeper is a game with memories.
type keeper struct {
	t     *testing.T
	r     *Runtime
	m     *Memories
	store *rag.Store
	frame uint64
}

func newKeeper(t *testing.T, e *wordVectors, cfg MemoryConfig, store rag.Config) *keeper {
	t.Helper()
	r := openScripted(t, DefaultSpec())
	cfg.OpenEmbedder = func(context.Context) (rag.Embedder, error) { return e, nil }
	m, err := r.OpenMemories(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, r: r, m: m}
	k.frames(scheduler.PhaseExplore, 1)
	if k.store, err = m.Open(store); err != nil {
		t.Fatal(err)
	}
	return k
}

// frames plays frames of 2 ms.
func (k *keeper) frames(p scheduler.Phase, n int) {
	const period = 2 * time.Millisecond
	for range n {
		k.frame++
		k.r.SetPhase(p)
		now := k.r.Clock.Now()
		k.r.FrameBegin(k.frame, period, now)
		k.r.FrameEnd(k.frame, now+int64(period), k.r.Clock.Now())
		k.r.Clock.WaitUntil(now+int64(period), nil)
	}
}

// until plays frames of a phase until something holds; the test's own deadline
// ends it if it never does.
func (k *keeper) until(p scheduler.Phase, holds func() bool) {
	for !holds() {
		k.frames(p, 1)
	}
}

func (k *keeper) remember(text string) rag.ID {
	k.t.Helper()
	id, err := k.store.Remember(rag.Memory{Owner: "mara", Text: text})
	if err != nil {
		k.t.Fatal(err)
	}
	return id
}

func (k *keeper) indexed() int { return k.m.Stats().Indexed }

var mara = rag.Knower{NPC: "mara"}

// What is remembered in a fight is found in it by its words, gets its vector in
// the menu after it, and is acknowledged.
func TestMemoriesWaitForTheMenu(t *testing.T) {
	e := &wordVectors{}
	k := newKeeper(t, e, MemoryConfig{}, rag.DefaultConfig(t.TempDir()))
	var last rag.ID
	for i := range 40 {
		last = k.remember(fmt.Sprintf("goblin %d strikes", i))
		k.frames(scheduler.PhaseCombat, 2)
		got, err := k.store.Recall(t.Context(), rag.Query{Knower: mara, Text: fmt.Sprint("goblin ", i), Limit: 1})
		if err != nil || len(got.Found) != 1 || got.Found[0].ID != last {
			t.Fatalf("goblin %d in the fight: %+v, %v", i, got, err)
		}
		if got.Dense || !errors.Is(got.Err, rag.ErrInterrupted) {
			t.Fatalf("a question was embedded in the fight: %v", got.Err)
		}
	}
	k.frames(scheduler.PhaseCutscene, 20)
	if n := e.count(); n != 0 || k.m.MayEmbed() {
		t.Fatalf("%d texts were embedded where every frame counts", n)
	}
	k.until(scheduler.PhaseMenu, func() bool { return k.indexed() == 40 })
	s := k.m.Stats()
	if n := s.Embeddings[scheduler.PhaseMenu]; n != 40 || s.Embeddings[scheduler.PhaseCombat] != 0 || s.GivenUp != 0 {
		t.Errorf("%+v", s)
	}
	if st := k.store.Stats(); st.Pending != 0 || st.Vectors != 40 {
		t.Errorf("%d pending, %d vectors", st.Pending, st.Vectors)
	}
	got, err := k.store.Recall(t.Context(), rag.Query{Knower: mara, Text: "goblin 3"})
	if err != nil || !got.Dense || k.m.Stats().Questions != 1 {
		t.Errorf("a question in the menu: %v, %v, %+v", got.Err, err, k.m.Stats())
	}
	var told rag.ID
	for told < last {
		for _, e := range k.store.Poll(nil) {
			if e.Kind != rag.Durable {
				t.Fatalf("event %v: %v", e.Kind, e.Err)
			}
			told = rag.ID(e.Position)
		}
	}
}

// A fight stops what is being embedded in the menu before it; it is done later.
func TestCombatStopsEmbedding(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	var once sync.Once
	e := &wordVectors{}
	e.begin = func(ctx context.Context, _ string) (err error) {
		once.Do(func() {
			begun <- struct{}{}
			<-ctx.Done()
			err = ctx.Err()
			ended <- context.Cause(ctx)
		})
		return err
	}
	k := newKeeper(t, e, MemoryConfig{}, rag.DefaultConfig(""))
	k.remember("the mill burned down")
	k.until(scheduler.PhaseMenu, func() bool { return len(begun) == 1 })
	k.r.SetPhase(scheduler.PhaseCombat) // no frame is needed
	if cause := <-ended; !errors.Is(cause, rag.ErrInterrupted) {
		t.Errorf("ended by %v", cause)
	}
	k.frames(scheduler.PhaseCombat, 20)
	if s := k.m.Stats(); s.Stopped != 1 || s.Indexed != 0 || s.Embeddings != [memoryPhases]int{} {
		t.Errorf("%+v", s)
	}
	k.until(scheduler.PhaseLoading, func() bool { return k.indexed() == 1 })
	for _, e := range k.store.Poll(nil) {
		if e.Kind == rag.NotEmbedded {
			t.Errorf("a stop counts as a failure: %v", e.Err)
		}
	}
}

// What no slice of play can hold is embedded in play once it is due, and before
// that not.
func TestDueMemoriesAreEmbeddedInPlay(t *testing.T) {
	e := &wordVectors{took: 2 * maxCredit}
	var mu sync.Mutex
	played := time.Duration(0)
	clock := func() time.Duration { mu.Lock(); defer mu.Unlock(); return played }
	k := newKeeper(t, e, MemoryConfig{Clock: clock}, rag.DefaultConfig(""))
	k.remember("the first one shows what a text takes")
	k.until(scheduler.PhaseExplore, func() bool { return k.indexed() == 1 })
	k.remember("the mill burned down")
	k.frames(scheduler.PhaseExplore, 150)
	if n := e.count(); n != 1 {
		t.Fatalf("%d texts of %v were embedded in slices of 2 ms", n, e.took)
	}
	mu.Lock()
	played = 6 * time.Minute
	mu.Unlock()
	k.frames(scheduler.PhaseCombat, 60)
	if n := e.count(); n != 1 {
		t.Fatalf("%d texts were embedded in a fight", n)
	}
	k.until(scheduler.PhaseExplore, func() bool { return k.indexed() == 2 })
	if due := k.store.Due(); due.Due || k.m.Stats().Embeddings[scheduler.PhaseExplore] != 2 {
		t.Errorf("%+v, %+v", due, k.m.Stats())
	}
}

// Play is the time in which frames are marked; a hole in it is no play.
func TestPlayTime(t *testing.T) {
	m := &Memories{clock: llm.NewClock(), wake: make(chan struct{}, 1)}
	d := scheduler.Decision{IndexTime: time.Millisecond}
	now := int64(time.Hour)
	for range 100 {
		m.publish(&d, now)
		now += 16e6
	}
	m.publish(&d, now+int64(time.Hour))
	m.publish(&d, now) // a clock that goes backwards
	if got, want := time.Duration(m.played.Load()), 99*16*time.Millisecond+mostFrame; got != want {
		t.Errorf("%v were played, want %v", got, want)
	}
}

// Pressure that lasts ends what runs; a frame or two of it does not.
func TestPressureEndsWorkWhenItLasts(t *testing.T) {
	m := &Memories{clock: llm.NewClock(), wake: make(chan struct{}, 1)}
	calm, pressed := scheduler.Decision{IndexTime: time.Millisecond}, scheduler.Decision{}
	now := m.clock.Now()
	trace := ""
	for _, step := range []struct {
		d  *scheduler.Decision
		ms int64
	}{{&calm, 0}, {&pressed, 10}, {&calm, 20}, {&pressed, 30}, {&pressed, 200}, {&pressed, 300}, {&calm, 310}} {
		m.publish(step.d, now+step.ms*1e6)
		trace += fmt.Sprintf("%d: begin %v, stop %v\n", step.ms, m.mayWork(), m.shut.Load())
	}
	want := `0: begin true, stop false
10: begin false, stop false
20: begin true, stop false
30: begin false, stop false
200: begin false, stop false
300: begin false, stop true
310: begin true, stop false
`
	if trace != want {
		t.Errorf("%s", trace)
	}
}

// The world's memory recalls by words where frames count, and by vectors elsewhere.
func TestMemoriesOfAWorld(t *testing.T) {
	e := &wordVectors{}
	k := newKeeper(t, e, MemoryConfig{}, rag.DefaultConfig(""))
	memory := k.m.NPC(k.store)
	if err := memory.Remember(npc.Experience{Agent: "mara", Speaker: "Tarn", Text: "I stole the sword"}); err != nil {
		t.Fatal(err)
	}
	ask := func() {
		t.Helper()
		got, err := memory.Recall(npc.Query{Agent: "mara", Text: "who stole the sword", Limit: 3})
		if err != nil || len(got) != 1 || got[0].Text != "Tarn said: I stole the sword" {
			t.Errorf("recalled %+v, %v", got, err)
		}
	}
	k.frames(scheduler.PhaseCombat, 1)
	ask()
	if n := e.count(); n != 0 {
		t.Errorf("%d texts were embedded", n)
	}
	k.until(scheduler.PhaseMenu, func() bool { return k.indexed() == 1 })
	ask()
	if n := k.m.Stats().Questions; n != 1 {
		t.Errorf("%d questions were embedded", n)
	}
}

// stoppable is an embedder that is told to stop, and that must not be touched
// once it is closed.
type stoppable struct {
	wordVectors
	t      *testing.T
	mu     sync.Mutex
	closed bool
	trace  string
}

func (e *stoppable) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.t.Errorf("%s after close", what)
	}
	e.trace += what + " "
}

func (e *stoppable) Stop()   { e.note("stop") }
func (e *stoppable) Resume() { e.note("resume") }

func (e *stoppable) Close() error {
	e.note("close")
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	return nil
}

// The game thread stops the embedder itself when a fight begins, once, and it is
// resumed for the first text after it; nobody touches it after the end.
func TestFightsStopTheEmbedder(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	e := &stoppable{t: t}
	m, err := r.OpenMemories(t.Context(), MemoryConfig{
		OpenEmbedder: func(context.Context) (rag.Embedder, error) { return e, nil }})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, r: r, m: m}
	if k.store, err = m.Open(rag.DefaultConfig("")); err != nil {
		t.Fatal(err)
	}
	k.frames(scheduler.PhaseCombat, 10)
	k.remember("goblins ahead")
	k.until(scheduler.PhaseMenu, func() bool { return k.indexed() == 1 })
	k.frames(scheduler.PhaseCutscene, 3)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.SetPhase(scheduler.PhaseMenu)
	r.SetPhase(scheduler.PhaseCombat)
	if _, err := k.store.Recall(t.Context(), rag.Query{Knower: mara, Text: "goblins", ReadOnly: true}); err != nil {
		t.Error(err)
	}
	if e.trace != "stop resume stop close " {
		t.Errorf("%s", e.trace)
	}
}

// Eager is what deferral is compared with.
func TestEagerEmbedsInCombat(t *testing.T) {
	e := &wordVectors{}
	k := newKeeper(t, e, MemoryConfig{Eager: true}, rag.DefaultConfig(""))
	k.frames(scheduler.PhaseCombat, 1)
	k.remember("goblins ahead")
	k.until(scheduler.PhaseCombat, func() bool { return k.indexed() == 1 })
	if n := k.m.Stats().Embeddings[scheduler.PhaseCombat]; n != 1 {
		t.Errorf("%d", n)
	}
}

// A game that shows no frames, or has not begun to, is in nobody's way.
func TestMemoriesWithoutFrames(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	e := &wordVectors{}
	done := make(chan struct{})
	e.begin = func(_ context.Context, text string) error {
		if text == "last" {
			close(done)
		}
		return nil
	}
	m, err := r.OpenMemories(t.Context(), MemoryConfig{
		OpenEmbedder: func(context.Context) (rag.Embedder, error) { return e, nil }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Open(rag.DefaultConfig(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second", "last"} {
		if _, err := s.Remember(rag.Memory{Owner: "mara", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	<-done
}

// Close writes what was remembered, whatever the embedder does at that time.
func TestCloseKeepsMemories(t *testing.T) {
	dir := t.TempDir()
	begun := make(chan struct{}, 64)
	e := &wordVectors{begin: func(ctx context.Context, _ string) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	k := newKeeper(t, e, MemoryConfig{}, rag.DefaultConfig(dir))
	k.remember("memory 0")
	k.until(scheduler.PhaseMenu, func() bool { return len(begun) > 0 })
	for i := range 200 {
		k.remember(fmt.Sprint("memory ", i))
	}
	if err := k.r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.store.Remember(rag.Memory{Owner: "mara", Text: "late"}); !errors.Is(err, rag.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := k.m.Open(rag.DefaultConfig("")); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("a store after the end: %v", err)
	}
	if _, err := k.r.OpenMemories(t.Context(), MemoryConfig{WordsOnly: true}); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("memories after the end: %v", err)
	}
	again, err := rag.Open(rag.DefaultConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := again.Stats().Memories; n != 200 {
		t.Errorf("%d memories were kept, want 200", n)
	}
}

func TestMemoriesLimits(t *testing.T) {
	k := newKeeper(t, &wordVectors{}, MemoryConfig{}, rag.DefaultConfig(""))
	if _, err := k.r.OpenMemories(t.Context(), MemoryConfig{WordsOnly: true}); err == nil {
		t.Error("two memories in one runtime")
	}
	for range maxStores - 1 {
		if _, err := k.m.Open(rag.DefaultConfig("")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.m.Open(rag.DefaultConfig("")); err == nil {
		t.Errorf("more than %d stores", maxStores)
	}
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	k.until(scheduler.PhaseMenu, func() bool { // a closed store makes room
		_, err := k.m.Open(rag.DefaultConfig(""))
		return err == nil
	})
	wrong := errors.New("no such embedder")
	other := openScripted(t, DefaultSpec())
	if _, err := other.OpenMemories(t.Context(), MemoryConfig{OpenEmbedder: func(context.Context) (rag.Embedder,
		error) {
		return nil, wrong
	}}); !errors.Is(err, wrong) {
		t.Errorf("an embedder that can't be opened: %v", err)
	}
}

// The game thread's part allocates nothing with memories either.
func TestFramesWithMemoriesDoNotAllocate(t *testing.T) {
	k := newKeeper(t, &wordVectors{}, MemoryConfig{}, rag.DefaultConfig(""))
	now := k.r.Clock.Now()
	phase := scheduler.PhaseExplore
	one := func() {
		k.frame++
		k.r.SetPhase(phase)
		k.r.FrameBegin(k.frame, 16*time.Millisecond, now)
		k.r.FrameEnd(k.frame, now+16e6, now+11e6)
		now += 16e6
		phase = (phase + 1) % (scheduler.PhaseBackground + 1)
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(500, one); n != 0 {
		t.Errorf("%v allocations a frame, want none", n)
	}
}

// However remembering, phases, embedding and recalling follow each other, what
// was remembered is found at once by a word of its own.
func TestReadYourWriteThroughTheRuntime(t *testing.T) {
	e := &wordVectors{took: 300 * time.Microsecond}
	store := rag.DefaultConfig(t.TempDir())
	store.Backlog, store.Sync = 4, rag.SyncProcess
	k := newKeeper(t, e, MemoryConfig{}, store)
	memory := k.m.NPC(k.store)
	const seed, steps = 20, 1000
	r := rand.New(rand.NewPCG(seed, 1))
	var words []string
	trace := ""
	for i := range steps {
		switch r.IntN(4) {
		case 0, 1:
			word := fmt.Sprintf("w%dx%d", i, r.IntN(1000))
			err := memory.Remember(npc.Experience{Agent: "mara", Text: "the " + word + " of the story"})
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
			trace += word + " "
		case 2:
			p := scheduler.Phase(r.IntN(memoryPhases))
			k.frames(p, 1)
			trace += p.String() + " "
		case 3:
			if i%100 == 0 {
				if err := k.store.Reindex(true); err != nil {
					t.Fatal(err)
				}
				trace += "reindex "
			}
		}
		if len(words) == 0 {
			continue
		}
		word := words[len(words)-1-r.IntN(min(len(words), 5))]
		got, err := memory.Recall(npc.Query{Agent: "mara", Text: word, Limit: 1, Quick: r.IntN(2) == 0})
		if err != nil || len(got) != 1 || !strings.Contains(got[0].Text, word) {
			t.Fatalf("seed %d, step %d: %q finds %+v, %v\n%s", seed, i, word, got, err, trace)
		}
	}
	k.until(scheduler.PhaseMenu, func() bool { return k.store.Stats().Pending == 0 })
	if st := k.store.Stats(); st.Memories != len(words) || st.Vectors != len(words) {
		t.Errorf("%d remembered; %+v", len(words), st)
	}
}
