package llm

import "testing"

// TestPollDoesNotWait: while the worker holds the lock of the ring, Poll comes
// back with nothing.
func TestPollDoesNotWait(t *testing.T) {
	e := &Engine{clock: NewClock()}
	e.out.ring = make([]outEvent, eventsEach)
	e.out.put(Event{Request: 1}, nil)
	e.out.mu.Lock()
	if got := e.Poll(nil); len(got) != 0 {
		t.Errorf("Poll = %v while the ring is locked", got)
	}
	e.out.mu.Unlock()
	if got := e.Poll(nil); len(got) != 1 || got[0].Request != 1 {
		t.Errorf("Poll = %v, want the event of request 1", got)
	}
}

// TestLateCancel: a Cancel that read the table before a place changed hands
// does not reach the next request in it.
func TestLateCancel(t *testing.T) {
	var place entry
	place.set(7, active)
	place.release()
	place.set(8, active)
	if place.move(7, active, cancelling) || place.state() != active {
		t.Error("a cancel of request 7 reached request 8")
	}
}
