package data

import "testing"

func load(t testing.TB) *Game {
	t.Helper()
	g, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLoad(t *testing.T) {
	g := load(t)
	if len(g.People) < 4 || len(g.Areas) < 2 {
		t.Errorf("%d people in %d areas: want four and two at least", len(g.People), len(g.Areas))
	}
	for _, spoil := range []func(*Game){
		func(g *Game) { g.Areas[0].Rows = g.Areas[0].Rows[1:] },
		func(g *Game) { g.Areas[0].Exits[0].To = "nowhere" },
		func(g *Game) { g.People[0].X = 0 },
		func(g *Game) { g.Companion = "nobody" },
		func(g *Game) { g.Rumours[0].From = "nobody" },
		func(g *Game) { delete(g.Texts["ko"], "pause") },
		func(g *Game) { g.Start.X = -1 },
	} {
		g := load(t)
		spoil(g)
		if g.check() == nil {
			t.Error("a game that does not fit together was accepted")
		}
	}
}

// What a model says of prices is held against the data.
func TestCorrect(t *testing.T) {
	g := load(t)
	for _, c := range []struct{ who, said, want string }{
		{"tilda", "A potion costs 8 silver.", "A potion costs 8 silver."},
		{"tilda", "A potion costs 5 silver.", "Potion costs 8 silver."},
		{"tilda", "The sword is forty silver.", "The sword is forty silver."},
		{"tilda", "The sword is forty two silver.", "Sword costs 40 silver."},
		{"tilda", "Bread for 3 silver, a potion for 8, a lantern for 15.",
			"Bread for 3 silver, a potion for 8, a lantern for 15."},
		{"tilda", "Bread for 8 silver, a potion for 3.", "Bread costs 3 silver. Potion costs 8 silver."},
		{"tilda", "8 silver for a potion.", "8 silver for a potion."},
		{"tilda", "I have 2 cats.", "I have 2 cats."},
		{"tilda", "It costs 99 silver.",
			"Bread costs 3 silver. Potion costs 8 silver. Lantern costs 15 silver. Sword costs 40 silver."},
		{"odila", "I pay 35 silver.", "I pay 35 silver."},
		{"odila", "I pay 100 silver.", "The reward is 35 silver."},
		{"garrick", "The hook is 50 silver.", "The hook costs 5 silver."},
		{"garrick", "Bring ore and 5 silver.", "Bring ore and 5 silver."},
		{"pip", "A potion costs 1 silver!", "Potion costs 8 silver."},
	} {
		got, changed := g.Correct(c.who, c.said)
		if got != c.want || changed != (c.said != c.want) {
			t.Errorf("%s says %q: got %q, %t, want %q", c.who, c.said, got, changed, c.want)
		}
	}
}

// Korean particles follow the sound before them.
func TestParticles(t *testing.T) {
	g := load(t)
	for _, c := range []struct{ key, name, value, want string }{
		{"hint.talk", "name", "렌", "E 렌과 대화"},
		{"hint.talk", "name", "틸다", "E 틸다와 대화"},
		{"hint.talk", "name", "Wren", "E Wren와(과) 대화"},
		{"loading", "area", "오래된 숲", "오래된 숲으로 가는 중"},
		{"loading", "area", "해로미어 마을", "해로미어 마을로 가는 중"},
	} {
		if got := g.Texts["ko"].Say(c.key, "key", "E", c.name, c.value); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.key, c.value, got, c.want)
		}
	}
}

func FuzzCorrect(f *testing.F) {
	g, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("A potion costs 5 silver and a sword 41.")
	f.Fuzz(func(t *testing.T, said string) {
		for _, who := range []string{"tilda", "odila", "garrick", "pip"} {
			once, changed := g.Correct(who, said)
			if twice, again := g.Correct(who, once); changed && (again || twice != once) {
				t.Errorf("%s: %q became %q and then %q", who, said, once, twice)
			}
		}
	})
}
