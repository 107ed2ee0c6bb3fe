package play

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/meter"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/runtime/llm"
)

func newGame(t testing.TB, dir, lang string) *Game {
	t.Helper()
	d, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	v, err := talk.New(talk.Config{Game: d, Open: talk.Scripted(d), Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Config{Game: d, Voices: v, Files: Folder{Dir: dir, Direct: true}, Lang: lang})
}

// hands press keys.
type hands struct {
	t *testing.T
	g *Game
}

func (h hands) wait(ticks int) {
	for range ticks {
		h.g.Tick(&input.Frame{})
	}
}

func (h hands) press(actions ...input.Action) {
	for _, a := range actions {
		var f input.Frame
		f.Press(a)
		h.g.Tick(&f)
		h.wait(1)
	}
}

func (h hands) say(line string) {
	h.g.Tick(&input.Frame{Said: line})
	h.wait(120)
}

func (h hands) want(s ui.Screen) {
	h.t.Helper()
	if h.g.Screen() != s {
		h.t.Fatalf("the screen is %s, want %s; notes %v", h.g.Screen(), s, h.g.View().Notes)
	}
}

// begin plays from the title into the village.
func begin(t *testing.T, dir, lang string) hands {
	h := hands{t, newGame(t, dir, lang)}
	h.want(ui.Title)
	h.press(input.Act)
	h.want(ui.Loading)
	h.wait(loadingTicks)
	h.want(ui.Explore)
	return h
}

// No text of the tour is cut off or lies upon another, in any language, with the
// HUD and without.
func TestTourIsReadable(t *testing.T) {
	script, err := input.Named("tour")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lang string
		hud  bool
	}{{"en", true}, {"en", false}, {"ko", true}, {"ko", false}} {
		g := newGame(t, t.TempDir(), c.lang)
		m, err := meter.New(time.Second / 60)
		if err != nil {
			t.Fatal(err)
		}
		var canvas ui.Canvas
		seen := map[string]bool{}
		for tick := int64(0); !g.Ended(); tick++ {
			in := script.At(tick)
			g.Tick(&in)
			if tick%7 != 0 {
				continue
			}
			v := g.View()
			v.HUD = nil
			if g.hud = c.hud; c.hud {
				s := meter.State{Stats: g.voices.Stats(false), TTFTMs: []float64{12345}}
				s.On, s.Wanted = g.voices.Policy()
				s.Stats.Steered, s.Stats.Device = tick%2 == 0, "CPU"
				s.Stats.Embeds = tick%3 == 0
				v.HUD = m.HUD(v.T, s)
			}
			canvas.Reset()
			ui.Show(&canvas, v)
			for _, p := range canvas.Check() {
				if !seen[p] {
					seen[p] = true
					t.Errorf("%s, HUD %t, tick %d, %s: %s", c.lang, c.hud, tick, g.Screen(), p)
				}
			}
		}
		if g.world.Quest != rules.QuestDone {
			t.Errorf("%s: the tour ends with the quest %s", c.lang, g.world.Quest)
		}
		if len(g.Faults()) > 0 {
			t.Errorf("%s: %v", c.lang, g.Faults())
		}
	}
}

// A bark is there in the tick after the line, whatever the model does.
func TestBarkAtOnce(t *testing.T) {
	h := begin(t, t.TempDir(), "en")
	h.g.Tick(&input.Frame{Said: "Who are you?"}) // opens the dialogue with Wren, who is near
	h.want(ui.Dialogue)
	h.wait(1)
	v := h.g.View()
	last := v.Heard[len(v.Heard)-1]
	if !last.Bark || last.Text == "" {
		t.Errorf("after a tick %+v was heard, want a bark", v.Heard)
	}
	h.wait(200)
	v = h.g.View()
	if last = v.Heard[len(v.Heard)-1]; last.Bark || last.Open || !strings.Contains(last.Text, "Wren") {
		t.Errorf("then %+v, want a reply", last)
	}
}

// People remember across save and load, and the world is as it was.
func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	h := begin(t, dir, "en")
	h.say("Who are you?")
	h.press(input.Back)
	h.g.world.Gold = 77
	before := h.g.world.Save()
	past, err := h.g.voices.Save()
	if err != nil {
		t.Fatal(err)
	}
	h.g.Save()
	h.wait(2)
	if n := h.g.View().Notes; len(n) == 0 || n[len(n)-1] != "Saved" {
		t.Fatalf("notes %q", n)
	}
	other := hands{t, newGame(t, dir, "en")}
	other.press(input.Down, input.Act)
	other.want(ui.Loading)
	after := other.g.world.Save()
	if d := cmp.Diff(before, after, cmp.AllowUnexported(before)); d != "" {
		t.Errorf("the world (-saved +loaded):\n%s", d)
	}
	again, err := other.g.voices.Save()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(past), string(again)); d != "" {
		t.Errorf("the voices (-saved +loaded):\n%s", d)
	}
}

// A damaged save is refused in words, and the game goes on.
func TestDamagedSave(t *testing.T) {
	for _, text := range []string{"", "{", `{"lull_demo":9}`, `{"lull_demo":1,"world":{"Area":"moon"}}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, byHand.game), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h := begin(t, dir, "en")
		h.g.Load()
		h.wait(2)
		h.want(ui.Explore)
		n := h.g.View().Notes
		if len(n) == 0 || !strings.Contains(n[len(n)-1], "Not loaded") {
			t.Errorf("%q: notes %q", text, n)
		}
	}
}

// F2 goes through the policies; what was lived through goes along.
func TestPolicies(t *testing.T) {
	h := begin(t, t.TempDir(), "en")
	h.say("Who are you?")
	var seen []string
	for range talk.Policies {
		h.press(input.Policy)
		h.wait(2)
		on, _ := h.g.voices.Policy()
		seen = append(seen, on)
	}
	if d := cmp.Diff([]string{"native", "vanilla", "sereno", "lull"}, seen); d != "" {
		t.Errorf("policies (-want +got):\n%s", d)
	}
	raw, err := h.g.voices.Save()
	if err != nil || !strings.Contains(string(raw), "Who are you?") {
		t.Errorf("after all policies the line is forgotten: %v", err)
	}
}

// Keys can be changed, and a taken one is refused with the name of its use.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	h := begin(t, dir, "en")
	h.g.openKeys()
	h.g.chosen = int(input.Menu)
	h.press(input.Act)
	if !h.g.Typing() {
		t.Fatal("no key is awaited")
	}
	h.g.Tick(&input.Frame{RawKey: "E"})
	if head := h.g.View().Head; !strings.Contains(head, "taken by talk") {
		t.Errorf("a taken key: %q", head)
	}
	h.press(input.Act)
	h.g.Tick(&input.Frame{RawKey: "M"})
	if h.g.keys.Key(input.Menu) != "M" {
		t.Errorf("the menu's key is %q", h.g.keys.Key(input.Menu))
	}
	_, keys, err := ReadSettings(Folder{Dir: dir, Direct: true})
	if err != nil || keys.Key(input.Menu) != "M" {
		t.Errorf("kept: %v, %v", keys, err)
	}
}

// Who says that it wants to buy is shown the goods, and pays what the data says.
func TestBuyByWord(t *testing.T) {
	h := begin(t, t.TempDir(), "en")
	h.g.meet(h.g.data.Shopkeeper)
	h.say("I want to buy bread")
	h.want(ui.Shop)
	gold := h.g.world.Gold
	h.press(input.Act)
	if paid := gold - h.g.world.Gold; paid != h.g.data.Goods[0].Price || h.g.world.Pack["bread"] != 1 {
		t.Errorf("paid %d for %v", paid, h.g.world.Pack)
	}
	h.press(input.Back)
	h.want(ui.Dialogue)
}

// Where no model can be opened the title says why, readably, and the village is
// played with barks.
func TestNoVoices(t *testing.T) {
	for _, lang := range data.Languages {
		d, err := data.Load()
		if err != nil {
			t.Fatal(err)
		}
		missing := errors.New("assets: locate --model: path does not exist: stat a/rather/long/name/of/a/model.gguf")
		none := func(context.Context, harness.Policy, func(llm.Work), func(string, float64)) (talk.Stage, error) {
			return talk.Stage{}, missing
		}
		v, err := talk.New(talk.Config{Game: d, Direct: true, Open: none})
		if err != nil {
			t.Fatal(err)
		}
		h := hands{t, New(Config{Game: d, Voices: v, Lang: lang})}
		h.wait(1)
		var canvas ui.Canvas
		ui.Show(&canvas, h.g.View())
		if bad := canvas.Check(); len(bad) > 0 {
			t.Errorf("%s: %q", lang, bad)
		}
		if text := strings.Join(canvas.Texts(), " "); !strings.Contains(text, "does not") {
			t.Errorf("%s: the title says %q", lang, text)
		}
		h.press(input.Act)
		h.wait(loadingTicks + 1)
		h.say("Who are you?")
		last := h.g.heard[len(h.g.heard)-1]
		if !last.Bark || h.g.Awaited() > 0 || len(h.g.Faults()) != 1 || !errors.Is(h.g.Faults()[0], missing) {
			t.Errorf("%s: %+v was heard, %d are awaited, faults %v", lang, last, h.g.Awaited(), h.g.Faults())
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
