package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

func TestSpeculationFlags(t *testing.T) {
	for _, c := range []struct {
		mode, draft, fails string
		want               speculative.Mode
	}{
		{"auto", "", "", speculative.ModeAuto},
		{"auto", "d.gguf", "", speculative.ModeAuto},
		{"off", "", "", speculative.ModeOff},
		{"ngram", "", "", speculative.ModeNGram},
		{"model", "d.gguf", "", speculative.ModeModel},
		{"model", "", "needs --draft", 0},
		{"off", "d.gguf", "nothing to do for --draft", 0},
		{"ngram", "d.gguf", "nothing to do for --draft", 0},
		{"always", "", "auto, off, ngram or model", 0},
	} {
		got, err := speculation(c.mode, c.draft)
		if c.fails == "" && (err != nil || got != c.want) {
			t.Errorf("%s, draft %q: %v, %v", c.mode, c.draft, got, err)
		}
		if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s, draft %q: %v, want %q", c.mode, c.draft, err, c.fails)
		}
	}
}

func TestGuessLine(t *testing.T) {
	var before, now speculative.Stats
	before.Rounds, before.VerifyTokens, before.PlainTokens = 2, 5, 10
	before.Sources[speculative.FromReply] = speculative.SourceStats{Judged: 4, Accepted: 3}
	now = before
	now.Rounds, now.VerifyTokens, now.PlainTokens = 5, 14, 21
	now.Sources[speculative.FromReply] = speculative.SourceStats{Judged: 12, Accepted: 8}
	now.Sources[speculative.FromModel] = speculative.SourceStats{Judged: 3, Accepted: 1}
	const want = "[guessed ahead: 9 of 20 tokens in 3 batches; right: reply 5 of 8, model 1 of 3]"
	if got := guessLine(before, now); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := guessLine(before, speculative.Stats{Off: "it is hot"}); got != "[one token at a time: it is hot]" {
		t.Errorf("off: %s", got)
	}
}

// A saved conversation with a token that the model lacks is refused with its
// place.
func TestCheckTokens(t *testing.T) {
	turns := []llm.Turn{{Text: "a"}, {Text: "b", Tokens: []llm.Token{5, 9, 0}}}
	if err := checkTokens("save.json", turns, 10); err != nil {
		t.Error(err)
	}
	turns[1].Tokens[2] = -1
	for vocab, place := range map[int]string{9: "turns[1].tokens[1] is 9", 10: "turns[1].tokens[2] is -1"} {
		err := checkTokens("save.json", turns, vocab)
		if err == nil || !strings.Contains(err.Error(), "save.json: "+place) || hintOf(err) == "" {
			t.Errorf("vocabulary of %d: %v, want %q", vocab, err, place)
		}
	}
}

// A piped conversation shows both sides, and says what saving and loading did.
func TestPipedChat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talk.json")
	in := "Hello!\n/save " + file + "\n/load " + file + "\n/stats\n"
	out := runChat(t, in)
	for _, want := range []string{
		"you> Hello!\n", "saved 2 turns with Brenna to " + file, "loaded 2 turns with Brenna from " + file,
		"guessing ahead costs here", "SmolLM2 135M Instruct",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var saved map[string]any
	if err := json.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	turn := saved["turns"].([]any)[1].(map[string]any)
	turn["tokens"] = []int{1 << 20}
	if data, err = json.Marshal(saved); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out = runChat(t, "/load "+file+"\n/history\n")
	if !strings.Contains(out, "turns[1].tokens[0] is 1048576") || strings.Contains(out, "Hello!") {
		t.Errorf("a conversation with a token that does not exist:\n%s", out)
	}
}

// runChat feeds lines to a chat with the real model and returns what it printed,
// errors included.
func runChat(t *testing.T, in string) string {
	t.Helper()
	library, model := testassets.Locate(t)
	t.Setenv(assets.EnvCache, t.TempDir()) // for the device profile
	t.Setenv(assets.EnvLlamaLib, library)  // so that the next chat of this test finds them all the same
	t.Setenv(assets.EnvModel, model)
	var out bytes.Buffer
	a := newApp(strings.NewReader(in), &out, &out)
	args := []string{"chat", "blacksmith", "--greedy", "--threads", "1", "--model", model, "--llama-lib", library}
	if code := run(t.Context(), args, a); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out.String())
	}
	return out.String()
}
