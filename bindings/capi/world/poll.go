package world

import (
	"errors"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

// EventKind is what an event tells, with lull.h's numbers.
type EventKind int32

// Kinds.
const (
	WorldReady EventKind = iota + 1
	WorldFailed
	Thinking
	Bark
	Text
	Sentence
	Thought
	Emotion
	Done
	Interrupted
	ReplyFailed
	Action
	ActionLapsed
	Quest
	Overflow
	Summarised
	MemoryDurable
	MemoryFailed
	MemorySaved
	Blocked
	Judge
)

// ofTalk are the kinds of package npc's events.
var ofTalk = [...]EventKind{
	npc.EventThinking: Thinking, npc.EventBark: Bark, npc.EventText: Text, npc.EventSentence: Sentence,
	npc.EventThought: Thought, npc.EventEmotion: Emotion, npc.EventDone: Done, npc.EventInterrupted: Interrupted,
	npc.EventFailed: ReplyFailed, npc.EventAction: Action, npc.EventLapsed: ActionLapsed, npc.EventQuest: Quest,
	npc.EventOverflow: Overflow, npc.EventSummarised: Summarised,
	npc.EventBlocked: Blocked,
}

// Event is something that the host polls.
type Event struct {
	Kind     EventKind
	Result   Code
	NPC      *NPC // nil: it is about the world
	Turn     uint64
	Text     string
	Reason   string
	Tokens   int
	Usage    llm.Usage
	Sentence uint64 // Judge
}

// ID is the id of the event's NPC.
func (e *Event) ID() NPCID {
	if e.NPC == nil {
		return NPCID{}
	}
	return NPCID{e.NPC.index1, e.NPC.world.index1, e.NPC.generation}
}

// Long reports whether text that is too long for one event goes on in the next.
func (k EventKind) Long() bool {
	return k == Bark || k == Text || k == Sentence || k == Thought || k == Judge
}

func (w *World) emit(e Event) { w.out = append(w.out, e) }

// Collect fetches what happened; Peek and Drop then give it out. It never
// waits. Call it when Peek has nothing more.
func (w *World) Collect() {
	w.gatherState()
	w.gatherTalk()
	w.gatherMemory()
}

// gatherState tells once that loading has ended, and begins to talk.
func (w *World) gatherState() {
	if w.state != Loading {
		return
	}
	select {
	case <-w.loading:
	default:
		return
	}
	err := w.loadErr
	if err == nil {
		err = w.begin()
	}
	if err != nil {
		w.loadErr, w.state = err, Failed
		w.Note(err)
		w.log.add(LogError, err.Error())
		w.emit(Event{Kind: WorldFailed, Result: CodeOf(err), Text: err.Error()})
		return
	}
	w.state = Ready
	w.emit(Event{Kind: WorldReady})
}

// begin makes the world of characters, with those that were created meanwhile.
func (w *World) begin() error {
	r := w.Runtime()
	r.SetPhase(w.phase)
	r.SetHost(w.host)
	cfg := npc.WorldConfig{Engine: r.Engine, Model: r.Model, Player: w.def.Player, Lore: w.def.Lore, Rules: w.def.Rules,
		BarkQuiet: w.def.BarkQuiet, ActionTimeout: w.def.ActionTimeout, Seed: w.def.Seed,
		Blocked: w.def.Blocked, ContentTimeout: w.def.ContentTimeout}
	if w.def.ContentHook {
		cfg.Content = w.judged
	}
	if w.memory != nil {
		cfg.Memory = w.memory
	}
	t, err := npc.NewWorld(cfg)
	if err != nil {
		return Errorf(InvalidArgument, "%v", err)
	}
	t.SetPhase(w.phase)
	w.talk = t
	for _, n := range w.npcs {
		if n == nil {
			continue
		}
		if err := t.Add(n.spec); err != nil {
			return talkError(err)
		}
	}
	return nil
}

func (w *World) gatherTalk() {
	if w.talk == nil {
		return
	}
	w.heard = w.talk.Poll(w.heard[:0], Clock.Now())
	for i := range w.heard {
		w.hear(&w.heard[i])
		w.heard[i] = npc.Event{}
	}
	w.gatherAsks()
}

// hear takes one event of the characters.
func (w *World) hear(e *npc.Event) {
	n := w.byName[e.Agent]
	if n == nil {
		return // it was destroyed
	}
	out := Event{Kind: ofTalk[e.Kind], NPC: n, Turn: uint64(e.Turn), Text: e.Text, Tokens: e.Tokens}
	switch e.Kind {
	case npc.EventDone:
		delete(n.busy, e.Turn)
		out.Text, out.Reason = "", e.Reason
		w.count(n, e, &out)
	case npc.EventInterrupted, npc.EventSummarised:
		delete(n.busy, e.Turn)
		out.Text = ""
		if e.Kind == npc.EventInterrupted {
			w.totals.Broken++
		}
	case npc.EventFailed:
		delete(n.busy, e.Turn)
		w.totals.Broken++
		out.Result, out.Text = failed(e.Err), e.Err.Error()
		w.log.add(LogError, string(e.Agent)+": "+out.Text)
	case npc.EventAction:
		w.actions[e.Turn] = e.Action
		out.Text = e.Action.Name
	case npc.EventLapsed:
		delete(w.actions, e.Turn)
		out.Text = e.Action.Name
	}
	w.emit(out)
}

func failed(err error) Code {
	switch {
	case errors.Is(err, npc.ErrBudget), errors.Is(err, npc.ErrPersona):
		return Persona
	case errors.Is(err, llm.ErrQueueFull):
		return Full
	}
	return Model
}

// count adds a reply that is complete to the totals, and its figures to the
// event.
func (w *World) count(n *NPC, e *npc.Event, out *Event) {
	t := &w.totals
	if t.Replies == 0 {
		settle() // by now llama.cpp has made whatever it makes
	}
	t.Replies++
	turns := w.talk.Explain(n.spec.ID)
	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Turn != e.Turn {
			continue
		}
		u := turns[i].Usage
		out.Usage, out.Tokens = u, u.Generated
		t.Generated += uint64(u.Generated)
		t.Prefilled += uint64(u.Prefilled)
		t.Reused += uint64(u.Reused)
		t.LastFirst, t.LastTotal = u.TTFT, u.Total
		return
	}
}

// Peek is the next event to give out, or nil. Valid until Drop or Leave.
func (w *World) Peek() *Event {
	if w.given == len(w.out) {
		w.out, w.given = w.out[:0], 0
		return nil
	}
	return &w.out[w.given]
}

// Drop ends the event that Peek showed.
func (w *World) Drop() {
	w.out[w.given] = Event{}
	w.given++
}

// dropEvents forgets the events of an NPC that is no more.
func (w *World) dropEvents(n *NPC) {
	kept := w.out[:w.given]
	for _, e := range w.out[w.given:] {
		if e.NPC != n {
			kept = append(kept, e)
		}
	}
	clear(w.out[len(kept):])
	w.out = kept
}
