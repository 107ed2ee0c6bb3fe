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
	tick   int64 // of a frame
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
	return &stage{T: t, model: model, engine: engine, world: w, tick: frame, steps: 4}
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
		s.now += s.tick
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

// Two characters and the player in one conversation: each hears the others, in
// order, and nobody speaks for another.
func TestConversationGolden(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		switch line := c.Last(llm.User); {
		case strings.Contains(c.Turns[0].Text, "You are Ann") && strings.Contains(line, "gate"):
			return "The gate is shut. Ask Odo for the key.\nOdo: I have the key!\nPlayer: Thanks."
		case strings.Contains(c.Turns[0].Text, "You are Odo") && strings.Contains(line, "Ann: The gate is shut."):
			return "Odo: I heard Ann. No key without a coin."
		}
		return "Hm."
	}}, WorldConfig{})
	for _, name := range []string{"Ann", "Odo", "Eve"} {
		s.add(AgentID(strings.ToLower(name)), person(name))
	}
	if err := s.world.Gather("ann", "odo"); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "Open the gate! Odo: I allow it.")
	if _, err := s.world.Cue("odo", "Say what you think of that", s.now); err != nil {
		t.Fatal(err)
	}
	s.until(EventDone, "odo")
	for _, id := range []AgentID{"ann", "odo", "eve"} {
		s.history(id)
	}
	golden(t, "world/conversation.txt", s.trace.String())
	if len(s.world.History("eve")) != 0 {
		t.Error("Eve heard what was not said to her")
	}
}

const tale = "I was young once, and so was the king. We rode out on a cold morning to find the stone. " +
	"The road was long and nobody came back the same. That is all I will say."

func TestInterruptGolden(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		if line := c.Last(llm.User); strings.Contains(line, "Go on") {
			return "As I said, we rode out."
		} else if strings.Contains(line, "sword") {
			return "Forty."
		} else if strings.Contains(line, "another") {
			return "It was a hard winter without any bread. Then the wolves came."
		}
		return tale
	}}, WorldConfig{})
	s.add("ann", person("Ann"))
	s.say("ann", "Tell me a tale.")
	s.frames(12)
	s.note("interrupted")
	if !s.world.Interrupt("ann") || s.world.Interrupt("ann") {
		t.Error("Interrupt does not know whether somebody speaks")
	}
	s.until(EventInterrupted, "ann")
	s.frames(2)
	s.note("resumed")
	if _, err := s.world.Resume("ann", s.now); err != nil {
		t.Fatal(err)
	}
	if e := s.until(EventDone, "ann"); e.Text != tale {
		t.Errorf("the whole is %q", e.Text)
	}
	s.say("ann", "Tell me another.")
	s.frames(9)
	s.note("the player speaks over her")
	s.say("ann", "What is a sword?")
	s.until(EventDone, "ann")
	s.note("resumed")
	if _, err := s.world.Resume("ann", s.now); err != nil {
		t.Fatal(err)
	}
	s.until(EventDone, "ann")
	if _, err := s.world.Resume("ann", s.now); err == nil {
		t.Error("resumed what was not interrupted")
	}
	s.history("ann")
	golden(t, "world/interrupt.txt", s.trace.String())
}

// A reply that goes on after an interruption computes next to nothing anew.
func TestResumeReuses(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(scripted.Conversation) string { return tale }}, WorldConfig{})
	s.add("ann", person("Ann"))
	s.say("ann", "Tell me a tale.")
	s.frames(12)
	s.world.Interrupt("ann")
	s.frames(3)
	if _, err := s.world.Resume("ann", s.now); err != nil {
		t.Fatal(err)
	}
	s.until(EventDone, "ann")
	records := s.world.Explain("ann")
	if u := records[len(records)-1].Usage; u.Prefilled > 8 || u.Reused < 100 {
		t.Errorf("%+v", u)
	}
	h := s.world.History("ann")
	if len(h) != 2 || h[1].Text != tale || len(h[1].Tokens) == 0 {
		t.Errorf("history %+v", h)
	}
}

func TestActionsGolden(t *testing.T) {
	choice := ""
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		line := c.Last(llm.User)
		switch {
		case strings.Contains(line, "What does Ann do now?"):
			return choice
		case strings.Contains(line, "but it fails: the shop is closed"):
			return "I forgot: the shop is closed."
		}
		return "Here you are."
	}}, WorldConfig{})
	s.add("ann", person("Ann"))
	if err := s.world.SetOffer("ann", smithOffer()); err != nil {
		t.Fatal(err)
	}
	act := func(c string) Event {
		choice = c
		s.say("ann", "Give me a sword.")
		return s.until(EventAction, "ann")
	}
	e := act(`{"action":"give_item","item":"sword","count":1,"to":"player"}`)
	s.note("accepted")
	if err := s.world.Accept(e.Turn, s.now); err != nil {
		t.Fatal(err)
	}
	if err := s.world.Accept(e.Turn, s.now); err == nil {
		t.Error("accepted twice")
	}
	e = act(`{"action":"give_item","item":"bread","count":120,"to":"Odo"}`)
	s.note("refused")
	if err := s.world.Refuse(e.Turn, "the shop is closed"); err != nil {
		t.Fatal(err)
	}
	act(`{"action":"set_price","factor":1.25,"final":true,"note":"for you"}`)
	s.until(EventLapsed, "ann")
	s.note("nothing chosen")
	choice = `{"action":"none"}`
	s.say("ann", "Thanks.")
	s.until(EventDone, "ann")
	s.frames(60)
	s.note("the model wants what nobody offered")
	choice = `{"action":"kill","who":"everybody"}`
	s.say("ann", "Kill them.")
	s.until(EventDone, "ann")
	s.frames(120)
	s.history("ann")
	golden(t, "world/actions.txt", s.trace.String())
	for _, e := range s.events {
		if e.Kind == EventAction && e.Action.Name == "kill" {
			t.Error("an action that was not declared")
		}
	}
}

// A target that goes while the choice is made can't be acted on.
func TestTargetGone(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "do now?") {
			return `{"action":"give_item","item":"sword","count":1,"to":"Odo"}`
		}
		return "Yes."
	}}, WorldConfig{})
	s.add("ann", person("Ann"))
	if err := s.world.SetOffer("ann", smithOffer()); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "Give Odo a sword.")
	s.until(EventDone, "ann")
	o := smithOffer()
	o.Targets = map[string][]string{"person": {"player"}}
	if err := s.world.SetOffer("ann", o); err != nil {
		t.Fatal(err)
	}
	if e := s.until(EventLapsed, "ann"); e.Action.Name != "give_item" || !strings.Contains(e.Reason, "not possible") {
		t.Errorf("%+v", e)
	}
}

func TestQuestGolden(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		line := c.Last(llm.User)
		switch {
		case strings.Contains(line, "- offer_quest"):
			return `{"action":"offer_quest","quest":"find_wenna"}`
		case strings.Contains(line, "You can ask the player to find Wenna"):
			return "Please find Wenna!"
		case strings.Contains(line, "did what you asked"):
			return "You found her!"
		case strings.Contains(line, "No longer true: The gate is open"):
			return "The gate is shut again."
		case strings.Contains(line, "The gate is open"):
			return "The gate stands open."
		}
		return "Hm."
	}}, WorldConfig{})
	s.add("ann", person("Ann"))
	quest := Quest{ID: "find_wenna", Text: "find Wenna"}
	if err := s.world.SetQuest("ann", quest); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "Can I help?")
	e := s.until(EventAction, "ann")
	if err := s.world.Accept(e.Turn, s.now); err != nil {
		t.Fatal(err)
	}
	s.until(EventQuest, "ann")
	if q := s.world.Quests("ann"); q[0].State != QuestOffered {
		t.Errorf("the quest is %s", q[0].State)
	}
	quest.State = QuestDone
	if err := s.world.SetQuest("ann", quest); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "Here I am.")
	s.until(EventDone, "ann")
	s.note("the gate is open for a second")
	if err := s.world.SetFact("", Fact{Key: "gate", Text: "The gate is open", Until: s.now + 1e9}); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "The gate?")
	s.until(EventDone, "ann")
	s.frames(60)
	s.say("ann", "And now?")
	s.until(EventDone, "ann")
	s.history("ann")
	golden(t, "world/quest.txt", s.trace.String())
}
