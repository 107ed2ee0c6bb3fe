package play

import (
	"fmt"
	"strings"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
)

// glowCount is how many particles the load on the GPU has.
const glowCount = 6000

// View says what is shown now. Valid until the next Tick.
func (g *Game) View() *ui.View {
	v := &ui.View{Screen: g.screen, T: g.data.Texts[g.lang], Tick: g.tick, Area: g.world.Area, Chosen: g.chosen}
	if g.caption != "" {
		v.Caption = g.text(g.caption)
	}
	if g.paused {
		v.Paused = g.text("pause.end", "key", g.keys.Key(input.Pause))
	}
	for _, n := range g.notes {
		v.Notes = append(v.Notes, n.text)
	}
	if g.strain == GPU {
		v.Glow = glowCount
	}
	switch g.screen {
	case ui.Title:
		g.viewTitle(v)
	case ui.Loading:
		v.Place = g.text("area." + g.world.Area)
		v.Progress = 1 - float64(g.loading)/loadingTicks
	default:
		g.viewWorld(v)
	}
	switch g.screen {
	case ui.Dialogue:
		g.viewDialogue(v)
	case ui.Shop:
		g.viewShop(v)
	case ui.Menu:
		g.viewMenu(v)
	case ui.Keys:
		g.viewKeys(v)
	}
	return v
}

func (g *Game) viewTitle(v *ui.View) {
	for _, key := range []string{"title.new", "title.load", "title.language", "title.keys", "title.quit"} {
		v.Choices = append(v.Choices, ui.Choice{Text: g.text(key)})
	}
	v.Choices[1].Off = g.cfg.Files == nil
	p, opening := g.voices.Opening()
	switch {
	case g.voices.Err() != nil:
		v.Model = g.text("title.model.none", "what", g.voices.Err().Error())
	case opening:
		what := p.What
		if what == "" {
			what = ".."
		}
		v.Model, v.Progress = g.text("title.model.wait", "what", what), p.Done
	default:
		v.Model, v.Progress = g.text("title.model.ready"), 1
	}
}

func (g *Game) viewWorld(v *ui.View) {
	w := g.world
	v.Status = g.text("status", "hp", itoa(w.HP), "gold", itoa(w.Gold), "name", itoa(w.Name))
	v.Order = g.text("order.now", "name", g.called(g.data.Companion), "order", g.text("order."+string(w.Ally.Order)))
	v.Help = g.help("hint.help")
	if w.Fighting() {
		v.Help = g.help("combat.help")
		for i, o := range rules.Orders {
			v.Help += g.text("combat.order", "key", g.keys.Key(input.Order1+input.Action(i)),
				"order", g.text("order."+string(o)))
		}
		v.Wave = g.text("combat.wave", "n", itoa(w.Wave), "of", itoa(len(g.data.Area(w.Area).Waves.Foes)))
	}
	g.viewActors(v)
	if g.screen != ui.Explore {
		return
	}
	act := g.keys.Key(input.Act)
	switch who := w.Near(); {
	case who != "":
		v.Hints = append(v.Hints, g.text("hint.talk", "key", act, "name", g.called(who)))
	case w.NearOre():
		v.Hints = append(v.Hints, g.text("hint.ore", "key", act))
	case w.NearDen():
		v.Hints = append(v.Hints, g.text("hint.den", "key", act))
	}
}

// help is a text that names keys, as they are bound now.
func (g *Game) help(key string) string {
	var pairs []string
	for a := range input.Actions {
		pairs = append(pairs, a.String(), g.keys.Key(a))
	}
	return g.text(key, pairs...)
}

// viewActors lists who stands in the area, from the back to the front.
func (g *Game) viewActors(v *ui.View) {
	w := g.world
	for i := range w.Foes {
		f := &w.Foes[i]
		a := ui.Actor{Look: "wolf", Frame: int(w.Tick/8+int64(f.ID)) % 2, X: f.At.X, Y: f.At.Y,
			Flip: f.At.X > w.Player.X,
			HP:   f.HP, Full: 4}
		switch {
		case f.Down:
			a = ui.Actor{Look: "wolf-down", X: f.At.X, Y: f.At.Y}
			if f.Loot {
				v.Actors = append(v.Actors, a)
				a = ui.Actor{Look: "purse", X: f.At.X, Y: f.At.Y}
			}
		case f.Hurt > 0:
			a.Look = "wolf-hurt"
		}
		v.Actors = append(v.Actors, a)
	}
	for i := range g.data.People {
		p := &g.data.People[i]
		at, here := w.Where(p.ID)
		if !here {
			continue
		}
		frame := int(w.Tick/40+int64(i)) % 2
		a := ui.Actor{Look: p.Look, Frame: frame, X: at.X, Y: at.Y, Flip: at.X > w.Player.X, Says: g.bubbles[p.ID].text}
		if p.ID == g.data.Companion && w.Fighting() {
			a.HP, a.Full = w.Ally.HP, rules.MaxHP
		}
		v.Actors = append(v.Actors, a)
	}
	you := ui.Actor{Look: "player", X: w.Player.X, Y: w.Player.Y, Flip: w.Face.X < 0, HP: w.HP, Full: rules.MaxHP}
	if g.moved {
		you.Frame = int(w.Tick/8) % 2
	}
	if w.Hurt > 0 {
		you.Look = "hurt"
	}
	v.Actors = append(v.Actors, you)
	if w.Swing > 0 {
		dx := 12
		if w.Face.X < 0 {
			dx = -12
		}
		v.Actors = append(v.Actors, ui.Actor{Look: "arc", X: w.Player.X + dx, Y: w.Player.Y, Flip: dx < 0})
	}
}

func (g *Game) viewDialogue(v *ui.View) {
	v.Speaker, v.Typing, v.Input = g.called(g.talkTo), g.typing, string(g.input)
	v.Thinking = g.thinks[g.talkTo]
	if p := g.data.Person(g.talkTo); p != nil {
		v.Face = p.Look
	}
	for _, l := range g.heard {
		l.Text = string([]rune(l.Text)[:l.shown])
		v.Heard = append(v.Heard, l.Line)
	}
	for _, t := range g.topics() {
		v.Choices = append(v.Choices, ui.Choice{Text: g.text(t.Text)})
	}
	v.Prompts = []string{g.text("dialogue.type", "key", g.keys.Key(input.Say)),
		g.text("dialogue.leave", "key", g.keys.Key(input.Back))}
	if on, _ := g.voices.Policy(); on == talk.Policies[0] {
		v.Prompts = append([]string{g.text("dialogue.silent")}, v.Prompts...)
	}
}

func (g *Game) viewShop(v *ui.View) {
	v.Head = g.text("shop.title")
	for _, x := range g.data.Goods {
		v.Choices = append(v.Choices, ui.Choice{Text: g.text("item." + x.ID), Note: itoa(x.Price),
			Off: !g.world.MayBuy(x.ID).OK()})
	}
	v.Prompts = []string{g.text("shop.leave", "key", g.keys.Key(input.Back))}
}

func (g *Game) viewMenu(v *ui.View) {
	for _, key := range []string{"menu.resume", "menu.save", "menu.load", "menu.keys", "menu.language",
		"menu.title.back"} {
		v.Choices = append(v.Choices, ui.Choice{Text: g.text(key)})
	}
	v.Choices[4].Text += ": " + g.languageName()
	for _, id := range g.usable() {
		if len(v.Choices) < 7 {
			v.Choices = append(v.Choices, ui.Choice{Text: g.text("menu.use", "item", g.text("item."+id))})
		}
	}
	for _, id := range []string{"bread", "potion", "lantern", "sword", g.data.Quest.Ore, g.data.Quest.Tool,
		g.data.Quest.Prize} {
		if n := g.world.Pack[id]; n > 0 {
			v.Pack = append(v.Pack, fmt.Sprintf("%s ×%d", g.text("item."+id), n))
		}
	}
	if len(v.Pack) == 0 {
		v.Pack = []string{g.text("menu.empty")}
	}
	v.Quest = g.text("quest." + string(g.world.Quest))
	s := g.voices.Stats(g.tick%30 == 0)
	v.Memory = []string{g.text("menu.pending", "n", itoa(s.Memories), "p", itoa(s.Pending))}
	switch {
	case !s.Embeds:
		v.Memory = append(v.Memory, g.text("menu.words"))
	case s.Pending > 0:
		v.Memory = append(v.Memory, g.text("menu.indexing"))
	default:
		v.Memory = append(v.Memory, g.text("menu.rest"))
	}
}

func (g *Game) viewKeys(v *ui.View) {
	for a := range input.Actions {
		var keys []string
		for _, k := range g.keys.Keys(a) {
			keys = append(keys, input.Label(k))
		}
		v.Choices = append(v.Choices, ui.Choice{Text: g.text("key." + a.String()), Note: strings.Join(keys, "  ")})
	}
	v.Head = g.help("keys.hint")
	if g.keyNote != "" {
		v.Head = g.keyNote
	}
	if g.asking > 0 {
		v.Head = g.text("keys.press", "what", g.text("key."+input.Action(g.asking-1).String()))
	}
}
