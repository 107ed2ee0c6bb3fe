package npc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

func TestBlockListFinds(t *testing.T) {
	list := newBlockList([]string{"damn", "son of a goat", "curs*", "straße", "悪い言葉", "дурак", "no one's"},
		[]string{"42"})
	for text, want := range map[string]string{
		"Damn!":                          "damn",
		"DAMN":                           "damn",
		"ｄａｍｎ it":                        "damn", // fullwidth
		"da\u200bmn":                     "damn", // zero width
		"𝐝𝐚𝐦𝐧":                           "damn", // mathematical bold
		"You son of\n a  — goat, you":    "son of a goat",
		"He cursed.":                     "curs*",
		"accurst and accursed":           "",
		"damnation, undamn":              "",
		"son of a goatherd":              "",
		"STRASSE":                        "straße",
		"とても悪い言葉です":                      "悪い言葉",
		"悪い言 葉":                          "",
		"ДУРАК!":                         "дурак",
		"дураком":                        "",
		"the 42 of us, 142":              "42",
		"no one’s":                       "no one's",
		"":                               "",
		"a harmless line":                "",
		"da mn":                          "",
		"dämn":                           "",
		"e\u0301 damn\u0301":             "", // another letter
		"It is worth (damn) all of it":   "damn",
		"son of a, I say, son of a goat": "son of a goat",
	} {
		if got, _ := list.finds(text); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	if newBlockList(nil, []string{"  ", "…"}) != nil {
		t.Error("a list of nothing blocks something")
	}
}

// stream passes a text through a guard in pieces, sentences made as a Speech
// makes them.
func stream(list *blockList, pieces []string) (said string, sentences []string, hits int) {
	g := newGuard(list)
	s := NewSpeech(SpeechConfig{Name: "Ann"})
	hear := func(in []Spoken) {
		for _, p := range g.pass(nil, in) {
			switch p.Kind {
			case SpokenText:
				said += p.Text
			case SpokenSentence:
				sentences = append(sentences, p.Text)
			case spokenBlocked:
				hits++
			}
		}
	}
	for _, p := range pieces {
		hear(s.Add(nil, p))
	}
	hear(s.End(nil))
	return said, sentences, hits
}

// What is let through never holds an entry, however the text is split, and the
// same comes out; without an entry in it, all of it does.
func TestGuardProperties(t *testing.T) {
	list := newBlockList([]string{"ab a", "aba*", "ba b", "äa", "ｂｂ", "猫"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aabbAB  .!äａ猫\u0308\u200b,")), 0, 60, -1).Draw(t, "text")
		whole, sentences, hits := stream(list, []string{text})
		var pieces []string
		for rest := []rune(text); len(rest) > 0; {
			n := rapid.IntRange(1, min(6, len(rest))).Draw(t, "piece")
			pieces, rest = append(pieces, string(rest[:n])), rest[n:]
		}
		said, again, _ := stream(list, pieces)
		if said != whole || fmt.Sprint(again) != fmt.Sprint(sentences) {
			t.Fatalf("%q: split %q gives %q %q, whole %q %q", text, pieces, said, again, whole, sentences)
		}
		for _, out := range append(sentences, said) {
			if entry, found := list.finds(out); found {
				t.Fatalf("%q: let through %q, which holds %q", text, out, entry)
			}
		}
		plain := NewSpeech(SpeechConfig{Name: "Ann"})
		plain.End(plain.Add(nil, text))
		if _, found := list.finds(plain.Text()); !found && (said != plain.Text() || hits > 0) {
			t.Fatalf("%q is harmless, let through was %q", text, said)
		}
	})
}

const rant = "I greet you. You damned son of a goat! The gate is [joy] shut. <think>That goat again.</think>Go home."

func TestBlockListGolden(t *testing.T) {
	choice := ""
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		switch line := c.Last(llm.User); {
		case strings.Contains(line, "What does Ann do now?"):
			return choice
		case strings.Contains(line, "Say it"):
			return "Goat."
		}
		return rant
	}}, WorldConfig{Blocked: []string{"GOAT"}})
	p := person("Ann")
	p.Blocked, p.Emotions = []string{"bread*"}, []string{"joy"}
	p.Barks[BarkBlocked] = []string{"I bite my tongue.", "Your goat!"}
	s.add("ann", p)
	s.say("ann", "Who are you?")
	s.until(EventDone, "ann")
	s.note("a second time: the bark was said lately, and the other one is blocked")
	s.say("ann", "Say it.")
	s.until(EventDone, "ann")
	s.note("an action whose text is blocked")
	if err := s.world.SetOffer("ann", smithOffer()); err != nil {
		t.Fatal(err)
	}
	choice = `{"action":"set_price","factor":1.25,"final":true,"note":"breads!"}`
	s.say("ann", "The price?")
	s.until(EventDone, "ann")
	s.until(EventBlocked, "ann")
	s.history("ann")
	golden(t, "world/blocked.txt", s.trace.String())
	for _, e := range s.events {
		for _, text := range []string{e.Text, e.Action.String()} {
			if strings.Contains(strings.ToLower(text), "goat") || strings.Contains(text, "bread") {
				t.Errorf("%s %q", e.Kind, text)
			}
		}
	}
}

// judge has a stage's content hook asked as often as it has questions.
func (s *stage) judge() {
	for s.world.Judge() {
	}
}

func (s *stage) judging(n int) {
	for range n {
		s.judge()
		s.frames(1)
	}
}

func TestContentHookGolden(t *testing.T) {
	var asked []Utterance
	var s *stage
	s = newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		return "I greet you. You are a fool! Buy a sword. It is cheap. [joy] Farewell."
	}}, WorldConfig{Content: func(u Utterance) Ruling {
		asked = append(asked, u)
		if !s.world.Awaits(u) {
			t.Errorf("nobody awaits the ruling on %+v", u)
		}
		switch {
		case strings.Contains(u.Text, "fool"):
			return Ruling{Kind: RulingReplace, Text: "You are\na friend!"}
		case strings.Contains(u.Text, "sword"):
			return Ruling{Kind: RulingDrop}
		case strings.Contains(u.Text, "cheap"):
			panic("the classifier is broken")
		}
		return Ruling{}
	}})
	p := person("Ann")
	p.Emotions = []string{"joy"}
	p.Barks[BarkBlocked] = []string{"Never mind."}
	s.add("ann", p)
	s.say("ann", "Hello.")
	s.frames(60)
	s.note("the hook begins its work: nothing was heard before")
	for _, e := range s.events {
		if e.Kind == EventText || e.Kind == EventSentence {
			t.Errorf("said before it was judged: %+v", e)
		}
	}
	s.judging(10)
	for _, u := range asked {
		if s.world.Awaits(u) {
			t.Errorf("a ruling on %+v is awaited still", u)
		}
	}
	s.note("nobody judges: each sentence is late")
	s.say("ann", "And now?")
	s.frames(600)
	s.history("ann")
	golden(t, "world/content.txt", s.trace.String())
	if len(asked) != 5 || asked[0].Text != "I greet you." || asked[0].Agent != "ann" {
		t.Errorf("asked %+v", asked)
	}
	checkOrder(t, s.events)
}

// checkOrder checks that a turn's sentences are its text, and that nothing of a
// turn comes after its end.
func checkOrder(t *testing.T, events []Event) {
	t.Helper()
	over, text := map[TurnID]bool{}, map[TurnID]string{}
	for _, e := range events {
		if over[e.Turn] && e.Turn != 0 {
			t.Errorf("after the end of turn %d: %s %q", e.Turn, e.Kind, e.Text)
		}
		switch e.Kind {
		case EventText:
			text[e.Turn] += e.Text
		case EventSentence:
			if !strings.HasSuffix(strings.TrimSpace(text[e.Turn]), e.Text) {
				t.Errorf("turn %d: sentence %q after the text %q", e.Turn, e.Text, text[e.Turn])
			}
		case EventDone, EventInterrupted, EventFailed:
			over[e.Turn] = true
			if got := strings.TrimSpace(text[e.Turn]); got != strings.TrimSpace(e.Text) {
				t.Errorf("turn %d: %s says %q, the text was %q", e.Turn, e.Kind, e.Text, got)
			}
		}
	}
}

// Interrupt, Remove, Load and Say work while sentences wait for the hook.
func TestContentHookInterrupted(t *testing.T) {
	for name, end := range map[string]func(s *stage){
		"interrupt": func(s *stage) { s.world.Interrupt("ann") },
		"remove":    func(s *stage) { _ = s.world.Remove("ann") },
		"say":       func(s *stage) { s.say("ann", "Stop!") },
		"load": func(s *stage) {
			if err := s.world.Load([]byte(`{"lull_world":1,"agents":[]}`)); err != nil {
				s.Error(err)
			}
		},
	} {
		for _, frames := range []int{3, 6, 12, 40} {
			s := newStage(t, scripted.Config{Script: func(scripted.Conversation) string { return tale }},
				WorldConfig{Content: func(Utterance) Ruling { return Ruling{} }})
			s.add("ann", person("Ann"))
			first := s.say("ann", "Tell me a tale.")
			s.frames(frames)
			s.judge() // the first sentence, if it is there
			s.frames(1)
			end(s)
			s.judging(60)
			interrupted := 0
			for _, e := range s.events {
				if e.Turn == first && e.Kind == EventInterrupted {
					interrupted++
				}
				if e.Kind == EventDone && e.Turn == first {
					t.Errorf("%s after %d frames: done all the same", name, frames)
				}
			}
			if interrupted != 1 || len(s.world.active) != 0 {
				t.Errorf("%s after %d frames: %d times interrupted, %d active\n%s", name, frames, interrupted,
					len(s.world.active), s.trace.String())
			}
			checkOrder(t, s.events)
		}
	}
}

// What a content hook puts in the place of a sentence goes by the block list,
// too.
func TestHookReplacesWithWhatIsBlocked(t *testing.T) {
	ann := person("Ann")
	ann.Barks[BarkBlocked] = []string{"Ahem."}
	two := func(scripted.Conversation) string { return "First thing. Second thing." }
	s := newStage(t, scripted.Config{Script: two},
		WorldConfig{Blocked: []string{"goat*"}, Content: func(u Utterance) Ruling {
			if u.Number == 1 {
				return Ruling{RulingReplace, "A kind word."}
			}
			return Ruling{RulingReplace, "You old Goatherd"}
		}})
	s.add("ann", ann)
	s.say("ann", "hello")
	s.judging(60)
	var blocked []string
	for _, e := range s.events {
		if strings.Contains(strings.ToLower(e.Text), "goat") {
			t.Errorf("%s: %q", e.Kind, e.Text)
		}
		if e.Kind == EventBlocked {
			blocked = append(blocked, e.Reason+" "+e.Text)
		}
	}
	if got := strings.Join(blocked, "|"); got != "replaced A kind word.|list " {
		t.Errorf("blocked %q\n%s", got, s.trace.String())
	}
	if h := s.world.History("ann"); h[len(h)-1].Text != "A kind word." {
		t.Errorf("history %+v", h)
	}
}

// The hook of a world with its own goroutine may take for ever: the game thread
// goes on, and the world closes.
func TestContentHookThatHangs(t *testing.T) {
	model, err := scripted.New(scripted.Config{Script: scripted.Echo})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := llm.NewEngine(model, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	hangs, begun := make(chan struct{}), make(chan struct{}, 1)
	defer close(hangs)
	w, err := NewWorld(WorldConfig{Engine: engine, Model: model, ContentTimeout: time.Second,
		Content: func(Utterance) Ruling { begun <- struct{}{}; <-hangs; return Ruling{} }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(AgentSpec{ID: "ann", Persona: person("Ann")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Say(Line{To: "ann", Text: "hello"}, 0); err != nil {
		t.Fatal(err)
	}
	var events []Event
	for now, done := int64(0), false; !done; now++ {
		_, _ = engine.Step(llm.Grant{})
		select {
		case <-begun:
			now += 2e9
		default:
		}
		events = w.Poll(events[:0], now)
		for _, e := range events {
			if e.Kind == EventText {
				t.Errorf("said unjudged: %q", e.Text)
			}
			done = done || e.Kind == EventDone
		}
	}
	w.Close()
}

// Whatever bytes come, in whatever pieces: nothing panics, and what is let
// through holds no entry.
func FuzzWatch(f *testing.F) {
	f.Add("You old goat!", 3, "goat")
	f.Add("\xff\xf0\x9f\u0308ｇｏ\u200bat", 1, "goat*")
	f.Add(strings.Repeat("\u0301", 80)+"ab", 7, "ab")
	f.Fuzz(func(t *testing.T, text string, piece int, entry string) {
		list := newBlockList([]string{entry})
		if list == nil || len(text) > 4096 {
			return
		}
		w, said := watch{list: list}, ""
		for rest := text; rest != ""; {
			n := min(len(rest), max(1, piece))
			pass, _, _ := w.add(rest[:n], false)
			said, rest = said+pass, rest[n:]
		}
		pass, _, _ := w.add("", true)
		if said += pass; len(said) > len(text) {
			t.Fatalf("%q became %q", text, said)
		}
		if _, found := list.finds(said); found {
			t.Fatalf("of %q with %q blocked, let through was %q", text, entry, said)
		}
	})
}
