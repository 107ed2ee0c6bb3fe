package rag

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ErrQuery is wrapped by what is wrong with a question.
var ErrQuery = errors.New("rag: not a question")

// Query is what a character tries to recall.
type Query struct {
	Knower
	Text  string   // what was just said, or what it thinks of
	Now   GameTime // nothing later is recalled
	Limit int      // how many at most; 0 is 10
	Past  bool     // also what was superseded

	// ReadOnly leaves the memories as they are: no use is noted, no file written.
	ReadOnly bool
	// LexicalOnly embeds nothing, for frames that have no time for it. Memories
	// are found by their words.
	LexicalOnly bool
}

// Found is a memory with why it was found. All parts lie in [0, 1].
type Found struct {
	Memory
	Score       float64 // weighted mean of the three below
	Relevance   float64
	Recency     float64
	Importance  float64 // (importance - 1) / 9
	LexicalRank int     // 1 is the best, 0 was not among the first Depth
	DenseRank   int
}

// Result is what a recall found, the best first.
type Result struct {
	Found []Found
	Dense bool  // vectors took part
	Err   error // why they did not, though there is an embedder; the words still found what they found
}

const defaultLimit = 10

// Recall finds the memories that k may know and that fit best: by their words,
// which finds all there are, and by their vectors, where they have some already.
// It takes the time of one embedding and a search; not for the game thread.
//
// Unless ReadOnly, what it returns counts as used at q.Now.
func (s *Store) Recall(ctx context.Context, q Query) (Result, error) {
	if err := q.normal(); err != nil {
		return Result{}, err
	}
	if !q.ReadOnly {
		if err := s.makeRoom(1); err != nil {
			return Result{}, err
		}
	}
	var r Result
	v, named := vector{}, map[string]bool(nil)
	if s.cfg.Embedder != nil && !q.LexicalOnly {
		v, named, r.Err = s.question(ctx, &q)
		r.Dense = r.Err == nil
	}
	s.mu.Lock()
	s.applyAll()
	if s.state.identity != s.identityOf() {
		r.Dense = false // a save of another embedder was loaded meanwhile
	}
	var err error
	r.Found, err = s.state.recall(&q, v, named, r.Dense)
	s.mu.Unlock()
	if err != nil {
		return Result{}, err
	}
	if !q.ReadOnly && len(r.Found) > 0 {
		s.use(r.Found, q.Now)
	}
	return r, nil
}

func (q *Query) normal() error {
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 1 || q.Limit > maxDepth {
		return fmt.Errorf("%w: Limit %d: want 1…%d", ErrQuery, q.Limit, maxDepth)
	}
	if len(q.Text) > MaxText {
		return fmt.Errorf("%w: a text of %d bytes: want %d at most", ErrQuery, len(q.Text), MaxText)
	}
	q.Text = strings.ToValidUTF8(q.Text, "\uFFFD")
	return nil
}

// identityOf is the embedder's; the zero Identity if there is none.
func (s *Store) identityOf() Identity {
	if s.cfg.Embedder == nil {
		return Identity{}
	}
	return s.cfg.Embedder.Identity()
}

// ErrReindex: the vectors of the store are of another embedder than the one
// given. They are not compared; Reindex makes new ones.
var ErrReindex = errors.New("rag: the vectors are of another embedder")

// question is the vector of the query's text, with the names of speakers that k
// may know replaced.
func (s *Store) question(ctx context.Context, q *Query) (vector, map[string]bool, error) {
	if strings.TrimSpace(q.Text) == "" {
		return vector{}, nil, fmt.Errorf("%w: no text to embed", ErrQuery)
	}
	s.mu.Lock()
	s.applyAll()
	identity := s.state.identity
	names := map[string]struct{}{}
	for _, sh := range s.state.readable(q.Knower) {
		for name := range sh.speakers {
			names[name] = struct{}{}
		}
	}
	s.mu.Unlock()
	if own := s.identityOf(); identity != own {
		return vector{}, nil, fmt.Errorf("%w: %s, not %s", ErrReindex, identity.Model, own.Model)
	}
	text, named := asSpeaker(q.Text, names)
	s.embed.mu.Lock()
	defer s.embed.mu.Unlock()
	x, err := s.cfg.Embedder.Embed(ctx, pieces(text, s.cfg.EmbedBytes)[0])
	if err != nil {
		return vector{}, nil, fmt.Errorf("rag: embedding the question: %w", err)
	}
	v, err := quantise(x, identity.Dimension)
	return v, named, err
}

// use notes that memories were told.
func (s *Store) use(found []Found, now GameTime) {
	ids := make([]ID, len(found))
	for i, f := range found {
		ids[i] = f.ID
	}
	f := &s.front
	f.mu.Lock()
	if f.refuse == nil {
		s.push(&op{kind: kindUsed, ids: ids, at: now})
	}
	f.mu.Unlock()
	s.signal()
}

// readable are the shelves that a character may read.
func (s *state) readable(k Knower) []*shelf {
	var out []*shelf
	for _, sh := range s.shelves {
		if k.may(sh.owner, sh.scope, sh.audience) {
			out = append(out, sh)
		}
	}
	return out
}

// candidate is a memory that one of the lists holds.
type candidate struct {
	it             *item
	lexical, dense int // ranks
}

// ranked is an entry of one list.
type ranked struct {
	it    *item
	score float64
}

// best is the first depth of a list, in an order that never depends on the way
// it was gathered.
func best(list []ranked, depth int) []ranked {
	slices.SortFunc(list, func(a, b ranked) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		case a.it.m.ID < b.it.m.ID:
			return -1
		}
		return 1
	})
	return list[:min(depth, len(list))]
}

// eachRank numbers a list from 1. Equal scores share a rank: which memory was
// there first says nothing about how well it fits.
func eachRank(list []ranked, visit func(it *item, rank int)) {
	rank := 0
	for i, r := range list {
		if i == 0 || r.score != list[i-1].score {
			rank = i + 1
		}
		visit(r.it, rank)
	}
}

func (s *state) recall(q *Query, v vector, named map[string]bool, dense bool) ([]Found, error) {
	shelves := s.readable(q.Knower)
	depth := max(s.cfg.Depth, q.Limit)
	var words, vectors []ranked
	if !s.cfg.NoLexical {
		words = best(s.lexical(q, shelves, depth), depth)
	}
	if dense {
		list, err := s.dense(q, shelves, v, named, depth)
		if err != nil {
			return nil, err
		}
		vectors = best(list, depth)
	}
	found := s.fuse(words, vectors, q.Now)
	found = found[:min(q.Limit, len(found))]
	for i := range found {
		found[i].Memory = found[i].Memory.clone()
	}
	return found, nil
}

// fuse makes one list of two, in the order of scores.
func (s *state) fuse(words, vectors []ranked, now GameTime) []Found {
	byItem := map[*item]*candidate{}
	at := func(it *item) *candidate {
		c := byItem[it]
		if c == nil {
			c = &candidate{it: it}
			byItem[it] = c
		}
		return c
	}
	eachRank(words, func(it *item, rank int) { at(it).lexical = rank })
	eachRank(vectors, func(it *item, rank int) { at(it).dense = rank })
	found := make([]Found, 0, len(byItem))
	for _, c := range byItem {
		lists := 0
		if len(words) > 0 {
			lists++
		}
		if len(vectors) > 0 && len(c.it.vectors) > 0 {
			lists++
		}
		found = append(found, s.cfg.score(c, lists, now))
	}
	slices.SortFunc(found, func(a, b Found) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		case a.ID < b.ID:
			return -1
		}
		return 1
	})
	return found
}

// counts reports whether a query may see a memory of a shelf it may read.
func (q *Query) counts(it *item) bool {
	return it.m.At <= q.Now && (q.Past || !it.m.Superseded || it.m.Until > q.Now)
}

// lexical ranks by BM25 over all texts on the shelves. Words of other shelves do
// not exist for it.
func (s *state) lexical(q *Query, shelves []*shelf, depth int) []ranked {
	var terms []uint32
	eachTerm(q.Text, func(t string) {
		if n, ok := s.words[t]; ok {
			terms = append(terms, n)
		}
	})
	terms = unique(terms)
	var c corpus
	total := uint64(0)
	for _, sh := range shelves {
		c.texts += float64(len(sh.items))
		total += sh.lex.total
	}
	if len(terms) == 0 || total == 0 {
		return nil
	}
	c.length = float64(total) / c.texts
	idf := make([]float64, len(terms))
	for i, t := range terms {
		n := 0
		for _, sh := range shelves {
			n += len(sh.lex.postings[t])
		}
		idf[i] = c.idf(n)
	}
	var out []ranked
	for _, sh := range shelves {
		s.scores = append(s.scores[:0], make([]float64, len(sh.items))...)
		scores := s.scores
		for i, t := range terms {
			sh.lex.score(scores, t, idf[i], c, s.cfg.K1, s.cfg.B)
		}
		keep := top{keep: depth}
		for n, score := range scores {
			if score > 0 && keep.wants(score) && q.counts(sh.items[n]) {
				keep.add(hit{uint32(n), score})
			}
		}
		for _, h := range keep.sorted() {
			out = append(out, ranked{sh.items[h.entry], h.score})
		}
	}
	return out
}

// dense ranks by cosine over the vectors on the shelves; of a memory in pieces
// the best one counts.
func (s *state) dense(q *Query, shelves []*shelf, v vector, named map[string]bool, depth int) ([]ranked, error) {
	var out []ranked
	for _, sh := range shelves {
		if sh.vec == nil {
			continue
		}
		by := adjust{of: func(entry uint32) (float64, bool) {
			it := sh.items[sh.entries[entry]]
			bonus := 0.0
			if named[it.m.Speaker] {
				bonus = s.cfg.SpeakerBonus
			}
			return bonus, q.counts(it)
		}}
		if len(named) > 0 {
			by.most = math.Abs(s.cfg.SpeakerBonus)
		}
		hits, err := sh.vec.search(v, depth+min(sh.extra, depth*(maxPieces-1)), by)
		if err != nil {
			return nil, err
		}
		seen := map[uint32]bool{}
		for _, h := range hits {
			n := sh.entries[h.entry]
			if len(seen) == depth {
				break
			}
			if !seen[n] {
				seen[n] = true
				out = append(out, ranked{sh.items[n], h.score})
			}
		}
	}
	return out, nil
}

// score is the weighted mean of relevance, recency and importance. Relevance is
// the share of the most that reciprocal rank fusion could give over the lists in
// which the memory could stand: one that has no vector yet is not held back by
// standing among words only.
func (c *Config) score(x *candidate, lists int, now GameTime) Found {
	f := Found{Memory: x.it.m, LexicalRank: x.lexical, DenseRank: x.dense, Importance: x.it.m.weight()}
	for _, rank := range []int{x.lexical, x.dense} {
		if rank > 0 {
			f.Relevance += (c.FusionK + 1) / (c.FusionK + float64(rank)) / float64(lists)
		}
	}
	f.Recency = c.recency(now, x.it.m.LastUse)
	w := c.Weights
	sum := w.Relevance + w.Recency + w.Importance
	f.Score = (float64(w.Relevance*f.Relevance) + float64(w.Recency*f.Recency) +
		float64(w.Importance*f.Importance)) / sum
	return f
}

// recency is 1 for what was used now and falls by Decay with each game hour, by
// the time that passed, not by the rank among others. A use in the future, as a
// save that was edited may have, counts as now.
func (c *Config) recency(now, lastUse GameTime) float64 {
	hours := max(0, float64(now)-float64(lastUse)) / 3.6e12
	return math.Pow(c.Decay, hours)
}
