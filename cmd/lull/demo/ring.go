package demo

import (
	"sync"
	"sync/atomic"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// Frame is one frame of the game with the decision that followed it.
type Frame struct {
	metrics.Frame
	Mode     Mode
	Decision scheduler.Decision // zero where nobody decides
}

// ringFrames is what the ring holds: 8 s at 480 Hz. Where the screen does not
// come for longer, newer frames are dropped and counted.
const ringFrames = 4096

// frameRing carries frames from the game thread to the screen. One writer, one
// reader, no lock.
type frameRing struct {
	slots      [ringFrames]Frame
	head, tail atomic.Uint64 // read, written
	dropped    atomic.Uint64
}

func (r *frameRing) put(f *Frame) {
	tail := r.tail.Load()
	if tail-r.head.Load() == ringFrames {
		r.dropped.Add(1)
		return
	}
	r.slots[tail%ringFrames] = *f
	r.tail.Store(tail + 1)
}

// take appends all frames to dst.
func (r *frameRing) take(dst []Frame) []Frame {
	head, tail := r.head.Load(), r.tail.Load()
	for ; head < tail; head++ {
		dst = append(dst, r.slots[head%ringFrames])
	}
	r.head.Store(tail)
	return dst
}

// inboxEvents is the room that an inbox has without allocating: a fast model's
// text events of a second.
const inboxEvents = 256

// inbox carries an engine's events from the game thread, which polls, to the
// screen. The game thread skips it where the screen holds it; the events stay
// in the engine until the next frame.
type inbox struct {
	mu     sync.Mutex
	events []llm.Event
}

// poll takes what came, and reports whether a reply ended. Call from the game
// thread.
func (b *inbox) poll(e *llm.Engine) (ended bool) {
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	from := len(b.events)
	b.events = e.Poll(b.events)
	for i := range b.events[from:] {
		switch b.events[from+i].Kind {
		case llm.EventDone, llm.EventCancelled, llm.EventFailed:
			ended = true
		}
	}
	return ended
}

// take appends all events to dst and forgets them.
func (b *inbox) take(dst []llm.Event) []llm.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = append(dst, b.events...)
	clear(b.events)
	b.events = b.events[:0]
	return dst
}
