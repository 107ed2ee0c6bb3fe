package npc

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// TestBarkWithinAHundredMilliseconds has the player speak at any moment of a
// game that goes through all phases at several frame rates, beside a model that
// is slow, and hardly runs at all where every frame counts. Whoever is spoken to
// is heard within 100 ms, or a voice of the conversation that was speaking; the
// reply follows its bark; in a conversation nobody speaks into another's words; no
// line comes again within the quiet time.
func TestBarkWithinAHundredMilliseconds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t, scripted.Config{Context: 16_384, MaxSequences: 4, Script: func(scripted.Conversation) string {
			return "I heard you, and I have an answer. It is a long one, in two sentences."
		}}, WorldConfig{BarkQuiet: 5_000_000_000})
		for i, id := range []AgentID{"innkeeper", "guard", "guest"} {
			p := person(string(id))
			p.Barks[BarkThinking] = nil
			for k := range 16 {
				p.Barks[BarkThinking] = append(p.Barks[BarkThinking], fmt.Sprintf("%s hums tune %d.", id, k))
			}
			s.add(id, p)
			if err := s.world.Place(id, float64(i)); err != nil {
				rt.Fatal(err)
			}
		}
		if rapid.Bool().Draw(rt, "gathered") {
			if err := s.world.Gather("innkeeper", "guard"); err != nil {
				rt.Fatal(err)
			}
		}
		e := &ear{t: rt, spoken: map[AgentID]int64{}, voice: map[int]TurnID{}, barks: map[string]int64{},
			began: map[TurnID]bool{}}
		for _, phase := range []scheduler.Phase{scheduler.PhaseLoading, scheduler.PhaseExplore, scheduler.PhaseDialogue,
			scheduler.PhaseCombat, scheduler.PhaseCutscene, scheduler.PhaseMenu, scheduler.PhaseBackground} {
			s.world.SetPhase(phase)
			s.tick = int64(1e9) / int64(rapid.SampledFrom([]int{30, 60, 144}).Draw(rt, "rate"))
			s.steps = rapid.IntRange(0, 4).Draw(rt, "steps")
			for range rapid.IntRange(5, 40).Draw(rt, "frames") {
				if rapid.IntRange(0, 5).Draw(rt, "event") == 0 {
					to := rapid.SampledFrom([]AgentID{"innkeeper", "guard", "guest"}).Draw(rt, "to")
					if delete(e.spoken, to); fresh(s, to) {
						e.spoken[to] = s.now
					}
					if _, err := s.world.Say(Line{To: to, Text: "hello"}, s.now); err != nil {
						rt.Fatal(err)
					}
				}
				s.frames(1)
				e.hear(s)
			}
		}
	})
}

// ear listens to a stage.
type ear struct {
	t      *rapid.T
	spoken map[AgentID]int64 // spoken to with a line to say, and nothing heard yet
	voice  map[int]TurnID    // conversation → whose reply is being heard
	barks  map[string]int64
	began  map[TurnID]bool
}

// place is the number of the conversation of a character.
func place(s *stage, id AgentID) int {
	for i, o := range []AgentID{"innkeeper", "guard", "guest"} {
		if s.world.agents[o].scene == s.world.agents[id].scene {
			return i
		}
	}
	return -1
}

func (h *ear) hear(s *stage) {
	for _, e := range s.events {
		at := place(s, e.Agent)
		speaking := h.voice[at]
		switch e.Kind {
		case EventBark:
			if speaking != 0 {
				h.t.Fatalf("a bark of %s while turn %d is being heard", e.Agent, speaking)
			}
			if h.began[e.Turn] {
				h.t.Fatalf("the bark of turn %d comes after its words", e.Turn)
			}
			if before, ok := h.barks[e.Text]; ok && s.now-before < int64(s.world.cfg.BarkQuiet) {
				h.t.Fatalf("%q again after %d ms", e.Text, (s.now-before)/1e6)
			}
			h.barks[e.Text] = s.now
		case EventText:
			if speaking != 0 && speaking != e.Turn {
				h.t.Fatalf("%s speaks into turn %d", e.Agent, speaking)
			}
			h.voice[at], h.began[e.Turn] = e.Turn, true
		case EventDone, EventInterrupted, EventFailed:
			if speaking == e.Turn {
				h.voice[at] = 0
			}
		}
		if e.Kind == EventBark || e.Kind == EventText {
			for id := range h.spoken { // a voice of the conversation is a voice
				if place(s, id) == at {
					delete(h.spoken, id)
				}
			}
		}
	}
	s.events = s.events[:0]
	for id, since := range h.spoken {
		if h.voice[place(s, id)] == 0 && s.now-since > 100e6 {
			h.t.Fatalf("%s was spoken to %d ms ago and nothing was heard:\n%s", id, (s.now-since)/1e6, s.trace.String())
		}
	}
}

// fresh reports whether a character has a line that may be said now.
func fresh(s *stage, id AgentID) bool {
	_, ok := (&barker{quiet: s.world.barks.quiet, said: copyOf(s.world.barks.said)}).pick(id,
		s.world.agents[id].persona.Barks[BarkThinking], s.now)
	return ok
}

func copyOf(m map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestBarksOfASecondVoice: while one of a conversation is heard, another one who
// is spoken to only turns its head; its own bark waits for nobody elsewhere.
func TestBarksOfASecondVoice(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "Odo") {
			return "I am here."
		}
		return tale
	}}, WorldConfig{})
	for _, name := range []string{"Ann", "Odo", "Eve"} {
		s.add(AgentID(strings.ToLower(name)), person(name))
	}
	if err := s.world.Gather("ann", "odo"); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "Tell me a tale.")
	s.frames(12)
	s.note("while Ann is heard")
	s.say("odo", "And you, Odo?")
	if s.world.Bark("odo", BarkThinking, s.now) {
		t.Error("Odo barks into Ann's words")
	}
	s.say("eve", "Hello, Eve.")
	s.until(EventDone, "odo")
	golden(t, "world/secondvoice.txt", s.trace.String())
}
