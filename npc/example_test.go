package npc_test

import (
	"fmt"
	"strings"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// A game has a real model and a worker that steps its engine (package local
// makes both); here a scripted one answers. Errors are left out to show the
// shape.
func Example() {
	model, _ := scripted.New(scripted.Config{Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "What does Brenna do now?") {
			return `{"action":"hand_over","item":"sword","to":"player"}`
		}
		return "Forty silver. Here it is."
	}})
	engine, _ := llm.NewEngine(model, llm.EngineConfig{})
	worker, _ := llm.StartWorker(engine, llm.WorkerConfig{})
	defer worker.Stop()

	world, _ := npc.NewWorld(npc.WorldConfig{Engine: engine, Model: model,
		Lore: []string{"Alderford lies on the old road"}})
	defer world.Close()
	brenna, _ := npc.LoadPersona("blacksmith")
	brenna.Sampling, brenna.MaxTokens = llm.Sampling{}, 200 // the script's own words
	world.Add(npc.AgentSpec{ID: "smith", Persona: brenna, Distance: 2, Offer: npc.Offer{
		Actions: []npc.ActionSpec{{Name: "hand_over", Description: "gives something to somebody", Params: []npc.Param{
			{Name: "item", Kind: npc.ParamEnum, Values: []string{"sword", "buckle"}},
			{Name: "to", Kind: npc.ParamTarget, Target: "person"},
		}}},
		Targets: map[string][]string{"person": {"player"}},
	}})
	world.SetFact("smith", npc.Fact{Key: "stock", Text: "One sword is left"})
	world.Say(npc.Line{To: "smith", Text: "I take the sword."}, 0)

	var events []npc.Event
	for frame, playing := int64(0), true; playing; frame++ { // the game loop
		now := frame * 16_666_667
		events = world.Poll(events[:0], now)
		for _, e := range events {
			switch e.Kind {
			case npc.EventBark, npc.EventSentence:
				fmt.Printf("%s: %s\n", e.Kind, e.Text)
			case npc.EventAction: // the game's word: is that so?
				fmt.Println(e.Action)
				world.Accept(e.Turn, now)
				playing = false
			case npc.EventFailed:
				fmt.Println(e.Err)
				playing = false
			}
		}
	}
	// Output:
	// bark: Wait. The iron first.
	// sentence: Forty silver.
	// sentence: Here it is.
	// hand_over(item: "sword", to: "player")
}

// A Chat is one character and one player, without a world: the caller submits
// and polls.
func ExampleChat() {
	model, _ := scripted.New(scripted.Config{Script: scripted.Table(
		map[string]string{"Can you mend my sword?": "Aye. Five silver."}, "Hm.")})
	engine, _ := llm.NewEngine(model, llm.EngineConfig{})

	brenna, _ := npc.LoadPersona("blacksmith")
	chat := npc.NewChat(brenna)
	request, _, _ := chat.Say(model, npc.DefaultBudget(model.Info(), brenna), "Can you mend my sword?")
	request.Sampling = llm.Sampling{} // greedy: the script's own words
	id, _ := engine.Submit(request)
	chat.Sent(id)
	for chat.Busy() { // in a game: once a frame
		engine.Step(llm.Grant{})
		for _, event := range engine.Poll(nil) {
			chat.Hear(event)
		}
	}
	for _, turn := range chat.History() {
		fmt.Printf("%s: %s\n", turn.Role, turn.Text)
	}
	// Output:
	// user: Can you mend my sword?
	// assistant: Aye. Five silver.
}

func ExampleParsePersona() {
	_, err := npc.ParsePersona("guard.yaml", []byte("name: Ann\ndescription: a guard\nstyle: 7\n"))
	fmt.Println(err)
	// Output:
	// guard.yaml:3:8: a number found, want text: put it in quotes
	//    1 | name: Ann
	//    2 | description: a guard
	// >  3 | style: 7
	//               ^
}
