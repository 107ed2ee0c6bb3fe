package llm

import "sync"

// eventsEach is how many events of one request can wait to be polled: overflow,
// text (deltas that were not polled are joined) and the last one.
const eventsEach = 3

// outbox is the ring between the worker and the game. It cannot overflow: a
// request keeps its place in the table until its last event was polled, and
// there are eventsEach places for each.
type outbox struct {
	mu         sync.Mutex
	ring       []outEvent
	head, tail uint64 // positions since the beginning; head ≤ tail ≤ head+len(ring)
}

type outEvent struct {
	Event
	last *entry // to be freed when this event was given out
}

// put appends an event and returns its position.
func (o *outbox) put(ev Event, last *entry) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ring[o.tail%uint64(len(o.ring))] = outEvent{ev, last}
	o.tail++
	return o.tail - 1
}

// putText gives out the text of r from its byte begin on. Where the newest text
// event of r was not polled yet, it grows; nothing is copied, since both are
// slices of r.reply.
func (o *outbox) putText(r *request, begin int) {
	if begin == r.reply.Len() {
		return
	}
	if o.grow(r) {
		return
	}
	r.from = begin
	ev := Event{Request: r.id, Kind: EventText, Owner: r.Owner, Text: r.reply.String()[begin:]}
	r.event = 1 + o.put(ev, nil)
}

func (o *outbox) grow(r *request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.event == 0 || r.event-1 < o.head {
		return false
	}
	o.ring[(r.event-1)%uint64(len(o.ring))].Text = r.reply.String()[r.from:]
	return true
}

// Poll appends what happened since the last time to dst. It never waits: where
// the worker is just adding an event, those of the ring come the next time. It
// allocates only where dst is too small. Call from the game thread.
func (e *Engine) Poll(dst []Event) []Event {
	dst = e.out.drain(dst)
	for i := range e.table {
		t := &e.table[i]
		if r, st := t.look(); st == dropped && t.move(r.id, dropped, filling) {
			u := Usage{Total: e.since(r.submitted)}
			dst = append(dst, Event{Request: r.id, Kind: EventCancelled, Owner: r.Owner, Usage: u})
			t.release()
		}
	}
	return dst
}

func (o *outbox) drain(dst []Event) []Event {
	// The worker runs at the lowest priority: while it holds the lock the
	// system may let it sleep for several frames, so the game must not wait.
	if !o.mu.TryLock() {
		return dst
	}
	defer o.mu.Unlock()
	for ; o.head < o.tail; o.head++ {
		ev := &o.ring[o.head%uint64(len(o.ring))]
		dst = append(dst, ev.Event)
		if ev.last != nil {
			ev.last.release()
		}
		*ev = outEvent{}
	}
	return dst
}
