package llm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// folder is a HeadStore in memory.
type folder struct {
	states map[string][]byte
	got    int
}

func (f *folder) key(info llm.Info, head []llm.Token) string { return fmt.Sprint(info.Library, head) }

func (f *folder) Get(info llm.Info, head []llm.Token) []byte {
	s := f.states[f.key(info, head)]
	if s != nil {
		f.got++
	}
	return s
}

func (f *folder) Put(info llm.Info, head []llm.Token, state []byte) {
	f.states[f.key(info, head)] = slices.Clone(state)
}

// sheet is a prompt of a head, which several owners share, and a line.
func sheet(t *testing.T, m llm.Tokenizer, head, line string) (p []llm.Token, n int) {
	t.Helper()
	segments, err := m.RenderChat([]llm.Turn{{Role: llm.System, Text: head}, {Role: llm.User, Text: line}}, true)
	if err != nil {
		t.Fatal(err)
	}
	p, starts, err := llm.TokenizeChat(m, segments)
	if err != nil {
		t.Fatal(err)
	}
	return p, starts[1]
}

const lore = "The king is old, the road is long, and nobody in Alderford trusts a stranger after dark."

// ask has an owner answer and returns what that cost, and the text.
func (s *stage) ask(owner, line string, share bool) (llm.Usage, string) {
	s.Helper()
	p, n := sheet(s.T, s.m, lore, line)
	r := llm.Request{Owner: owner, Prompt: p, MaxTokens: 200}
	if share {
		r.Head = n
	}
	id, err := s.e.Submit(r)
	if err != nil {
		s.Fatal(err)
	}
	text := ""
	for range 10_000 {
		if _, err := s.e.Step(llm.Grant{PrefillChunk: 16}); err != nil {
			s.Fatal(err)
		}
		for _, e := range s.e.Poll(nil) {
			switch {
			case e.Request != id || e.Kind == llm.EventFailed:
				s.Fatalf("event %+v", e)
			case e.Kind == llm.EventText:
				text += e.Text
			case e.Kind == llm.EventDone:
				return e.Usage, text
			}
		}
	}
	s.Fatal("no end")
	return llm.Usage{}, ""
}

func TestHeadIsShared(t *testing.T) {
	for _, noTruncate := range []bool{false, true} {
		m := newModel(t, scripted.Config{Script: scripted.Echo, NoTruncate: noTruncate})
		s := newStage(t, m, llm.EngineConfig{})
		_, n := sheet(t, s.m, lore, "")
		first, text := s.ask("Ann", "What is the secret of Ann?", true)
		if first.Shared != 0 || first.Reused != 0 || text != "What is the secret of Ann?" {
			t.Errorf("first: %+v %q", first, text)
		}
		second, text := s.ask("Bob", "Who are you?", true)
		wantShared := n
		if noTruncate {
			wantShared = 0 // Ann's ledger is longer than the head and can't be cut
		}
		if second.Shared != wantShared || second.Reused != wantShared || text != "Who are you?" {
			t.Errorf("no truncate %v: second %+v %q, want %d shared", noTruncate, second, text, wantShared)
		}
		if alone, _ := s.ask("Eve", "Who are you?", false); alone.Reused != 0 {
			t.Errorf("without Head %d tokens were reused", alone.Reused)
		}
		if again, _ := s.ask("Bob", "Who are you?", true); again.Shared != 0 && !noTruncate {
			t.Errorf("one's own sequence is better than a copy: %+v", again)
		}
	}
}

func TestHeadOutlivesTheEngine(t *testing.T) {
	store := &folder{states: map[string][]byte{}}
	var usages []llm.Usage
	for range 2 {
		m := newModel(t, scripted.Config{Script: scripted.Echo})
		s := newStage(t, m, llm.EngineConfig{Heads: store})
		u, text := s.ask("Ann", "Hello", true)
		if text != "Hello" {
			t.Errorf("said %q", text)
		}
		usages = append(usages, u)
	}
	_, n := sheet(t, newModel(t, scripted.Config{}), lore, "")
	if usages[0].Reused != 0 || usages[1].Reused != n || len(store.states) != 1 || store.got != 1 {
		t.Errorf("%+v, %d states, %d loads; want %d tokens loaded the second time",
			usages, len(store.states), store.got, n)
	}
	for k := range store.states {
		store.states[k][20] ^= 1 // a damaged file
	}
	s := newStage(t, newModel(t, scripted.Config{Script: scripted.Echo}), llm.EngineConfig{Heads: store})
	if u, text := s.ask("Ann", "Hello", true); u.Reused != 0 || text != "Hello" {
		t.Errorf("a damaged state: %+v %q", u, text)
	}
	s = newStage(t, newModel(t, scripted.Config{Script: scripted.Echo}), llm.EngineConfig{Heads: store})
	if u, _ := s.ask("Ann", "Hello", true); u.Reused != n {
		t.Errorf("the damaged state was not made anew: %+v", u)
	}
}

func TestPromote(t *testing.T) {
	s := newStage(t, newModel(t, scripted.Config{Script: scripted.Echo}), llm.EngineConfig{Together: 1})
	submit := func(owner string) llm.RequestID {
		id, err := s.e.Submit(llm.Request{Owner: owner, Prompt: prompt(t, s.m, "I am "+owner)})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first, second := submit("first"), submit("second")
	if !s.e.Promote(second, 1) || s.e.Promote(second+1, 1) {
		t.Error("Promote does not know which requests there are")
	}
	var order []llm.RequestID
	for range 1000 {
		if _, err := s.e.Step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.e.Poll(nil) {
			if e.Kind == llm.EventDone {
				order = append(order, e.Request)
			}
		}
	}
	if !slices.Equal(order, []llm.RequestID{second, first}) {
		t.Errorf("order %v, want %d first", order, second)
	}
	if s.e.Promote(first, 2) {
		t.Error("promoted a request that is over")
	}
}
