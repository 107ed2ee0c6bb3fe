package npc_test

import (
	"fmt"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// A game has a real model and a worker that steps its engine; here a scripted
// one answers, and the example steps it. Errors are left out to show the shape.
func Example() {
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
