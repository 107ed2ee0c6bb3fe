package npc

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// BarkBlocked is the situation of a character that was about to say what it must
// not: one of these barks stands in its place.
const BarkBlocked = "blocked"

// defaultContentTimeout is how long a sentence waits for the content hook. A
// classifier on a CPU takes some 10 ms; what takes seconds has failed, and a
// character that stands silent for more looks broken.
const defaultContentTimeout = 2 * time.Second

// cutMark ends a sentence that was cut in the middle.
const cutMark = " —"

// Utterance is a sentence that a character is about to say.
type Utterance struct {
	Agent  AgentID
	Turn   TurnID
	Number int // rises from sentence to sentence of a turn
	Text   string
}

// RulingKind says what becomes of an Utterance.
type RulingKind uint8

const (
	RulingPass    RulingKind = iota // it is said
	RulingReplace                   // Ruling.Text is said instead, unless it is on the block list
	RulingDrop                      // it is not said
)

// Ruling is the answer of a content hook.
type Ruling struct {
	Kind RulingKind
	Text string // RulingReplace: one line; without it the sentence is dropped
}

// guard keeps what is on a block list out of a speech. The sentence is cut
// before the word, and ends with a dash where some of it was said already; the
// next one goes on. Call from one goroutine at a time.
type guard struct {
	said, thought  watch
	dropping, mute bool   // what comes of the sentence, of the thought, is dropped
	sentence       []byte // let through of it
}

// spokenBlocked tells a World that something was dropped; Text is the entry of
// the block list.
const spokenBlocked SpokenKind = 255

func newGuard(list *blockList) *guard {
	return &guard{said: watch{list: list}, thought: watch{list: list}}
}

// pass appends what of the pieces may be said.
func (g *guard) pass(dst, pieces []Spoken) []Spoken {
	for _, p := range pieces {
		switch p.Kind {
		case SpokenText:
			if !g.dropping {
				dst, g.dropping = g.say(dst, p.Text, false)
			}
		case SpokenSentence:
			blocked := g.dropping
			if !blocked {
				dst, blocked = g.say(dst, "", true)
			}
			if !blocked {
				dst = append(dst, p)
			}
			g.dropping, g.sentence = false, g.sentence[:0]
		case SpokenThought:
			dst = g.think(dst, p.Text)
		default:
			dst = append(dst, p)
		}
	}
	return dst
}

func (g *guard) say(dst []Spoken, text string, end bool) (out []Spoken, blocked bool) {
	pass, entry, hit := g.said.add(text, end)
	g.sentence = append(g.sentence, pass...)
	if pass != "" {
		dst = append(dst, Spoken{SpokenText, pass})
	}
	if !hit {
		return dst, false
	}
	if cut := strings.TrimSpace(string(g.sentence)); cut != "" {
		dst = append(dst, Spoken{SpokenText, cutMark}, Spoken{SpokenSentence, cut + cutMark})
	}
	return append(dst, Spoken{spokenBlocked, entry}), true
}

// think lets thoughts through up to an entry: they are for a debugger, and none
// of the rest is worth the doubt.
func (g *guard) think(dst []Spoken, text string) []Spoken {
	if g.mute {
		return dst
	}
	pass, _, hit := g.thought.add(text, false)
	g.mute = hit
	if pass != "" {
		dst = append(dst, Spoken{SpokenThought, pass})
	}
	return dst
}

// held is a stretch of speech that waits for the content hook.
type held struct {
	pieces   []Spoken
	sentence string // that is to be judged
	whole    bool   // it came to its end
}

// judging is what the content hook is asked, and what came of it.
type judging struct {
	turn   *turn
	asks   Utterance
	ruling Ruling
	failed bool // the hook panicked
}

// guarded reports whether what a turn says may differ from what the model says.
func (w *World) guarded(t *turn) bool { return t.guard != nil || w.cfg.Content != nil }

// hold keeps pieces until the content hook has judged their sentence.
func (w *World) hold(t *turn, pieces []Spoken) {
	for _, p := range pieces {
		if n := len(t.held); n == 0 || t.held[n-1].whole {
			t.held = append(t.held, held{})
		}
		h := &t.held[len(t.held)-1]
		h.pieces = append(h.pieces, p)
		if p.Kind == SpokenSentence {
			h.sentence, h.whole = p.Text, true
		}
	}
	w.askHook(t)
}

// askHook has the next sentence of a turn judged, if none of it is.
func (w *World) askHook(t *turn) {
	if t.judged != 0 || len(t.held) == 0 || !t.held[0].whole {
		return
	}
	t.number++
	select {
	case w.asks <- &judging{turn: t, asks: Utterance{t.agent.id, t.id, t.number, t.held[0].sentence}}:
		t.judged, t.judgedBy = t.number, w.now+int64(w.cfg.ContentTimeout)
	default: // sentences of turns that are no more fill the queue: Poll tries again
	}
}

// Judge asks the content hook about one sentence that waits for it, and reports
// whether there was one. A World that is not Manual does so itself. Call from
// one goroutine at a time, which may be any.
func (w *World) Judge() bool {
	select {
	case j := <-w.asks:
		w.judge(j)
		return true
	default:
		return false
	}
}

// Awaits reports whether a ruling on that sentence would still be heard: it may
// be late by now, or its turn over.
func (w *World) Awaits(u Utterance) bool {
	return slices.ContainsFunc(w.active, func(t *turn) bool {
		return t.id == u.Turn && t.judged == u.Number && !t.ended && !t.abandoned
	})
}

func (w *World) judge(j *judging) {
	func() {
		defer func() { j.failed = recover() != nil }()
		j.ruling = w.cfg.Content(j.asks)
	}()
	select {
	case w.rulings <- j:
	case <-w.quit:
	}
}

// guardContent is the goroutine that asks the hook.
func (w *World) guardContent() {
	for {
		select {
		case <-w.quit:
			return
		case j := <-w.asks:
			w.judge(j)
		}
	}
}

// hearRulings lets go of what the hook judged, or did not in time.
func (w *World) hearRulings(now int64) {
	for more := true; more; {
		select {
		case j := <-w.rulings:
			if t := j.turn; t.judged == j.asks.Number && !t.ended && !t.abandoned {
				w.rule(t, j)
			}
		default:
			more = false
		}
	}
	for i := len(w.active) - 1; i >= 0; i-- {
		t := w.active[i]
		if t.judged != 0 && now >= t.judgedBy && !t.abandoned {
			w.rule(t, nil)
		}
		w.askHook(t)
		w.mayConclude(t, now)
	}
}

// rule does with the first stretch that is held what was ruled; nil: nothing was
// in time. In doubt nothing is said.
func (w *World) rule(t *turn, j *judging) {
	h := t.held[0]
	t.held, t.judged = t.held[1:], 0
	why, instead := "", ""
	switch {
	case j == nil:
		why = "late"
	case j.failed:
		why = "hook failed"
	case j.ruling.Kind == RulingReplace:
		why = "replaced"
		instead, _ = CleanLine(j.ruling.Text)
		if entry, found := t.agent.blocked.finds(instead); found {
			why, instead = "list", ""
			t.decide("not said: the hook's text holds %q of the block list", entry)
		}
	case j.ruling.Kind != RulingPass:
		why = "dropped"
	}
	if why == "" {
		w.release(t, h.pieces)
		return
	}
	for _, p := range h.pieces {
		if p.Kind != SpokenText && p.Kind != SpokenSentence {
			w.release(t, []Spoken{p})
		}
	}
	if instead != "" {
		gap := ""
		if len(t.said) > 0 {
			gap = " "
		}
		w.release(t, []Spoken{{SpokenText, gap + instead}, {SpokenSentence, instead}})
	}
	w.notSaid(t, why, instead)
	t.decide("sentence of %d bytes not said: %s", len(h.sentence), why)
}

// notSaid tells that something was not said, and has a bark stand in its place,
// one a turn.
func (w *World) notSaid(t *turn, why, instead string) {
	t.altered = true
	w.emit(Event{Kind: EventBlocked, Agent: t.agent.id, Turn: t.id, Text: instead, Reason: why})
	if instead == "" && !t.excused {
		t.excused = w.bark(t.agent, BarkBlocked, t.id, w.now)
	}
}

// mayConclude ends a turn that the engine has ended, when all is judged.
func (w *World) mayConclude(t *turn, now int64) {
	if t.final == nil || len(t.held) > 0 && t.held[0].whole {
		return
	}
	for _, h := range t.held { // no sentence: thoughts, and words without an end
		for _, p := range h.pieces {
			if p.Kind != SpokenText {
				w.release(t, []Spoken{p})
			}
		}
	}
	t.held = nil
	w.conclude(t, t.final, now)
}

// noteSaid counts what a turn has given out.
func (t *turn) noteSaid(p *Spoken) {
	switch p.Kind {
	case SpokenText:
		if len(t.said) == 0 {
			p.Text = strings.TrimLeftFunc(p.Text, unicode.IsSpace)
		}
		t.said = append(t.said, p.Text...)
	case SpokenSentence:
		t.whole = len(t.said)
	}
}
