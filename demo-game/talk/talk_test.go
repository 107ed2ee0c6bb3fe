package talk

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

const frame = 16_666_667

func voices(t *testing.T, open Opener, direct bool) (*Voices, *data.Game) {
	t.Helper()
	g, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	if open == nil {
		open = Scripted(g)
	}
	v, err := New(Config{Game: g, Open: open, Direct: direct})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Twice: a measured run closes its voices, and the window that ends closes what it has.
		if err := errors.Join(v.Close(), v.Close()); err != nil {
			t.Error(err)
		}
	})
	return v, g
}

// hear polls until somebody is done, and returns all that was heard.
func hear(t *testing.T, v *Voices, until Kind) (all []Heard) {
	t.Helper()
	for i := int64(0); i < 10_000; i++ {
		from := len(all)
		all = v.Poll(all, i*frame)
		for _, h := range all[from:] {
			if h.Kind == until {
				return all
			}
			if h.Kind == Failed {
				t.Fatal(h.Err)
			}
		}
	}
	t.Fatalf("nothing of kind %d in 10000 frames, but %+v", until, all)
	return nil
}

func said(all []Heard) string {
	var b strings.Builder
	for _, h := range all {
		if h.Kind == Said {
			b.WriteString(h.Text)
		}
	}
	return b.String()
}

// A model that states wrong prices is corrected before it is heard.
func TestWrongPricesAreNotHeard(t *testing.T) {
	liar := func(_ context.Context, _ harness.Policy, observe func(llm.Work), _ func(string, float64)) (Stage, error) {
		model, err := scripted.New(scripted.Config{Context: 4096, MaxBatch: 512, Clock: scripted.NewClock(0),
			Script: func(scripted.Conversation) string { return "A fine day. A potion costs 99 silver. Take it." }})
		if err != nil {
			return Stage{}, err
		}
		engine, err := llm.NewEngine(model, llm.EngineConfig{Clock: scripted.NewClock(0)})
		if err != nil {
			return Stage{}, err
		}
		pump := func() {
			if w, err := engine.Step(llm.Grant{}); err == nil {
				observe(w)
			}
		}
		return Stage{Engine: engine, Model: model, Pump: pump}, nil
	}
	v, _ := voices(t, liar, true)
	v.Switch("lull")
	v.Say("tilda", "How much is a potion?", 0)
	text := said(hear(t, v, Done))
	if strings.Contains(text, "99") || !strings.Contains(text, "Potion costs 8 silver.") {
		t.Errorf("heard %q", text)
	}
	past, err := v.Save()
	if err != nil || strings.Contains(string(past), "99 silver") {
		t.Errorf("she remembers the wrong price: %v", err)
	}
}

// Under native people bark and no more; what was lived through comes back.
func TestSwitchKeepsThePast(t *testing.T) {
	v, _ := voices(t, nil, true)
	v.Switch("lull")
	v.Say("odila", "What troubles you?", 0)
	hear(t, v, Done)
	v.Switch("native")
	hear(t, v, Switched)
	v.Say("odila", "And now?", 0)
	all := v.Poll(nil, frame)
	if len(all) != 1 || all[0].Kind != Bark || v.Speaks() {
		t.Errorf("under native %+v was heard, want one bark", all)
	}
	v.Switch("sereno")
	hear(t, v, Switched)
	if past, err := v.Save(); err != nil || !strings.Contains(string(past), "What troubles you?") {
		t.Errorf("Odila has forgotten: %v", err)
	}
}

// News of another's witness are a memory of who heard it, and a fact.
func TestRumourIsRemembered(t *testing.T) {
	v, _ := voices(t, nil, true)
	v.Tell("pip", "wren", "The wolves are gone.", 0) // before anything is open
	v.Switch("lull")
	if n := v.Memories(); n != 1 {
		t.Errorf("%d memories, want the rumour", n)
	}
	v.Say("pip", "Any news?", 0)
	hear(t, v, Done)
	notes := ""
	for _, x := range v.world.Explain("pip") {
		for _, n := range x.Notes {
			notes += n.Text + "\n"
		}
	}
	if !strings.Contains(notes, "You heard from Wren: The wolves are gone.") {
		t.Errorf("on Pip's mind: %q", notes)
	}
}

// A game that begins anew has no memories, and one that goes on has those of then.
func TestRecall(t *testing.T) {
	v, _ := voices(t, nil, true)
	v.Switch("lull")
	v.Tell("pip", "wren", "The wolves are gone.", 0)
	file := filepath.Join(t.TempDir(), "memories")
	if err := v.KeepMemories()(file); err != nil {
		t.Fatal(err)
	}
	v.Tell("pip", "wren", "The wolves are back.", 0)
	for _, c := range []struct {
		file string
		want int
	}{{"", 0}, {file, 1}, {file + " of a game without", 1}, {"", 0}} {
		if err := v.Recall(c.file)(); err != nil {
			t.Errorf("%q: %v", c.file, err)
		}
		if n := v.Memories(); n != c.want {
			t.Errorf("%q: %d memories, want %d", c.file, n, c.want)
		}
	}
}

// In a fight Wren's words become an order that the rules can take.
func TestSpokenOrder(t *testing.T) {
	v, g := voices(t, nil, true)
	v.Switch("lull")
	w := rules.New(g)
	w.Foes = []rules.Foe{{ID: 1, HP: 4}}
	v.Learn(w)
	v.Say(g.Companion, "Guard me!", 0)
	all := hear(t, v, Wants)
	act := all[len(all)-1]
	if act.Who != g.Companion || act.Action.Name != "guard" {
		t.Errorf("%s wants %s", act.Who, act.Action)
	}
	v.Answer(act.Turn, "", frame)
	if all := v.Poll(nil, 2*frame); len(all) > 0 && all[0].Kind == Failed {
		t.Error(all[0].Err)
	}
}

// Stages open off the game thread, and only the last policy asked for stays.
func TestCrew(t *testing.T) {
	g, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	open := Scripted(g)
	v, _ := voices(t, func(ctx context.Context, p harness.Policy, o func(llm.Work),
		tell func(string, float64)) (Stage, error) {
		if p.Name == "vanilla" {
			return Stage{}, errors.New("no such luck")
		}
		return open(ctx, p, o, tell)
	}, false)
	for _, p := range []string{"lull", "native", "sereno", "lull"} {
		v.Switch(p)
	}
	for on := ""; on != "lull"; on, _ = v.Policy() {
		v.Poll(nil, 0)
	}
	v.Switch("vanilla")
	for v.Err() == nil {
		v.Poll(nil, 0)
	}
	v.Switch("native")
	for on := ""; on != "native"; on, _ = v.Policy() {
		v.Poll(nil, 0)
	}
}
