package llm_test

import (
	"slices"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// guesser is a speculator that knows the reply, or something else, and notes
// what it was asked.
type guesser struct {
	knows    []llm.Token // the reply
	propose  func(right []llm.Token, r llm.Reply) []llm.Token
	asked    []llm.Reply
	judged   []llm.Judgement
	forgot   []string
	stops    int
	drafting int // batches of a draft model that it pretends
}

func (g *guesser) Draft(r llm.Reply, _ llm.Grant) (llm.Work, bool) {
	if g.drafting > 0 {
		g.drafting--
		return llm.Work{Tokens: 1}, true
	}
	return llm.Work{}, false
}

func (g *guesser) Propose(dst []llm.Token, r llm.Reply, _ llm.Grant) []llm.Token {
	g.asked = append(g.asked, r)
	right := g.knows[min(len(g.knows), len(r.Tokens)-r.Prompt):]
	return append(dst, g.propose(right, r)...)
}

func (g *guesser) Judged(_ llm.Reply, j llm.Judgement) {
	j.Drafts, j.Chosen = slices.Clone(j.Drafts), slices.Clone(j.Chosen)
	g.judged = append(g.judged, j)
}

func (g *guesser) Forget(owner string) { g.forgot = append(g.forgot, owner) }
func (g *guesser) Stop()               { g.stops++ }
func (g *guesser) Resume()             {}

func all(right []llm.Token, _ llm.Reply) []llm.Token { return right }

const guessed = "the old road to the river"

type propose func(right []llm.Token, r llm.Reply) []llm.Token

// guessing is a model that says guessed, and a speculator beside it.
func guessing(t *testing.T, cfg scripted.Config, f propose) (*stage, *guesser, llm.Request) {
	cfg.Script = scripted.Echo
	m := newModel(t, cfg)
	g := &guesser{propose: f}
	g.knows, _ = m.Tokenize(nil, guessed+"<|im_end|>", true)
	return newStage(t, m, llm.EngineConfig{Speculator: g}), g, llm.Request{Owner: "mira", Prompt: prompt(t, m, guessed)}
}

func (s *stage) stages() map[llm.Stage]int {
	n := map[llm.Stage]int{}
	for _, w := range s.works {
		n[w.Stage]++
	}
	return n
}

// TestGuesses: right guesses come out in one batch, wrong ones cost nothing but
// time, impossible ones are dropped.
func TestGuesses(t *testing.T) {
	for _, c := range []struct {
		name    string
		propose propose
		verify  int // batches
		drafted int // in the first of them
	}{
		{"all, and more than there are", func(right []llm.Token, _ llm.Reply) []llm.Token {
			return append(slices.Clone(right), right...)
		}, 1, 14},
		{"one", func(right []llm.Token, _ llm.Reply) []llm.Token { return right[:min(1, len(right))] }, 4, 1},
		{"wrong", func(right []llm.Token, _ llm.Reply) []llm.Token { return []llm.Token{'x', 'y'} }, 7, 2},
		{"the second wrong", func(right []llm.Token, _ llm.Reply) []llm.Token {
			return []llm.Token{right[0], 'x', 'y', 'z'}
		}, 4, 4},
		{"a token that there is not", func(right []llm.Token, _ llm.Reply) []llm.Token {
			return []llm.Token{right[0], 1 << 20, right[0]}
		}, 4, 1},
		{"a negative one", func([]llm.Token, llm.Reply) []llm.Token { return []llm.Token{-1} }, 0, 0},
		{"none", func([]llm.Token, llm.Reply) []llm.Token { return nil }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, g, r := guessing(t, scripted.Config{}, c.propose)
			id := s.submit(r)
			s.drain(llm.Grant{})
			ev := s.wantText(id, guessed, llm.DoneEnd)
			if ev.Usage.Generated != len(g.knows) {
				t.Errorf("%d tokens generated, want %d", ev.Usage.Generated, len(g.knows))
			}
			verify, first, sum := 0, 0, 0
			for _, w := range s.works {
				sum += w.Generated
				if w.Stage == llm.Verify {
					if verify++; verify == 1 {
						first = w.Drafted
					}
				}
			}
			if verify != c.verify || first != c.drafted || sum != len(g.knows) {
				t.Errorf("%d verify batches, %d candidates in the first, %d tokens; want %d, %d, %d",
					verify, first, sum, c.verify, c.drafted, len(g.knows))
			}
		})
	}
}

// TestGuessRoom: no more is asked for than the reply and the batch may hold.
func TestGuessRoom(t *testing.T) {
	s, g, r := guessing(t, scripted.Config{MaxBatch: 4}, all)
	r.MaxTokens = 7
	id := s.submit(r)
	s.drain(llm.Grant{})
	if text, ev := s.ending(id); ev.Reason != llm.DoneLength || ev.Usage.Generated != 7 {
		t.Errorf("%q, %+v; want 7 tokens", text, ev)
	}
	// 7 tokens: the first from the prompt, then 4 and 2 at once.
	var rooms []int
	for _, r := range g.asked {
		rooms = append(rooms, r.Room)
	}
	if !slices.Equal(rooms, []int{3, 1}) {
		t.Errorf("room for %v candidates, want 3 and 1", rooms)
	}
}

// TestGuessesAtStop: what comes after a stop string is not given out, though it
// was judged right.
func TestGuessesAtStop(t *testing.T) {
	s, _, r := guessing(t, scripted.Config{}, all)
	r.Stop = []string{"road"}
	id := s.submit(r)
	s.drain(llm.Grant{})
	s.wantText(id, "the old ", llm.DoneStop)
}

// TestGuessesAreOfOne: two replies at once share their batches instead, and so
// does a model that can take nothing back.
func TestGuessesAreOfOne(t *testing.T) {
	s, g, r := guessing(t, scripted.Config{}, func([]llm.Token, llm.Reply) []llm.Token { return nil })
	a := s.submit(r)
	r.Owner = "tom"
	b := s.submit(r)
	for range 4 {
		if err := s.step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(g.asked); n > 1 { // one while the other's prompt was computed
		t.Errorf("asked %d times about two replies", n)
	}
	s.drain(llm.Grant{})
	s.wantText(a, guessed, llm.DoneEnd)
	s.wantText(b, guessed, llm.DoneEnd)

	s, g, r = guessing(t, scripted.Config{NoTruncate: true}, all)
	id := s.submit(r)
	s.drain(llm.Grant{})
	s.wantText(id, guessed, llm.DoneEnd)
	if len(g.asked)+len(g.judged) > 0 {
		t.Errorf("asked %d times about a recurrent model", len(g.asked))
	}
}

// TestGuessesThatDoNotFit in a shared cache are left out for one token.
func TestGuessesThatDoNotFit(t *testing.T) {
	m := newModel(t, scripted.Config{})
	size := len(prompt(t, m, guessed))
	cfg := scripted.Config{CacheTokens: size + 13, Context: size + 20}
	s, _, r := guessing(t, cfg, func(_ []llm.Token, r llm.Reply) []llm.Token {
		return slices.Repeat([]llm.Token{'x'}, min(13, r.Room)) // one token too many at once
	})
	r.MaxTokens = 15
	id := s.submit(r)
	s.drain(llm.Grant{})
	s.wantText(id, guessed, llm.DoneEnd)
}

// liar is a model that can't take tokens back although it says so.
type liar struct{ llm.Model }

type liarSequence struct{ llm.Sequence }

func (m liar) NewSequence() (llm.Sequence, error) {
	s, err := m.Model.NewSequence()
	return liarSequence{s}, err
}

func (m liar) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	real := *b
	real.Entries = slices.Clone(b.Entries)
	for i, e := range real.Entries {
		real.Entries[i].Sequence = e.Sequence.(liarSequence).Sequence
	}
	return m.Model.Decode(&real, g)
}

func (s liarSequence) Truncate(int) error { return s.Sequence.Truncate(0) }

// TestGuessesNotTakenBack: where the cache was cleared instead, the reply is
// right nevertheless, and nothing is guessed any more.
func TestGuessesNotTakenBack(t *testing.T) {
	s, g, r := guessing(t, scripted.Config{}, func([]llm.Token, llm.Reply) []llm.Token { return []llm.Token{'x'} })
	s.e.Close()
	s = newStage(t, liar{s.m}, llm.EngineConfig{Speculator: g})
	id := s.submit(r)
	s.drain(llm.Grant{})
	s.wantText(id, guessed, llm.DoneEnd)
	if n := s.stages()[llm.Verify]; n != 1 {
		t.Errorf("%d verify batches, want one", n)
	}
}

// TestDraftsAreSteps: each batch of a draft model is a step of its own, and
// Cancel reaches the draft model.
func TestDraftsAreSteps(t *testing.T) {
	s, g, r := guessing(t, scripted.Config{}, all)
	g.drafting = 3
	id := s.submit(r)
	s.drain(llm.Grant{})
	s.wantText(id, guessed, llm.DoneEnd)
	if n := s.stages(); n[llm.Draft] != 3 || n[llm.Verify] != 1 {
		t.Errorf("steps %v, want 3 drafts and one verify batch", n)
	}
	g.propose = func([]llm.Token, llm.Reply) []llm.Token { s.e.Cancel(id); return nil }
	before := g.stops
	id = s.submit(r)
	s.drain(llm.Grant{})
	if _, ev := s.ending(id); ev.Kind != llm.EventCancelled || g.stops == before {
		t.Errorf("%s, %d stops; want cancelled while the draft model was stopped", ev.Kind, g.stops-before)
	}
	s.e.Forget("mira")
	s.drain(llm.Grant{})
	if !slices.Equal(g.forgot, []string{"mira"}) {
		t.Errorf("forgot %v, want mira", g.forgot)
	}
}
