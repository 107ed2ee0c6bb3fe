package world

import (
	"fmt"
	"runtime/debug"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

// maxWarm is how many NPCs can wait to be warmed up; then Full. A scene has
// fewer, and the cache of most models holds four.
const maxWarm = 64

// WarmUp has the model read the persona in the background.
func (n *NPC) WarmUp() error {
	if _, err := n.world.ready(); err != nil {
		return err
	}
	select {
	case n.world.warm <- n.spec:
		return nil
	default:
		return Errorf(Full, "%d NPCs wait to be warmed up", maxWarm)
	}
}

// heat is the goroutine that warms NPCs up, one after the other.
func (w *World) heat() {
	defer close(w.heating)
	for {
		select {
		case <-w.quit:
			return
		case spec := <-w.warm:
			if err := w.read(spec); err != nil {
				w.log.add(LogWarning, fmt.Sprintf("warming up %s: %v", spec.ID, err))
			}
		}
	}
}

// read submits the head of a prompt, of which one token is computed: enough for
// the cache to hold it. Nobody hears the events.
func (w *World) read(spec npc.AgentSpec) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v\n%s", p, debug.Stack())
		}
	}()
	r := w.Runtime()
	plan, err := npc.MakePlan(r.Model, npc.PlanInput{
		Persona: spec.Persona, Lore: w.def.Lore, Rules: w.def.Rules,
		// Any line will do: only what stands before it is used.
		History: []npc.Entry{{Kind: npc.EntryHeard, Speaker: w.def.Player, Text: "?"}},
		Budget:  npc.DefaultPlanBudget(r.Model.Info(), spec.Persona),
	})
	if err != nil {
		return err
	}
	keep := plan.Prompt.Keep
	_, err = r.Engine.Submit(llm.Request{Owner: string(spec.ID), Prompt: plan.Prompt.Tokens[:keep], Head: keep,
		Keep: keep, MaxTokens: 1, Priority: -1})
	return err
}
