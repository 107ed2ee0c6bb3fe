package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
)

var _ rag.Timed = (*Embedder)(nil)

// openTestEmbedder opens the real one behind a gate that the test holds.
func openTestEmbedder(t *testing.T, change func(*EmbedderConfig)) (*Embedder, llm.Gate) {
	t.Helper()
	library, _, _ := testassets.Embedder(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	cfg := EmbedderConfig{Assets: assets.Options{Offline: true}, Clock: llm.NewClock(), LowPriority: true}
	var err error
	if cfg.Gate, err = llamacpp.NewGate(cfg.Clock, Admit); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg)
	}
	e, err := OpenEmbedder(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, cfg.Gate
}

func dotProduct(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEmbedderForMemories(t *testing.T) {
	var mu sync.Mutex
	tokens := 0
	e, _ := openTestEmbedder(t, func(cfg *EmbedderConfig) {
		cfg.Observe = func(w llm.Work) { mu.Lock(); tokens += w.Tokens; mu.Unlock() }
	})
	id := e.Identity()
	if err := id.Validate(); err != nil || id.Dimension != 384 ||
		!strings.HasPrefix(id.Model, "all-MiniLM-L6-v2 Q8_0 ") {
		t.Errorf("identity %+v: %v", id, err)
	}
	texts := []string{"He forged a sharp sword.", "She made a keen blade.", "Boil the carrots for soup.",
		strings.Repeat("The mill burned down. ", 100)}
	vectors := make([][]float32, len(texts))
	var wg sync.WaitGroup
	for i, text := range texts { // several at a time wait for each other
		wg.Go(func() {
			v, err := e.Embed(t.Context(), text)
			if err != nil || len(v) != id.Dimension || math.Abs(dotProduct(v, v)-1) > 1e-5 {
				t.Errorf("%.30q: %v, %d numbers", text, err, len(v))
			}
			vectors[i] = v
		})
	}
	wg.Wait()
	if near, far := dotProduct(vectors[0], vectors[1]), dotProduct(vectors[0], vectors[2]); near < far+0.2 {
		t.Errorf("sword·blade %.3f, sword·soup %.3f", near, far)
	}
	if tokens < 500 {
		t.Errorf("%d tokens were told to Observe", tokens)
	}
	_, err := e.Embed(t.Context(), "😀")
	if !errors.Is(err, llamacpp.ErrNoContent) || !errors.Is(err, rag.ErrNoContent) ||
		errors.Is(err, rag.ErrInterrupted) {
		t.Errorf("a text of unknown characters: %v", err)
	}
}

// What a stop, a closed gate and an ended context do: the memory waits on.
func TestEmbedderInterrupted(t *testing.T) {
	e, gate := openTestEmbedder(t, nil)
	gate.Publish(llm.Window{Mode: llm.GateClosed})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Embed(ctx, "The mill burned down."); !errors.Is(err, rag.ErrInterrupted) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a closed gate until the deadline: %v", err)
	}
	e.Stop()
	if _, err := e.Embed(t.Context(), "The mill burned down."); !errors.Is(err, rag.ErrInterrupted) ||
		!errors.Is(err, llm.ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
	e.Resume()
	results := make(chan error, 3)
	for i := range cap(results) { // one at the gate, two behind it
		go func() {
			_, err := e.Embed(t.Context(), fmt.Sprint("memory ", i))
			results <- err
		}()
	}
	gate.Publish(llm.Window{})
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("once the gate is open: %v", err)
		}
	}
}

// Close ends what waits at a closed gate, and later calls say so.
func TestEmbedderClose(t *testing.T) {
	e, gate := openTestEmbedder(t, nil)
	gate.Publish(llm.Window{Mode: llm.GateClosed})
	result := make(chan error, 1)
	go func() {
		_, err := e.Embed(context.Background(), "The mill burned down.")
		result <- err
	}()
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, rag.ErrInterrupted) && !errors.Is(err, llm.ErrClosed) {
		t.Errorf("closed while it waits: %v", err)
	}
	if _, err := e.Embed(context.Background(), "again"); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenEmbedderRefuses(t *testing.T) {
	library, model := testassets.Locate(t)
	testassets.Embedder(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	r := openScripted(t, Spec{Steer: SteerNone})
	offline := assets.Options{Offline: true}
	for name, c := range map[string]struct {
		open func() (*Embedder, error)
		says string
	}{
		"a gate of another kind": {func() (*Embedder, error) {
			return r.OpenEmbedder(t.Context(), EmbedderConfig{Assets: offline})
		}, "gate"},
		"a chat model": {func() (*Embedder, error) {
			return OpenEmbedder(t.Context(), EmbedderConfig{Assets: offline, File: model})
		}, "chat model"},
		"a name of nothing": {func() (*Embedder, error) {
			return OpenEmbedder(t.Context(), EmbedderConfig{Assets: offline, File: "minilm"})
		}, "--embedder"},
	} {
		e, err := c.open()
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.says)
		}
	}
}

// A memory is found by its meaning once it has its vector, in words that it does
// not hold; one that can't have a vector is found by its words.
func TestMemoriesByMeaning(t *testing.T) {
	e, gate := openTestEmbedder(t, nil)
	cfg := rag.DefaultConfig(t.TempDir())
	cfg.Embedder = e
	store, err := rag.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, text := range []string{"The smith charges 45 gold for a steel sword.", "The bell rang thirteen times.",
		"A wolf was seen near the old well.", "My sister is getting married in spring.", "😀😀"} {
		if _, err := store.Remember(rag.Memory{Owner: "brenna", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	query := rag.Query{Knower: rag.Knower{NPC: "brenna"}, Text: "how much does a weapon cost?", Limit: 1}
	gate.Publish(llm.Window{Mode: llm.GateClosed})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	if d := store.WorkContext(ctx, time.Minute); d.Indexed != 0 || !errors.Is(d.Err, rag.ErrInterrupted) {
		t.Errorf("behind a closed gate: %+v", d)
	}
	cancel()
	gate.Publish(llm.Window{})
	done := 0
	for range 10 { // a refused text ends a slice
		done += store.Work(time.Minute).Indexed
	}
	if done != 4 {
		t.Errorf("%d memories have vectors, want 4", done)
	}
	r, err := store.Recall(t.Context(), query)
	if err != nil || len(r.Found) != 1 || !strings.Contains(r.Found[0].Text, "sword") || r.Found[0].DenseRank != 1 {
		t.Errorf("%q found %+v, %v", query.Text, r, err)
	}
}
