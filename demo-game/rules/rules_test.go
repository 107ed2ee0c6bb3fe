package rules

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/demo-game/data"
)

func begin(t testing.TB) *World {
	t.Helper()
	g, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	return New(g)
}

// The shop charges what the data says, and refuses with a reason.
func TestShop(t *testing.T) {
	w := begin(t)
	w.Gold = 50
	for _, c := range []struct {
		gold, name int
		item, want string
	}{
		{7, 0, "potion", "refuse.gold"}, {8, 0, "potion", ""}, {100, 1, "sword", "refuse.name"},
		{39, 2, "sword", "refuse.gold"}, {40, 2, "sword", ""}, {100, 5, "moon", "refuse.order"},
	} {
		w.Gold, w.Name, w.Pack = c.gold, c.name, map[string]int{}
		r := w.Buy(c.item)
		if r.Key != c.want {
			t.Errorf("%+v: refused with %q", c, r.Key)
		}
		paid := c.gold - w.Gold
		bought := r.OK() && paid == w.game.Good(c.item).Price && w.Pack[c.item] == 1
		if refused := !r.OK() && paid == 0 && len(w.Pack) == 0; !bought && !refused {
			t.Errorf("%+v: paid %d for %v", c, paid, w.Pack)
		}
	}
}

// The quest takes both people, in order.
func TestQuest(t *testing.T) {
	w := begin(t)
	do := func(what, refusal string, after QuestState) {
		t.Helper()
		if r := w.Do(what); r.Key != refusal || w.Quest != after {
			t.Errorf("%s: refused %q, quest %s; want %q, %s", what, r.Key, w.Quest, refusal, after)
		}
	}
	do("deliver", "refuse.quest", QuestNone)
	do("forge", "refuse.quest", QuestNone)
	do("accept", "", QuestActive)
	do("forge", "refuse.ore", QuestActive)
	w.Pack["iron_ore"] = 1
	w.Gold = 4
	do("forge", "refuse.forge_gold", QuestActive)
	w.Gold = 5
	do("forge", "", QuestTool)
	do("forge", "refuse.order", QuestTool)
	do("deliver", "refuse.quest", QuestTool)
	w.Quest, w.Pack["bell_clapper"] = QuestPrize, 1
	do("deliver", "", QuestDone)
	if w.Gold != 35 || len(w.Rumours) != 1 {
		t.Errorf("%d silver, %d rumours: want the reward and one", w.Gold, len(w.Rumours))
	}
}

// What Wren saw reaches Odila by way of Pip and Tilda.
func TestRumours(t *testing.T) {
	w := begin(t)
	w.rumour("The wolves are gone.")
	var order []string
	var events []Event
	for range 60 * TicksPerSecond {
		events = w.Step(Input{}, events[:0])
		for _, e := range events {
			if e.Kind == Told {
				order = append(order, e.From+">"+e.Who)
			}
		}
	}
	want := []string{"wren>pip", "pip>tilda", "tilda>odila", "tilda>garrick"}
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("rumours (-want +got):\n%s", d)
	}
	if k := w.Knows("odila"); len(k) != 1 {
		t.Errorf("Odila knows %q", k)
	}
}

// Each order does what it says.
func TestOrders(t *testing.T) {
	w := begin(t)
	w.Area, w.Player, w.Ally.At = "wood", center(20, 12), center(19, 12)
	if w.Command(Guard) == "" || w.Command(Heal) == "" || w.Command(Fetch) == "" || w.Command("dance") == "" {
		t.Error("an order was taken at a moment that is none for it")
	}
	w.Foes = []Foe{{ID: 1, HP: 4, At: center(21, 12)}, {ID: 2, Down: true, Loot: true, At: center(16, 12)}}
	w.Wave = 1
	play := func(n int) {
		for range n {
			w.Step(Input{}, nil)
		}
	}
	if r := w.Command(Guard); r != "" {
		t.Fatal(r)
	}
	play(120)
	if w.HP != MaxHP || w.Ally.HP == MaxHP {
		t.Errorf("guarded: HP %d, companion %d: want the companion bitten", w.HP, w.Ally.HP)
	}
	w.HP = 10
	w.Command(Heal)
	play(200)
	if w.HP <= 10 {
		t.Errorf("healed: HP %d", w.HP)
	}
	gold := w.Gold
	w.Command(Fetch)
	play(200)
	if w.Gold != gold+lootGold {
		t.Errorf("fetched: silver %d after %d", w.Gold, gold)
	}
	if w.Fighting() {
		w.Command(Flee)
		play(300)
		if distance2(w.Ally.At, w.away()) > 40*40 {
			t.Errorf("fled to %v, want near %v", w.Ally.At, w.away())
		}
	}
}

// Any play is legal, can be saved, and goes on equally from its save.
func TestPlayProperties(t *testing.T) {
	w0 := begin(t)
	rapid.Check(t, func(t *rapid.T) {
		w := New(w0.game)
		w.Area = rapid.SampledFrom([]string{"village", "wood"}).Draw(t, "area")
		w.Player = center(20, 12)
		w.Ally.At = w.Player
		walk := func(w *World, plan []int) (all []Event) {
			for _, k := range plan {
				in := Input{DX: k%3 - 1, DY: k/3%3 - 1, Act: k/9%2 == 1}
				for range 1 + k/18 {
					all = w.Step(in, all)
				}
				if k%5 == 0 {
					w.Command(Orders[k%len(Orders)])
				}
			}
			return all
		}
		plan := rapid.SliceOfN(rapid.IntRange(0, 400), 1, 40)
		walk(w, plan.Draw(t, "before"))
		if !free(w.game.Area(w.Area), w.Player) || w.HP < 1 || w.HP > MaxHP || w.Gold < 0 {
			t.Fatalf("player at %v of %s, HP %d, silver %d", w.Player, w.Area, w.HP, w.Gold)
		}
		raw, err := json.Marshal(w.Save())
		if err != nil {
			t.Fatal(err)
		}
		var s World
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		again, err := Restore(w.game, s)
		if err != nil {
			t.Fatal(err)
		}
		after := plan.Draw(t, "after")
		if d := cmp.Diff(walk(w, after), walk(again, after)); d != "" {
			t.Fatalf("from the save (-played +restored):\n%s", d)
		}
		opts := cmp.Options{cmpopts.IgnoreUnexported(World{}), cmpopts.EquateEmpty()}
		if d := cmp.Diff(w, again, opts); d != "" {
			t.Fatalf("from the save (-played +restored):\n%s", d)
		}
	})
}

func TestRestoreRefuses(t *testing.T) {
	w := begin(t)
	for name, spoil := range map[string]func(*World){
		"area": func(s *World) { s.Area = "moon" }, "wall": func(s *World) { s.Player = Point{} },
		"hp": func(s *World) { s.HP = 0 }, "quest": func(s *World) { s.Quest = "lost" },
		"order": func(s *World) { s.Ally.Order = "dance" }, "foes": func(s *World) { s.Foes = make([]Foe, 99) },
	} {
		s := w.Save()
		spoil(&s)
		if _, err := Restore(w.game, s); err == nil {
			t.Errorf("%s: a save that can't be was accepted", name)
		}
	}
}
