package npc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
)

// script runs a chat with a fake engine: one line a step, what the chat
// answered or became. It is what the tests below compare.
type script struct {
	t    *testing.T
	chat *Chat
	id   llm.RequestID
}

func newScript(t *testing.T) *script { return &script{t: t, chat: NewChat(ann())} }

func (s *script) say(text string) (llm.Request, Prompt) {
	r, p, err := s.chat.Say(chatML(), roomy, text)
	if err != nil {
		s.t.Fatalf("say %q: %v", text, err)
	}
	s.id++
	s.chat.Sent(s.id)
	return r, p
}

func (s *script) hear(kind llm.EventKind, text string) bool {
	e := llm.Event{Request: s.id, Owner: s.chat.Owner, Kind: kind, Text: text}
	if kind == llm.EventDone || kind == llm.EventCancelled {
		_, said := s.chat.Speaking()
		e.Reply = byteTokens(said)
	}
	return s.chat.Hear(e)
}

// exchange is a whole reply.
func (s *script) exchange(line, reply string) {
	s.say(line)
	s.hear(llm.EventText, reply)
	s.hear(llm.EventDone, "")
}

// texts is a history as lines.
func texts(turns []llm.Turn) []string {
	out := []string{}
	for _, t := range turns {
		out = append(out, string(t.Role)+": "+t.Text)
	}
	return out
}

func (s *script) want(what string, lines ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, lines...), texts(s.chat.History())); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestChatTurns(t *testing.T) {
	s := newScript(t)
	r, p := s.say(" Hello\nthere ")
	if r.Owner != "Ann" || r.MaxTokens != 40 || r.Keep != p.Keep || !slices.Equal(r.Prompt, p.Tokens) ||
		!slices.Equal(r.Cuts, p.Cuts) || !slices.Contains(r.Stop, "\nAnn:") || r.Sampling.Seed != 1 {
		t.Errorf("request %+v", r)
	}
	s.hear(llm.EventText, "Ha")
	s.hear(llm.EventText, "lt!")
	if line, reply := s.chat.Speaking(); line != "Hello there" || reply != "Halt!" || !s.chat.Busy() {
		t.Errorf("speaking %q, %q", line, reply)
	}
	s.want("a reply under way is no history yet")
	s.hear(llm.EventDone, "")
	s.want("after one turn", "user: Hello there", "assistant: Halt!")
	next, _ := s.say("Why?")
	cached := append(slices.Clone(r.Prompt), byteTokens("Halt!")...)
	if !slices.Equal(next.Prompt[:len(cached)], cached) {
		t.Error("the second prompt does not begin with what the cache holds")
	}
	if next.Sampling.Seed == r.Sampling.Seed {
		t.Error("the seed does not vary")
	}
	s.hear(llm.EventText, "Orders.")
	s.hear(llm.EventDone, "")
	s.want("after two", "user: Hello there", "assistant: Halt!", "user: Why?", "assistant: Orders.")
}

func TestChatEndings(t *testing.T) {
	for _, kind := range []llm.EventKind{llm.EventDone, llm.EventCancelled, llm.EventFailed} {
		s := newScript(t)
		s.exchange("A?", "Aye.")
		s.say("B?")
		s.hear(llm.EventText, "Well, I")
		s.hear(kind, "")
		s.want(kind.String()+" keeps what was said", "user: A?", "assistant: Aye.", "user: B?", "assistant: Well, I")
		s.say("C?")
		s.hear(llm.EventText, " \n")
		s.hear(kind, "")
		s.want(kind.String()+" with nothing said takes the line back",
			"user: A?", "assistant: Aye.", "user: B?", "assistant: Well, I")
		if s.chat.Busy() {
			t.Errorf("busy after %v", kind)
		}
		s.exchange("D?", "Yes.")
	}
}

func TestChatIgnoresOthers(t *testing.T) {
	s := newScript(t)
	if s.hear(llm.EventText, "before any line") {
		t.Error("heard an event with nothing asked")
	}
	s.say("A?")
	if s.chat.Hear(llm.Event{Request: s.id, Owner: "Bob", Kind: llm.EventText, Text: "x"}) {
		t.Error("heard another's event")
	}
	if s.chat.Hear(llm.Event{Request: s.id + 7, Owner: "Ann", Kind: llm.EventDone}) {
		t.Error("heard another request's event")
	}
	s.hear(llm.EventText, "Aye.")
	s.chat.Undo()
	undone := s.id
	s.say("B?")
	if s.chat.Hear(llm.Event{Request: undone, Owner: "Ann", Kind: llm.EventCancelled}) {
		t.Error("heard the end of the request that was undone")
	}
	s.hear(llm.EventText, "Bah.")
	s.hear(llm.EventDone, "")
	s.want("only B is left", "user: B?", "assistant: Bah.")
}

func TestChatWithoutSentGoesByOwner(t *testing.T) {
	c := NewChat(ann())
	if _, _, err := c.Say(chatML(), roomy, "A?"); err != nil {
		t.Fatal(err)
	}
	if !c.Hear(llm.Event{Request: 9, Owner: "Ann", Kind: llm.EventText, Text: "Aye."}) ||
		c.Hear(llm.Event{Request: 10, Owner: "Ann", Kind: llm.EventText, Text: "Nay."}) ||
		!c.Hear(llm.Event{Request: 9, Owner: "Ann", Kind: llm.EventDone}) {
		t.Error("want the first request heard of, and no other")
	}
}

func TestChatRefusesWithoutChange(t *testing.T) {
	s := newScript(t)
	s.exchange("A?", "Aye.")
	if _, _, err := s.chat.Say(chatML(), roomy, "\u200b"); !errors.Is(err, ErrLine) {
		t.Errorf("nothing said: %v", err)
	}
	if _, _, err := s.chat.Say(chatML(), Budget{Context: 50, Reply: 40}, "B?"); !errors.Is(err, ErrBudget) {
		t.Errorf("no room: %v", err)
	}
	if s.chat.Busy() {
		t.Error("busy after a refusal")
	}
	s.say("B?")
	if _, _, err := s.chat.Say(chatML(), roomy, "C?"); !errors.Is(err, ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	if line, _ := s.chat.Speaking(); line != "B?" {
		t.Errorf("answering %q", line)
	}
	s.want("unchanged", "user: A?", "assistant: Aye.")
}

func TestChatUndoAndClear(t *testing.T) {
	s := newScript(t)
	if s.chat.Undo() {
		t.Error("undid nothing")
	}
	s.exchange("A?", "Aye.")
	s.exchange("B?", "Bah.")
	s.say("C?")
	for i, want := range [][]string{
		{"user: A?", "assistant: Aye.", "user: B?", "assistant: Bah."},
		{"user: A?", "assistant: Aye."},
		{},
	} {
		if !s.chat.Undo() || s.chat.Busy() {
			t.Errorf("undo %d failed", i)
		}
		s.want(fmt.Sprint("undo ", i), want...)
	}
	s.exchange("A?", "Aye.")
	s.say("B?")
	s.chat.Clear()
	s.want("cleared")
	if s.chat.Busy() || s.hear(llm.EventText, "late") {
		t.Error("busy after Clear")
	}
}

// TestChatForgetsInSteps holds a long chat on a small budget: what was dropped
// stays out, so that most prompts begin with what the cache holds.
func TestChatForgetsInSteps(t *testing.T) {
	s := newScript(t)
	budget := Budget{Context: 700, Reply: 40, Slack: 150}
	var cached []llm.Token
	drops, extended := 0, 0
	for i := range 40 {
		r, p, err := s.chat.Say(chatML(), budget, fmt.Sprintf("Line %d?", i))
		if err != nil {
			t.Fatal(err)
		}
		checkPrompt(t, chatML(), p, budget)
		if p.DroppedTurns > 0 {
			drops++
		} else if len(r.Prompt) >= len(cached) && slices.Equal(r.Prompt[:len(cached)], cached) {
			extended++
		}
		reply := fmt.Sprintf("Reply %d of the guard.", i)
		s.id++
		s.chat.Sent(s.id)
		s.hear(llm.EventText, reply)
		s.hear(llm.EventDone, "")
		cached = append(slices.Clone(r.Prompt), byteTokens(reply)...)
	}
	if drops < 2 || drops > 20 || drops+extended != 40 {
		t.Errorf("%d prompts dropped turns, %d of 40 extend the cache: want each other one to", drops, extended)
	}
	if len(s.chat.History()) != 80 || s.chat.Forgotten() == 0 {
		t.Errorf("history of %d turns, %d forgotten", len(s.chat.History()), s.chat.Forgotten())
	}
}

// TestChatFollowsEngineOverflow drops what the engine dropped.
func TestChatFollowsEngineOverflow(t *testing.T) {
	cases := []struct{ stretches, less, forgotten int }{{1, 0, 2}, {2, 0, 4}, {2, 3, 4}, {3, 0, 6}, {3, -500, 6}}
	for _, c := range cases {
		s := newScript(t)
		for _, line := range []string{"A?", "B?", "C?"} {
			s.exchange(line, "Aye, as you say.")
		}
		r, _ := s.say("D?")
		tokens := r.Cuts[c.stretches] - r.Cuts[0] - c.less
		s.chat.Hear(llm.Event{Request: s.id, Owner: "Ann", Kind: llm.EventOverflow, Tokens: tokens})
		if got := s.chat.Forgotten(); got != c.forgotten {
			t.Errorf("%+v: %d turns forgotten", c, got)
		}
		s.hear(llm.EventText, "Aye.")
		s.hear(llm.EventDone, "")
		_, next := s.say("E?")
		if len(next.Cuts) != (8-c.forgotten)/2+1 {
			t.Errorf("%+v: next prompt has %d cuts", c, len(next.Cuts))
		}
	}
}

func TestChatHistoryIsBounded(t *testing.T) {
	s := newScript(t)
	for i := range maxTurns {
		s.exchange(fmt.Sprintf("%d?", i), "Aye.")
		s.chat.first = len(s.chat.history) // keep the prompts short
	}
	h := s.chat.History()
	if len(h) != maxTurns || h[0].Text != fmt.Sprintf("%d?", maxTurns/2) || s.chat.Forgotten() != maxTurns {
		t.Errorf("%d turns from %q, %d forgotten", len(h), h[0].Text, s.chat.Forgotten())
	}
	s.say("x")
	s.hear(llm.EventText, strings.Repeat("é", maxTurnBytes))
	s.hear(llm.EventDone, "")
	if s.chat.Forgotten() != maxTurns-2 {
		t.Errorf("%d turns forgotten after the oldest two went", s.chat.Forgotten())
	}
	last := s.chat.History()[maxTurns-1]
	if len(last.Text) > maxTurnBytes || !utf8.ValidString(last.Text) || last.Tokens != nil {
		t.Errorf("a reply of %d bytes with %d tokens", len(last.Text), len(last.Tokens))
	}
	if data, err := s.chat.Save(); err != nil || NewChat(ann()).Load(data) != nil {
		t.Errorf("the longest history does not load again: %v", err)
	}
}

func TestSaveRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newScript(t)
		for range rapid.IntRange(0, 8).Draw(rt, "exchanges") {
			line, _ := CleanLine("x" + rapid.String().Draw(rt, "line"))
			s.exchange(line, "r"+rapid.String().Draw(rt, "reply"))
		}
		if rapid.Bool().Draw(rt, "busy") {
			s.say("unsaved")
		}
		if n := len(s.chat.history); n > 0 {
			s.chat.first = 2 * rapid.IntRange(0, n/2).Draw(rt, "first")
		}
		data, err := s.chat.Save()
		if err != nil {
			rt.Fatal(err)
		}
		loaded := NewChat(ann())
		if err := loaded.Load(data); err != nil {
			rt.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(s.chat.History(), loaded.History(), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatal(diff)
		}
		again, err := loaded.Save()
		if err != nil || string(again) != string(data) {
			rt.Fatalf("saved again (%v):\n%s\n%s", err, data, again)
		}
		s.chat.asked = nil
		a, _, err1 := s.chat.Say(chatML(), roomy, "next")
		b, _, err2 := loaded.Say(chatML(), roomy, "next")
		if diff := cmp.Diff(a, b); diff != "" || err1 != nil || err2 != nil {
			rt.Fatalf("the next request differs: %v %v\n%s", err1, err2, diff)
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	const good = `{"lull":1,"persona":"Ann","said":1,"first":0,"turns":[` +
		`{"role":"user","text":"Hi"},{"role":"assistant","text":"Halt!","tokens":[1]}]}`
	if err := NewChat(ann()).Load([]byte(good)); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, old, with, says string }{
		{"empty", good, "", "EOF"},
		{"not JSON", good, "lull", "invalid character"},
		{"cut off", `"Halt!"`, "", ""},
		{"more behind", `]}]}`, `]}]} {}`, "something follows"},
		{"version", `"lull":1`, `"lull":2`, "format 2, want 1"},
		{"no version", `"lull":1,`, ``, "format 0, want 1"},
		{"another's", `"Ann"`, `"Bob"`, `it is of "Bob", this chat is with "Ann"`},
		{"unknown key", `"said"`, `"sayd"`, "unknown field"},
		{"odd number", `,{"role":"assistant","text":"Halt!","tokens":[1]}`, ``, "1 turns"},
		{"role", `"assistant"`, `"system"`, `role "system", want "assistant"`},
		{"order", `"user"`, `"assistant"`, `turn 0: role "assistant"`},
		{"first", `"first":0`, `"first":4`, "first 4"},
		{"first odd", `"first":0`, `"first":1`, "first 1"},
		{"first negative", `"first":0`, `"first":-2`, "first -2"},
		{"no text", `"Hi"`, `" "`, "no text"},
		{"dirty line", `"Hi"`, `"Hi\n<|im_end|>"`, "no line as Save writes it"},
		{"player's tokens", `"Hi"`, `"Hi","tokens":[5]`, "no line as Save writes it"},
		{"negative token", `[1]`, `[-1]`, "token -1"},
		{"huge token", `[1]`, `[4294967296]`, "cannot unmarshal"},
		{"many tokens", `[1]`, `[1` + strings.Repeat(",1", MaxReplyTokens) + `]`, "1025 tokens"},
		{"long text", `Halt!`, strings.Repeat("x", maxTurnBytes+1), "bytes"},
		{"deep", `[1]`, strings.Repeat("[", 20000), "exceeded max depth"},
	}
	for _, c := range cases {
		chat := NewChat(ann())
		s := &script{t: t, chat: chat}
		s.exchange("kept", "Aye.")
		err := chat.Load([]byte(strings.Replace(good, c.old, c.with, 1)))
		if !errors.Is(err, ErrSave) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		s.want(c.name+" changed the chat", "user: kept", "assistant: Aye.")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"lull":1,"persona":"Ann","said":1,"first":0,"turns":[{"role":"user","text":"Hi"},` +
		`{"role":"assistant","text":"<|im_end|>","tokens":[1,513,-5]}]}`))
	f.Add([]byte(`{"lull":1,"persona":"Ann","turns":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewChat(ann())
		if err := c.Load(data); err != nil {
			if !errors.Is(err, ErrSave) {
				t.Error(err)
			}
			return
		}
		if data, err := c.Save(); err != nil || !json.Valid(data) || NewChat(ann()).Load(data) != nil {
			t.Errorf("what was loaded does not load again: %v", err)
		}
		budget := Budget{Context: 1 << 20, Reply: 40}
		_, p, err := c.Say(chatML(), budget, "Hi")
		if err != nil {
			t.Fatal(err)
		}
		checkPrompt(t, chatML(), p, budget)
	})
}
