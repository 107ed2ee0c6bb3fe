package rag

import (
	"slices"
	"sync"
	"sync/atomic"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Durable     EventKind = iota + 1 // all up to Position is durable
	Failed                           // the writer can't write, Err says why; it goes on trying
	Recovered                        // the writer writes again
	Saved                            // the save at Path is complete
	NotSaved                         // the save at Path was not made, Err says why
	NotEmbedded                      // a memory is found by its words only for now, Err says why
)

var eventNames = map[EventKind]string{Durable: "durable", Failed: "failed", Recovered: "recovered", Saved: "saved",
	NotSaved: "not saved", NotEmbedded: "not embedded"}

func (k EventKind) String() string { return eventNames[k] }

// Event is what the store has to tell.
type Event struct {
	Kind     EventKind
	Position uint64 // ids up to it are acknowledged
	Path     string
	Err      error
}

// outbox gathers events until they are polled. It is bounded by what it keeps:
// the last position, the last failure of writer and embedder, and saves, of which
// maxSaves may be under way.
type outbox struct {
	mu    sync.Mutex
	any   atomic.Bool
	upTo  uint64
	told  uint64
	state *Event // Failed or Recovered
	blind *Event // NotEmbedded
	saves []Event
}

func (o *outbox) durable(position uint64) {
	o.mu.Lock()
	o.upTo = max(o.upTo, position)
	o.any.Store(true)
	o.mu.Unlock()
}

func (o *outbox) writer(e Event) {
	o.mu.Lock()
	o.state = &e
	o.any.Store(true)
	o.mu.Unlock()
}

func (o *outbox) embedding(e Event) {
	o.mu.Lock()
	o.blind = &e
	o.any.Store(true)
	o.mu.Unlock()
}

// saved drops the oldest report when nobody polls: maxReports is far more than
// saves that a game forgets to ask about.
func (o *outbox) saved(e Event) {
	const maxReports = 64
	o.mu.Lock()
	if len(o.saves) == maxReports {
		o.saves = slices.Delete(o.saves, 0, 1)
	}
	o.saves = append(o.saves, e)
	o.any.Store(true)
	o.mu.Unlock()
}

// Poll appends to dst what happened since the last call. Durable comes once for
// all that became durable meanwhile.
func (s *Store) Poll(dst []Event) []Event {
	o := &s.outbox
	if !o.any.Load() {
		return dst
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.any.Store(false)
	if o.upTo > o.told {
		o.told = o.upTo
		dst = append(dst, Event{Kind: Durable, Position: o.upTo})
	}
	if o.state != nil {
		dst, o.state = append(dst, *o.state), nil
	}
	if o.blind != nil {
		dst, o.blind = append(dst, *o.blind), nil
	}
	dst = append(dst, o.saves...)
	o.saves = o.saves[:0]
	return dst
}
