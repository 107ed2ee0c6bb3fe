package play

import (
	"errors"
	"strings"
	"unicode"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/npc"
)

// meet opens the dialogue with somebody, who greets at once.
func (g *Game) meet(who string) {
	if g.talkTo != who {
		g.heard = nil
	}
	g.talkTo, g.screen, g.chosen, g.typing = who, ui.Dialogue, 0, false
	delete(g.bubbles, who)
	g.learn()
	if len(g.heard) == 0 {
		greeting := g.data.Person(who).Persona.Greeting
		g.hear(ui.Line{Who: who, Text: greeting, Bark: true})
		g.transcribe(who, greeting, "bark")
	}
}

// hear puts a line into the conversation on the screen.
func (g *Game) hear(l ui.Line) {
	if len(g.heard) >= maxHeard {
		g.heard = g.heard[1:]
	}
	shown := 0
	if l.Player || l.Bark {
		shown = len([]rune(l.Text))
	}
	g.heard = append(g.heard, heardLine{l, shown})
}

func (g *Game) transcribe(who, text, kind string) {
	g.said = append(g.said, Spoken{Seconds: float64(g.tick) / rules.TicksPerSecond, NPC: g.name(who), Text: text,
		Kind: kind})
}

// topics are those of who is spoken to.
func (g *Game) topics() []data.Topic {
	if p := g.data.Person(g.talkTo); p != nil {
		return p.Topics
	}
	return nil
}

func topicRow(i int) (x0, y0, x1, y1 int) { return 404, 196 + i*17, 612, 196 + i*17 + 16 }

func (g *Game) playDialogue(in *input.Frame) {
	if in.Said != "" {
		g.say(in.Said)
		return
	}
	if g.typing {
		g.letters(in)
		return
	}
	switch {
	case in.Pressed(input.Back) || in.Pressed(input.Menu):
		g.screen = ui.Explore
		g.settle()
		if g.told {
			g.told = false
			g.Autosave()
		}
	case in.Pressed(input.Say):
		g.typing, g.input = true, nil
	case g.choose(in, len(g.topics()), topicRow):
		g.raise(g.topics()[g.chosen])
	}
}

// letters takes letters into the line that the player writes.
func (g *Game) letters(in *input.Frame) {
	for _, r := range in.Typed {
		if unicode.IsPrint(r) && len(g.input) < npc.MaxLineRunes/2 {
			g.input = append(g.input, r)
		}
	}
	switch {
	case in.Backspace && len(g.input) > 0:
		g.input = g.input[:len(g.input)-1]
	case in.Escape:
		g.typing = false
	case in.Enter:
		line := string(g.input)
		g.typing, g.input = false, nil
		g.say(line)
	}
}

// say has the player say a line to who is spoken to, as it will be heard: without
// what nobody can read.
func (g *Game) say(line string) {
	line, _ = npc.CleanLine(line)
	if line == "" {
		return
	}
	g.hear(ui.Line{Text: line, Player: true})
	g.ask(line)
}

func (g *Game) ask(line string) {
	g.first.asked, g.told = true, true
	g.thinks[g.talkTo] = true
	g.reply[g.talkTo] = ""
	g.voices.Say(g.talkTo, line, g.Now())
	if !g.voices.Speaks() {
		g.thinks[g.talkTo] = false
	}
}

// raise says a topic: the rules do what it does, at once, and the voice answers.
func (g *Game) raise(t data.Topic) {
	if t.Does == "trade" {
		g.back, g.screen, g.chosen = ui.Dialogue, ui.Shop, 0
		return
	}
	g.hear(ui.Line{Text: g.text(t.Text), Player: true})
	before := g.world.Quest
	refusal := g.world.Do(t.Does)
	if !refusal.OK() {
		g.note(g.refusal(refusal))
		g.voices.Bark(g.talkTo, "refuse", g.Now())
	}
	if g.world.Quest != before {
		g.sound(Chime)
		g.progressed()
	}
	g.learn()
	g.ask(t.Line)
}

// progressed tells how the quest went on.
func (g *Game) progressed() {
	switch g.world.Quest {
	case rules.QuestActive:
		g.note(g.text("note.accepted"))
	case rules.QuestTool:
		g.note(g.text("note.forged"))
		g.voices.Bark(g.data.Quest.Helper, "forged", g.Now())
	case rules.QuestDone:
		g.note(g.text("note.delivered", "gold", itoa(g.data.Quest.Reward)))
	}
}

// refusal says why something is not done.
func (g *Game) refusal(r rules.Refusal) string {
	pairs := []string{}
	if r.Item != "" {
		pairs = append(pairs, "item", g.text("item."+r.Item))
	}
	for k, n := range r.N {
		pairs = append(pairs, k, itoa(n))
	}
	return g.text(r.Key, pairs...)
}

// listen takes what was heard.
func (g *Game) listen() {
	g.heardIn = g.voices.Poll(g.heardIn[:0], g.Now())
	for i := range g.heardIn {
		g.take(&g.heardIn[i])
	}
}

func (g *Game) take(h *talk.Heard) {
	switch h.Kind {
	case talk.Bark:
		g.first.barked = g.first.barked || g.first.asked && h.Who == g.talkTo
		g.transcribe(h.Who, h.Text, "bark")
		g.utter(h.Who, h.Text, true)
	case talk.Said:
		g.first.spoke = g.first.spoke || g.first.asked && h.Who == g.talkTo
		g.thinks[h.Who] = false
		g.reply[h.Who] += h.Text
		g.utter(h.Who, strings.TrimSpace(g.reply[h.Who]), false)
	case talk.Done:
		g.done(h)
	case talk.Wants:
		g.wants(h)
	case talk.Asks:
		g.note(g.text("note.accepted") + "?")
	case talk.Switched:
		g.learn()
	case talk.Failed:
		g.failed++
		g.thinks[h.Who] = false
		if h.Err != nil {
			key := "note.voice_failed"
			if h.Who == "" && h.Text != "" { // a policy that can't be opened
				key = "title.model.none"
			}
			g.fault(key, h.Err)
		}
	}
}

// utter shows what somebody says: in the dialogue, or over its head.
func (g *Game) utter(who, text string, bark bool) {
	if g.screen != ui.Dialogue || who != g.talkTo {
		g.bubbles[who] = bubble{text, g.tick + bubbleTicks}
		return
	}
	if n := len(g.heard); !bark && n > 0 && g.heard[n-1].Open {
		g.heard[n-1].Text = text
		return
	}
	g.hear(ui.Line{Who: who, Text: text, Bark: bark, Open: !bark})
}

func (g *Game) done(h *talk.Heard) {
	g.thinks[h.Who] = false
	text := strings.TrimSpace(g.reply[h.Who])
	g.reply[h.Who] = ""
	for i := range g.heard {
		if g.heard[i].Who == h.Who {
			g.heard[i].Open = false
		}
	}
	if text == "" {
		return
	}
	g.replies++
	if h.TTFT > 0 {
		g.ttft = append(g.ttft, h.TTFT.Seconds()*1e3)
	}
	g.transcribe(h.Who, text, "reply")
}

var errAction = errors.New("play: an action that nobody offered")

// wants does what somebody chose to do, or says why not.
func (g *Game) wants(h *talk.Heard) {
	refusal := ""
	switch {
	case h.Who == g.data.Companion:
		if key := g.world.Command(rules.Order(h.Action.Name)); key != "" {
			refusal = g.english(key)
		}
	case h.Action.Name == talk.ShowGoods:
		if g.screen != ui.Dialogue || g.talkTo != h.Who || g.typing || !g.wantsToBuy() {
			refusal = "The player did not ask to buy"
			break
		}
		g.back, g.screen, g.chosen = ui.Dialogue, ui.Shop, 0
	case h.Action.Name == npc.ActionOfferQuest:
	default:
		refusal = "That is not possible"
		g.faults = append(g.faults, errAction)
	}
	if refusal == "" {
		g.transcribe(h.Who, h.Action.String(), "action")
	}
	g.voices.Answer(h.Turn, refusal, g.Now())
}

// wantsToBuy reports whether the player's last line speaks of buying.
func (g *Game) wantsToBuy() bool {
	for i := len(g.heard) - 1; i >= 0; i-- {
		if g.heard[i].Player {
			return talk.Buys(g.heard[i].Text)
		}
	}
	return false
}
