package npc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llm/gbnf"
	"github.com/lull-npc/lull/runtime/scripted"
)

// smithOffer has a parameter of every kind.
func smithOffer() Offer {
	return Offer{
		Actions: []ActionSpec{
			{Name: "give_item", Description: "hands something from the shop over", Params: []Param{
				{Name: "item", Kind: ParamEnum, Values: []string{"sword", "bread", "the \"good\" shield"}},
				{Name: "count", Description: "how many", Kind: ParamInt, Min: 1, Max: 120},
				{Name: "to", Kind: ParamTarget, Target: "person"},
			}},
			{Name: "set_price", Params: []Param{
				{Name: "factor", Description: "of the usual", Kind: ParamReal, Min: -0.5, Max: 12.25, Decimals: 2},
				{Name: "final", Kind: ParamBool},
				{Name: "note", Kind: ParamText, MaxRunes: 40},
			}},
			{Name: "open", Params: []Param{{Name: "door", Kind: ParamTarget, Target: "door"}}},
			{Name: "leave"},
		},
		Targets: map[string][]string{"person": {"player", "Odo", "日本"}},
	}
}

func TestActionGolden(t *testing.T) {
	o := smithOffer()
	grammar, err := o.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "actions/smith.txt", o.Describe()+"---\n"+grammar)
	if _, err := gbnf.Parse(grammar); err != nil {
		t.Fatal(err)
	}
	o.Targets = nil
	nobody, err := o.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(nobody, "give") || !strings.Contains(nobody, "leave") {
		t.Errorf("without targets, what needs one can't be chosen:\n%s", nobody)
	}
}

// Every number in a range is allowed, and no other.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decimals := rapid.IntRange(0, 3).Draw(t, "decimals")
		lo := rapid.Int64Range(-1300, 1300).Draw(t, "lo")
		hi := rapid.Int64Range(lo, 2500).Draw(t, "hi")
		g, err := gbnf.Parse("root ::= " + numbers(lo, hi, decimals))
		if err != nil {
			t.Fatal(err)
		}
		unit := 1.0
		for range decimals {
			unit *= 10
		}
		for n := lo - 15; n <= hi+15; n++ {
			text := strconv.FormatFloat(float64(n)/unit, 'f', decimals, 64)
			if got, want := g.Match(text), n >= lo && n <= hi; got != want {
				t.Fatalf("%d … %d, %d decimals: %s is allowed: %v", lo, hi, decimals, text, got)
			}
		}
		for _, bad := range []string{"", "-0", "00", "01", "1e1", "+1", " 1", ".5", "1."} {
			if g.Match(bad) {
				t.Fatalf("%d … %d, %d decimals: %q is allowed", lo, hi, decimals, bad)
			}
		}
	})
}

func TestParseCall(t *testing.T) {
	o := smithOffer()
	cases := []struct{ text, want string }{
		{`{"action":"none"}`, `none()`},
		{`{"action":"leave"}`, `leave()`},
		{`{"action":"give_item","item":"the \"good\" shield","count":2,"to":"日本"}`,
			`give_item(item: "the \"good\" shield", count: 2, to: "日本")`},
		{`{"action":"set_price","factor":-0.25,"final":true,"note":"x"}`,
			`set_price(factor: -0.25, final: true, note: "x")`},
		{`{"action":"give_item","item":"sword","count":121,"to":"Odo"}`, "count: 121: want how many (1 to 120)"},
		{`{"action":"give_item","item":"crown","count":1,"to":"Odo"}`, "item: crown: want (sword, bread"},
		{`{"action":"give_item","item":"sword","count":1,"to":"Eve"}`, "to: Eve: want (player, Odo"},
		{`{"action":"give_item","item":"sword","count":1.5,"to":"Odo"}`, "count: 1.5"},
		{`{"action":"give_item","item":"sword","count":1}`, "2 arguments, want 3"},
		{`{"action":"set_price","factor":99,"final":true,"note":"x"}`, "factor: 99: want"},
		{`{"action":"set_price","factor":1,"final":"yes","note":"x"}`, "final: yes: want"},
		{`{"action":"open","door":"gate"}`, `"open" is not possible now`},
		{`{"action":"kill"}`, `"kill" is not possible now`},
		{`{"action":"none","x":1}`, `"none" is not possible now`},
		{`{"action":{"a":1}}`, "want a plain value"},
		{`{"action":"leave","action":"leave"}`, "comes twice"},
		{`{"action":"leave"} x`, "something follows"},
		{`{"action":"leave"`, "EOF"},
		{`[]`, "want a JSON object"},
		{``, "want a JSON object"},
	}
	for _, c := range cases {
		a, err := o.Parse(c.text)
		switch {
		case err == nil && a.String() != c.want:
			t.Errorf("%s: %s, want %s", c.text, a, c.want)
		case err != nil && (!errors.Is(err, ErrAction) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %s", c.text, err, c.want)
		}
	}
	for text, want := range map[string]string{ // what is not possible still says what was meant
		`{"action":"open","door":"gate"}`:                                `open(door: "gate")`,
		`{"action":"give_item","item":"sword","count":1,"to":"E\u202e"}`: `give_item(item: "sword", count: 1, to: "E")`,
		`{"action":"set_price","factor":"low","final":true,"note":"x"}`:  `set_price(final: true, note: "x")`,
		`{"action":"kill","who":"Odo"}`:                                  `kill()`,
		`{"action":"Kill them all","who":"Odo"}`:                         `()`,
	} {
		if a, err := o.Parse(text); err == nil || a.String() != want {
			t.Errorf("%s: %s, %v, want an error and %s", text, a, err, want)
		}
	}
	a, err := o.Parse(`{"action":"give_item","item":"sword","count":7,"to":"Odo"}`)
	if x, ok := a.Arg("count"); err != nil || !ok || x.Int != 7 {
		t.Errorf("%v %v %v", a, x, err)
	}
	if _, ok := a.Arg("nothing"); ok {
		t.Error("an argument that is not there")
	}
}

func TestOfferErrors(t *testing.T) {
	one := func(p Param) Offer { return Offer{Actions: []ActionSpec{{Name: "act", Params: []Param{p}}}} }
	cases := []struct {
		offer Offer
		says  string
	}{
		{Offer{Actions: make([]ActionSpec, MaxActions+1)}, "33 actions"},
		{Offer{Actions: []ActionSpec{{Name: "none"}}}, `the name "none" is lull's own`},
		{Offer{Actions: []ActionSpec{{Name: "offer_quest"}}}, `the name "offer_quest" is lull's own`},
		{Offer{Actions: []ActionSpec{{Name: "Give"}}}, "no name for an action"},
		{Offer{Actions: []ActionSpec{{Name: "a__b"}}}, "no name for an action"},
		{Offer{Actions: []ActionSpec{{Name: "a"}, {Name: "a"}}}, "declared twice"},
		{Offer{Actions: []ActionSpec{{Name: "a", Description: "x\ny"}}}, "one line"},
		{Offer{Actions: []ActionSpec{{Name: "a", Params: make([]Param, 9)}}}, "9 parameters"},
		{one(Param{Name: "action"}), "is no name"},
		{one(Param{Name: "x", Kind: 99}), "unknown kind"},
		{one(Param{Name: "x", Kind: ParamInt, Min: 2, Max: 1}), "rises"},
		{one(Param{Name: "x", Kind: ParamInt, Min: 0.5, Max: 1}), "whole numbers"},
		{one(Param{Name: "x", Kind: ParamReal, Max: 1}), "0 decimals"},
		{one(Param{Name: "x", Kind: ParamReal, Min: 0.01, Max: 0.02, Decimals: 1}), "no number of 1 decimals"},
		{one(Param{Name: "x", Kind: ParamEnum}), "0 values"},
		{one(Param{Name: "x", Kind: ParamEnum, Values: []string{"a\nb"}}), "one visible line"},
		{one(Param{Name: "x", Kind: ParamText}), "MaxRunes 0"},
		{one(Param{Name: "x", Kind: ParamTarget}), "kind of target"},
		{Offer{Targets: map[string][]string{"k": {"\u200b"}}}, "target of kind k"},
		{Offer{Targets: manyKinds(65)}, "65 kinds of target, want at most 64"},
		{manyActions(32, 2, 64, 10), "too much to choose from: written out it takes 81015 bytes"},
		{manyActions(32, 8, 64, 60), "want at most 16384; a10 takes the most, 35629"},
		{freeTexts(11, 200), "free texts of 2200 characters in all, want at most 2000"},
	}
	for _, c := range cases {
		for _, err := range []error{c.offer.Validate(), second(c.offer.Grammar())} {
			if !errors.Is(err, ErrAction) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %.200v, want one that says %q", err, c.says)
			}
		}
	}
}

func second(_ string, err error) error { return err }

func manyKinds(n int) map[string][]string {
	kinds := map[string][]string{}
	for i := range n {
		kinds[fmt.Sprint("kind ", i)] = []string{"x"}
	}
	return kinds
}

// manyActions is an offer of so many actions, with so many parameters, each of
// so many values that are so long.
func manyActions(actions, params, values, length int) Offer {
	var o Offer
	for i := range actions {
		a := ActionSpec{Name: fmt.Sprint("a", i)}
		for k := range params {
			p := Param{Name: fmt.Sprint("p", k), Kind: ParamEnum}
			for v := range values {
				p.Values = append(p.Values, fmt.Sprintf("%0*d", length, v))
			}
			a.Params = append(a.Params, p)
		}
		o.Actions = append(o.Actions, a)
	}
	return o
}

func freeTexts(n, runes int) Offer {
	var o Offer
	for i := range n {
		o.Actions = append(o.Actions, ActionSpec{Name: fmt.Sprint("say", i),
			Params: []Param{{Name: "words", Kind: ParamText, MaxRunes: runes}}})
	}
	return o
}

// An offer that is accepted where it is declared can be chosen from, with as
// many quests as a character may have, and anything at its limits is quickly
// told.
func TestAcceptedOffersCanBeChosenFrom(t *testing.T) {
	var quests []Quest
	for i := range MaxQuests {
		quests = append(quests, Quest{ID: fmt.Sprintf("quest_%026d", i), Text: "find it"})
	}
	rapid.Check(t, func(t *rapid.T) {
		o := manyActions(rapid.IntRange(0, MaxActions-10).Draw(t, "actions"), rapid.IntRange(0, 2).Draw(t, "params"),
			rapid.IntRange(1, 20).Draw(t, "values"), rapid.IntRange(2, 20).Draw(t, "length"))
		free := freeTexts(rapid.IntRange(0, 10).Draw(t, "texts"), rapid.IntRange(1, MaxParamText).Draw(t, "runes"))
		o.Actions = append(o.Actions, free.Actions...)
		if o.Validate() != nil {
			return
		}
		grammar, err := o.withQuests(quests, 0).Grammar()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gbnf.Parse(grammar); err != nil {
			t.Fatalf("%d actions: %v", len(o.Actions), err)
		}
		if !strings.Contains(grammar, ActionOfferQuest) {
			t.Fatalf("no quest can be offered beside %d actions", len(o.Actions))
		}
	})
}

// What nobody sees, or turns a text round, does not come into a game with a
// call, and does not count as a text.
func TestFreeTextIsCleaned(t *testing.T) {
	o := freeTexts(1, 60)
	a, err := o.Parse("{\"action\":\"say0\",\"words\":\" Run \u202e\u200bto  the mill \"}")
	if want := `say0(words: "Run to the mill")`; err != nil || a.String() != want {
		t.Errorf("%s, %v, want %s", a, err, want)
	}
	if a, err := o.Parse("{\"action\":\"say0\",\"words\":\"\u200b \u202e\"}"); err == nil {
		t.Errorf("a text that nobody sees is taken: %q", a)
	}
}

// A character whose game offers as many actions as there may be still gives its
// quests.
func TestQuestBesideManyActions(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "do now?") {
			return `{"action":"offer_quest","quest":"find_wenna"}`
		}
		return "Will you help me?"
	}}, WorldConfig{})
	s.add("a", person("Ann"))
	if err := s.world.SetOffer("a", manyActions(MaxActions, 0, 1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.world.SetQuest("a", Quest{ID: "find_wenna", Text: "find Wenna"}); err != nil {
		t.Fatal(err)
	}
	s.say("a", "hello")
	if e := s.until(EventAction, "a"); e.Action.Name != ActionOfferQuest {
		t.Errorf("it wants %s", e.Action)
	}
}

// A model that wants anything but to call still calls validly: 1,000 sampled
// choices with every kind of parameter.
func TestEveryChoiceIsValid(t *testing.T) {
	o := smithOffer()
	grammar, err := o.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	model, err := scripted.New(scripted.Config{Script: func(scripted.Conversation) string {
		return `{"action":"kill","target":"everybody"}`
	}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := llm.NewEngine(model, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	seen := map[string]int{}
	for seed := range uint32(1000) {
		text, usage := choose(t, engine, grammar, seed)
		a, err := o.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if usage.Forced == 0 {
			t.Fatalf("seed %d: nothing was forced in %s", seed, text)
		}
		seen[a.Name]++
		for _, x := range a.Args {
			seen[fmt.Sprintf("%s.%s=%s", a.Name, x.Name, x.Kind)]++
		}
	}
	want := map[string]bool{"none": true, "leave": true, "give_item": true, "set_price": true}
	for name := range want {
		if seen[name] == 0 {
			t.Errorf("never chose %s: %v", name, seen)
		}
	}
	if diff := cmp.Diff(10, len(seen)); diff != "" {
		t.Errorf("kinds seen: %v", seen)
	}
}

func choose(t *testing.T, engine *llm.Engine, grammar string, seed uint32) (string, llm.Usage) {
	t.Helper()
	_, err := engine.Submit(llm.Request{Prompt: []llm.Token{1, 2, 3}, MaxTokens: 400,
		Sampling: llm.Sampling{Temperature: 2, Seed: seed, Grammar: grammar}})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for range 2000 {
		if _, err := engine.Step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
		for _, e := range engine.Poll(nil) {
			text += e.Text
			switch {
			case e.Kind == llm.EventFailed:
				t.Fatal(e.Err)
			case e.Kind == llm.EventDone:
				return text, e.Usage
			}
		}
	}
	t.Fatal("no end")
	return "", llm.Usage{}
}

func FuzzParseCall(f *testing.F) {
	f.Add(`{"action":"give_item","item":"sword","count":7,"to":"Odo"}`)
	f.Add(`{"action":"set_price","factor":-0.25,"final":true,"note":"x"}`)
	o := smithOffer()
	grammar, err := o.Grammar()
	if err != nil {
		f.Fatal(err)
	}
	g, err := gbnf.Parse(grammar)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := o.Parse(text)
		if err != nil && !errors.Is(err, ErrAction) {
			t.Fatal(err)
		}
		if g.Match(text) && err != nil && !strings.Contains(err.Error(), "note: ") { // a text that nobody sees
			t.Fatalf("the grammar allows %q (%v), Parse does not: %v", text, a, err)
		}
	})
}
