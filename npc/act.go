package npc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// maxCallTokens bounds a call: the longest free text and some targets.
	maxCallTokens = 256

	// maxSummaryTokens is two or three sentences.
	maxSummaryTokens = 96

	// summaryCue asks for what outlasts the words.
	summaryCue = "Sum up in two sentences what was said until now, to remember it. Name who said what"
)

// pendingAction waits for the game's word.
type pendingAction struct {
	turn   TurnID
	agent  *agent
	action Action
	until  int64
}

// mayAct has a character that has spoken choose whether it also acts.
func (w *World) mayAct(t *turn, now int64) {
	a := t.agent
	offer := a.offer.withQuests(a.quests, now)
	if len(offer.possible()) == 0 || t.kind == turnChoose {
		return
	}
	if len(w.waiting) >= MaxWaiting || len(w.pending) >= MaxPending {
		t.decide("no action: %d turns and %d actions wait", len(w.waiting), len(w.pending))
		return
	}
	grammar, err := offer.Grammar()
	if err != nil {
		t.decide("no action: %v", err)
		return
	}
	c := w.ask(a, turnChoose, t.asked)
	c.player, c.due = t.player, t.due
	c.line = fmt.Sprintf("What does %s do now? Choose one of these, as the words say:\n%s",
		a.persona.Name, strings.TrimSpace(offer.Describe()))
	c.grammar = grammar
	c.decide("may act: %d actions are possible", len(offer.possible()))
}

// chosen ends a turn that chose an action.
func (w *World) chosen(t *turn, e *llm.Event, now int64) {
	a := t.agent
	text := t.text.String()
	t.record.Text = text
	if e.Kind != llm.EventDone {
		t.decide("no action: the choice was not finished (%s)", e.Kind)
		if e.Err != nil && t.closing == "" {
			w.emit(Event{Kind: EventFailed, Agent: a.id, Turn: t.id, Err: e.Err})
		}
		return
	}
	action, err := a.offer.withQuests(a.quests, now).Parse(text)
	switch {
	case err != nil:
		t.decide("no action: %v", err)
		if action.Name != "" && !blockedAction(a.blocked, action) {
			w.emit(Event{Kind: EventLapsed, Agent: a.id, Turn: t.id, Action: action,
				Reason: "not possible any more"})
		}
	case blockedAction(a.blocked, action):
		t.decide("no action: its text is on the block list")
		w.emit(Event{Kind: EventBlocked, Agent: a.id, Turn: t.id, Action: Action{Name: action.Name}, Reason: "list"})
	case action.Name == NoAction:
		t.decide("chose to do nothing")
	case len(w.pending) >= MaxPending:
		t.decide("no action: %d wait for the game's word", MaxPending)
	default:
		t.decide("chose %s", action)
		w.pending = append(w.pending, pendingAction{t.id, a, action, now + int64(w.cfg.ActionTimeout)})
		w.emit(Event{Kind: EventAction, Agent: a.id, Turn: t.id, Action: action})
	}
}

// blockedAction reports whether the free text of a call is on a block list.
func blockedAction(list *blockList, a Action) bool {
	return slices.ContainsFunc(a.Args, func(x Arg) bool {
		_, found := list.finds(x.Text)
		return found && x.Kind == ParamText
	})
}

// noteEntry is a note of what happened, as one line that a prompt may hold: a
// call may quote what a model wrote.
func noteEntry(text string) Entry {
	clean, _ := CleanLine(text)
	return Entry{Kind: EntryNote, Text: clean}
}

// Accept tells that an action is done: the character knows it, and who is in
// its conversation saw it. The error wraps ErrAction where nothing of that turn
// waits, or no longer.
func (w *World) Accept(id TurnID, now int64) error {
	p, err := w.answer(id)
	if err != nil {
		return err
	}
	a := p.agent
	a.add(noteEntry("You do it: " + p.action.String()))
	seen := fmt.Sprintf("%s does this: %s", a.persona.Name, p.action)
	a.scene.hears(noteEntry(seen), a)
	for _, m := range a.scene.members {
		w.remember(m, a.persona.Name, seen, now)
	}
	if p.action.Name == ActionOfferQuest && len(p.action.Args) == 1 {
		quest := p.action.Args[0].Text
		for i := range a.quests {
			if a.quests[i].ID == quest {
				a.quests = slices.Clone(a.quests)
				a.quests[i].State = QuestOffered
				w.emit(Event{Kind: EventQuest, Agent: a.id, Turn: id, Text: quest})
			}
		}
	}
	return nil
}

// Refuse tells that an action can't be, and why: "the gate is locked". The
// character knows it from then on.
func (w *World) Refuse(id TurnID, reason string) error {
	clean, _ := CleanLine(reason)
	if clean == "" {
		return fmt.Errorf("%w: refused without a reason: the character would try again", ErrAction)
	}
	p, err := w.answer(id)
	if err != nil {
		return err
	}
	p.agent.add(noteEntry(fmt.Sprintf("You try this: %s, but it fails: %s", p.action, clean)))
	return nil
}

// answer takes an action off the list of those that wait.
func (w *World) answer(id TurnID) (pendingAction, error) {
	i := slices.IndexFunc(w.pending, func(p pendingAction) bool { return p.turn == id })
	if i < 0 {
		return pendingAction{}, fmt.Errorf("%w: no action of turn %d waits for an answer, or no longer", ErrAction, id)
	}
	p := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	return p, nil
}

// lapse ends the actions that the game said nothing about.
func (w *World) lapse(now int64) {
	for i := 0; i < len(w.pending); {
		p := w.pending[i]
		if now < p.until {
			i++
			continue
		}
		w.pending = slices.Delete(w.pending, i, i+1)
		p.agent.add(noteEntry(fmt.Sprintf("You try this: %s, but nothing comes of it", p.action)))
		w.emit(Event{Kind: EventLapsed, Agent: p.agent.id, Turn: p.turn, Action: p.action,
			Reason: fmt.Sprintf("no answer within %s", w.cfg.ActionTimeout)})
	}
}

// summarise has one long history summed up, while nobody needs the model.
func (w *World) summarise(now int64) {
	if !w.calm() || len(w.waiting) > 0 || len(w.active) > 0 {
		return
	}
	a := w.crowded[0]
	w.crowded = w.crowded[1:]
	if len(a.entries) >= 4 {
		w.ask(a, turnSummary, now)
	}
}

// summarised puts a summary in the place of the older half of the history.
func (w *World) summarised(t *turn, e *llm.Event) {
	a := t.agent
	s := NewSpeech(SpeechConfig{Name: a.persona.Name})
	s.End(s.Add(nil, t.text.String()))
	text := s.Text()
	if whole := s.Whole(); e.Reason == llm.DoneLength && whole != "" {
		text = whole
	}
	text, _ = CleanLine(text)
	if _, found := a.blocked.finds(text); found {
		t.decide("not summarised: the summary holds what is on the block list")
		return
	}
	if e.Kind != llm.EventDone || text == "" {
		t.decide("not summarised: %s", e.Kind)
		return
	}
	half := len(a.entries) / 2
	for half < len(a.entries) && a.entries[half-1].Kind != EntryOwn {
		half++ // an exchange goes whole
	}
	if half == len(a.entries) {
		return
	}
	a.drop(half)
	a.summary = text
	w.emit(Event{Kind: EventSummarised, Agent: a.id, Turn: t.id, Text: text})
}
