package rag

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What the embedder knows nothing of is found by its words, and held against
// neither the embedder nor the memories behind it.
func TestNoContentIsNoFailure(t *testing.T) {
	e := newEmbedder()
	e.fail = func(text string) error {
		if strings.Contains(text, "brr") {
			return fmt.Errorf("snow: %w", ErrNoContent)
		}
		return nil
	}
	s := openStore(t, inMemory(e))
	snow := remember(t, s, own("brr brr brr"))
	remember(t, s, own("the mill burned down"))
	mixed := remember(t, s, own(strings.Repeat("brr ", 400)+strings.Repeat("sun ", 300)))
	d := s.Work(time.Hour)
	if d.Err != nil || d.Indexed != 2 || d.GivenUp != 1 || d.Pending != 0 {
		t.Errorf("%+v", d)
	}
	if st := s.Stats(); st.GivenUp != 1 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
	for _, e := range s.Poll(nil) {
		if e.Kind == NotEmbedded {
			t.Errorf("told of %v", e.Err)
		}
	}
	if got := recall(t, s, Query{Knower: mara, Text: "brr", ReadOnly: true}); len(got) != 2 || !has(got, snow) ||
		!has(got, mixed) {
		t.Errorf("brr finds %v", texts(got))
	}
}

// An embedder that fails is told of once between two polls, and the memory is
// found all the same.
func TestNotEmbeddedIsAnEvent(t *testing.T) {
	e := newEmbedder()
	wrong := errors.New("no luck")
	e.fail = func(string) error { return wrong }
	s := openStore(t, inMemory(e))
	id := remember(t, s, own("the mill burned down"))
	given := 0
	for range mostTries {
		given += s.Work(time.Hour).GivenUp
	}
	var told []Event
	for _, e := range s.Poll(nil) {
		if e.Kind == NotEmbedded {
			told = append(told, e)
		}
	}
	if given != 1 || len(told) != 1 || !errors.Is(told[0].Err, wrong) {
		t.Errorf("%d given up, told %+v", given, told)
	}
	if got := recall(t, s, Query{Knower: mara, Text: "mill", LexicalOnly: true}); !has(got, id) {
		t.Error("it is not found")
	}
}

// waiting takes its time at a gate, most of which is no cost.
type waiting struct{ *wordEmbedder }

func (e waiting) EmbedTimed(ctx context.Context, text string) ([]float32, time.Duration, error) {
	e.clock.pass(time.Second)
	x, err := e.Embed(ctx, text)
	return x, 5 * time.Millisecond, err
}

// Slices are sized by what embedding costs, not by how long it waited, and are
// kept in a pause of the play clock too.
func TestSlicesCountWithoutWaits(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(nil)
	cfg.Embedder = waiting{e}
	cfg.Clock = func() time.Duration { return 0 }
	cfg.Stopwatch = e.clock.read
	s := openStore(t, cfg)
	for i := range 3 {
		remember(t, s, own(fmt.Sprintf("goblin %d is near", i)))
	}
	d := s.Work(cfg.FirstCost)
	if d.Err != nil || d.Embedded != 1 || d.Next != 5*time.Millisecond || d.Spent < time.Second {
		t.Errorf("%+v", d)
	}
}
