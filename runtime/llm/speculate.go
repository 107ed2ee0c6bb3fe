package llm

import "fmt"

// Speculator guesses how a reply goes on, so that one batch can judge several
// tokens instead of computing one. What it guesses never changes what is said:
// the model's own sampler chooses every token. package speculative has one.
//
// Step asks it when exactly one reply advances and its next token is wanted, and
// not within a grammar: what that forces is computed in one batch without a guess,
// and where it leaves a choice, one that knows nothing of it would guess badly.
// Stop and Resume are safe for concurrent use; the others are called from Step,
// one at a time.
type Speculator interface {
	// Draft runs one batch of a draft model, if it wants one before Propose,
	// and reports whether it did. It is asked again until it does not.
	Draft(r Reply, g Grant) (w Work, ran bool)

	// Propose appends the candidates to be judged, r.Room at most.
	Propose(dst []Token, r Reply, g Grant) []Token

	// Judged tells what the model chose after r, also where nothing was
	// proposed.
	Judged(r Reply, j Judgement)

	// Forget drops what was learned for an owner.
	Forget(owner string)

	// Stop and Resume are those of the draft model.
	Stop()
	Resume()
}

// Reply is where a reply stands. Valid during the call.
type Reply struct {
	Request RequestID
	Owner   string
	Tokens  []Token // prompt and reply until now
	Prompt  int     // of these, the prompt
	Room    int     // candidates that one batch may hold now; may be 0
	Now     int64   // ns of the engine's clock
}

// Judgement is what came of a batch. Valid during the call.
type Judgement struct {
	Drafts []Token // the candidates
	Chosen []Token // 1 + len(Drafts) tokens at most; all but the last are candidates
	Work   Work
}

// guess lets the speculator draft, or adds its candidates to the batch of one
// reply. It reports true when a draft was this step's batch.
func (e *Engine) guess(g Grant) (w Work, drafted bool) {
	st := &e.step
	r := st.members[0]
	st.guessing = true
	// The context has room for MaxTokens: see fit.
	room := min(e.info.MaxBatch-1, r.MaxTokens-r.usage.Generated-1)
	if st.plainOnce {
		room = 0
	}
	st.reply = Reply{r.id, r.Owner, r.all, r.prompt, max(0, room), e.clock.Now()}
	if w, drafted = e.spec.Draft(st.reply, g); drafted || room < 1 {
		return w, drafted
	}
	st.drafts = e.spec.Propose(st.drafts, st.reply, g)
	st.drafts = st.drafts[:min(room, len(st.drafts))]
	if i := badToken(st.drafts, e.info.Vocab); i >= 0 {
		st.drafts = st.drafts[:i]
	}
	for _, t := range st.drafts {
		st.batch.Add(r.slot.seq, t, true)
	}
	return Work{}, false
}

// mayGuess reports whether the batch is one reply whose next token is wanted,
// of a model that can take wrong candidates back.
func (e *Engine) mayGuess(stage Stage) bool {
	st := &e.step
	return e.spec != nil && stage == Decode && len(st.members) == 1 &&
		st.members[0].grammar == nil && // which forces more than anybody could guess
		e.info.CanTruncate && !st.noUndo
}

// judge gives out the tokens that the sampler chooses, up to the first that is
// no candidate, and takes the other candidates back.
func (e *Engine) judge(r *request, w *Work) {
	st := &e.step
	err := e.choice(r)
	if err == nil {
		err = e.takeBack(r, len(r.all)+len(st.chosen)-1)
	}
	w.Drafted, w.Tokens = len(st.drafts), len(st.chosen)
	for w.Accepted < len(st.chosen) && w.Accepted < len(st.drafts) && st.chosen[w.Accepted] == st.drafts[w.Accepted] {
		w.Accepted++
	}
	e.spec.Judged(st.reply, Judgement{st.drafts, st.chosen, *w})
	st.plainOnce = false
	for _, t := range st.chosen {
		if e.take(r, t); r.over {
			return
		}
	}
	if err != nil {
		r.slot.close() // what it holds is not known
		e.fail(r, err)
	}
}

// choice has the sampler choose from row after row, as it would if the tokens
// had been decoded one by one: it sees what is given out, and no candidate.
func (e *Engine) choice(r *request) error {
	st := &e.step
	st.chosen = st.chosen[:0]
	for row := 0; ; row++ {
		t, err := e.sample(r, row)
		if err != nil {
			return err
		}
		st.chosen = append(st.chosen, t)
		if row == len(st.drafts) || t != st.drafts[row] || e.model.IsEnd(t) {
			return nil
		}
	}
}

// takeBack cuts the ledger to n tokens. A cache that cannot do that although it
// said so was cleared: then the tokens are computed again, and there is no more
// guessing.
func (e *Engine) takeBack(r *request, n int) error {
	seq := r.slot.seq
	if len(seq.Tokens()) == n {
		return nil
	}
	if err := seq.Truncate(n); err != nil {
		return fmt.Errorf("llm: take candidates back for owner %q: %w", r.Owner, err)
	}
	switch got := len(seq.Tokens()); {
	case got > n:
		return fmt.Errorf("llm: take candidates back for owner %q: %d tokens are left, want %d", r.Owner, got, n)
	case got < n:
		e.step.noUndo = true
	}
	return nil
}

// stopModels and resumeModels reach the draft model too.
func (e *Engine) stopModels() {
	e.model.Stop()
	if e.spec != nil {
		e.spec.Stop()
	}
}

func (e *Engine) resumeModels() {
	e.model.Resume()
	if e.spec != nil {
		e.spec.Resume()
	}
}

func (e *Engine) forgotten(s *slot) {
	if o := s.owner.Load(); o != nil && e.spec != nil {
		e.spec.Forget(*o)
	}
	s.close()
}
