//go:build !linux

package load

import "sync/atomic"

// signal wakes one thread that waits for it, by a channel: Go's scheduler then
// needs a thread of its own to hand the wake over, some tens of microseconds.
type signal struct {
	count atomic.Uint32
	ready chan struct{}
}

func (s *signal) init() { s.ready = make(chan struct{}, 1) }

func (s *signal) load() uint32 { return s.count.Load() }

func (s *signal) wake() {
	s.count.Add(1)
	select {
	case s.ready <- struct{}{}:
	default: // one is pending
	}
}

func (s *signal) wait(seen uint32) {
	for s.count.Load() == seen {
		<-s.ready
	}
}

// waitPast waits and returns the count found.
func (s *signal) waitPast(seen uint32) uint32 {
	s.wait(seen)
	return s.count.Load()
}
