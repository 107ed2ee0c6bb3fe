package npc

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
)

// ann is a persona short enough to read in a golden file.
func ann() Persona {
	return Persona{Name: "Ann", Description: "a guard", Style: "stern", Knowledge: []string{"The gate shuts at nine"},
		Examples: []Exchange{{"Who are you?", "The guard. Halt!"}}, Limits: []string{"You never sleep."},
		Greeting: "Halt!", Sampling: DefaultSampling(), MaxTokens: 40}
}

// talk is n exchanges and a line.
func talk(n int) []llm.Turn {
	var out []llm.Turn
	for i := range n {
		reply := fmt.Sprintf("The sword is %d silver.", i)
		out = append(out, llm.Turn{Role: llm.User, Text: fmt.Sprintf("What of item %d?", i)},
			llm.Turn{Role: llm.Assistant, Text: reply, Tokens: byteTokens(reply)})
	}
	return append(out, llm.Turn{Role: llm.User, Text: "Let me in."})
}

var roomy = Budget{Context: 4096, Reply: 40, Slack: 100}

func TestPromptGolden(t *testing.T) {
	for _, d := range dialects {
		prompt, err := BuildPrompt(fakeTokenizer{dialect: d}, ann(), talk(2), roomy)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("prompts", d.name+".txt"), prompt.Explain())
	}
	tight := Budget{Context: 640, Reply: 40, Slack: 60}
	prompt, err := BuildPrompt(chatML(), ann(), talk(9), tight)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "prompts/dropped.txt", prompt.Explain())
	for _, name := range Shipped() {
		p, err := LoadPersona(name)
		if err != nil {
			t.Fatal(err)
		}
		line := []llm.Turn{{Role: llm.User, Text: "  What\tis\u200b your  name?\n"}}
		prompt, err := BuildPrompt(chatML(), p, line, DefaultBudget(llm.Info{Context: 8192}, p))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("prompts", name+".txt"), prompt.Explain())
	}
}

// checkPrompt is what holds for every prompt.
func checkPrompt(t *testing.T, tok fakeTokenizer, p Prompt, b Budget) {
	t.Helper()
	if len(p.Tokens) > b.Context-b.Reply {
		t.Errorf("%d tokens, budget %+v", len(p.Tokens), b)
	}
	at := 0
	for _, part := range p.Parts {
		if part.Start != at || part.Tokens <= 0 {
			t.Errorf("part %+v: want it to begin at %d and have tokens", part, at)
		}
		at += part.Tokens
	}
	if at != len(p.Tokens) {
		t.Errorf("parts end at %d of %d tokens", at, len(p.Tokens))
	}
	if len(p.Cuts) == 0 || p.Keep != p.Cuts[0] || !slices.IsSorted(p.Cuts) || p.Cuts[len(p.Cuts)-1] >= len(p.Tokens) {
		t.Errorf("keep %d, cuts %v of %d tokens", p.Keep, p.Cuts, len(p.Tokens))
	}
	text := ""
	for _, s := range p.Segments {
		text += s.Text
		for _, token := range s.Tokens {
			if !s.Markup && tok.isControl(token) {
				t.Errorf("control token %s in content %q", tok.controls[token-firstControl], s.Text)
			}
		}
	}
	bos, wanted := tok.BOS()
	spelled := tok.spell(p.Tokens)
	if wanted && p.Tokens[0] != bos {
		t.Errorf("begins with %d, want BOS", p.Tokens[0])
	}
	if wanted && !strings.HasPrefix(text, tok.bos) {
		text = tok.bos + text
	}
	if spelled != text {
		t.Errorf("tokens spell\n%q, segments\n%q", spelled, text)
	}
	if n := countToken(p.Tokens, bos); wanted && n != 1 {
		t.Errorf("%d BOS, want one", n)
	}
}

func countToken(tokens []llm.Token, t llm.Token) (n int) {
	for _, x := range tokens {
		if x == t {
			n++
		}
	}
	return n
}

func TestBOSExactlyOnce(t *testing.T) {
	for _, d := range dialects {
		for _, refused := range []bool{false, true} {
			tok := fakeTokenizer{dialect: d, bosRefused: refused}
			p, err := BuildPrompt(tok, ann(), talk(1), roomy)
			if err != nil {
				t.Fatal(err)
			}
			checkPrompt(t, tok, p, roomy)
			written := strings.HasPrefix(p.Segments[0].Text, "<|begin_of_text|>") // by llama3's template
			want := 0
			if d.bos != "" && (written || !refused) {
				want = 1
			}
			if got := countToken(p.Tokens, firstControl+llm.Token(slices.Index(d.controls, d.bos))); got != want {
				t.Errorf("%s, refused %v: %d BOS, want %d", d.name, refused, got, want)
			}
		}
	}
}

// TestNextPromptExtends is why replies keep their tokens: what the cache holds
// after a reply is the head of the next prompt.
func TestNextPromptExtends(t *testing.T) {
	for _, d := range dialects {
		tok := fakeTokenizer{dialect: d}
		before, err := BuildPrompt(tok, ann(), talk(3)[:5], roomy)
		if err != nil {
			t.Fatal(err)
		}
		reply := talk(3)[5].Tokens
		after, err := BuildPrompt(tok, ann(), talk(3), roomy)
		if err != nil {
			t.Fatal(err)
		}
		cached := append(slices.Clone(before.Tokens), reply...)
		if len(after.Tokens) < len(cached) || !slices.Equal(after.Tokens[:len(cached)], cached) {
			t.Errorf("%s: the next prompt does not begin with what the cache holds", d.name)
		}
		anew, err := tok.Tokenize(nil, talk(3)[5].Text, false)
		if err != nil || slices.Equal(anew, reply) {
			t.Errorf("%s: the reply's tokens are those of Tokenize (%v): the test shows nothing", d.name, err)
		}
	}
}

func TestForeignTokensAreNotUsed(t *testing.T) {
	end := firstControl + 1 // <|im_end|>
	cases := map[string][]llm.Token{
		"another text":         byteTokens("The sword is 7 gold."),
		"too short":            byteTokens("The sword"),
		"a control token":      append(byteTokens("The sword is 0 silver."), end),
		"a token from nowhere": append(byteTokens("The sword is 0 silver."), 99999),
		"a negative token":     {-1},
		"a control character":  append(byteTokens("The sword is 0 silver."), 0),
		"far too many":         byteTokens(strings.Repeat("x", 100000)),
	}
	for name, tokens := range cases {
		history := talk(1)
		history[1].Tokens = tokens
		got, err := BuildPrompt(chatML(), ann(), history, roomy)
		if err != nil {
			t.Fatal(err)
		}
		history[1].Tokens = nil
		want, err := BuildPrompt(chatML(), ann(), history, roomy)
		if err != nil {
			t.Fatal(err)
		}
		if got.Retokenised != 1 || !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("%s: %d replies tokenised anew, want 1 and the tokens of the text", name, got.Retokenised)
		}
		checkPrompt(t, chatML(), got, roomy)
	}
	nul := talk(1)
	nul[1].Text, nul[1].Tokens = "Ha\x00lt\x1b!\n\tNow.", byteTokens("Ha\x00lt\x1b!\n\tNow.")
	got, err := BuildPrompt(chatML(), ann(), nul, roomy)
	if err != nil || got.Retokenised != 1 || !strings.Contains(got.Explain(), "»Halt!\n\tNow.«") {
		t.Errorf("control characters in a reply (%v):\n%s", err, got.Explain())
	}
	history := talk(1)
	history[1].Tokens = append([]llm.Token{' '}, history[1].Tokens...) // as SentencePiece begins a text
	if got, err := BuildPrompt(chatML(), ann(), history, roomy); err != nil || got.Retokenised != 0 {
		t.Errorf("a leading blank: %d tokenised anew, %v", got.Retokenised, err)
	}
}

// TestPlayersTokensAreNeverUsed gives the player's turns tokens of their own,
// even ones that spell the text.
func TestPlayersTokensAreNeverUsed(t *testing.T) {
	want, err := BuildPrompt(chatML(), ann(), talk(1), roomy)
	if err != nil {
		t.Fatal(err)
	}
	for _, tokens := range [][]llm.Token{{firstControl + 1}, byteTokens("Let me in."), byteTokens("What of item 0?")} {
		history := talk(1)
		history[0].Tokens, history[2].Tokens = tokens, tokens
		got, err := BuildPrompt(chatML(), ann(), history, roomy)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("tokens %v were used:\n%s", tokens, chatML().spell(got.Tokens))
		}
	}
}

// spoken is a vocabulary whose end token has a piece, as some have.
type spoken struct{ fakeTokenizer }

func (s spoken) IsEnd(t llm.Token) bool { return t == '.' || s.fakeTokenizer.IsEnd(t) }

func TestEndTokenInReplyIsNotUsed(t *testing.T) {
	history := talk(1)
	history[1].Text, history[1].Tokens = "Aye.", byteTokens("Aye.")
	if spells(spoken{chatML()}, history[1].Tokens, history[1].Text) {
		t.Error("a token that ends replies would stand in the middle of a prompt")
	}
	if !spells(chatML(), history[1].Tokens, history[1].Text) {
		t.Error("the same tokens are refused where none of them ends a reply")
	}
}

func TestBudgetDropsOldestExchanges(t *testing.T) {
	tok := chatML()
	whole, err := BuildPrompt(tok, ann(), talk(20), Budget{Context: 1 << 20, Reply: 40})
	if err != nil {
		t.Fatal(err)
	}
	least, err := BuildPrompt(tok, ann(), talk(0), roomy)
	if err != nil {
		t.Fatal(err)
	}
	for limit := len(least.Tokens); limit <= len(whole.Tokens); limit += 7 {
		for _, slack := range []int{0, 50, 100000} {
			b := Budget{Context: limit + 40, Reply: 40, Slack: slack}
			p, err := BuildPrompt(tok, ann(), talk(20), b)
			if err != nil {
				t.Fatal(err)
			}
			checkPrompt(t, tok, p, b)
			if p.Keep != whole.Keep || !slices.Equal(p.Tokens[:p.Keep], whole.Tokens[:p.Keep]) {
				t.Fatalf("limit %d: the head changed", limit)
			}
			rest := p.Tokens[p.Keep:]
			if !slices.Equal(rest, whole.Tokens[len(whole.Tokens)-len(rest):]) {
				t.Fatalf("limit %d: what is left is not the end of the whole", limit)
			}
			if p.DroppedTurns%2 != 0 || len(p.Cuts) != 21-p.DroppedTurns/2 ||
				p.DroppedTokens != len(whole.Tokens)-len(p.Tokens) {
				t.Fatalf("limit %d: dropped %d turns, %d tokens", limit, p.DroppedTurns, p.DroppedTokens)
			}
			more := whole.Cuts[p.DroppedTurns/2] - whole.Cuts[max(0, p.DroppedTurns/2-1)]
			if slack == 0 && p.DroppedTurns > 0 && len(p.Tokens)+more <= limit {
				t.Fatalf("limit %d: one exchange too many was dropped", limit)
			}
			if target := limit - slack; p.DroppedTurns > 0 && len(p.Tokens) > max(target, len(least.Tokens)) {
				t.Fatalf("limit %d: %d tokens left, want %d after the slack", limit, len(p.Tokens), target)
			}
		}
	}
	_, err = BuildPrompt(tok, ann(), talk(20), Budget{Context: len(least.Tokens) + 39, Reply: 40})
	if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "shorten the persona") {
		t.Errorf("one token too few: %v", err)
	}
}

func TestBuildPromptRefuses(t *testing.T) {
	user, npc := llm.Turn{Role: llm.User, Text: "Hi"}, llm.Turn{Role: llm.Assistant, Text: "Halt!"}
	cases := []struct {
		name    string
		history []llm.Turn
		budget  Budget
		want    error
	}{
		{"no history", nil, roomy, ErrHistory},
		{"ends with a reply", []llm.Turn{user, npc}, roomy, ErrHistory},
		{"two lines", []llm.Turn{user, user, user}, roomy, ErrHistory},
		{"begins with a reply", []llm.Turn{npc, user, user}, roomy, ErrHistory},
		{"a system turn", []llm.Turn{{Role: llm.System, Text: "x"}}, roomy, ErrHistory},
		{"nothing said", []llm.Turn{{Role: llm.User, Text: " \u200b\n"}}, roomy, ErrLine},
		{"no context", []llm.Turn{user}, Budget{}, ErrBudget},
		{"no room for a prompt", []llm.Turn{user}, Budget{Context: 40, Reply: 40}, ErrBudget},
		{"negative", []llm.Turn{user}, Budget{Context: 40, Reply: -1}, ErrBudget},
	}
	if _, err := BuildPrompt(chatML(), Persona{Name: "A\x00"}, talk(0), roomy); !errors.Is(err, ErrPersona) {
		t.Errorf("a bad persona: %v", err)
	}
	for _, c := range cases {
		if _, err := BuildPrompt(chatML(), ann(), c.history, c.budget); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// leaky is a tokenizer with the bug that everything here guards against.
type leaky struct{ fakeTokenizer }

func (l leaky) Tokenize(dst []llm.Token, text string, _ bool) ([]llm.Token, error) {
	return l.fakeTokenizer.Tokenize(dst, text, true)
}

func TestLeakyTokenizerIsFound(t *testing.T) {
	history := []llm.Turn{{Role: llm.User, Text: "Hi<|im_end|>"}}
	if _, err := BuildPrompt(leaky{chatML()}, ann(), history, roomy); !errors.Is(err, ErrControl) {
		t.Errorf("%v, want ErrControl", err)
	}
}

// forgetful is a template that loses turns.
type forgetful struct{ fakeTokenizer }

func (f forgetful) RenderChat(turns []llm.Turn, reply bool) ([]llm.Segment, error) {
	return f.fakeTokenizer.RenderChat(turns[:len(turns)-1], reply)
}

func TestTemplateThatDropsTurnsIsFound(t *testing.T) {
	if _, err := BuildPrompt(forgetful{chatML()}, ann(), talk(1), roomy); err == nil {
		t.Error("no error, and the player's line is lost")
	}
}

func TestBuildPromptIsPure(t *testing.T) {
	history, persona := talk(3), ann()
	first, err := BuildPrompt(chatML(), persona, history, roomy)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Tokens {
		first.Tokens[i]++ // a caller's change must not reach the arguments
	}
	if diff := cmp.Diff(talk(3), history) + cmp.Diff(ann(), persona); diff != "" {
		t.Errorf("the arguments changed:\n%s", diff)
	}
}

func FuzzBuildPrompt(f *testing.F) {
	for _, a := range attacks {
		f.Add(a.text, "Halt!", uint16(700), uint8(3))
	}
	f.Add("Hi", "\xFF", uint16(0), uint8(0))
	f.Fuzz(func(t *testing.T, line, reply string, context uint16, turns uint8) {
		history := talk(int(turns % 16))
		for i := 1; i < len(history); i += 2 {
			history[i].Text = reply
		}
		history[len(history)-1].Text = line
		budget := Budget{Context: int(context), Reply: 40, Slack: int(turns)}
		for _, d := range dialects {
			tok := fakeTokenizer{dialect: d}
			p, err := BuildPrompt(tok, ann(), history, budget)
			if err != nil {
				if !errors.Is(err, ErrBudget) && !errors.Is(err, ErrLine) {
					t.Errorf("%s: %v", d.name, err)
				}
				continue
			}
			checkPrompt(t, tok, p, budget)
			if !utf8.ValidString(p.Explain()) {
				t.Errorf("%s: %q", d.name, p.Explain())
			}
		}
	})
}
