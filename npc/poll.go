package npc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// Poll moves the world on and appends what happened to dst: the one call of
// each frame. Where nothing happened it looks at a few lists and allocates
// nothing, however many characters there are. Call it last before drawing.
func (w *World) Poll(dst []Event, now int64) []Event {
	if w.closed {
		return dst
	}
	w.now = now
	w.collect(now)
	w.buf = w.cfg.Engine.Poll(w.buf[:0])
	for i := range w.buf {
		w.hear(&w.buf[i], now)
		w.buf[i] = llm.Event{}
	}
	if w.cfg.Content != nil {
		w.hearRulings(now)
	}
	if len(w.pending) > 0 {
		w.lapse(now)
	}
	if len(w.crowded) > 0 {
		w.summarise(now)
	}
	if len(w.waiting) > 0 || len(w.active) > 0 {
		w.uncover(now)
		w.schedule(now)
	}
	dst = append(dst, w.out...)
	clear(w.out)
	w.out = w.out[:0]
	return dst
}

// collect takes the prompts that are ready, and tries again those that the
// engine had no place for.
func (w *World) collect(now int64) {
	for i := len(w.active) - 1; i >= 0; i-- {
		if t := w.active[i]; t.job != nil && t.record.Prepared {
			w.submit(t, now)
		}
	}
	for {
		select {
		case j := <-w.done:
			w.prepared(j, now)
		default:
			return
		}
	}
}

// schedule begins turns, the most urgent first. The rule, whole:
//
//  1. A turn that the player waits for goes before all others, by due time.
//  2. Of the others, the earliest due goes first. One of them that is overdue,
//     the earliest due, counts as one that the player waits for, until it is
//     over; then the next. So nobody starves, and at most one reply is computed
//     beside the player's.
//  3. A conversation has one speaker at a time, and a character one turn.
//  4. Active turns are under way at one time, and one more if it is urgent.
func (w *World) schedule(now int64) {
	w.raise(now)
	for {
		limit := w.cfg.Active
		var best *turn
		for _, t := range w.waiting {
			if w.mayBegin(t) && (best == nil || w.before(t, best) < 0) {
				best = t
			}
		}
		if best != nil && w.urgent(best) {
			limit++
		}
		// Turns that were abandoned while they were prepared may fill the
		// queue: the game thread never waits for it.
		if best == nil || len(w.active) >= min(limit, maxActive) || len(w.jobs) == cap(w.jobs) {
			return
		}
		w.waiting = slices.DeleteFunc(w.waiting, func(t *turn) bool { return t == best })
		w.active = append(w.active, best)
		w.begin(best, now)
	}
}

// raise chooses the turn that is urgent because it is overdue.
func (w *World) raise(now int64) {
	if w.raised != nil {
		return
	}
	for _, list := range [][]*turn{w.waiting, w.active} {
		for _, t := range list {
			overdue := !t.player && t.kind != turnSummary && t.dueAt() < now
			if overdue && (w.raised == nil || t.dueAt() < w.raised.dueAt()) {
				w.raised = t
			}
		}
	}
	if t := w.raised; t != nil {
		t.decide("overdue by %d ms: raised", (now-t.dueAt())/1e6)
		if t.request != 0 {
			w.cfg.Engine.Promote(t.request, 1)
		}
	}
}

func (w *World) urgent(t *turn) bool { return t.player || t == w.raised }

func (w *World) before(a, b *turn) int {
	if w.urgent(a) != w.urgent(b) {
		if w.urgent(a) {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.dueAt(), b.dueAt()), cmp.Compare(a.id, b.id))
}

// mayBegin reports whether nobody of the conversation speaks.
func (w *World) mayBegin(t *turn) bool {
	for _, o := range w.active {
		if o.agent == t.agent || o.agent.scene == t.agent.scene && o.speaks() && t.speaks() {
			return false
		}
	}
	return true
}

// hear takes an event of the engine.
func (w *World) hear(e *llm.Event, now int64) {
	i := slices.IndexFunc(w.active, func(t *turn) bool { return t.request != 0 && t.request == e.Request })
	if i < 0 {
		return // of a request that is not this world's, or of none
	}
	t := w.active[i]
	switch e.Kind {
	case llm.EventText:
		w.heardText(t, e.Text)
	case llm.EventOverflow:
		w.emit(Event{Kind: EventOverflow, Agent: t.agent.id, Turn: t.id, Tokens: e.Tokens})
	case llm.EventFailed:
		if t.closing == "" {
			t.record.Err = e.Err
		}
		w.conclude(t, e, now)
	default:
		w.conclude(t, e, now)
	}
}

func (w *World) heardText(t *turn, text string) {
	if t.speech == nil {
		t.text.WriteString(text)
		return
	}
	if t.closing != "" {
		return
	}
	w.speak(t, t.speech.Add(nil, text))
	if why := t.speech.Ended(); why != SpeechOpen {
		// The engine's last event then ends the turn, with the tokens of what
		// was said.
		t.closing = string(why)
		t.decide("ended early: %s", why)
		w.cfg.Engine.Cancel(t.request)
	}
}

// speak makes events of what is spoken, as far as it may be.
func (w *World) speak(t *turn, pieces []Spoken) {
	if t.guard != nil {
		pieces = t.guard.pass(nil, pieces)
	}
	if w.cfg.Content != nil {
		w.hold(t, pieces)
		return
	}
	w.release(t, pieces)
}

// release makes events of what is spoken.
func (w *World) release(t *turn, pieces []Spoken) {
	guarded := w.guarded(t)
	for _, p := range pieces {
		if p.Kind == spokenBlocked {
			t.decide("not said: %q of the block list", p.Text)
			w.notSaid(t, "list", "")
			continue
		}
		if guarded {
			t.noteSaid(&p)
		}
		e := Event{Agent: t.agent.id, Turn: t.id, Text: p.Text}
		switch p.Kind {
		case SpokenText:
			e.Kind = EventText
		case SpokenSentence:
			e.Kind = EventSentence
		case SpokenThought:
			e.Kind = EventThought
			t.record.Thoughts += p.Text
		case SpokenEmotion:
			e.Kind = EventEmotion
		}
		w.emit(e)
	}
}

// conclude ends a turn with the engine's last event of it.
func (w *World) conclude(t *turn, e *llm.Event, now int64) {
	t.record.Usage = e.Usage
	switch {
	case t.agent.removed || t.lost:
	case t.kind == turnChoose:
		w.chosen(t, e, now)
	case t.kind == turnSummary:
		w.summarised(t, e)
	default:
		if w.mustWait(t, e) {
			return
		}
		w.spoken(t, e, now)
	}
	w.over(t)
}

// mustWait ends what is spoken, and reports whether some of it waits for the
// content hook: Poll then concludes the turn later.
func (w *World) mustWait(t *turn, e *llm.Event) bool {
	if t.closing == "" && t.final == nil {
		w.speak(t, t.speech.End(nil))
	}
	if len(t.held) == 0 {
		return false
	}
	final := *e
	t.final = &final
	return true
}

// heardOf is what was given out of a turn.
func (w *World) heardOf(t *turn) string {
	if w.guarded(t) {
		return string(t.said)
	}
	return t.speech.Heard()
}

// textOf is all that a turn says, and what of it came in whole sentences.
func (w *World) textOf(t *turn) (text, whole string) {
	if w.guarded(t) {
		return string(t.said), string(t.said[:t.whole])
	}
	return t.speech.Text(), t.speech.Whole()
}

// spoken ends a turn of speech.
func (w *World) spoken(t *turn, e *llm.Event, now int64) {
	reason := t.closing
	if reason == "" {
		reason = string(e.Reason)
	}
	ranOut := reason == string(llm.DoneLength) || reason == string(llm.DoneContext)
	if ranOut && t.speech.OnlyThought() {
		reason = string(SpeechThought)
	}
	w.thinks = w.thinks || t.speech.thinks // from now on it gets the tokens for that
	text, whole := w.textOf(t)
	tail := ""
	if ranOut || reason == string(SpeechRepeats) {
		if whole != "" {
			text = whole
		} else if text != "" {
			tail = "…" // not one sentence came to its end
		}
	}
	if t.abandoned {
		text, tail = w.heardOf(t), " —"
	}
	w.conserve(t, e, text, tail, now)
	if !t.abandoned {
		text += tail
	}
	t.record.Reason, t.record.Text = reason, text
	switch {
	case t.abandoned:
	case e.Kind == llm.EventFailed:
		w.emit(Event{Kind: EventFailed, Agent: t.agent.id, Turn: t.id, Text: text, Err: e.Err})
	case e.Kind == llm.EventCancelled && t.closing == "":
		w.emit(Event{Kind: EventFailed, Agent: t.agent.id, Turn: t.id, Text: text, Err: llm.ErrClosed})
	default:
		w.emit(Event{Kind: EventDone, Agent: t.agent.id, Turn: t.id, Text: text, Reason: reason})
		w.mayAct(t, now)
	}
}

// conserve puts what was said into the histories of those who heard it; tail
// shows them that it did not come to its end.
func (w *World) conserve(t *turn, e *llm.Event, text, tail string, now int64) {
	if text == "" {
		return
	}
	a := t.agent
	own := Entry{Kind: EntryOwn, Text: text}
	if raw, ok := t.speech.Raw(len(text)); ok && !t.altered {
		own.Text = raw
		own.Tokens = tokensOf(w.cfg.Model, raw, t.resumed, e.Reply, t.record.goOn)
	}
	at := t.place()
	a.entries = slices.Insert(a.entries, at, own)
	if t.abandoned {
		a.broken = &broken{raw: own.Text, tokens: own.Tokens, at: at}
	}
	a.drop(max(0, len(a.entries)-maxEntries))
	named := len(a.scene.members) > 1
	text = strings.TrimSpace(text[min(t.before, len(text)):]) + tail
	a.scene.hears(Entry{Kind: EntryHeard, Speaker: a.persona.Name, Text: text, Named: named}, a)
	for _, m := range a.scene.members {
		w.remember(m, a.persona.Name, text, now)
	}
}

// tokensOf are the tokens of a reply that spell exactly raw, those of what was
// said before an interruption first; nil where they end elsewhere.
func tokensOf(tok llm.Tokenizer, raw, resumed string, reply, before []llm.Token) []llm.Token {
	tokens := reply
	if resumed != "" {
		tokens = slices.Concat(before, reply)
	}
	var spelled []byte
	for i, t := range tokens {
		spelled = tok.AppendPiece(spelled, t)
		if len(spelled) >= len(raw) {
			if string(spelled) == raw || string(spelled) == " "+raw {
				return slices.Clone(tokens[:i+1])
			}
			if len(spelled) > len(raw)+1 {
				return nil
			}
		}
	}
	return nil
}

// fail ends a turn that did not reach the engine.
func (w *World) fail(t *turn, err error) {
	t.record.Err = err
	t.decide("failed: %v", err)
	w.emit(Event{Kind: EventFailed, Agent: t.agent.id, Turn: t.id, Err: err})
	w.over(t)
}
