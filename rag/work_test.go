package rag

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNoBudgetDoesNothing(t *testing.T) {
	e := newEmbedder()
	s := openStore(t, inMemory(e))
	for i := range 50 {
		remember(t, s, own(fmt.Sprintf("goblin %d is near", i)))
		if d := s.Work(0); d != (Done{}) {
			t.Fatalf("did %+v", d)
		}
		recall(t, s, Query{Knower: mara, Text: "goblin", LexicalOnly: true, ReadOnly: true})
	}
	if e.embedded() != 0 {
		t.Errorf("%d texts were embedded without a budget", e.embedded())
	}
}

// The budget is kept as soon as one text was measured, whatever the lengths.
func TestWorkFitsItsBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEmbedder()
		cfg := inMemory(e)
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(2, 40).Draw(t, "memories") {
			words := rapid.IntRange(1, 400).Draw(t, "words")
			if _, err := s.Remember(own(fmt.Sprintf("%d %s", i, strings.Repeat("word ", words)))); err != nil {
				t.Fatal(err)
			}
		}
		if d := s.Work(cfg.FirstCost); d.Err != nil || d.Embedded == 0 {
			t.Fatalf("the first slice, of FirstCost, did %+v", d)
		}
		idle := 0
		for s.Stats().Pending > 0 {
			budget := time.Duration(rapid.IntRange(1, 200).Draw(t, "budget ms")) * time.Millisecond
			d := s.Work(budget)
			if d.Err != nil || d.Spent > budget+budget/1000 {
				t.Fatalf("of %v: %+v", budget, d)
			}
			if d.Embedded == 0 && d.Next <= budget {
				t.Fatalf("nothing was done of %v, though the next takes %v", budget, d.Next)
			}
			if idle++; idle > 10000 {
				t.Fatal("the queue is never drained")
			}
		}
		if e.embedded() == 0 || s.Stats().Vectors != s.Stats().Memories {
			t.Fatalf("%+v", s.Stats())
		}
	})
}

func TestSlowerEmbedderIsNoticed(t *testing.T) {
	e := newEmbedder()
	s := openStore(t, inMemory(e))
	for i := range 200 {
		remember(t, s, own(fmt.Sprintf("line %d of the long song about the sea and the ships", i)))
	}
	s.Work(100 * time.Millisecond)
	e.perByte *= 10 // the phone throttles
	over := 0
	for range 20 {
		if d := s.Work(80 * time.Millisecond); d.Spent > 80*time.Millisecond {
			over++
		}
	}
	if over > 4 {
		t.Errorf("%d of 20 slices overran after the embedder became slower", over)
	}
}

func TestDueAfterHalfTheBound(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.EmbedWithin = 10 * time.Minute
	s := openStore(t, cfg)
	if d := s.Due(); d.Due || d.Budget != 0 {
		t.Errorf("empty: %+v", d)
	}
	remember(t, s, own("The well is dry."))
	e.clock.pass(4 * time.Minute)
	if d := s.Due(); d.Due || d.Budget != cfg.FirstCost || d.Age != 4*time.Minute {
		t.Errorf("after 4 minutes: %+v", d)
	}
	e.clock.pass(time.Minute)
	d := s.Due()
	if !d.Due {
		t.Fatalf("after 5 minutes: %+v", d)
	}
	if done := s.Work(d.Budget); done.Indexed != 1 {
		t.Errorf("the slice that Due asked for did %+v", done)
	}
	if d := s.Due(); d.Due || d.Budget != 0 {
		t.Errorf("after the work: %+v", d)
	}
}

// The store's own clock may tick while it looks: who grants exactly what was asked
// for must not wait for ever.
func TestExactBudgetIsEnough(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.Clock = func() time.Duration {
		e.clock.pass(time.Nanosecond)
		return e.clock.read()
	}
	s := openStore(t, cfg)
	for i := range 20 {
		remember(t, s, own(fmt.Sprintf("the well is dry, %d", i)))
		d := s.Due()
		if done := s.Work(d.Budget); done.Embedded != 1 {
			t.Fatalf("granted %v: %+v", d.Budget, done)
		}
	}
}

// If each idle window that Due asks for is granted, everything has its vector
// within the bound.
func TestBoundHolds(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	s := openStore(t, cfg)
	born := map[ID]time.Duration{}
	for minute := range 120 {
		for i := range 20 {
			id := remember(t, s, own(fmt.Sprintf("minute %d, blow %d of the battle", minute, i)))
			born[id] = e.clock.read()
		}
		e.clock.pass(time.Minute)
		for d := s.Due(); d.Due; d = s.Due() {
			s.Work(d.Budget)
		}
		s.All(func(m Memory) bool {
			s.mu.Lock()
			waits := len(s.state.items[m.ID].vectors) == 0
			s.mu.Unlock()
			if age := e.clock.read() - born[m.ID]; waits && age > cfg.EmbedWithin {
				t.Fatalf("memory %d has no vector after %v", m.ID, age)
			}
			return true
		})
	}
	if s.Stats().Vectors == 0 {
		t.Error("nothing was embedded")
	}
}

func TestRefusedTextIsGivenUpAndStillFound(t *testing.T) {
	e := newEmbedder()
	e.fail = func(text string) error {
		if strings.Contains(text, "cursed") {
			return errors.New("the model can't take it")
		}
		return nil
	}
	s := openStore(t, inMemory(e))
	bad := remember(t, s, own("a cursed ring"))
	remember(t, s, own("a plain ring"))
	for range 10 {
		s.Work(time.Hour)
	}
	st := s.Stats()
	if st.Vectors != 1 || st.GivenUp != 1 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
	if !has(recall(t, s, Query{Knower: mara, Text: "ring"}), bad) {
		t.Error("what has no vector is not found")
	}
	r, err := s.Recall(t.Context(), Query{Knower: mara, Text: "cursed"})
	if err != nil || r.Err == nil || r.Dense || len(r.Found) != 1 {
		t.Errorf("a question that can't be embedded: %+v, %v", r, err)
	}
}

func TestInterruptedTextIsTriedAgain(t *testing.T) {
	e := newEmbedder()
	stops := 0
	e.fail = func(string) error {
		if stops++; stops <= 5 {
			return fmt.Errorf("gate: %w", ErrInterrupted)
		}
		return nil
	}
	s := openStore(t, inMemory(e))
	remember(t, s, own("the long road"))
	for i := range 5 {
		if d := s.Work(time.Hour); !errors.Is(d.Err, ErrInterrupted) || d.Pending != 1 {
			t.Fatalf("%d: %+v", i, d)
		}
	}
	if d := s.Work(time.Hour); d.Err != nil || d.Indexed != 1 {
		t.Errorf("%+v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	remember(t, s, own("another road"))
	if d := s.WorkContext(ctx, time.Hour); !errors.Is(d.Err, context.Canceled) || s.Stats().Pending != 1 {
		t.Errorf("cancelled: %+v, %+v", d, s.Stats())
	}
}

func TestBadVectorsAreRefused(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.Embedder = badVectors{e}
	s := openStore(t, cfg)
	for _, text := range []string{"zero", "nan", "short"} {
		remember(t, s, own(text))
	}
	for range 10 {
		if d := s.Work(time.Hour); d.Pending > 0 && !errors.Is(d.Err, ErrVector) {
			t.Errorf("%+v", d)
		}
	}
	if st := s.Stats(); st.Vectors != 0 || st.GivenUp != 3 {
		t.Errorf("%+v", st)
	}
}

type badVectors struct{ *wordEmbedder }

func (b badVectors) Embed(ctx context.Context, text string) ([]float32, error) {
	x := make([]float32, b.identity.Dimension)
	switch text {
	case "nan":
		x[0] /= x[1]
	case "short":
		return x[:1], nil
	}
	return x, nil
}

func TestChangedModelNeverMixes(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(dir)
	e := newEmbedder()
	cfg.Embedder = e
	s := openStore(t, cfg)
	for i := range 5 {
		remember(t, s, own(fmt.Sprintf("ship %d sailed", i)))
	}
	if d := s.Work(time.Hour); d.Indexed != 5 {
		t.Fatalf("%+v", d)
	}
	must(t, s.Close())

	other := newEmbedder()
	other.identity = Identity{"other words", "sum", 64}
	cfg.Embedder = other
	s = openStore(t, cfg)
	remember(t, s, own("ship 9 sank"))
	if d := s.Work(time.Hour); d.Embedded != 0 || other.embedded() != 0 {
		t.Fatalf("vectors were made before Reindex: %+v", d)
	}
	r, err := s.Recall(t.Context(), Query{Knower: mara, Text: "ship"})
	if err != nil || !errors.Is(r.Err, ErrReindex) || r.Dense || len(r.Found) != 6 || !s.Stats().Reindex {
		t.Fatalf("%+v, %v", r, err)
	}
	must(t, s.Reindex(false))
	if st := s.Stats(); st.Vectors != 0 || st.Pending != 6 || st.Reindex {
		t.Fatalf("after Reindex: %+v", st)
	}
	if d := s.Work(time.Hour); d.Indexed != 6 {
		t.Fatalf("%+v", d)
	}
	must(t, s.Close())
	s = openStore(t, cfg)
	if st := s.Stats(); st.Vectors != 6 || st.Identity != other.identity {
		t.Errorf("opened again: %+v", st)
	}
}

func TestEagerEmbedsWithinRemember(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.Eager = true
	s := openStore(t, cfg)
	remember(t, s, own("now"))
	if e.embedded() != 1 || s.Stats().Vectors != 1 {
		t.Errorf("%+v", s.Stats())
	}
}

func TestNoLexicalFindsByVectorsOnly(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.NoLexical = true
	s := openStore(t, cfg)
	remember(t, s, own("the mill burns"))
	if n := len(recall(t, s, Query{Knower: mara, Text: "mill"})); n != 0 {
		t.Errorf("found %d without a vector", n)
	}
	s.Work(time.Hour)
	if n := len(recall(t, s, Query{Knower: mara, Text: "mill"})); n != 1 {
		t.Errorf("found %d with a vector", n)
	}
}

func TestPiecesLoseNothingOfShortTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 600, 2000).Draw(t, "text")
		most := rapid.IntRange(64, 300).Draw(t, "most")
		got := pieces(text, most)
		if len(got) < 1 || len(got) > maxPieces {
			t.Fatalf("%d pieces", len(got))
		}
		for _, p := range got {
			if len(p) > most {
				t.Fatalf("a piece of %d bytes, want %d at most", len(p), most)
			}
		}
		squeeze := func(s string) string { return strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s) }
		if joined := strings.Join(got, ""); len(text) <= most*maxPieces/2 && squeeze(joined) != squeeze(text) {
			t.Fatalf("pieces %q of %q", got, text)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
