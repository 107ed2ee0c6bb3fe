package play

import (
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/ui"
)

// titleRow is where the title's choices stand, as ui lays them out.
func (g *Game) titleRow(i int) (x0, y0, x1, y1 int) {
	x := ui.TitleLeft(g.hud)
	return x + 8, 145 + i*22, x + 252, 145 + i*22 + 20
}

func (g *Game) playTitle(in *input.Frame) {
	const begin, goOn, language, keys, quit = 0, 1, 2, 3, 4
	if !g.choose(in, 5, g.titleRow) {
		return
	}
	switch g.chosen {
	case begin:
		g.begin()
	case goOn:
		g.Continue()
	case language:
		g.nextLanguage()
	case keys:
		g.openKeys()
	case quit:
		g.quit = true
	}
}

// begin begins a new game, of which nobody knows anything.
func (g *Game) begin() {
	if g.busy {
		g.next = g.begin
		return
	}
	g.enterGame(rules.New(g.data))
	if err := g.voices.Begin(); err != nil {
		g.fault("note.voice_failed", err)
	}
	g.recall("")
}

// load shows the loading screen while an area streams in.
func (g *Game) load() {
	g.screen, g.loading, g.chosen = ui.Loading, loadingTicks, 0
}

func (g *Game) nextLanguage() {
	order := []string{"en", "ko"}
	next := order[0]
	if g.lang == next {
		next = order[1]
	}
	g.lang = next
	g.saveSettings()
}

func (g *Game) playWorld(in *input.Frame) {
	switch {
	case in.Pressed(input.Menu) || in.Pressed(input.Back):
		g.openMenu()
		return
	case in.Pressed(input.Say) || in.Said != "":
		who := g.world.Near()
		if who == "" || g.world.Fighting() {
			who = g.data.Companion
		}
		g.meet(who)
		if in.Said != "" {
			g.say(in.Said)
		} else {
			g.typing, g.input = true, nil
		}
		return
	}
	for i, o := range rules.Orders {
		if in.Pressed(input.Order1 + input.Action(i)) {
			g.order(o)
		}
	}
	step := rules.Input{Act: in.Pressed(input.Act) || in.Click}
	for _, d := range []struct {
		a      input.Action
		dx, dy int
	}{{input.Left, -1, 0}, {input.Right, 1, 0}, {input.Up, 0, -1}, {input.Down, 0, 1}} {
		if in.Held(d.a) {
			step.DX, step.DY = step.DX+d.dx, step.DY+d.dy
		}
	}
	g.moved = step.DX != 0 || step.DY != 0
	if g.moved && g.tick%18 == 0 {
		g.sound(Step)
	}
	g.events = g.world.Step(step, g.events[:0])
	for i := range g.events {
		g.happen(&g.events[i])
	}
	g.settle()
	g.chatter()
}

// settle puts the screen to what the rules say.
func (g *Game) settle() {
	if g.screen == ui.Explore && g.world.Fighting() {
		g.screen = ui.Combat
		g.learn()
	} else if g.screen == ui.Combat && !g.world.Fighting() {
		g.screen = ui.Explore
		g.learn()
	}
	if g.tick%30 == 0 {
		for i := range g.data.People {
			id := g.data.People[i].ID
			g.voices.Place(id, g.world.Distance(id))
		}
	}
}

// chatter lets somebody near say something now and then.
func (g *Game) chatter() {
	if g.tick%idleEvery != 0 || g.screen != ui.Explore {
		return
	}
	if who := g.world.Near(); who != "" {
		g.voices.Bark(who, "idle", g.Now())
	}
}

// happen does what an event of the rules means on the screen and to voices.
func (g *Game) happen(e *rules.Event) {
	wren := g.data.Companion
	switch e.Kind {
	case rules.Entered:
		g.bubbles = map[string]bubble{}
		g.load()
		g.Autosave()
	case rules.Met:
		g.meet(e.Who)
	case rules.Dug:
		g.sound(Chime)
		g.note(g.text("note.ore"))
		g.learn()
	case rules.Waved:
		g.voices.Bark(wren, "wave", g.Now())
		g.voices.Cue(wren, "Wave "+itoa(e.N)+" of wolves attacks the player. Say a few words", g.Now())
	case rules.Won:
		g.sound(Chime)
		g.voices.Bark(wren, "won", g.Now())
		g.voices.Cue(wren, "All the wolves are beaten. You and the player won", g.Now())
		g.learn()
		g.Autosave()
	case rules.Struck:
		g.sound(Hit)
	case rules.Bitten:
		g.sound(Ouch)
	case rules.Fell:
		g.note(g.text("combat.lost"))
	case rules.Looted:
		g.note(g.text("note.drop", "gold", itoa(e.N)))
	case rules.Healed:
		g.sound(Chime)
	case rules.Reached:
		g.sound(Chime)
		g.note(g.text("note.prize"))
		g.learn()
		g.Autosave()
	case rules.Told:
		g.voices.Tell(e.Who, e.From, e.Text, g.Now())
		g.note(g.text("note.rumour", "from", g.called(e.From), "to", g.called(e.Who)))
	}
}

// order gives the companion an order: the rules obey at once, the voice follows.
func (g *Game) order(o rules.Order) {
	if refusal := g.world.Command(o); refusal != "" {
		g.note(g.text(refusal))
		return
	}
	g.sound(Pick)
	g.transcribe(g.data.Companion, string(o), "action")
	g.voices.Bark(g.data.Companion, string(o), g.Now())
	g.voices.Cue(g.data.Companion, `The player says: "`+g.data.Lines.Orders[string(o)]+`" You do it`, g.Now())
}
