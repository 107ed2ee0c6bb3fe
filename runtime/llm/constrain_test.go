package llm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llm/gbnf"
	"github.com/lull-npc/lull/runtime/scripted"
)

const giveGrammar = `root ::= "{\"action\":\"" ("give\",\"item\":\"" item "\",\"count\":" [1-9] "}" | "none\"}")
item ::= "sword" | "shield" | "bread"
`

// constrained has the model answer within a grammar.
func constrained(t *testing.T, m llm.Model, s llm.Sampling, maxTokens int) (llm.Event, string, int) {
	t.Helper()
	e, err := llm.NewEngine(m, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p := prompt(t, m, "What do you do?")
	if _, err := e.Submit(llm.Request{Owner: "Ann", Prompt: p, Sampling: s, MaxTokens: maxTokens}); err != nil {
		t.Fatal(err)
	}
	text := ""
	for steps := range 1000 {
		_, _ = e.Step(llm.Grant{})
		for _, ev := range e.Poll(nil) {
			text += ev.Text
			if ev.Kind != llm.EventText {
				return ev, text, steps + 1
			}
		}
	}
	t.Fatal("no end")
	return llm.Event{}, "", 0
}

func TestGrammarForces(t *testing.T) {
	const want = `{"action":"give","item":"bread","count":3}`
	script := func(scripted.Conversation) string { return want }
	ev, text, steps := constrained(t, newModel(t, scripted.Config{Script: script}),
		llm.Sampling{Grammar: giveGrammar}, 0)
	if ev.Kind != llm.EventDone || ev.Reason != llm.DoneEnd || text != want {
		t.Fatalf("%v %v %q %v", ev.Kind, ev.Reason, text, ev.Err)
	}
	u := ev.Usage
	if u.Forced < 3*u.Generated || steps > 2*u.Generated+1 {
		t.Errorf("%d tokens chosen, %d forced, in %d steps: want most forced, two steps a choice at most",
			u.Generated, u.Forced, steps)
	}
	if len(ev.Reply) != u.Forced+u.Generated {
		t.Errorf("%d tokens of reply, %d chosen, %d forced", len(ev.Reply), u.Generated, u.Forced)
	}
}

// Whatever a model wants to say, only calls come out.
func TestGrammarAllowsOnlyCalls(t *testing.T) {
	g, err := gbnf.Parse(giveGrammar)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, scripted.Config{Script: func(scripted.Conversation) string { return "I give you everything!" }})
	for seed := range uint32(200) {
		ev, text, _ := constrained(t, m, llm.Sampling{Temperature: 2, Seed: seed, Grammar: giveGrammar}, 0)
		if ev.Kind != llm.EventDone || !g.Match(text) || !json.Valid([]byte(text)) {
			t.Fatalf("seed %d: %v %q %v", seed, ev.Kind, text, ev.Err)
		}
	}
}

func TestGrammarCutByLength(t *testing.T) {
	for most := 1; most < 12; most++ {
		ev, text, _ := constrained(t, newModel(t, scripted.Config{}), llm.Sampling{Grammar: giveGrammar}, most)
		if ev.Kind != llm.EventDone || ev.Reason != llm.DoneLength || len(ev.Reply) != most {
			t.Errorf("MaxTokens %d: %v %v, %d tokens, %q", most, ev.Kind, ev.Reason, len(ev.Reply), text)
		}
	}
}

func TestGrammarIsChecked(t *testing.T) {
	e, err := llm.NewEngine(newModel(t, scripted.Config{}), llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Submit(llm.Request{Prompt: []llm.Token{1}, Sampling: llm.Sampling{Grammar: "root ::= root"}})
	if !errors.Is(err, llm.ErrRequest) || !errors.Is(err, gbnf.ErrGrammar) {
		t.Errorf("error %v", err)
	}
}

// deaf is a model whose sampler ignores grammars.
type deaf struct{ *scripted.Model }

func (d deaf) NewSampler(s llm.Sampling) (llm.Sampler, error) {
	s.Grammar = ""
	return d.Model.NewSampler(s)
}

func TestDeafModelFails(t *testing.T) {
	for _, says := range []string{"I give!", `{"action":"`, ""} {
		m := deaf{newModel(t, scripted.Config{Script: func(scripted.Conversation) string { return says }})}
		ev, _, _ := constrained(t, m, llm.Sampling{Grammar: giveGrammar}, 0)
		if ev.Kind != llm.EventFailed || !strings.Contains(ev.Err.Error(), "does not heed grammars") {
			t.Errorf("%q: %v %v", says, ev.Kind, ev.Err)
		}
	}
}
