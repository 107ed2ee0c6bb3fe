package rag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// worker embeds what waits, one piece at a time.
type worker struct {
	mu      sync.Mutex // the embedder, and what is below
	epoch   atomic.Uint64
	cost    estimate
	partial partial
}

// partial is a memory some of whose pieces are embedded.
type partial struct {
	it    *item
	epoch uint64
	texts []string
	vecs  []vector
}

// estimate predicts how long a text takes: a moving mean of the time for each
// byte, with a floor for short ones. It follows slower runs at once by half,
// since what is predicted too short overruns a slice, and faster ones by an
// eighth.
type estimate struct {
	perByte float64 // ns; 0 before the first
}

// leastBytes is what the shortest text costs as much as: the two special tokens
// and the fixed part of a run are about 16 tokens' worth.
const leastBytes = 64

func (e *estimate) of(bytes int, first time.Duration) time.Duration {
	if e.perByte == 0 {
		return first
	}
	return time.Duration(e.perByte * float64(max(bytes, leastBytes)))
}

func (e *estimate) learn(bytes int, took time.Duration) {
	x := float64(max(took, 1)) / float64(max(bytes, leastBytes))
	switch {
	case e.perByte == 0:
		e.perByte = x
	case x > e.perByte:
		e.perByte += (x - e.perByte) / 2
	default:
		e.perByte += (x - e.perByte) / 8
	}
}

// Done is what Work did.
type Done struct {
	Embedded int           // texts
	Indexed  int           // memories that have their vectors now
	GivenUp  int           // memories that get none: of unknown content, or refused too often
	Spent    time.Duration // by the store's stopwatch
	Pending  int           // memories that wait
	// Next is what the next piece is expected to take; 0 if none waits. A budget
	// below it does nothing.
	Next time.Duration
	Err  error // why it stopped early; the memories wait on
}

const (
	// lookAhead is how far down the queue Work looks for a text that fits what is
	// left of the budget.
	lookAhead = 32
	// mostTries is how often a text is given to an embedder that refuses it. After
	// that it is found by its words only, until Reindex.
	mostTries = 3
)

// Work embeds and indexes what waits, as much as fits into the budget by what
// embedding was measured to cost. A budget of 0 does nothing at all. Not for the
// game thread; call it where a slice of time was granted.
func (s *Store) Work(budget time.Duration) Done {
	return s.WorkContext(context.Background(), budget)
}

// WorkContext is Work that ends early with ctx: with an error that the embedder
// or ctx gives.
func (s *Store) WorkContext(ctx context.Context, budget time.Duration) Done {
	var d Done
	if budget <= 0 {
		return d
	}
	if d.Err = s.refusal(); d.Err != nil {
		return d
	}
	start := s.cfg.stopwatch()
	// The first piece is held against the whole budget: who grants exactly what
	// Next or Due asked for gets that piece done.
	for left := budget; s.step(ctx, left, &d); left = budget - d.Spent {
		d.Spent = s.cfg.stopwatch() - start
	}
	if d.Err == nil {
		d.Err = s.tidy(budget - (s.cfg.stopwatch() - start))
	}
	d.Spent = s.cfg.stopwatch() - start
	return d
}

// refusal is why the store takes no changes: closed, or open for reading only.
func (s *Store) refusal() error {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	return s.front.refuse
}

// step embeds one piece, if one fits, and reports whether to go on.
func (s *Store) step(ctx context.Context, left time.Duration, d *Done) bool {
	w := &s.embed
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.Err = ctx.Err(); d.Err != nil {
		return false
	}
	if d.Next, d.Pending = s.choose(left); d.Next == 0 || d.Next > left {
		return false
	}
	p := &w.partial
	text := p.texts[len(p.vecs)]
	x, took, err := s.embedTimed(ctx, text)
	if errors.Is(err, ErrNoContent) {
		s.skip(p, d)
		d.Next, d.Pending = s.choose(left)
		return true
	}
	if err == nil {
		w.cost.learn(len(text), took)
		var v vector
		if v, err = quantise(x, s.cfg.Embedder.Identity().Dimension); err == nil {
			d.Embedded++
			if p.vecs = append(p.vecs, v); len(p.vecs) == len(p.texts) {
				d.Indexed++
				s.finish(p)
				d.Next, d.Pending = s.choose(left)
			}
			return true
		}
	}
	if errors.Is(err, ErrInterrupted) || ctx.Err() != nil {
		d.Err = err
		return false
	}
	return s.refused(p, err, d)
}

// embedTimed embeds a text and says what that cost.
func (s *Store) embedTimed(ctx context.Context, text string) ([]float32, time.Duration, error) {
	if e, ok := s.cfg.Embedder.(Timed); ok {
		return e.EmbedTimed(ctx, text)
	}
	before := s.cfg.stopwatch()
	x, err := s.cfg.Embedder.Embed(ctx, text)
	return x, s.cfg.stopwatch() - before, err
}

// skip leaves out a piece of which the embedder knows nothing, and the memory if
// it has no other.
func (s *Store) skip(p *partial, d *Done) {
	p.texts = slices.Delete(p.texts, len(p.vecs), len(p.vecs)+1)
	switch {
	case len(p.vecs) < len(p.texts):
	case len(p.vecs) > 0:
		d.Indexed++
		s.finish(p)
	default:
		if p.epoch == s.embed.epoch.Load() {
			s.mu.Lock()
			s.state.given++
			s.mu.Unlock()
		}
		d.GivenUp++
		*p = partial{}
	}
}

// refused counts a failure of the embedder against a text, or against the
// embedder: a text that failed goes to the end of the queue.
func (s *Store) refused(p *partial, err error, d *Done) bool {
	it, current := p.it, p.epoch == s.embed.epoch.Load()
	*p = partial{}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch it.tries++; {
	case !current:
	case it.tries >= mostTries:
		s.state.given++
		d.GivenUp++
	default:
		s.state.pending.push(it)
	}
	d.Err = fmt.Errorf("rag: embedding memory %d, try %d of %d: %w", it.m.ID, it.tries, mostTries, err)
	s.outbox.embedding(Event{Kind: NotEmbedded, Err: d.Err})
	return false
}

// choose makes partial the next work: what was begun, else the first of the
// queue whose first piece fits. It returns the cost of its next piece, or of
// the first of the queue if none fits, and how many wait.
func (s *Store) choose(left time.Duration) (next time.Duration, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyAll()
	st, p := s.state, &s.embed.partial
	if p.it != nil && p.epoch != s.embed.epoch.Load() {
		*p = partial{} // of a future that is gone
	}
	waiting = st.pending.size()
	if p.it != nil {
		waiting++
	}
	if s.cfg.Embedder == nil || st.identity != s.cfg.Embedder.Identity() {
		return 0, waiting
	}
	cost := func(text string) time.Duration {
		return s.embed.cost.of(len(text), s.cfg.FirstCost)
	}
	if p.it != nil {
		return cost(p.texts[len(p.vecs)]), waiting
	}
	for i := range min(lookAhead, st.pending.size()) {
		it := st.pending.at(i)
		texts := pieces(it.m.Text, s.cfg.EmbedBytes)
		c := cost(texts[0])
		if i == 0 {
			next = c
		}
		if c <= left {
			st.pending.take(i)
			*p = partial{it: it, epoch: s.embed.epoch.Load(), texts: texts}
			return c, waiting
		}
	}
	return next, waiting
}

// finish queues the vectors of a memory, unless a save was loaded meanwhile or
// the store was told to begin anew.
func (s *Store) finish(p *partial) {
	s.front.mu.Lock()
	if p.epoch == s.embed.epoch.Load() && s.front.refuse == nil {
		s.push(&op{kind: kindVector, id: p.it.m.ID, vecs: p.vecs})
	}
	s.front.mu.Unlock()
	*p = partial{}
	s.signal()
}

// pieces splits a text into at most maxPieces of at most most bytes, between
// words where there are some. There is always one.
func pieces(text string, most int) []string {
	var out []string
	for len(text) > most && len(out) < maxPieces-1 {
		end := cutAt(text, most)
		out = append(out, text[:end])
		text = strings.TrimLeft(text[end:], " \n\t")
	}
	if strings.TrimSpace(text) != "" || len(out) == 0 {
		out = append(out, text[:cutAt(text, most)])
	}
	return out
}

// cutAt is where a text is cut: at a blank in its last quarter, else between two
// characters.
func cutAt(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	if i := strings.LastIndexAny(text[:most], " \n\t"); i > most*3/4 {
		return i
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return most
}

// Slice is what Due asks for.
type Slice struct {
	Due    bool
	Budget time.Duration // enough for the next piece
	Age    time.Duration // of the oldest memory without a vector, in play time
}

// Due reports whether memory work asks for a slice by itself: the oldest memory
// without a vector has waited for half of EmbedWithin. Whoever grants time gives
// it the next idle window that is as long as Budget.
func (s *Store) Due() Slice {
	if s.refusal() != nil {
		return Slice{}
	}
	s.embed.mu.Lock()
	defer s.embed.mu.Unlock()
	next, _ := s.choose(0)
	if next == 0 {
		return Slice{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.embed.partial.it
	if oldest == nil {
		oldest = s.state.pending.at(0)
	}
	age := s.cfg.Clock() - oldest.stamp
	return Slice{Due: age >= s.cfg.EmbedWithin/2, Budget: next, Age: age}
}

// Reindex makes the vectors of the store void where they are of another
// embedder than the one given, and lets Work make new ones, in slices as for new
// memories. Until then memories are found by their words. With force it does so
// for the same embedder too.
func (s *Store) Reindex(force bool) error {
	if s.cfg.Embedder == nil {
		return errors.New("rag: no embedder to make vectors with")
	}
	if err := s.makeRoom(2); err != nil {
		return err
	}
	own := s.cfg.Embedder.Identity()
	s.embed.mu.Lock()
	defer s.embed.mu.Unlock()
	s.mu.Lock()
	s.applyAll()
	same := s.state.identity == own
	s.mu.Unlock()
	if same && !force {
		return nil
	}
	s.front.mu.Lock()
	if err := s.front.refuse; err != nil {
		s.front.mu.Unlock()
		return err
	}
	if same {
		s.push(&op{kind: kindIdentity})
	}
	s.push(&op{kind: kindIdentity, model: own})
	s.front.mu.Unlock()
	s.embed.partial = partial{}
	s.embed.epoch.Add(1)
	s.signal()
	return nil
}

// perMegabyte is what compacting costs where it was not measured: writing and
// flushing 20 MB/s, a slow phone.
const perMegabyte = 50 * time.Millisecond

// tidy compacts an overgrown journal if the rest of the budget allows, and at
// four times the size in any case: a journal that never ends makes loading slow.
func (s *Store) tidy(left time.Duration) error {
	if s.cfg.Dir == "" {
		return nil
	}
	s.writeMu.Lock()
	j := s.journal
	if j == nil {
		s.writeMu.Unlock()
		return nil
	}
	cost := time.Duration((j.size+j.base)>>20+1) * perMegabyte
	now := j.overgrown(4) || j.overgrown(1) && cost <= left
	s.writeMu.Unlock()
	if !now {
		return nil
	}
	return s.Compact()
}
