package llm

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// slot is a place for a sequence. The worker's, except what is atomic.
type slot struct {
	owner  atomic.Pointer[string] // whose tokens it holds; nil: nobody's
	forget atomic.Bool            // close it when it is idle

	seq  Sequence // nil: not opened
	user *request
	used uint64 // step at which it was last let go
}

// close gives the sequence back to the model. A request that used it begins
// anew with another, or ends.
func (s *slot) close() {
	if s.seq != nil {
		s.seq.Close()
	}
	s.seq = nil
	s.owner.Store(nil)
	s.forget.Store(false)
	s.detach()
}

func (s *slot) detach() {
	if s.user != nil {
		s.user.slot = nil
	}
	s.user = nil
}

// leave is called when the request that used the slot ended. The tokens stay
// for the next one of the owner.
func (s *slot) leave(now uint64) {
	s.detach()
	s.used = now
	if s.owner.Load() == nil && s.seq.Truncate(0) != nil {
		s.close()
	}
}

// acquire gives r a sequence and makes its ledger the head of r.all. The best
// request may take the sequence of the worst.
func (e *Engine) acquire(r *request, best bool) bool {
	s, err := e.findSlot(r, best)
	if err != nil {
		e.fail(r, err)
		return false
	}
	if s == nil {
		return false
	}
	s.user, r.slot = r, s
	want := r.all
	if r.Owner == "" {
		s.owner.Store(nil)
		want = nil // no reuse, not even of what another owner left
	} else {
		s.owner.Store(&r.Owner)
	}
	shared := 0
	if r.Owner != "" && r.Head > 0 {
		shared, err = e.share(s, r)
	}
	if err == nil {
		err = e.align(s, want)
	}
	if err != nil {
		s.close()
		e.fail(r, fmt.Errorf("llm: reuse the sequence of owner %q: %w", r.Owner, err))
		return false
	}
	if r.usage.Generated == 0 && r.primed == 0 {
		r.usage.Reused = min(len(s.seq.Tokens()), r.prompt)
		r.usage.Shared = min(shared, r.usage.Reused)
		r.primed = r.usage.Reused
	}
	return true
}

// align cuts the ledger to what it has in common with want, and to less than
// all of it: the last token is computed, since its logits are needed.
func (e *Engine) align(s *slot, want []Token) error {
	have := s.seq.Tokens()
	n := common(have, want)
	if n == len(have) {
		return nil
	}
	if !e.info.CanTruncate {
		n = 0
	}
	if err := s.seq.Truncate(n); err != nil {
		return fmt.Errorf("cut it to %d tokens: %w", n, err)
	}
	if got := len(s.seq.Tokens()); got > n {
		return fmt.Errorf("cut it to %d tokens, but %d are left", n, got)
	}
	return nil
}

// findSlot looks for, in this order: the sequence that the owner left, an empty
// one, a new one, the one that was idle for longest, and for the best request
// the one of the worst. It returns nil when r has to wait.
func (e *Engine) findSlot(r *request, best bool) (*slot, error) {
	var empty, unopened, oldest *slot
	used := false
	for i := range e.slots {
		s := &e.slots[i]
		owner := s.owner.Load()
		switch {
		case s.user != nil:
			used = true
		case s.seq == nil:
			unopened = s
		case owner == nil:
			empty = s
		case *owner == r.Owner:
			return s, nil
		case oldest == nil || s.used < oldest.used:
			oldest = s
		}
	}
	if empty != nil {
		return empty, nil
	}
	if unopened != nil {
		seq, err := e.model.NewSequence()
		if err == nil {
			unopened.seq = seq
			return unopened, nil
		}
		if !errors.Is(err, ErrNoSequence) { // that: someone else holds some
			return nil, fmt.Errorf("llm: open a sequence: %w", err)
		}
	}
	switch {
	case oldest != nil:
		return oldest, nil
	case !used:
		return nil, fmt.Errorf("llm: owner %q: %w, and none by this engine: close those opened elsewhere",
			r.Owner, ErrNoSequence)
	case best:
		return e.rob(r), nil
	}
	return nil, nil
}

// rob takes the sequence from the worst request that has one. That request goes
// on later and computes its tokens again.
func (e *Engine) rob(r *request) *slot {
	s := e.worst(r)
	if s != nil {
		s.detach()
	}
	return s
}

// worst returns the slot of the last request in the order, except that of r.
func (e *Engine) worst(except *request) *slot {
	live := e.step.live
	for i := len(live) - 1; i >= 0; i-- {
		if live[i] != except && live[i].slot != nil {
			return live[i].slot
		}
	}
	return nil
}

// makeRoom is for a cache that all sequences share and that is full: the oldest
// idle sequence goes, else that of the worst request, which then waits until
// another one ends. It reports false when one request alone fills the cache.
func (e *Engine) makeRoom() bool {
	var oldest *slot
	users := 0
	for i := range e.slots {
		s := &e.slots[i]
		if s.user != nil {
			users++
		} else if s.seq != nil && len(s.seq.Tokens()) > 0 && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if oldest != nil {
		oldest.close()
		return true
	}
	if users < 2 {
		return false
	}
	s := e.worst(nil)
	s.user.parked = true
	s.close()
	return true
}
