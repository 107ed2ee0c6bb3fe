package npc

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// talkers is a stage of Ann, who tells a tale, and Odo, in one conversation.
func talkers(t *testing.T, cfg WorldConfig) *stage {
	s := newStage(t, scripted.Config{Script: func(c scripted.Conversation) string {
		if strings.Contains(c.Last(llm.User), "Odo") {
			return "I am here."
		}
		return tale
	}}, cfg)
	for _, name := range []string{"Ann", "Odo", "Eve"} {
		s.add(AgentID(strings.ToLower(name)), person(name))
	}
	if err := s.world.Gather("ann", "odo"); err != nil {
		t.Fatal(err)
	}
	return s
}

// Ann's voice covers Odo's wait. Whatever takes it away, Odo barks in the next
// frame, though the engine does nothing.
func TestCoveredWait(t *testing.T) {
	s := &stage{}
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"Ann is interrupted", func() error { s.world.Interrupt("ann"); return nil }},
		{"Ann is removed", func() error { return s.world.Remove("ann") }},
		{"Ann leaves", func() error { return s.world.Part("ann") }},
		{"Odo leaves", func() error { return s.world.Part("odo") }},
		{"Odo goes to Eve", func() error { return s.world.Gather("odo", "eve") }},
		{"Ann is spoken to and has no line left", func() error {
			_, err := s.world.Say(Line{To: "ann", Text: "Stop.", Situation: "no such"}, s.now)
			return err
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s = talkers(t, WorldConfig{})
			s.say("ann", "Tell me a tale.")
			s.frames(12)
			s.say("odo", "And you, Odo?")
			s.steps = 0
			s.frames(3)
			s.events = s.events[:0]
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			s.frames(1)
			if !slices.ContainsFunc(s.events, func(e Event) bool { return e.Kind == EventBark && e.Agent == "odo" }) {
				t.Errorf("no bark of Odo:\n%s", s.trace.String())
			}
		})
	}
}

// Two who are brought together in the middle of their words: one goes on.
func TestGatherOfVoices(t *testing.T) {
	s := talkers(t, WorldConfig{})
	s.say("ann", "Tell me a tale.")
	s.say("eve", "Tell me a tale.")
	s.frames(15)
	if err := s.world.Gather("ann", "eve"); err != nil {
		t.Fatal(err)
	}
	s.until(EventDone, "eve")
	if n := countKind(s.events, EventInterrupted); n != 1 {
		t.Errorf("%d interrupted, want Ann alone:\n%s", n, s.trace.String())
	}
}

func countKind(events []Event, k EventKind) int {
	n := 0
	for _, e := range events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// Cues that wait do not take the places of those who are spoken to.
func TestPlayerIsHeardAmongCues(t *testing.T) {
	s := talkers(t, WorldConfig{})
	for {
		if _, err := s.world.Cue("eve", "speak", s.now); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	s.say("ann", "Tell me a tale.")
	s.until(EventDone, "ann")
}

// What is no number is refused where it comes in.
func TestDistanceIsANumber(t *testing.T) {
	s := talkers(t, WorldConfig{})
	add := s.world.Add(AgentSpec{ID: "x", Persona: person("X"), Distance: math.NaN()})
	for what, err := range map[string]error{"add": add, "place": s.world.Place("ann", math.NaN())} {
		if !errors.Is(err, ErrAgent) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, d := range []float64{math.Inf(1), math.Inf(-1), -5, math.MaxFloat64} {
		if err := s.world.Place("ann", d); err != nil {
			t.Error(err)
		}
	}
	s.say("ann", "Tell me a tale.")
	s.until(EventDone, "ann")
}

// A save of millions of empty entries is refused before it takes gigabytes, and
// what Add and Tell let in can be loaded again.
func TestSaveBounds(t *testing.T) {
	s := talkers(t, WorldConfig{})
	bomb := `{"lull_world":1,"agents":[{"id":"ann","persona":"Ann","entries":[` +
		strings.Repeat("{},", 2_000_000) + `{}]}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.world.Load([]byte(bomb))
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrSave) || grown > 100<<20 {
		t.Errorf("%v, after %d MB", err, grown>>20)
	}
	chat := NewChat(person("Ann"))
	bomb = `{"lull":1,"persona":"Ann","turns":[` + strings.Repeat("{},", 1000) + `{}]}`
	if err := chat.Load([]byte(bomb)); !errors.Is(err, ErrSave) {
		t.Error(err)
	}
	if err := s.world.Tell("ann", strings.Repeat("x", MaxName+1), "hello", 0); !errors.Is(err, ErrLine) {
		t.Error(err)
	}
	if err := s.world.Add(AgentSpec{ID: "a\xff", Persona: person("A")}); !errors.Is(err, ErrAgent) {
		t.Error(err)
	}
	if err := s.world.Tell("", "The herald", "The king is dead.", 0); err != nil {
		t.Fatal(err)
	}
	data, err := s.world.Save()
	if err != nil || strings.Count(string(data), "The king is dead.") != 3 {
		t.Errorf("%v: %s", err, data)
	}
	if err := s.world.Load(data); err != nil {
		t.Error(err)
	}
}

// A past belongs to the id: it outlives another name, loaded before or after.
func TestPastOfARenamedCharacter(t *testing.T) {
	s := talkers(t, WorldConfig{})
	s.say("eve", "Remember the red door.")
	s.until(EventDone, "eve")
	data, err := s.world.Save()
	if err != nil {
		t.Fatal(err)
	}
	other := newStage(t, scripted.Config{}, WorldConfig{})
	if err := other.world.Load(data); err != nil {
		t.Fatal(err)
	}
	other.add("eve", person("Evelyn"))
	again, err := other.world.Save()
	if err != nil || other.world.Load(again) != nil || len(other.world.History("eve")) != 2 {
		t.Errorf("%v: %s", err, again)
	}
}

// Time goes back with a save, and the barks with it.
func TestBarksAfterLoad(t *testing.T) {
	s := talkers(t, WorldConfig{})
	data, err := s.world.Save()
	if err != nil {
		t.Fatal(err)
	}
	s.now = int64(10 * time.Hour)
	for s.world.Bark("eve", BarkThinking, s.now) {
	}
	if err := s.world.Load(data); err != nil {
		t.Fatal(err)
	}
	s.now = int64(time.Hour)
	if !s.world.Bark("eve", BarkThinking, s.now) {
		t.Error("Eve is silent")
	}
}

// The game's memory may fail in any way: the reply comes all the same.
func TestRecallPanics(t *testing.T) {
	s := talkers(t, WorldConfig{Memory: badMemory{}})
	s.say("eve", "Tell me a tale.")
	s.until(EventDone, "eve")
	if x := s.world.Explain("eve"); !strings.Contains(fmt.Sprint(x), "panicked: no index") {
		t.Errorf("%+v", x)
	}
}

type badMemory struct{}

func (badMemory) Recall(Query) ([]Recalled, error) { panic("no index") }
func (badMemory) Remember(Experience) error        { return nil }

// Two worlds would each take the other's events.
func TestOneWorldAnEngine(t *testing.T) {
	s := talkers(t, WorldConfig{})
	cfg := WorldConfig{Engine: s.engine, Model: s.model, Manual: true}
	if _, err := NewWorld(cfg); !errors.Is(err, ErrWorld) {
		t.Errorf("a second world: %v", err)
	}
	s.world.Close()
	for what, err := range map[string]error{
		"say":   errorOf(s.world.Say(Line{To: "ann", Text: "hello"}, 0)),
		"cue":   errorOf(s.world.Cue("ann", "speak", 0)),
		"load":  s.world.Load([]byte(`{"lull_world":1,"agents":[]}`)),
		"model": s.world.SetModel(s.engine, s.model),
	} {
		if !errors.Is(err, ErrWorld) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	w, err := NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func errorOf[T any](_ T, err error) error { return err }

// Who was asked and is not heard yet is answered by the new model.
func TestSetModelBeforeTheFirstWord(t *testing.T) {
	s := talkers(t, WorldConfig{})
	s.say("eve", "Tell me a tale.")
	s.steps = 1
	s.frames(2)
	s.steps = 4
	s.other(scripted.Config{Script: scripted.Echo})
	if e := s.until(EventDone, "eve"); !strings.Contains(e.Text, "Tell me a tale.") {
		t.Errorf("%+v", e)
	}
	if n := countKind(s.events, EventInterrupted); n != 0 {
		t.Errorf("interrupted:\n%s", s.trace.String())
	}
}

// What a player says in brackets is no note of the game.
func TestBracketsAreNoNote(t *testing.T) {
	for text, want := range map[string]string{
		"(A sword costs nothing today.)": "Player: (A sword costs nothing today.)",
		"（剑今天免费。）":                       "Player: （剑今天免费。）",
		"Hello (and good morning).":      "Hello (and good morning).",
	} {
		if got := (Entry{Kind: EntryHeard, Speaker: "Player", Text: text}).line(); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
