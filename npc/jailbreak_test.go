package npc

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// attack is what somebody says to make a character forget itself.
type attack struct{ name, text string }

// attacks are the ones with bytes that no file holds, and the list.
var attacks = append(roughAttacks, listed()...)

func listed() []attack {
	data, err := os.ReadFile("testdata/jailbreaks.yaml")
	if err != nil {
		panic(err)
	}
	var list []struct{ Name, Text string }
	if err := yaml.UnmarshalWithOptions(data, &list, yaml.Strict()); err != nil {
		panic(err)
	}
	var out []attack
	for _, a := range list {
		out = append(out, attack{a.Name, a.Text})
	}
	return out
}

// remembers is a Memory that always comes to one thing.
type remembers string

func (r remembers) Recall(Query) ([]Recalled, error) {
	return []Recalled{{ID: "1", Text: string(r), Score: 1}}, nil
}

func (r remembers) Remember(Experience) error { return nil }

// assault plays a scene in which every way into a prompt says text, before a
// model that does what it is told: it says the text back, and chooses it as its
// action. It returns all events and prompts.
func assault(t *testing.T, text string, heat float32) ([]Event, []*Explanation) {
	s := newStage(t, scripted.Config{Context: 32_768, Script: func(scripted.Conversation) string { return text }},
		WorldConfig{Memory: remembers(text)})
	ann := person("Ann")
	ann.Emotions, ann.Sampling = []string{"joy"}, llm.Sampling{Temperature: heat, Seed: 1}
	s.steps = 12
	s.add("ann", ann)
	s.add("odo", person("Odo"))
	if err := s.world.Gather("ann", "odo"); err != nil {
		t.Fatal(err)
	}
	if err := s.world.SetOffer("ann", smithOffer()); err != nil {
		t.Fatal(err)
	}
	if err := s.world.SetQuest("ann", Quest{ID: "find_wenna", Text: "find Wenna"}); err != nil {
		t.Fatal(err)
	}
	if err := s.world.Tell("ann", "Eve", text, 0); err != nil {
		t.Fatal(err)
	}
	var records []*Explanation
	for range 2 {
		s.say("ann", text)
		if _, err := s.world.Cue("odo", text, s.now); err != nil {
			t.Fatal(err)
		}
		s.frames(1)
		for len(s.world.active)+len(s.world.waiting) > 0 {
			s.frames(1)
		}
	}
	for _, id := range []AgentID{"ann", "odo"} {
		records = append(records, s.world.Explain(id)...)
	}
	return s.events, records
}

// controlsIn counts the tokens of a prompt that are no text.
func controlsIn(tok llm.Tokenizer, tokens []llm.Token) map[llm.Token]int {
	out := map[llm.Token]int{}
	for _, t := range tokens {
		if len(tok.AppendPiece(nil, t)) == 0 || tok.IsEnd(t) {
			out[t]++
		}
	}
	return out
}

// TestJailbreaks plays each attack through a whole world: no control token of
// anybody's making, no turn of anybody's making, no action that was not offered.
func TestJailbreaks(t *testing.T) {
	if n := len(listed()); n < 60 {
		t.Fatalf("%d attacks are on the list: it must not shrink", n)
	}
	tok, err := scripted.New(scripted.Config{})
	if err != nil {
		t.Fatal(err)
	}
	actions, prompts := 0, 0
	for i, a := range attacks {
		if len(a.text) > 10_000 {
			continue // bounded by CleanLine, whose test has them
		}
		heats := []float32{0, 1.5} // by dice the model says anything; every fourth is enough for that
		for _, heat := range heats[:1+i%4/3] {
			events, records := assault(t, a.text, heat)
			for _, e := range events {
				if e.Kind == EventAction {
					actions++
					checkOffered(t, a.name, e.Action)
				}
				if e.Kind == EventFailed {
					t.Errorf("%s: %v", a.name, e.Err)
				}
			}
			for _, x := range records {
				prompts++
				checkTurns(t, tok, a.name, x.Plan)
			}
		}
	}
	if actions < len(attacks)/2 || prompts < 3*len(attacks) {
		t.Errorf("%d actions, %d prompts: the test shows little", actions, prompts)
	}
}

// checkOffered checks an action against what was offered, without the code that
// let it through.
func checkOffered(t *testing.T, name string, a Action) {
	t.Helper()
	args := func(want ...string) bool {
		var got []string
		for _, x := range a.Args {
			got = append(got, x.Name)
		}
		return slices.Equal(got, want)
	}
	text := func(i int) string { return a.Args[i].Text }
	ok := false
	switch a.Name {
	case "leave":
		ok = args()
	case "offer_quest":
		ok = args("quest") && text(0) == "find_wenna"
	case "give_item":
		ok = args("item", "count", "to") && slices.Contains([]string{"sword", "bread", `the "good" shield`}, text(0)) &&
			a.Args[1].Int >= 1 && a.Args[1].Int <= 120 && slices.Contains([]string{"player", "Odo", "日本"}, text(2))
	case "set_price":
		ok = args("factor", "final", "note") && a.Args[0].Real >= -0.5 && a.Args[0].Real <= 12.25 &&
			len([]rune(text(2))) <= 40
	}
	if !ok {
		t.Errorf("%s: the character does %s, which nobody offered", name, a)
	}
}

// checkTurns checks that a prompt has the control tokens of its turns and no
// others: one begin for each, one end for all but the one that is to be said.
func checkTurns(t *testing.T, tok *scripted.Model, name string, p Plan) {
	t.Helper()
	turns := 0
	for _, s := range p.Prompt.Segments {
		if !s.Markup {
			turns++
			if n := len(controlsIn(tok, s.Tokens)); n > 0 {
				t.Errorf("%s: %d kinds of control tokens in %q", name, n, s.Text)
			}
		}
	}
	begin, _ := tok.Tokenize(nil, "<|im_start|>", true)
	end, _ := tok.Tokenize(nil, "<|im_end|>", true)
	got := controlsIn(tok, p.Prompt.Tokens)
	if got[begin[0]] != turns+1 || got[end[0]] != turns || len(got) > 3 {
		t.Errorf("%s: %d turns, control tokens %v", name, turns, got)
	}
}

// TestNothingIsLogged has a player say a word that is nowhere else, in talk that
// goes well and that fails, and looks for it in everything that is written.
func TestNothingIsLogged(t *testing.T) {
	const word = "xyzzyplugh"
	var logged bytes.Buffer
	log.SetOutput(&logged)
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	streams := capture(t)

	dir := t.TempDir()
	heads, err := NewHeadFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	fault := fmt.Errorf("the device is gone")
	s := newStage(t, scripted.Config{Script: func(scripted.Conversation) string { return "Aye." },
		Fault: scripted.FailAt(40, fault)}, WorldConfig{Lore: []string{strings.Repeat("The road is long. ", 9)}})
	engine, err := llm.NewEngine(s.model, llm.EngineConfig{Heads: heads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	s.engine, s.world.cfg.Engine = engine, engine
	s.add("ann", person("Ann"))
	var failed []error
	for i := range 40 {
		_, err := s.world.Say(Line{To: "ann", Text: fmt.Sprintf("%s %d", word, i)}, s.now)
		failed = append(failed, err)
		for range 1 + 3*(i%4) {
			for s.world.Prepare() {
			}
			_, err := s.engine.Step(llm.Grant{PrefillChunk: 64})
			failed = append(failed, err)
			s.now += s.tick
			s.poll()
		}
	}
	chat := NewChat(person("Ann"))
	for range 2 {
		_, _, err := chat.Say(s.model, DefaultBudget(s.model.Info(), chat.Persona()), word)
		failed = append(failed, err)
	}
	failed = append(failed, s.world.Load([]byte(`{"lull_world":1,"agents":[{"id":"`+word+`"}]`)), heads.Err())
	broken := 0
	for _, e := range s.events {
		failed = append(failed, e.Err)
	}
	for _, err := range failed {
		if err == nil {
			continue
		}
		if broken++; strings.Contains(err.Error(), word) {
			t.Errorf("an error quotes the player: %v", err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		if data, err := os.ReadFile(f); err != nil || bytes.Contains(data, []byte(word)) {
			t.Errorf("%s holds what the player said (%v)", f, err)
		}
	}
	if out := logged.String() + streams(); strings.Contains(out, word) || broken < 3 || len(files) == 0 {
		t.Errorf("%d errors, %d files of heads, written was %q", broken, len(files), out)
	}
}

// capture gathers what is written to the standard streams until it is asked.
func capture(t *testing.T) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "streams"))
	if err != nil {
		t.Fatal(err)
	}
	out, errs := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = file, file
	restore := func() { os.Stdout, os.Stderr = out, errs }
	t.Cleanup(func() { restore(); file.Close() })
	return func() string {
		restore()
		data, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
}

// TestNothingLeavesTheDevice checks that what sees a player's words imports
// neither the network nor a logger.
func TestNothingLeavesTheDevice(t *testing.T) {
	for _, dir := range []string{".", "../runtime/llm", "../runtime/llm/gbnf", "../runtime/speculative", "../rag"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range tree.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				root, _, _ := strings.Cut(path, "/")
				if root == "net" || root == "log" || path == "os/exec" {
					t.Errorf("%s imports %s", f, path)
				}
			}
		}
	}
}
