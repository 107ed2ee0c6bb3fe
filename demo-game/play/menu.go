package play

import (
	"errors"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/ui"
)

func (g *Game) shopRow(i int) (x0, y0, x1, y1 int) {
	x, w := ui.ListLeft(g.hud)
	return x, 102 + i*17, x + w, 102 + i*17 + 16
}

func (g *Game) playShop(in *input.Frame) {
	if in.Pressed(input.Back) || in.Pressed(input.Menu) {
		g.screen, g.chosen = g.back, 0
		return
	}
	if !g.choose(in, len(g.data.Goods), g.shopRow) {
		return
	}
	good := g.data.Goods[g.chosen]
	r := g.world.Buy(good.ID)
	if !r.OK() {
		g.note(g.refusal(r))
		g.voices.Bark(g.data.Shopkeeper, "refuse", g.Now())
		return
	}
	g.sound(Chime)
	g.transcribe(g.data.Shopkeeper, "sells "+good.ID+" for "+itoa(good.Price)+" silver", "action")
	g.note(g.text("shop.bought", "item", g.text("item."+good.ID)))
	g.voices.Bark(g.data.Shopkeeper, "sold", g.Now())
	g.learn()
}

func (g *Game) openMenu() {
	g.back, g.screen, g.chosen = ui.Explore, ui.Menu, 0
	g.sound(Blip)
}

func menuRow(i int) (x0, y0, x1, y1 int) { return 352, 206 + i*17, 592, 206 + i*17 + 16 }

func (g *Game) playMenu(in *input.Frame) {
	if in.Pressed(input.Back) || in.Pressed(input.Menu) {
		g.leaveMenu()
		return
	}
	// What can be used comes after the six fixed lines.
	const resume, save, load, keys, language, title, fixed = 0, 1, 2, 3, 4, 5, 6
	usable := g.usable()
	if !g.choose(in, min(fixed+len(usable), 7), menuRow) {
		return
	}
	switch g.chosen {
	case resume:
		g.leaveMenu()
	case save:
		g.Save()
	case load:
		g.Load()
	case keys:
		g.openKeys()
	case language:
		g.nextLanguage()
	case title:
		g.Autosave()
		g.screen, g.chosen = ui.Title, 0
	default:
		if g.world.Use(usable[g.chosen-fixed]) {
			g.sound(Chime)
		}
	}
}

// usable lists what of the pack can be eaten or drunk now.
func (g *Game) usable() (out []string) {
	for _, x := range g.data.Goods {
		if x.Heals > 0 && g.world.Pack[x.ID] > 0 {
			out = append(out, x.ID)
		}
	}
	return out
}

func (g *Game) leaveMenu() {
	g.screen, g.chosen = ui.Explore, 0
	g.settle()
}

func (g *Game) openKeys() {
	g.back, g.screen, g.chosen, g.asking, g.keyNote = g.screen, ui.Keys, 0, 0, ""
}

func (g *Game) playKeys(in *input.Frame) {
	if g.asking > 0 {
		g.rebind(in)
		return
	}
	if in.Pressed(input.Back) || in.Pressed(input.Menu) {
		g.screen, g.chosen = g.back, 0
		return
	}
	if g.choose(in, int(input.Actions), g.keyRow(g.chosen)) {
		g.asking, g.keyNote = g.chosen+1, ""
	}
}

// keyRow says where the mouse finds a key while one is chosen.
func (g *Game) keyRow(chosen int) func(i int) (x0, y0, x1, y1 int) {
	return func(i int) (x0, y0, x1, y1 int) {
		r := ui.KeyRow(g.hud, chosen, int(input.Actions), i)
		return r.Min.X, r.Min.Y, r.Max.X, r.Max.Y
	}
}

// rebind takes the next key that goes down.
func (g *Game) rebind(in *input.Frame) {
	if in.RawKey == "" {
		return
	}
	a := input.Action(g.asking - 1)
	g.asking = 0
	if in.Escape && a != input.Back {
		return
	}
	err := g.keys.Rebind(a, in.RawKey)
	if errors.Is(err, input.ErrTaken) {
		other, _ := g.keys.Taker(in.RawKey)
		g.keyNote = g.text("keys.taken", "key", input.Label(in.RawKey), "what", g.text("key."+other.String()))
		return
	}
	if err != nil {
		g.keyNote = err.Error()
		return
	}
	g.saveSettings()
}

// languageName is how the language of the screen calls itself.
func (g *Game) languageName() string { return g.data.Texts[g.lang]["lang"] }
