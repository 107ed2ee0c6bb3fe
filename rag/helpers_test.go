package rag

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is play time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *clock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	c.now += d
	c.mu.Unlock()
}

// wordEmbedder gives texts with the same words like vectors: the sum of one
// pseudo-random direction for each term. Embedding takes perByte of its clock.
type wordEmbedder struct {
	identity Identity
	clock    *clock
	perByte  time.Duration
	fail     func(text string) error

	mu    sync.Mutex
	texts []string
}

func newEmbedder() *wordEmbedder {
	return &wordEmbedder{identity: Identity{"words", "sum", 64}, clock: &clock{}, perByte: 100 * time.Microsecond}
}

func (e *wordEmbedder) Identity() Identity { return e.identity }

func (e *wordEmbedder) Embed(ctx context.Context, text string) ([]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.fail != nil {
		if err := e.fail(text); err != nil {
			return nil, err
		}
	}
	e.clock.pass(e.perByte * time.Duration(max(len(text), leastBytes)))
	e.mu.Lock()
	e.texts = append(e.texts, text)
	e.mu.Unlock()
	x := make([]float32, e.identity.Dimension)
	eachTerm(text+" "+e.identity.Model, func(term string) {
		h := fnv.New64a()
		h.Write([]byte(term))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		for i := range x {
			x[i] += float32(r.NormFloat64())
		}
	})
	return x, nil
}

func (e *wordEmbedder) embedded() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.texts)
}

// openStore opens a store that the test closes at its end.
func openStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Abandon() })
	return s
}

func inMemory(e *wordEmbedder) Config {
	cfg := DefaultConfig("")
	if e != nil {
		cfg.Embedder, cfg.Clock = e, e.clock.read
	}
	return cfg
}

func remember(t testing.TB, s *Store, m Memory) ID {
	t.Helper()
	id, err := s.Remember(m)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// own is a memory that Mara alone has.
func own(text string) Memory { return Memory{Owner: "Mara", Text: text} }

func recall(t testing.TB, s *Store, q Query) []Found {
	t.Helper()
	r, err := s.Recall(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r.Found
}

// texts is what was found, best first, one in a line.
func texts(found []Found) string {
	var out []string
	for _, f := range found {
		out = append(out, f.Text)
	}
	return strings.Join(out, "\n")
}

func has(found []Found, id ID) bool {
	for _, f := range found {
		if f.ID == id {
			return true
		}
	}
	return false
}

// instant gives vectors that were made before.
type instant struct {
	vectors [][]float32
	mu      sync.Mutex
	next    int
}

func (e *instant) Identity() Identity { return Identity{"instant", "none", len(e.vectors[0])} }

func (e *instant) Embed(context.Context, string) ([]float32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	return e.vectors[e.next%len(e.vectors)], nil
}
