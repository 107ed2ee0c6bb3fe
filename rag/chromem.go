package rag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/philippgille/chromem-go"
)

// chromemIndex is chromem-go behind what it leaves to its caller: vectors of one
// dimension that are finite and not zero (quantise saw to that), ids that are
// given, k within the count, an order that does not depend on its goroutines,
// and no calls at the same time. Its persistence is not used. A query starts up
// to one goroutine a core.
type chromemIndex struct {
	c     *chromem.Collection
	count int
}

var errNoText = errors.New("rag: the index was asked to embed a text")

func newChromem() (*chromemIndex, error) {
	never := func(context.Context, string) ([]float32, error) { return nil, errNoText }
	c, err := chromem.NewDB().CreateCollection("memories", nil, never)
	if err != nil {
		return nil, fmt.Errorf("rag: chromem-go: %w", err)
	}
	return &chromemIndex{c: c}, nil
}

func (x *chromemIndex) size() int { return x.count }

func (x *chromemIndex) add(v vector) error {
	id := strconv.Itoa(x.count)
	err := x.c.AddDocument(context.Background(), chromem.Document{ID: id, Embedding: v.floats(nil)})
	if err != nil {
		return fmt.Errorf("rag: chromem-go: %w", err)
	}
	x.count++
	return nil
}

// search asks for k and as many as may be left out, or for all where a bonus can
// change the order.
func (x *chromemIndex) search(query vector, k int, by adjust) ([]hit, error) {
	if k < 1 || x.count == 0 {
		return nil, nil
	}
	ask := min(k, x.count)
	if by.most != 0 {
		ask = x.count
	}
	for i := range x.count {
		if _, ok := by.look(uint32(i)); !ok {
			ask = min(ask+1, x.count)
		}
	}
	results, err := x.c.QueryEmbedding(context.Background(), query.floats(nil), ask, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("rag: chromem-go: %w", err)
	}
	hits := make([]hit, 0, len(results))
	for _, r := range results {
		entry, err := strconv.ParseUint(r.ID, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("rag: chromem-go returned the id %q", r.ID)
		}
		if bonus, ok := by.look(uint32(entry)); ok {
			hits = append(hits, hit{uint32(entry), float64(r.Similarity) + bonus})
		}
	}
	slices.SortFunc(hits, byScore)
	return hits[:min(k, len(hits))], nil
}
