package llamacpp

import "sync/atomic"

// Who may want an embedder stopped, as bits.
const (
	haltOwner   = 1 << iota // Stop was called
	haltContext             // the context of the running call ended
)

// halt merges the wishes of several into one switch, without a lock: one of the
// callers is the game's thread.
type halt struct {
	wishes atomic.Int32
	apply  func(bool)
}

// set notes one wish and moves the switch until it agrees with all of them,
// whoever else moves it meanwhile.
func (h *halt) set(who int32, on bool) {
	for {
		old := h.wishes.Load()
		wish := old | who
		if !on {
			wish = old &^ who
		}
		if h.wishes.CompareAndSwap(old, wish) {
			break
		}
	}
	for {
		seen := h.wishes.Load()
		h.apply(seen != 0)
		if h.wishes.Load() == seen {
			return
		}
	}
}
