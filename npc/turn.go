package npc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
)

// How long after it was asked for a turn is due. The earliest due goes first,
// among those that somebody waits for and among the others.
const (
	// playerPatience is of who is spoken to by the player: at once.
	playerPatience = time.Second

	// otherPatience and metrePatience are of all others: four seconds, and a
	// quarter of a second for each metre, up to 60 m. So somebody at arm's
	// length goes before somebody at 20 m who was asked up to 5 s earlier.
	otherPatience = 4 * time.Second
	metrePatience = 250 * time.Millisecond
	farthest      = 60

	// engineGrace is how much later than due an other's turn counts as late in
	// the engine too, where it then goes before players' newer turns.
	engineGrace = 10 * time.Second
)

type turnKind uint8

const (
	turnReply   turnKind = iota // to the player
	turnCue                     // on a cue of the game
	turnResume                  // of a reply that was interrupted
	turnChoose                  // of an action
	turnSummary                 // of the history
)

func (k turnKind) String() string {
	return [...]string{"reply", "cue", "resume", "choose", "summary"}[k]
}

// turn is one time that a character speaks or acts.
type turn struct {
	id     TurnID
	agent  *agent
	kind   turnKind
	player bool  // the player waits for it
	asked  int64 // ns
	due    int64 // set by the game; 0: by the rule
	line   string

	covered string // the situation of the bark that another's voice made needless

	job     *job          // being prepared
	request llm.RequestID // in the engine
	ended   bool
	speech  *Speech // nil: what comes is not spoken
	text    strings.Builder
	spent   int    // tokens in whole sentences
	closing string // why it is being cancelled
	guard   *guard // nil: nothing is blocked
	grammar string // turnChoose: of the calls that are allowed

	abandoned bool   // somebody ended it, not what it said
	lost      bool   // it belongs to a past that is no more: nothing of it is kept
	mark      int    // where the reply belongs: entries before it, those dropped since the beginning included
	base      int    // agent.dropped when the prompt was begun
	resumed   string // what the model said before the interruption
	before    int    // bytes of what was spoken then
	record    *Explanation

	said     []byte     // guarded: given out
	whole    int        // of said, in whole sentences
	altered  bool       // guarded: it is not what the model said
	excused  bool       // a bark stands for what was not said
	held     []held     // waits for the content hook
	number   int        // of the sentence judged last
	judged   int        // the number of the one being judged; 0: none
	judgedBy int64      // ns
	final    *llm.Event // the engine has ended it; what is held goes before
}

// speaks reports whether the turn is heard.
func (t *turn) speaks() bool { return t.kind != turnChoose && t.kind != turnSummary }

// dueAt is when the turn is due.
func (t *turn) dueAt() int64 {
	switch {
	case t.due != 0:
		return t.due
	case t.player:
		return t.asked + int64(playerPatience)
	}
	metres := min(t.agent.distance, farthest)
	return t.asked + int64(otherPatience) + int64(metres*float64(metrePatience))
}

// Line is what the player says to a character.
type Line struct {
	To        AgentID
	Text      string
	Situation string // which barks cover the wait; default BarkThinking
	Due       int64  // ns by which the answer should begin; 0: the world's rule
}

// Say has the player say something to a character, which all in its
// conversation hear and it answers. A bark is there at the next Poll, or
// EventThinking alone where all fitting ones were said lately. Where another of the
// conversation is speaking, the bark comes when that voice is over, unless the
// answer does. What it is just saying is interrupted; lines that were not answered
// yet are answered together. Errors wrap ErrAgent, ErrLine, ErrFull or, after Close,
// ErrWorld; then nothing was said.
func (w *World) Say(l Line, now int64) (TurnID, error) {
	a, err := w.mayAsk(l.To, MaxWaiting)
	if err != nil {
		return 0, err
	}
	text, _ := CleanLine(l.Text)
	if text == "" {
		return 0, fmt.Errorf("%w: of %d bytes nothing can be read", ErrLine, len(l.Text))
	}
	e := Entry{Kind: EntryHeard, Speaker: w.cfg.Player, Text: text, Named: len(a.scene.members) > 1}
	a.scene.hears(e, nil)
	for _, m := range a.scene.members {
		w.remember(m, w.cfg.Player, text, now)
	}
	var t *turn
	for _, o := range w.turnsOf(a) {
		switch {
		case o.kind == turnReply && o.job == nil && o.request == 0:
			t = o // both lines are answered at once
		case o.speaks():
			w.abandon(o, "the player spoke")
		}
	}
	if t == nil {
		t = w.ask(a, turnReply, now)
		t.player, t.due = true, l.Due
	}
	t.line = text
	situation := l.Situation
	if situation == "" {
		situation = BarkThinking
	}
	t.decide("asked by the player at distance %.0f", a.distance)
	if l.Situation != "" && len(a.persona.Barks[l.Situation]) == 0 {
		t.decide("no barks are written for the situation %q", l.Situation)
	}
	w.emit(Event{Kind: EventThinking, Agent: a.id, Turn: t.id})
	t.covered = ""
	switch {
	case w.voiceIn(a.scene): // who is speaking there covers the wait
		t.covered = situation
	case w.bark(a, situation, t.id, now):
		w.cover(a.scene)
	}
	return t.id, nil
}

// Cue has a character speak of its own accord: text tells it why, as a note
// that only it reads ("You see the player draw a sword"). Errors as in Say.
func (w *World) Cue(id AgentID, text string, now int64) (TurnID, error) {
	a, err := w.mayAsk(id, MaxWaiting-playerPlaces)
	if err != nil {
		return 0, err
	}
	clean, _ := CleanLine(text)
	if clean == "" {
		return 0, fmt.Errorf("%w: of %d bytes nothing can be read", ErrLine, len(text))
	}
	a.add(Entry{Kind: EntryNote, Text: clean})
	t := w.ask(a, turnCue, now)
	t.line = clean
	t.decide("cued at distance %.0f", a.distance)
	return t.id, nil
}

// Tell lets a character, or everybody where id is empty, hear somebody without
// answering: a line of a cutscene. Errors wrap ErrAgent or ErrLine.
func (w *World) Tell(id AgentID, speaker, text string, now int64) error {
	clean, _ := CleanLine(text)
	switch name, _ := CleanLine(speaker); {
	case clean == "":
		return fmt.Errorf("%w: of %d bytes nothing can be read", ErrLine, len(text))
	case name == "" || name != speaker || utf8.RuneCountInString(name) > MaxName:
		return fmt.Errorf("%w: speaker %.60q: want a name of 1 … %d characters", ErrLine, speaker, MaxName)
	}
	hears := func(a *agent) {
		a.add(Entry{Kind: EntryHeard, Speaker: speaker, Text: clean, Named: true})
		w.remember(a, speaker, clean, now)
	}
	if id == "" {
		for _, who := range slices.Sorted(maps.Keys(w.agents)) {
			hears(w.agents[who])
		}
		return nil
	}
	a, err := w.agent(id)
	if err == nil {
		hears(a)
	}
	return err
}

// mayAsk finds a character that may be asked, while fewer than most turns wait.
func (w *World) mayAsk(id AgentID, most int) (*agent, error) {
	a, err := w.agent(id)
	switch {
	case w.closed:
		return nil, errWorldClosed
	case err != nil:
		return nil, err
	case len(w.waiting) >= most:
		return nil, fmt.Errorf("%w: %d turns wait", ErrFull, len(w.waiting))
	case len(w.out) >= maxEvents:
		return nil, fmt.Errorf("%w: %d events were not polled", ErrFull, maxEvents)
	}
	return a, nil
}

func (w *World) ask(a *agent, kind turnKind, now int64) *turn {
	w.last++
	t := &turn{id: w.last, agent: a, kind: kind, asked: now}
	t.record = &Explanation{Agent: a.id, Turn: t.id, Kind: kind.String()}
	w.waiting = append(w.waiting, t)
	return t
}

// Bark has a character say a line for a situation, and reports whether it has
// one that was not said lately, and nobody of its conversation is speaking.
func (w *World) Bark(id AgentID, situation string, now int64) bool {
	a := w.agents[id]
	if a == nil || len(w.out) >= maxEvents || w.voiceIn(a.scene) || slices.ContainsFunc(w.active, func(t *turn) bool {
		return t.agent == a && t.request != 0 && t.speech != nil
	}) {
		return false
	}
	return w.bark(a, situation, 0, now)
}

// voiceIn reports whether somebody of a conversation is in the middle of what is
// heard.
func (w *World) voiceIn(s *scene) bool {
	return slices.ContainsFunc(w.active, func(t *turn) bool {
		return t.agent.scene == s && t.speech != nil && !t.abandoned && w.heardOf(t) != ""
	})
}

func (w *World) bark(a *agent, situation string, t TurnID, now int64) bool {
	line, ok := w.barks.pick(a.id, a.blocked.allows(a.persona.Barks[situation]), now)
	if ok {
		w.emit(Event{Kind: EventBark, Agent: a.id, Turn: t, Text: line})
	}
	return ok
}

// Interrupt stops what a character says, is about to say or chooses to do, and
// reports whether there was something to say: then EventInterrupted follows. What
// was said stays in the history, and Resume goes on with it.
func (w *World) Interrupt(id AgentID) bool {
	a := w.agents[id]
	if a == nil {
		return false
	}
	any := false
	for _, t := range w.turnsOf(a) {
		if t.kind != turnSummary && t.mayAbandon() {
			w.abandon(t, "interrupted")
			any = any || t.speaks()
		}
	}
	return any
}

// Resume has a character go on with what it said when it was interrupted: in
// the middle of the word if nothing was heard since, or else coming back to it.
func (w *World) Resume(id AgentID, now int64) (TurnID, error) {
	a, err := w.mayAsk(id, MaxWaiting-playerPlaces)
	if err != nil {
		return 0, err
	}
	if a.broken == nil || len(w.turnsOf(a)) > 0 {
		return 0, fmt.Errorf("%w: %s was not interrupted, or speaks again", ErrAgent, id)
	}
	if a.broken.at == len(a.entries)-1 && len(a.broken.tokens) > 0 {
		t := w.ask(a, turnResume, now)
		t.decide("goes on after %q", cutText(a.broken.raw, 40))
		return t.id, nil
	}
	said := []rune(a.broken.raw)
	last := string(said[max(0, len(said)-80):])
	a.broken = nil
	return w.Cue(id, "You were interrupted after the words: "+last+" … Go on from there", now)
}

// turnsOf are the turns of a character that are not over.
func (w *World) turnsOf(a *agent) []*turn {
	var out []*turn
	for _, list := range [][]*turn{w.waiting, w.active} {
		for _, t := range list {
			if t.agent == a && !t.ended {
				out = append(out, t)
			}
		}
	}
	return out
}

// mayAbandon reports whether there is something left to end.
func (t *turn) mayAbandon() bool {
	return !t.ended && !t.abandoned && (t.closing == "" || len(t.held) > 0)
}

// abandon ends a turn before its end. In the engine that takes until its last
// event; what comes until then is not said any more.
func (w *World) abandon(t *turn, why string) {
	if !t.mayAbandon() {
		return
	}
	t.closing, t.abandoned = why, true
	t.decide("abandoned: %s", why)
	if t.speaks() {
		e := Event{Kind: EventInterrupted, Agent: t.agent.id, Turn: t.id, Reason: why}
		if t.speech != nil {
			e.Text = w.heardOf(t)
		}
		w.emit(e)
	}
	t.held = nil
	if t.final != nil { // the engine says no more of it
		w.conclude(t, t.final, w.now)
		return
	}
	if t.request != 0 {
		w.cfg.Engine.Cancel(t.request)
		return
	}
	w.over(t)
}

// over takes a turn off the lists.
func (w *World) over(t *turn) {
	t.ended = true
	if w.raised == t {
		w.raised = nil
	}
	is := func(o *turn) bool { return o == t }
	w.waiting = slices.DeleteFunc(w.waiting, is)
	w.active = slices.DeleteFunc(w.active, is)
	if t.record != nil && t.kind != turnSummary {
		t.agent.keep(t.record)
	}
}

// uncover has who waits to answer bark after all where the voice that covered
// the wait is over, or went elsewhere: one of a conversation.
func (w *World) uncover(now int64) {
	for _, list := range [][]*turn{w.waiting, w.active} {
		for _, t := range list {
			if t.covered == "" || w.voiceIn(t.agent.scene) {
				continue
			}
			if w.bark(t.agent, t.covered, t.id, now) {
				w.cover(t.agent.scene)
			}
			t.covered = ""
		}
	}
}

// cover forgets whose wait a voice covers: a bark covers it as well.
func (w *World) cover(s *scene) {
	for _, list := range [][]*turn{w.waiting, w.active} {
		for _, t := range list {
			if t.agent.scene == s {
				t.covered = ""
			}
		}
	}
}

func (w *World) emit(e Event) { w.out = append(w.out, e) }

func (w *World) remember(a *agent, speaker, text string, now int64) {
	if w.cfg.Memory == nil {
		return
	}
	if err := w.cfg.Memory.Remember(Experience{Agent: a.id, Speaker: speaker, Text: text, Now: now}); err != nil {
		w.emit(Event{Kind: EventFailed, Agent: a.id, Err: err})
	}
}
