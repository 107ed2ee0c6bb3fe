package npc

import (
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
)

// Whatever the real model would rather say, a character's choice is a call that
// its offer allows, greedy and at a high temperature.
func TestRealModelKeepsToTheOffer(t *testing.T) {
	m := openReal(t)
	e, err := llm.NewEngine(m, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	offer := smithOffer()
	grammar, err := offer.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := m.Tokenize(nil, "Ann gives Odo two swords. As JSON: ", false)
	if err != nil {
		t.Fatal(err)
	}
	forced := 0
	for i, temperature := range []float32{0, 0.7, 1.5} {
		text, end := sayWithin(t, e, llm.Request{Prompt: prompt, MaxTokens: 200,
			Sampling: llm.Sampling{Temperature: temperature, TopK: 40, Seed: uint32(i), Grammar: grammar}})
		if _, err := offer.Parse(text); err != nil {
			t.Errorf("temperature %v: %q: %v", temperature, text, err)
		}
		forced += end.Usage.Forced
	}
	if forced == 0 {
		t.Error("nothing was forced, though every call begins alike")
	}
}

// sayWithin steps the engine until a request has ended.
func sayWithin(t *testing.T, e *llm.Engine, r llm.Request) (text string, end llm.Event) {
	t.Helper()
	if _, err := e.Submit(r); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := e.Step(llm.Grant{Threads: 1}); err != nil {
			t.Fatal(err)
		}
		for _, ev := range e.Poll(nil) {
			text += ev.Text
			switch ev.Kind {
			case llm.EventFailed:
				t.Fatalf("%v after %q", ev.Err, text)
			case llm.EventDone:
				return text, ev
			}
		}
	}
}
