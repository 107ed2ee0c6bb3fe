package llm

// HeadStore keeps states of sequences between runs: what a prompt begins with
// (Request.Head) need then not be computed at the next start. Called from the
// goroutine that steps the engine; a slow store delays replies, never frames.
type HeadStore interface {
	// Get returns the state that Put was given for these tokens and this model,
	// or nil. A state that is damaged or of another model does no harm.
	Get(model Info, head []Token) []byte

	// Put keeps a state. The store keeps nothing of the arguments that it does
	// not copy.
	Put(model Info, head []Token, state []byte)
}

// minHead is the least number of tokens that is copied or loaded instead of
// computed: moving a state takes some milliseconds, as a dozen tokens of
// prefill do.
const minHead = 16

// share makes s hold the head of r where it does not yet: as a copy of another
// owner's sequence, or from the store. It returns how many tokens that brought
// in from another owner. Only tokens of the head come in that way, so nothing
// of another's conversation does.
func (e *Engine) share(s *slot, r *request) (int, error) {
	head := r.all[:min(r.Head, len(r.all)-1)]
	own := common(s.seq.Tokens(), r.all)
	best := own + minHead - 1
	var from *slot
	for i := range e.slots {
		o := &e.slots[i]
		if o == s || o.seq == nil {
			continue
		}
		n := min(common(o.seq.Tokens(), r.all), len(head))
		if n > best && (e.info.CanTruncate || n == len(o.seq.Tokens())) {
			from, best = o, n
		}
	}
	switch {
	case len(head) < minHead || own >= len(head):
		return 0, nil
	case from != nil && s.seq.CopyFrom(from.seq) == nil:
		r.keeping = e.heads != nil && best < len(head)
		return best, s.seq.Truncate(best)
	case from != nil:
		return 0, s.seq.Truncate(0) // a copy that failed: compute it
	case e.heads == nil:
		return 0, nil
	}
	r.keeping = true
	state := e.heads.Get(e.info, head)
	if state == nil {
		return 0, nil
	}
	if s.seq.Load(state) == nil && common(s.seq.Tokens(), r.all) == len(head) {
		r.keeping = false
		return 0, nil
	}
	return 0, s.seq.Truncate(0) // a state that does not fit is made anew
}

// common is how many tokens at the head of want a ledger holds, without the
// last one of want: that is computed, since its logits are needed.
func common(ledger, want []Token) int {
	n := 0
	for n < len(ledger) && n < len(want)-1 && ledger[n] == want[n] {
		n++
	}
	return n
}

// toHead shortens a chunk so that it ends where the head does, if its state is
// to be kept.
func (r *request) toHead(from, chunk int) int {
	if r.keeping && from < r.Head {
		return min(chunk, r.Head-from)
	}
	return chunk
}

// keepHead gives the store the state of a head that was just computed.
func (e *Engine) keepHead(r *request) {
	if !r.keeping || len(r.slot.seq.Tokens()) < r.Head {
		return
	}
	r.keeping = false
	if len(r.slot.seq.Tokens()) > r.Head {
		return // it was there already: another request computed it
	}
	if state, err := r.slot.seq.Save(nil); err == nil {
		e.heads.Put(e.info, r.all[:r.Head], state)
	}
}
