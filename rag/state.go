package rag

import (
	"slices"
	"strings"
	"time"
)

// item is a memory as the store keeps it. What the game gave never changes; the
// rest belongs to whoever holds Store.mu.
type item struct {
	m       Memory
	vectors []vector // all pieces, or none yet
	shelf   *shelf
	n       uint32        // on its shelf
	stamp   time.Duration // play time when it came
	tries   int           // embeddings that failed
}

// sameKey is what makes a memory the same as another.
type sameKey struct {
	owner, speaker, text, audience string
	scope                          Scope
}

func keyOf(m *Memory) sameKey {
	return sameKey{m.Owner, m.Speaker, m.Text, strings.Join(m.Audience, "\x00"), m.Scope}
}

// shelf holds the memories that the same characters may know: one owner, one
// scope, one audience. A recall opens only the shelves that the character may
// read, so nothing of another shelf can reach it: no text, no name, no word
// count.
type shelf struct {
	owner    string
	scope    Scope
	audience []string
	items    []*item
	lex      lexical
	vec      index
	entries  []uint32            // vector entry → item
	extra    int                 // entries beyond one a memory
	speakers map[string]struct{} // who speaks here

	// The line before, in the scene that went on last: its terms are indexed with
	// the next line of the scene, since an answer seldom repeats the question.
	scene string
	terms []uint32
}

type shelfKey struct {
	owner, audience string
	scope           Scope
}

// state is all that the journal says. The owner of Store.mu may touch it.
type state struct {
	cfg      *Config
	position uint64 // of the last change in it
	identity Identity
	items    map[ID]*item
	order    []*item // by id
	shelves  []*shelf
	byKey    map[shelfKey]*shelf
	words    vocabulary
	pending  queue // memories without vectors
	vectors  int   // memories with vectors
	given    int   // memories that were given up: the embedder refuses them
	stray    int   // changes that named no memory
	counts   map[uint32]uint32
	scores   []float64 // scratch of a search
}

func newState(cfg *Config) *state {
	return &state{cfg: cfg, items: map[ID]*item{}, byKey: map[shelfKey]*shelf{}, words: vocabulary{},
		counts: map[uint32]uint32{}}
}

// queue is first in, first out.
type queue struct {
	items []*item
	head  int
}

func (q *queue) push(it *item) { q.items = append(q.items, it) }
func (q *queue) size() int     { return len(q.items) - q.head }

// at is the i-th from the front.
func (q *queue) at(i int) *item { return q.items[q.head+i] }

// take removes the i-th from the front; those before it keep their order.
func (q *queue) take(i int) {
	copy(q.items[q.head+1:q.head+i+1], q.items[q.head:q.head+i])
	q.items[q.head] = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

// place puts an item on its shelf and into the lexical index.
func (s *state) place(it *item) {
	m := &it.m
	key := shelfKey{m.Owner, strings.Join(m.Audience, "\x00"), m.Scope}
	sh := s.byKey[key]
	if sh == nil {
		sh = &shelf{owner: m.Owner, scope: m.Scope, audience: m.Audience, speakers: map[string]struct{}{}}
		s.byKey[key] = sh
		s.shelves = append(s.shelves, sh)
	}
	it.shelf, it.n = sh, uint32(len(sh.items))
	sh.items = append(sh.items, it)
	s.items[m.ID] = it
	s.order = append(s.order, it)
	if m.Speaker != "" {
		sh.speakers[m.Speaker] = struct{}{}
	}
	terms := s.terms(m)
	window := terms
	if m.Scene != "" && m.Scene == sh.scene {
		window = append(slices.Clone(sh.terms), terms...)
	}
	sh.lex.add(window, s.counts)
	sh.scene, sh.terms = m.Scene, terms
}

func (s *state) terms(m *Memory) []uint32 {
	var out []uint32
	visit := func(t string) { out = append(out, s.words.number(t)) }
	eachTerm(m.Speaker, visit)
	eachTerm(m.Text, visit)
	return out
}

// apply makes one change. Positions at or before the state's are there already.
func (s *state) apply(o *op) {
	if o.kind == kindSave || o.seq <= s.position {
		return
	}
	s.position = o.seq
	if o.kind == kindIdentity {
		s.adopt(o.model)
		return
	}
	if o.kind == kindRemember {
		it := &item{m: o.mem, stamp: o.stamp}
		s.place(it)
		s.pending.push(it)
		return
	}
	if o.kind == kindUsed {
		for _, id := range o.ids {
			if it := s.items[id]; it != nil {
				it.m.LastUse = max(it.m.LastUse, o.at)
			} else {
				s.stray++
			}
		}
		return
	}
	it := s.items[o.id]
	if it == nil {
		s.stray++
		return
	}
	switch o.kind {
	case kindReinforce:
		it.m.Reinforced++
		it.m.Importance = max(it.m.Importance, o.level)
		it.m.LastUse = max(it.m.LastUse, o.at)
	case kindSupersede:
		if !it.m.Superseded {
			it.m.Superseded, it.m.Until, it.m.SupersededBy = true, o.at, o.by
		}
	case kindVector:
		s.attach(it, o.vecs)
	}
}

// adopt changes whose vectors the store holds; all there were become void, and
// their memories wait again.
func (s *state) adopt(i Identity) {
	if i == s.identity {
		return
	}
	s.identity, s.vectors, s.given, s.pending = i, 0, 0, queue{}
	for _, sh := range s.shelves {
		sh.vec, sh.entries, sh.extra = nil, nil, 0
	}
	for _, it := range s.order {
		it.vectors, it.tries = nil, 0
		s.pending.push(it)
	}
}

// attach gives a memory its vectors, unless it has them.
func (s *state) attach(it *item, vecs []vector) {
	if len(it.vectors) > 0 || len(vecs) == 0 {
		return
	}
	for _, v := range vecs {
		if len(v.q) != s.identity.Dimension {
			s.stray++
			return
		}
	}
	it.vectors = vecs
	s.vectors++
	s.index(it)
}

// index puts the vectors of an item into its shelf's index.
func (s *state) index(it *item) {
	sh := it.shelf
	sh.extra += len(it.vectors) - 1
	for _, v := range it.vectors {
		if sh.vec == nil {
			sh.vec = s.newIndex(0)
		}
		if f, ok := s.outgrown(sh); ok {
			sh.vec = f
		}
		if sh.vec.add(v) == nil {
			sh.entries = append(sh.entries, it.n)
		}
	}
}

// newIndex chooses by how many vectors there will be. Where chromem-go does not
// open, the scan does the same.
func (s *state) newIndex(count int) index {
	if count < s.cfg.ChromemMost {
		if x, err := newChromem(); err == nil {
			return x
		}
	}
	return newFlat(s.identity.Dimension)
}

// outgrown gives the scan that takes over from chromem-go at ChromemMost
// vectors. Moving a thousand takes less than a millisecond.
func (s *state) outgrown(sh *shelf) (index, bool) {
	if _, small := sh.vec.(*chromemIndex); !small || sh.vec.size() < s.cfg.ChromemMost {
		return nil, false
	}
	f := newFlat(s.identity.Dimension)
	done := map[uint32]int{}
	for _, n := range sh.entries {
		if f.add(sh.items[n].vectors[done[n]]) != nil {
			return nil, false
		}
		done[n]++
	}
	return f, true
}

// restore makes the state of a snapshot.
func restore(cfg *Config, snap snapshot, now time.Duration) *state {
	s := newState(cfg)
	s.position, s.identity = snap.head.position, snap.head.identity
	for _, it := range snap.items {
		it.stamp = now
		s.place(it)
		if len(it.vectors) > 0 {
			s.vectors++
			s.index(it)
		} else {
			s.pending.push(it)
		}
	}
	return s
}

// copied is the state as a snapshot that later changes do not reach. Texts and
// vectors are shared: they never change.
func (s *state) copied() []*item {
	all := make([]item, len(s.order))
	out := make([]*item, len(s.order))
	for i, it := range s.order {
		all[i] = item{m: it.m, vectors: it.vectors}
		out[i] = &all[i]
	}
	return out
}

// settle drops from the front of the queue what has its vectors already, as
// after a journal was read.
func (s *state) settle() {
	kept := queue{}
	for i := range s.pending.size() {
		if it := s.pending.at(i); len(it.vectors) == 0 {
			kept.push(it)
		}
	}
	s.pending = kept
}
