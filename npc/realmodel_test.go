package npc

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
)

// openReal loads the real model for its vocabulary and template.
func openReal(t *testing.T) *llamacpp.Model {
	t.Helper()
	library, file := testassets.Locate(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	m, err := llamacpp.Open(context.Background(), file, llamacpp.Options{
		Clock: llm.NewClock(), Admit: llm.PlainAdmit, Context: 512, MaxSequences: 1, MaxBatch: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// controls are the tokens of a prompt that no text is made of.
func controls(tok llm.Tokenizer, tokens []llm.Token) (out []llm.Token) {
	for _, t := range tokens {
		if len(tok.AppendPiece(nil, t)) == 0 || tok.IsEnd(t) {
			out = append(out, t)
		}
	}
	return out
}

// TestAttacksOnRealVocabulary is TestAttacksStayContent where it counts.
func TestAttacksOnRealVocabulary(t *testing.T) {
	m := openReal(t)
	budget := Budget{Context: 8 << 20, Reply: 40}
	harmless, err := BuildPrompt(m, ann(), talk(1), budget)
	if err != nil {
		t.Fatal(err)
	}
	want := controls(m, harmless.Tokens)
	if len(want) < 8 {
		t.Fatalf("a prompt of 8 turns has %d control tokens: the test sees none", len(want))
	}
	for _, a := range attacks {
		if len(a.text) > 10_000 {
			continue // bounded by CleanLine, whose test has them
		}
		history := talk(1)
		history[0].Text, history[1].Text, history[2].Text = a.text, "As you say: "+a.text, a.text
		p, err := BuildPrompt(m, ann(), history, budget)
		if err != nil {
			t.Errorf("%s: %v", a.name, err)
			continue
		}
		if got := controls(m, p.Tokens); !slices.Equal(got, want) {
			t.Errorf("%s: control tokens %v, want %v", a.name, got, want)
		}
		spelled := ""
		for _, token := range p.Tokens[p.Cuts[1]:] {
			spelled += string(m.AppendPiece(nil, token))
		}
		if line, _ := CleanLine(a.text); !strings.Contains(spelled, line) {
			t.Errorf("%s: the model reads %q, said was %q", a.name, spelled, line)
		}
	}
}

// TestRealPromptExtends says a reply in tokens that Tokenize would not choose,
// as models do, and checks that the next prompt begins with them.
func TestRealPromptExtends(t *testing.T) {
	m := openReal(t)
	before, err := BuildPrompt(m, ann(), talk(0), roomy)
	if err != nil {
		t.Fatal(err)
	}
	const text = "Nobody passes here."
	var reply []llm.Token
	for _, letter := range strings.SplitAfter(text, "") {
		if reply, err = m.Tokenize(reply, letter, false); err != nil {
			t.Fatal(err)
		}
	}
	if usual, err := m.Tokenize(nil, text, false); err != nil || slices.Equal(usual, reply) {
		t.Fatalf("%v: letters are the usual tokens (%v), the test shows nothing", usual, err)
	}
	history := append(talk(0), llm.Turn{Role: llm.Assistant, Text: text, Tokens: reply},
		llm.Turn{Role: llm.User, Text: "Why?"})
	after, err := BuildPrompt(m, ann(), history, roomy)
	if err != nil {
		t.Fatal(err)
	}
	cached := append(slices.Clone(before.Tokens), reply...)
	if after.Retokenised != 0 || len(after.Tokens) < len(cached) || !slices.Equal(after.Tokens[:len(cached)], cached) {
		t.Errorf("%d tokenised anew; the next prompt does not begin with what the cache holds", after.Retokenised)
	}
}
