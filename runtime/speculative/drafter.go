package speculative

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

// ErrDraft is wrapped by the reason why a draft model does not fit a target.
var ErrDraft = errors.New("speculative: draft model does not fit")

// drafter is a draft model and the one sequence that it follows a reply with.
type drafter struct {
	model   llm.Model
	info    llm.Info
	seq     llm.Sequence // nil: not opened
	sampler llm.Sampler
	batch   llm.Batch

	// The round: one position of one reply.
	owner      string
	request    llm.RequestID
	length     int
	plan       int // candidates wanted
	over       bool
	candidates []llm.Token
	steps      int   // candidates computed, stopped ones included
	caughtUpNS int64 // time for tokens that are no candidates

	agreed int // tokens of the ledger known to be those of the reply
	chunk  int // tokens that one batch may catch up with, after stops
}

func newDrafter(target, draft llm.Model) (*drafter, error) {
	if err := Compatible(target, draft); err != nil {
		return nil, err
	}
	sampler, err := draft.NewSampler(llm.Sampling{})
	if err != nil {
		return nil, fmt.Errorf("speculative: a sampler of the draft model: %w", err)
	}
	info := draft.Info()
	return &drafter{
		model: draft, info: info, sampler: sampler, chunk: info.MaxBatch,
		candidates: make([]llm.Token, 0, maxWidth),
	}, nil
}

func (d *drafter) close() {
	d.forget()
	d.sampler.Close()
}

// forget gives the sequence back; it is opened anew when one is needed.
func (d *drafter) forget() {
	if d.seq != nil {
		d.seq.Close()
	}
	d.seq, d.agreed, d.request = nil, 0, 0
}

func (d *drafter) inRound(r llm.Reply) bool {
	return d.request == r.Request && d.length == len(r.Tokens)
}

func (d *drafter) complete() bool { return d.over || len(d.candidates) >= d.plan }

func (d *drafter) begin(r llm.Reply, plan int) {
	if d.request != r.Request {
		d.agreed = 0
	}
	d.owner, d.request, d.length, d.plan, d.over = r.Owner, r.Request, len(r.Tokens), plan, false
	d.candidates, d.steps, d.caughtUpNS = d.candidates[:0], 0, 0
}

// run computes one batch: a chunk of what the draft model has not seen yet, the
// last of which gives a candidate. Stopped, the round is over; the candidates
// until then are kept. An error means that the draft model is of no use.
func (d *drafter) run(r llm.Reply, g llm.Grant, tentative bool) (llm.Work, error) {
	if err := d.align(r); err != nil {
		return llm.Work{}, err
	}
	have, want := len(d.seq.Tokens()), len(r.Tokens)+len(d.candidates)
	n := min(want-have, d.chunk)
	if g.PrefillChunk > 0 {
		n = min(n, g.PrefillChunk)
	}
	d.batch.Reset()
	d.batch.Tentative = tentative
	for i := have; i < have+n; i++ {
		d.batch.Add(d.seq, d.token(r, i), i == want-1)
	}
	w, err := d.model.Decode(&d.batch, g)
	if n > 2 { // one or two are what each round begins with
		d.caughtUpNS += busy(w)
	} else {
		d.steps++
	}
	switch {
	case errors.Is(err, llm.ErrStopped):
		w.Stopped, d.over = true, true
		d.chunk = max(1, n/2)
		return w, nil
	case err != nil:
		return w, err
	}
	w.Tokens = n
	d.chunk = min(d.info.MaxBatch, max(d.chunk, 2*n))
	if have+n < want {
		return w, nil
	}
	t, err := d.sampler.Sample(0)
	if err != nil {
		return w, err
	}
	d.candidates = append(d.candidates, t)
	d.over = d.model.IsEnd(t)
	return w, nil
}

// token is the i-th of the reply and the candidates.
func (d *drafter) token(r llm.Reply, i int) llm.Token {
	if i < len(r.Tokens) {
		return r.Tokens[i]
	}
	return d.candidates[i-len(r.Tokens)]
}

// align makes the ledger the head of the reply at the beginning of a round: the
// wrong candidates of the last one go.
func (d *drafter) align(r llm.Reply) error {
	if d.seq == nil {
		seq, err := d.model.NewSequence()
		if err != nil {
			return fmt.Errorf("open a sequence: %w", err)
		}
		d.seq, d.agreed = seq, 0
	}
	if len(d.candidates) > 0 {
		return nil
	}
	n := min(common(d.seq.Tokens(), r.Tokens, d.agreed), len(r.Tokens)-1)
	if n < len(d.seq.Tokens()) {
		if err := d.seq.Truncate(n); err != nil {
			return fmt.Errorf("cut its sequence to %d tokens: %w", n, err)
		}
	}
	d.agreed = len(d.seq.Tokens()) // less than n, where it was cleared
	if d.agreed > n {
		return fmt.Errorf("cut its sequence to %d tokens, but %d are left", n, d.agreed)
	}
	return nil
}

// spend is what the round cost so far, in units of the target's T(1), and
// counts it once.
func (d *drafter) spend(row Row) float64 {
	cost := float64(d.steps) * row.Draft
	if row.Token > 0 {
		cost += float64(d.caughtUpNS) / float64(row.Token)
	}
	d.steps, d.caughtUpNS = 0, 0
	return cost
}

// Compatible says why a draft model cannot guess for a target, wrapping
// ErrDraft, or returns nil. It compares every token of the vocabulary, what
// begins a prompt, what ends a reply, and a conversation laid out by both.
func Compatible(target, draft llm.Model) error {
	a, b := target.Info(), draft.Info()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s beside %s: %s", ErrDraft, b.Name, a.Name, fmt.Sprintf(format, args...))
	}
	if a.Vocab != b.Vocab {
		return bad("its vocabulary has %d tokens, the target's %d: use a smaller model of the same family",
			b.Vocab, a.Vocab)
	}
	if !b.CanTruncate {
		return bad("it can't take tokens back: it is recurrent or hybrid")
	}
	bosA, hasA := target.BOS()
	bosB, hasB := draft.BOS()
	if hasA != hasB || hasA && bosA != bosB {
		return bad("prompts begin with token %d (%v), the target's with %d (%v)", bosB, hasB, bosA, hasA)
	}
	var pieceA, pieceB []byte
	for t := range llm.Token(a.Vocab) {
		pieceA, pieceB = target.AppendPiece(pieceA[:0], t), draft.AppendPiece(pieceB[:0], t)
		if !slices.Equal(pieceA, pieceB) {
			return bad("token %d is %q, the target's is %q", t, pieceB, pieceA)
		}
		if x, y := target.IsEnd(t), draft.IsEnd(t); x != y {
			return bad("token %d (%q) ends a reply: %v, for the target: %v", t, pieceA, y, x)
		}
	}
	return sameTemplate(target, draft, bad)
}

func sameTemplate(target, draft llm.Model, bad func(string, ...any) error) error {
	turns := []llm.Turn{
		{Role: llm.System, Text: "You keep the inn."},
		{Role: llm.User, Text: "Is there a room?"},
		{Role: llm.Assistant, Text: "One, under the roof."},
		{Role: llm.User, Text: "I'll take it."},
	}
	var prompts [2][]llm.Token
	for i, m := range []llm.Model{target, draft} {
		segments, err := m.RenderChat(turns, true)
		if err != nil {
			return bad("the template of %s: %v", m.Info().Name, err)
		}
		if prompts[i], _, err = llm.TokenizeChat(m, segments); err != nil {
			return bad("%s: %v", m.Info().Name, err)
		}
	}
	if at := common(prompts[0], prompts[1], 0); at < max(len(prompts[0]), len(prompts[1])) {
		return bad("its chat template gives another prompt, from token %d on: use the target's", at)
	}
	return nil
}
