package npc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// other replaces the model and the engine of a stage, and closes the old ones.
func (s *stage) other(cfg scripted.Config) {
	s.Helper()
	if cfg.Context == 0 {
		cfg.Context = 4096
	}
	model, err := scripted.New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	engine, err := llm.NewEngine(model, llm.EngineConfig{})
	if err != nil {
		s.Fatal(err)
	}
	s.T.Cleanup(engine.Close)
	if err := s.world.SetModel(engine, model); err != nil {
		s.Fatal(err)
	}
	s.engine.Close()
	_ = s.model.Close()
	s.model, s.engine = model, engine
}

// The model changes in mid-sentence: what was heard stays, who waits is answered
// by the new one, and what was interrupted is come back to.
func TestSetModelGolden(t *testing.T) {
	s := newStage(t, scripted.Config{Script: func(scripted.Conversation) string { return tale }}, WorldConfig{})
	for _, name := range []string{"Ann", "Odo", "Eve"} {
		s.add(AgentID(strings.ToLower(name)), person(name))
	}
	if err := s.world.Gather("ann", "odo"); err != nil {
		t.Fatal(err)
	}
	s.say("ann", "Tell me a tale.")
	s.frames(12)
	if _, err := s.world.Cue("odo", "Say what you think of it", s.now); err != nil {
		t.Fatal(err)
	}
	s.frames(1)
	s.note("another model")
	s.other(scripted.Config{MaxSequences: 2, Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "You were interrupted after the words") {
			return "As I said, we rode out."
		}
		return "I am another."
	}})
	s.until(EventDone, "odo")
	if _, err := s.world.Resume("ann", s.now); err != nil {
		t.Fatal(err)
	}
	s.until(EventDone, "ann")
	s.say("eve", "Who are you?")
	s.until(EventDone, "eve")
	s.history("ann")
	golden(t, "world/othermodel.txt", s.trace.String())
	if err := s.world.SetModel(nil, nil); !errors.Is(err, ErrWorld) {
		t.Errorf("no model: %v", err)
	}
}

// Whatever is done in the middle of whatever else, the world goes on: every turn
// ends once, nothing of it comes afterwards, and there is still an answer.
func TestAnythingInMidSentence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hook := rapid.Bool().Draw(rt, "hook")
		cfg := WorldConfig{}
		if rapid.Bool().Draw(rt, "blocked") {
			cfg.Blocked = []string{"cold morn*", "nobody came back"}
		}
		if hook {
			cfg.Content = func(Utterance) Ruling { return Ruling{} }
		}
		script := scripted.Config{Script: func(c scripted.Conversation) string {
			if strings.Contains(c.Last(llm.User), "do now?") {
				return `{"action":"leave"}`
			}
			return tale
		}}
		s := newStage(t, script, cfg)
		ids := []AgentID{"a", "b", "c"}
		add := func(id AgentID) {
			_ = s.world.Add(AgentSpec{ID: id, Persona: person("P" + string(id)), Offer: smithOffer()})
		}
		for _, id := range ids {
			add(id)
		}
		disturb(rt, s, ids, script, add)
		for i := 0; len(s.world.active)+len(s.world.waiting) > 0; i++ {
			if i > 3000 {
				rt.Fatalf("%d turns are under way, %d wait, for ever", len(s.world.active), len(s.world.waiting))
			}
			s.judging(1)
		}
		checkEnds(rt, s.events)
		for _, e := range s.events {
			if entry, found := newBlockList(cfg.Blocked).finds(e.Text); found {
				rt.Fatalf("%s says %q: %q", e.Kind, entry, e.Text)
			}
		}
		for _, id := range ids {
			for _, e := range s.world.History(id) {
				if entry, found := newBlockList(cfg.Blocked).finds(e.Text); found {
					rt.Fatalf("the history of %s holds %q: %q", id, entry, e.Text)
				}
			}
		}
		add("a")
		if _, err := s.world.Say(Line{To: "a", Text: "hello"}, s.now); err != nil {
			rt.Fatal(err)
		}
		s.judging(200)
		if last := lastDone(s.events); last.Agent != "a" || last.Text == "" {
			rt.Fatalf("at the end: %+v", last)
		}
	})
}

// disturb does anything at any time.
func disturb(rt *rapid.T, s *stage, ids []AgentID, script scripted.Config, add func(AgentID)) {
	save := []byte(`{"lull_world":1,"agents":[]}`)
	for range rapid.IntRange(1, 40).Draw(rt, "steps") {
		id := rapid.SampledFrom(ids).Draw(rt, "who")
		switch rapid.IntRange(0, 11).Draw(rt, "what") {
		case 0, 1, 2:
			_, _ = s.world.Say(Line{To: id, Text: "hello"}, s.now)
		case 3:
			_, _ = s.world.Cue(id, "speak", s.now)
		case 4:
			s.world.Interrupt(id)
		case 5:
			_, _ = s.world.Resume(id, s.now)
		case 6:
			_ = s.world.Remove(id)
		case 7:
			add(id)
		case 8:
			_ = s.world.Gather(ids...)
		case 9:
			if data, err := s.world.Save(); err == nil {
				save = data
			}
		case 10:
			if err := s.world.Load(save); err != nil {
				rt.Fatal(err)
			}
		case 11:
			s.other(script)
		}
		s.judging(rapid.IntRange(0, 12).Draw(rt, "frames"))
	}
}

func checkEnds(t *rapid.T, events []Event) {
	over := map[TurnID]bool{}
	for _, e := range events {
		if over[e.Turn] && e.Turn != 0 {
			t.Fatalf("after the end of turn %d: %s %q", e.Turn, e.Kind, e.Text)
		}
		over[e.Turn] = e.Kind == EventDone || e.Kind == EventInterrupted || e.Kind == EventFailed
		if e.Kind == EventFailed {
			t.Fatalf("%v", e.Err)
		}
	}
}

func lastDone(events []Event) (last Event) {
	for _, e := range events {
		if e.Kind == EventDone {
			last = e
		}
	}
	return last
}

// With its own goroutine and a worker, as in a game; for the race detector.
func TestSetModelWithWorker(t *testing.T) {
	start := func() (*scripted.Model, *llm.Engine, func()) {
		model, err := scripted.New(scripted.Config{Script: scripted.Echo})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := llm.NewEngine(model, llm.EngineConfig{})
		if err != nil {
			t.Fatal(err)
		}
		worker, err := llm.StartWorker(engine, llm.WorkerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return model, engine, func() { worker.Stop(); engine.Close(); _ = model.Close() }
	}
	model, engine, end := start()
	w, err := NewWorld(WorldConfig{Engine: engine, Model: model})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { w.Close(); end() }()
	if err := w.Add(AgentSpec{ID: "ann", Persona: person("Ann")}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	var events []Event
	for i := range 20 {
		if _, err := w.Say(Line{To: "ann", Text: fmt.Sprintf("line %d", i)}, int64(i)); err != nil {
			t.Fatal(err)
		}
		events = w.Poll(events[:0], int64(i)) // the prompt may be under way now
		old := end
		model, engine, end = start()
		if err := w.SetModel(engine, model); err != nil {
			t.Fatal(err)
		}
		old()
		if _, err := w.Say(Line{To: "ann", Text: fmt.Sprintf("again %d", i)}, int64(i)); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			if time.Now().After(deadline) {
				t.Fatalf("no answer to line %d", i)
			}
			for _, e := range w.Poll(events[:0], int64(i)) {
				done = done || e.Kind == EventDone
			}
		}
	}
}
