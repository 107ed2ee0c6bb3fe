package npc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// stage is a world over a scripted model, in virtual time: each frame is 20 ms
// long, and the model does steps batches in it.
type stage struct {
	*testing.T
	model  *scripted.Model
	engine *llm.Engine
	world  *World
	now    int64
	steps  int
	events []Event
	trace  strings.Builder
}

const frame = 20_000_000

func newStage(t *testing.T, mc scripted.Config, wc WorldConfig) *stage {
	t.Helper()
	if mc.Context == 0 {
		mc.Context = 4096
	}
	model, err := scripted.New(mc)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := llm.NewEngine(model, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	wc.Engine, wc.Model, wc.Manual = engine, model, true
	w, err := NewWorld(wc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return &stage{T: t, model: model, engine: engine, world: w, steps: 4}
}

// person is a persona that can be told from others, and always the same.
func person(name string) Persona {
	return Persona{Name: name, Description: "a guard", MaxTokens: 400,
		Barks: map[string][]string{BarkThinking: {name + " hums.", name + " looks up."}}}
}

func (s *stage) add(id AgentID, p Persona) {
	s.Helper()
	if err := s.world.Add(AgentSpec{ID: id, Persona: p}); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) say(to AgentID, text string) TurnID {
	s.Helper()
	id, err := s.world.Say(Line{To: to, Text: text}, s.now)
	if err != nil {
		s.Fatal(err)
	}
	fmt.Fprintf(&s.trace, "%5d ms  player to %s: %s\n", s.now/1e6, to, text)
	return id
}

// frames runs n frames.
func (s *stage) frames(n int) {
	s.Helper()
	for range n {
		for s.world.Prepare() {
		}
		for range s.steps {
			if _, err := s.engine.Step(llm.Grant{PrefillChunk: 64}); err != nil {
				s.Fatal(err)
			}
		}
		s.now += frame
		s.poll()
	}
}

func (s *stage) poll() {
	from := len(s.events)
	s.events = s.world.Poll(s.events, s.now)
	for _, e := range s.events[from:] {
		if e.Kind == EventText {
			continue // sentences are what a person reads
		}
		fmt.Fprintf(&s.trace, "%5d ms  %s %s", s.now/1e6, e.Agent, e.Kind)
		switch {
		case e.Kind == EventAction || e.Kind == EventLapsed:
			fmt.Fprintf(&s.trace, " %s", e.Action)
		case e.Err != nil:
			fmt.Fprintf(&s.trace, " %v", e.Err)
		case e.Text != "":
			fmt.Fprintf(&s.trace, " %q", e.Text)
		}
		if e.Tokens > 0 {
			fmt.Fprintf(&s.trace, " %d tokens", e.Tokens)
		}
		if e.Reason != "" {
			fmt.Fprintf(&s.trace, " (%s)", e.Reason)
		}
		s.trace.WriteString("\n")
	}
}

// until runs frames until an event of a kind came after the events so far.
func (s *stage) until(kind EventKind, who AgentID) Event {
	s.Helper()
	from := len(s.events)
	for range 2000 {
		s.frames(1)
		for _, e := range s.events[from:] {
			if e.Kind == kind && e.Agent == who {
				return e
			}
		}
	}
	s.Fatalf("no %s of %s in\n%s", kind, who, s.trace.String())
	return Event{}
}

func (s *stage) note(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%5d ms  -- %s\n", s.now/1e6, fmt.Sprintf(format, args...))
}

func (s *stage) history(id AgentID) {
	for _, e := range s.world.History(id) {
		who := e.Speaker
		if e.Kind != EntryHeard {
			who = e.Kind.String()
		}
		fmt.Fprintf(&s.trace, "            %s | %s: %s\n", id, who, e.Text)
	}
}

func TestTalkGolden(t *testing.T) {
	s := newStage(t, scripted.Config{Script: scripted.Table(map[string]string{
		"Hello!":    "Good day. What do you need? I have swords. And shields.",
		"How much?": "<think>Forty, as always.</think>Forty silver! [joy] Take it.",
	}, "Hm.")}, WorldConfig{})
	ann := person("Ann")
	ann.Emotions = []string{"joy"}
	s.add("ann", ann)
	s.say("ann", " Hello! ")
	s.until(EventDone, "ann")
	s.say("ann", "How much?")
	s.until(EventDone, "ann")
	s.history("ann")
	golden(t, "world/talk.txt", s.trace.String())
	// The second prompt only adds to the first: nothing else is computed.
	records := s.world.Explain("ann")
	if u := records[1].Usage; u.Prefilled > 60 || u.Reused < records[0].Usage.Prompt {
		t.Errorf("the second reply: %+v after %+v", u, records[0].Usage)
	}
}
