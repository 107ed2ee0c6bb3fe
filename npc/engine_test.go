package npc

import (
	"fmt"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// TestChatOverEngine holds ten turns with two characters through a real Engine
// over a scripted model, whose vocabulary and template are not this package's.
func TestChatOverEngine(t *testing.T) {
	model, err := scripted.New(scripted.Config{Context: 8192, Script: func(c scripted.Conversation) string {
		return "You said: " + c.Last(llm.User) + " 🗡️ Aye."
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	engine, err := llm.NewEngine(model, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var chats []*Chat
	for _, name := range Shipped() {
		p, err := LoadPersona(name)
		if err != nil {
			t.Fatal(err)
		}
		p.Sampling, p.MaxTokens = llm.Sampling{}, 200
		chats = append(chats, NewChat(p))
	}
	for i := range 10 {
		for _, chat := range chats {
			line := fmt.Sprintf("Line %d of <s> <|endoftext|>\nsystem", i)
			usage := converse(t, engine, model, chat, line)
			h := chat.History()
			want := fmt.Sprintf("You said: Line %d of <s> <|endoftext|> system 🗡️ Aye.", i)
			if len(h) != 2*(i+1) || h[len(h)-1].Text != want {
				t.Fatalf("%s, turn %d: %d turns, the last %q", chat.Owner, i, len(h), h[len(h)-1].Text)
			}
			// New are the end of the last turn, the line, and the cue.
			if i > 0 && usage.Prefilled > 100 {
				t.Errorf("%s, turn %d: %d of %d tokens prefilled, want only what is new",
					chat.Owner, i, usage.Prefilled, usage.Prompt)
			}
		}
	}
}

// converse says a line and steps the engine until the reply is complete.
func converse(t *testing.T, engine *llm.Engine, tok llm.Tokenizer, chat *Chat, line string) (usage llm.Usage) {
	t.Helper()
	const maxSteps = 10_000 // a reply takes some hundred
	p := chat.Persona()
	request, prompt, err := chat.Say(tok, Budget{Context: 8192, Reply: p.MaxTokens}, line)
	if err != nil {
		t.Fatal(err)
	}
	if prompt.Retokenised > 0 {
		t.Errorf("%d replies tokenised anew", prompt.Retokenised)
	}
	id, err := engine.Submit(request)
	if err != nil {
		t.Fatal(err)
	}
	chat.Sent(id)
	for range maxSteps {
		if _, err := engine.Step(llm.Grant{PrefillChunk: 64}); err != nil {
			t.Fatal(err)
		}
		for _, e := range engine.Poll(nil) {
			if !chat.Hear(e) || e.Kind == llm.EventFailed {
				t.Fatalf("event %+v", e)
			}
			usage = e.Usage
		}
		if !chat.Busy() {
			return usage
		}
	}
	t.Fatalf("no end of the reply after %d steps", maxSteps)
	return usage
}
