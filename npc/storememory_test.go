package npc

import (
	"strings"
	"testing"

	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// What was said long ago comes to mind again; what another heard does not.
func TestStoreMemory(t *testing.T) {
	store, err := rag.Open(rag.DefaultConfig(""))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := newStage(t, scripted.Config{Context: 1000, Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "I buried the crown") {
			return "Under the oak."
		}
		return "Hm."
	}}, WorldConfig{Memory: StoreMemory(store)})
	for _, name := range []string{"Ann", "Odo"} {
		p := person(name)
		p.MaxTokens = 60
		s.add(AgentID(strings.ToLower(name)), p)
	}
	s.say("ann", "I buried the crown under the oak.")
	s.until(EventDone, "ann")
	for range 25 { // until the history holds it no more
		s.say("ann", "How are the sheep today, and the goats, and the long road to Alderford?")
		s.until(EventDone, "ann")
	}
	s.say("ann", "Where is the crown?")
	if e := s.until(EventDone, "ann"); e.Text != "Under the oak." {
		t.Errorf("Ann said %q:\n%s", e.Text, s.world.Explain("ann")[3])
	}
	s.say("odo", "Where is the crown?")
	if e := s.until(EventDone, "odo"); e.Text != "Hm." {
		t.Errorf("Odo knows what only Ann heard: %q", e.Text)
	}
}
