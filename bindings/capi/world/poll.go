package world

import (
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

// EventKind is what an event tells, with lull.h's numbers.
type EventKind int32

// Kinds.
const (
	WorldReady EventKind = iota + 1
	WorldFailed
	Text
	Done
	ReplyCancelled
	ReplyFailed
	Overflow
	Warm
)

// Event is something that the host polls.
type Event struct {
	Kind   EventKind
	Result Code
	NPC    *NPC // nil: it is about the world
	Reply  uint64
	Text   string
	Reason llm.DoneReason
	Tokens int
	Usage  llm.Usage

	last *reply // the reply that ends with this event
}

// ID is the id of the event's NPC.
func (e Event) ID() NPCID {
	if e.NPC == nil {
		return NPCID{}
	}
	return NPCID{e.NPC.index1, e.NPC.world.index1, e.NPC.generation}
}

func (w *World) emit(e Event) {
	if e.last != nil {
		e.last.over = true
	}
	w.out = append(w.out, e)
}

// Gather fetches what happened; Next then gives it out. It never waits.
func (w *World) Gather() {
	w.gatherState()
	r := w.Runtime()
	if r == nil {
		w.readMail()
		return
	}
	w.scratch = r.Engine.Poll(w.scratch[:0])
	events := w.scratch
	if len(w.early) > 0 {
		events = append(w.early, events...)
		w.early = nil
	}
	if !w.readMail() && len(events) > 0 {
		w.early = slices.Clone(events) // their letters may be in the mail
		return
	}
	for i := range events {
		w.hear(events[i])
		events[i] = llm.Event{}
	}
}

// gatherState tells once that loading has ended.
func (w *World) gatherState() {
	if w.state != Loading {
		return
	}
	select {
	case <-w.loading:
	default:
		return
	}
	if w.loadErr != nil {
		w.state = Failed
		w.Note(w.loadErr)
		w.emit(Event{Kind: WorldFailed, Result: CodeOf(w.loadErr), Text: w.loadErr.Error()})
		return
	}
	w.state = Ready
	r := w.Runtime()
	r.SetPhase(w.phase)
	r.SetHost(w.host)
	w.emit(Event{Kind: WorldReady})
}

func (w *World) failure() string {
	if w.loadErr != nil {
		return w.loadErr.Error()
	}
	return "its worker failed, see the log"
}

// readMail takes the asker's letters. It reports false where the asker is just
// writing one: the host does not wait for it.
func (w *World) readMail() bool {
	if !w.mail.mu.TryLock() {
		return false
	}
	defer w.mail.mu.Unlock()
	for i := range w.mail.letters {
		w.read(&w.mail.letters[i])
	}
	clear(w.mail.letters)
	w.mail.letters = w.mail.letters[:0]
	return true
}

func (w *World) read(l *letter) {
	r := l.reply
	if r.off.Load() { // cancelled or forgotten meanwhile
		if l.request != 0 {
			w.Runtime().Engine.Cancel(l.request)
		}
		return
	}
	if l.err != nil {
		w.broken(r, CodeOf(l.err), l.err.Error())
		return
	}
	chat := l.chat
	r.npc.chat = &chat
	r.request, r.prepared = l.request, l.prepared
	w.running[l.request] = r
	if l.dropped > 0 {
		w.emit(Event{Kind: Overflow, NPC: r.npc, Reply: r.id, Tokens: l.dropped})
	}
}

func (w *World) broken(r *reply, code Code, text string) {
	w.totals.Broken++
	w.log.add(LogError, r.npc.Name()+": "+text)
	w.emit(Event{Kind: ReplyFailed, Result: code, NPC: r.npc, Reply: r.id, Text: text, last: r})
}

// hear folds one event of the engine into chats and events.
func (w *World) hear(e llm.Event) {
	if e.Request == 0 && e.Kind == llm.EventFailed {
		w.state = Failed
		w.log.add(LogError, e.Err.Error())
		w.emit(Event{Kind: WorldFailed, Result: Model, Text: e.Err.Error()})
		return
	}
	r := w.running[e.Request]
	if r == nil {
		return // abandoned
	}
	if !r.warm {
		r.npc.chat.Hear(e)
	}
	out := Event{NPC: r.npc, Reply: r.id}
	switch e.Kind {
	case llm.EventText:
		out.Kind, out.Text = Text, e.Text
		if r.warm {
			return
		}
	case llm.EventOverflow:
		out.Kind, out.Tokens = Overflow, e.Tokens
	case llm.EventDone:
		w.count(r, &e)
		out.Kind, out.Reason, out.Tokens, out.Usage = Done, e.Reason, len(e.Reply), e.Usage
		if r.warm {
			out = Event{Kind: Warm, NPC: r.npc, Reply: r.id, Usage: e.Usage}
		}
	case llm.EventCancelled:
		w.totals.Broken++
		out.Kind = ReplyCancelled
	case llm.EventFailed:
		delete(w.running, e.Request)
		w.broken(r, Model, e.Err.Error())
		return
	}
	if e.Kind == llm.EventDone || e.Kind == llm.EventCancelled {
		delete(w.running, e.Request)
		out.last = r
	}
	w.emit(out)
}

// count adds a reply to the totals. Its times count from Say on, where the
// engine's count from Submit.
func (w *World) count(r *reply, e *llm.Event) {
	e.Usage.TTFT += r.prepared
	e.Usage.Total += r.prepared
	t := &w.totals
	t.Generated += uint64(e.Usage.Generated)
	t.Prefilled += uint64(e.Usage.Prefilled)
	t.Reused += uint64(e.Usage.Reused)
	if t.Replies == 0 {
		settle()
	}
	if !r.warm {
		t.Replies++
		t.LastFirst, t.LastTotal = e.Usage.TTFT, e.Usage.Total
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

// Drop ends the event that Peek showed; the reply that ends with it is over.
func (w *World) Drop() {
	e := &w.out[w.given]
	w.finish(e)
	*e = Event{}
	w.given++
}

func (w *World) finish(e *Event) {
	if r := e.last; r != nil {
		w.open--
		if r.npc.current == r {
			r.npc.current = nil
		}
	}
}

// dropEvents forgets the events of an NPC that is no more.
func (w *World) dropEvents(n *NPC) {
	kept := w.out[:w.given]
	for _, e := range w.out[w.given:] {
		if e.NPC == n {
			w.finish(&e)
			continue
		}
		kept = append(kept, e)
	}
	clear(w.out[len(kept):])
	w.out = kept
}
