package npc

import (
	"errors"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// A loop that waits for the end of a turn ends, whatever becomes of it, and once.
func TestEveryTurnEnds(t *testing.T) {
	lost := errors.New("device lost")
	for name, c := range map[string]struct {
		fault func(int, *llm.Batch) error
		then  func(s *stage)
		want  EventKind
	}{
		"done":        {nil, func(*stage) {}, EventDone},
		"interrupted": {nil, func(s *stage) { s.world.Interrupt("ann") }, EventInterrupted},
		"removed":     {nil, func(s *stage) { _ = s.world.Remove("ann") }, EventInterrupted},
		"failed":      {scripted.FailAt(2, lost), func(*stage) {}, EventFailed},
	} {
		s := newStage(t, scripted.Config{Fault: c.fault, Script: func(scripted.Conversation) string { return tale }},
			WorldConfig{Memory: fails{}})
		s.add("ann", person("Ann"))
		turn := s.say("ann", "hello")
		s.step(3)
		c.then(s)
		s.step(200)
		var ends []EventKind
		for _, e := range s.events {
			if e.Ends() {
				ends = append(ends, e.Kind)
				if e.Turn != turn {
					t.Errorf("%s: turn %d ends", name, e.Turn)
				}
			}
		}
		if len(ends) != 1 || ends[0] != c.want {
			t.Errorf("%s: ends with %v\n%s", name, ends, s.trace.String())
		}
	}
}

// step runs frames, in which the model may fail.
func (s *stage) step(n int) {
	for range n {
		for s.world.Prepare() {
		}
		_, _ = s.engine.Step(llm.Grant{PrefillChunk: 64})
		s.now += s.tick
		s.poll()
	}
}

// fails is a memory that can't keep anything.
type fails struct{}

func (fails) Recall(Query) ([]Recalled, error) { return nil, errors.New("no disk") }
func (fails) Remember(Experience) error        { return errors.New("no disk") }
