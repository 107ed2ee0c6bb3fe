package talk

import (
	"context"
	"strings"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// pumpSteps is how many steps of the engine one frame takes with a scripted
// model: a word or two, as a real one.
const pumpSteps = 1

// Scripted opens a model that answers with the examples of the sheets, the same
// each time, computed on the game thread.
func Scripted(g *data.Game) Opener {
	return func(_ context.Context, p harness.Policy, observe func(llm.Work),
		tell func(string, float64)) (Stage, error) {
		tell("model", 1)
		cfg := rag.DefaultConfig("")
		store, err := rag.Open(cfg)
		if err != nil || p.Spec == nil {
			return Stage{Store: store, Close: store.Close}, err
		}
		model, err := scripted.New(scripted.Config{Context: 4096, MaxBatch: 512, Script: script(g),
			Clock: scripted.NewClock(0)})
		if err != nil {
			return Stage{}, err
		}
		engine, err := llm.NewEngine(model, llm.EngineConfig{Clock: scripted.NewClock(0)})
		if err != nil {
			return Stage{}, err
		}
		pump := func() {
			for range pumpSteps {
				if w, err := engine.Step(llm.Grant{}); err == nil {
					observe(w)
				}
			}
		}
		return Stage{Engine: engine, Model: model, Store: store, Pump: pump, Close: func() error {
			engine.Close()
			return store.Close()
		}}, nil
	}
}

// script answers as the sheets' examples do, and chooses the action that the
// player's words name.
func script(g *data.Game) scripted.Script {
	return func(c scripted.Conversation) string {
		asked := c.Last(llm.User)
		if strings.Contains(asked, "Choose one of these") {
			return choose(c)
		}
		line := asked
		if i := strings.LastIndex(line, "\n"); i >= 0 {
			line = line[i+1:]
		}
		head := ""
		if len(c.Turns) > 0 {
			head = c.Turns[0].Text
		}
		for i := range g.People {
			p := &g.People[i]
			if !strings.Contains(head, p.Persona.Description[:min(24, len(p.Persona.Description))]) {
				continue
			}
			for _, e := range p.Persona.Examples {
				if strings.Contains(line, e.Player) {
					return e.NPC
				}
			}
			return p.Persona.Examples[0].NPC
		}
		return "Hm."
	}
}

// choose names the action whose name the player's last words hold.
func choose(c scripted.Conversation) string {
	var said string
	for _, t := range c.Turns {
		if t.Role == llm.User && !strings.Contains(t.Text, "Choose one of these") {
			said = strings.ToLower(t.Text)
		}
	}
	for _, name := range []string{"guard", "heal", "fetch", "flee", "follow"} {
		if strings.Contains(said, name) && strings.Contains(c.Last(llm.User), name) {
			return `{"action":"` + name + `"}`
		}
	}
	if Buys(said) && strings.Contains(c.Last(llm.User), ShowGoods) {
		return `{"action":"` + ShowGoods + `"}`
	}
	return `{"action":"none"}`
}
