package npc_test

import (
	"fmt"
	"strings"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// stage is what a game has of local.Open: a model and an engine that a worker
// steps. Here a script answers in the place of the model.
func stage(script scripted.Script) (rt struct {
	Engine *llm.Engine
	Model  llm.Model
}, end func()) {
	model, _ := scripted.New(scripted.Config{Script: script, Context: 8192})
	rt.Model = model
	rt.Engine, _ = llm.NewEngine(model, llm.EngineConfig{})
	worker, _ := llm.StartWorker(rt.Engine, llm.WorkerConfig{})
	return rt, func() { worker.Stop(); rt.Engine.Close() }
}

func sellsSwords(scripted.Conversation) string {
	return "Iron, and what can be made of it. Swords, mostly."
}

// Ten lines to a talking character, after rt, err := local.Open(ctx, …). Errors
// are left out to show the shape.
func Example() {
	rt, end := stage(sellsSwords)
	defer end()
	world, _ := npc.NewWorld(npc.WorldConfig{Engine: rt.Engine, Model: rt.Model})
	smith, _ := npc.LoadPersona("blacksmith")             // or your own YAML file
	smith.Sampling, smith.MaxTokens = llm.Sampling{}, 200 // the script's own words, letter by letter
	_ = world.Add(npc.AgentSpec{ID: "smith", Persona: smith})
	_, _ = world.Say(npc.Line{To: "smith", Text: "What do you sell?"}, 0)
	for frame, talking := int64(0), true; talking; frame++ { // your game loop
		for _, e := range world.Poll(nil, frame*16_666_667) {
			if e.Kind == npc.EventSentence { // EventText for subtitles that grow
				fmt.Println(e.Text)
			}
			if e.Ends() { // all is said, or it failed: e.Err says why
				talking = false
			}
		}
	}
	// Output:
	// Iron, and what can be made of it.
	// Swords, mostly.
}

// A character that sells: with lore, a bark, a fact, and an action that the game
// has the last word about.
func ExampleWorld() {
	rt, end := stage(func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "What does Brenna do now?") {
			return `{"action":"hand_over","item":"sword","to":"player"}`
		}
		return "Forty silver. Here it is."
	})
	defer end()
	world, _ := npc.NewWorld(npc.WorldConfig{Engine: rt.Engine, Model: rt.Model,
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
				playing = playing && !e.Ends()
			case npc.EventInterrupted:
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
