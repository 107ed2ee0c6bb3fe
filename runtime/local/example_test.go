package local_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// Example is the program of the README; it is compiled, not run.
func Example() {
	rt, err := local.Open(context.Background(), local.Config{Spec: local.DefaultSpec()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	smith, err := npc.LoadPersona("blacksmith") // or your own YAML file
	if err != nil {
		log.Fatal(err)
	}
	chat := npc.NewChat(smith)
	request, _, err := chat.Say(rt.Model, npc.DefaultBudget(rt.Model.Info(), smith), "What do you sell?")
	if err != nil {
		log.Fatal(err)
	}
	id, err := rt.Engine.Submit(request)
	if err != nil {
		log.Fatal(err)
	}
	chat.Sent(id)

	const period = 16667 * time.Microsecond
	for frame := uint64(1); chat.Busy(); frame++ { // your game loop
		begin := rt.Clock.Now()
		deadline := begin + int64(period)
		rt.FrameBegin(frame, period, begin)
		rt.Clock.WaitUntil(begin+8e6, nil) // 8 ms: your game's own work
		rt.FrameEnd(frame, deadline, rt.Clock.Now())
		rt.Clock.WaitUntil(deadline, nil) // vsync: the model runs here
		for _, e := range rt.Engine.Poll(nil) {
			chat.Hear(e)
			if e.Kind == llm.EventText {
				fmt.Print(e.Text)
			}
		}
	}
}
