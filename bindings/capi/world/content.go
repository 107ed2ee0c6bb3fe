package world

import (
	"github.com/lull-npc/lull/npc"
)

// Verdict is what the game says of a sentence, with lull.h's numbers.
type Verdict int32

// Verdicts.
const (
	VerdictAllow Verdict = iota
	VerdictReplace
	VerdictBlock
)

// rulings are the verdicts in package npc's words.
var rulings = [...]npc.RulingKind{
	VerdictAllow: npc.RulingPass, VerdictReplace: npc.RulingReplace, VerdictBlock: npc.RulingDrop,
}

// ask is a sentence that waits for the game's verdict.
type ask struct {
	npc.Utterance
	ruling chan npc.Ruling // has room for one
}

// judged is package npc's content hook: it waits until the host, which is
// polled, has ruled, or nobody awaits that any more. Called from a goroutine of
// package npc's, for one sentence after the other.
func (w *World) judged(u npc.Utterance) npc.Ruling {
	a := &ask{u, make(chan npc.Ruling, 1)}
	select {
	case w.asks <- a:
	case <-w.quit:
		return npc.Ruling{Kind: npc.RulingDrop}
	}
	select {
	case r := <-a.ruling:
		return r
	case <-w.quit:
		return npc.Ruling{Kind: npc.RulingDrop}
	}
}

// gatherAsks makes an event of the sentence that is to be judged next, and lets
// go of one that was not in time.
func (w *World) gatherAsks() {
	if w.asked != nil && !w.talk.Awaits(w.asked.Utterance) {
		w.rule(npc.Ruling{Kind: npc.RulingDrop})
	}
	for w.asked == nil {
		select {
		case w.asked = <-w.asks:
		default:
			return
		}
		n := w.byName[w.asked.Agent]
		if n == nil || !w.talk.Awaits(w.asked.Utterance) {
			w.rule(npc.Ruling{Kind: npc.RulingDrop})
			continue
		}
		w.sentence++
		w.emit(Event{Kind: Judge, NPC: n, Turn: uint64(w.asked.Turn), Text: w.asked.Text, Sentence: w.sentence})
	}
}

// rule ends what is asked.
func (w *World) rule(r npc.Ruling) {
	w.asked.ruling <- r
	w.asked = nil
}

// Judge answers a Judge event.
func (w *World) Judge(sentence uint64, v Verdict, instead string) error {
	line, _ := npc.CleanLine(instead)
	switch {
	case v < VerdictAllow || v > VerdictBlock:
		return Errorf(InvalidArgument, "verdict is %d: want one of enum lull_verdict", v)
	case v == VerdictReplace && line == "":
		return Errorf(InvalidArgument, "text holds nothing that can be read: want what is said instead, "+
			"or LULL_VERDICT_BLOCK")
	case v != VerdictReplace && instead != "":
		return Errorf(InvalidArgument, "text is given and verdict is %d: want it with LULL_VERDICT_REPLACE only", v)
	case w.asked == nil || sentence != w.sentence || !w.talk.Awaits(w.asked.Utterance):
		return Errorf(Nothing, "nobody waits for a verdict on sentence %d: it was answered, is late, "+
			"or its reply was cut short", sentence)
	}
	w.rule(npc.Ruling{Kind: rulings[v], Text: line})
	return nil
}
