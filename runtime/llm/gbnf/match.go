package gbnf

import (
	"slices"
	"sync/atomic"
	"unicode/utf8"
)

// maxStacks bounds the ways in which a reply may go on at one time. A grammar
// that exceeds it is ambiguous beyond use: the reply is refused.
const maxStacks = 2048

// State is where a reply stands in a grammar. It never changes: Next gives
// another one. Safe for concurrent use.
type State struct {
	g      *Grammar
	stacks []*node // nil among them: the reply may end here
	tail   [utf8.UTFMax]byte
	n      int   // bytes of tail: the beginning of a character
	memo   *memo // where the stacks go
}

// node is the top of a stack: the item that must come next, and what follows
// its sequence. Stacks share their lower parts.
type node struct {
	seq  sequence
	at   int
	next *node
}

// Start is where a reply begins.
func (g *Grammar) Start() *State {
	s := &State{g: g, memo: &memo{}}
	for _, alternative := range g.rules[g.root] {
		s.push(&node{seq: alternative})
	}
	return s
}

// push adds a stack, with rules opened until a character is on top.
func (s *State) push(top *node) {
	for top != nil && top.at == len(top.seq) {
		top = top.next
	}
	if top == nil || top.seq[top.at].rule < 0 {
		if len(s.stacks) <= maxStacks && !slices.ContainsFunc(s.stacks, func(o *node) bool { return same(o, top) }) {
			s.stacks = append(s.stacks, top)
		}
		return
	}
	rest := top.next
	if top.at+1 < len(top.seq) {
		rest = &node{top.seq, top.at + 1, top.next}
	}
	for _, alternative := range s.g.rules[top.seq[top.at].rule] {
		s.push(&node{seq: alternative, next: rest})
	}
}

// same reports whether two stacks are equal.
func same(a, b *node) bool {
	for a != nil && b != nil && a != b {
		if len(a.seq) == 0 || len(b.seq) == 0 || &a.seq[0] != &b.seq[0] || a.at != b.at {
			return false
		}
		a, b = a.next, b.next
	}
	return a == b
}

// Next is the state after some bytes, which may end inside a character, or
// false where the grammar does not allow them.
func (s *State) Next(text []byte) (*State, bool) {
	for len(text) > 0 {
		if s.n == 0 && text[0] < utf8.RuneSelf { // most often, and nothing to keep
			if s = s.step(rune(text[0])); len(s.stacks) == 0 || len(s.stacks) > maxStacks {
				return nil, false
			}
			text = text[1:]
			continue
		}
		var r rune
		var ok, whole bool
		next := *s
		text, r, whole, ok = next.rune(text)
		if !ok {
			return nil, false
		}
		if !whole {
			if !next.mayBegin() {
				return nil, false
			}
			return &next, true
		}
		if s = next.step(r); len(s.stacks) == 0 || len(s.stacks) > maxStacks {
			return nil, false
		}
	}
	return s, true
}

// rune takes one character from tail and text.
func (s *State) rune(text []byte) (rest []byte, r rune, whole, ok bool) {
	for len(text) > 0 && s.n < utf8.UTFMax {
		s.tail[s.n] = text[0]
		s.n++
		text = text[1:]
		if utf8.FullRune(s.tail[:s.n]) {
			r, size := utf8.DecodeRune(s.tail[:s.n])
			ok = size == s.n && (r != utf8.RuneError || size == 3)
			s.n = 0
			return text, r, true, ok
		}
	}
	return text, 0, false, s.n < utf8.UTFMax
}

// memo remembers where a state went: a vocabulary is looked through for one
// token, and its tokens begin alike. Where one goes depends on nothing but which
// of the stacks take the character. Safe for concurrent use.
type memo struct {
	ascii atomic.Pointer[[utf8.RuneSelf]atomic.Pointer[State]]
	ways  atomic.Pointer[[]way]
}

// way is where those stacks lead that are set in took.
type way struct {
	took uint64
	to   *State
}

// maxWays bounds what one state remembers; a grammar of a game has two or three
// ways to go on.
const maxWays = 32

func (s *State) step(r rune) *State {
	if r >= utf8.RuneSelf {
		return s.way(r)
	}
	table := s.memo.ascii.Load()
	if table == nil {
		table = new([utf8.RuneSelf]atomic.Pointer[State])
		if !s.memo.ascii.CompareAndSwap(nil, table) {
			table = s.memo.ascii.Load()
		}
	}
	to := table[r].Load()
	if to == nil {
		to = s.way(r)
		table[r].Store(to)
	}
	return to
}

// way finds where r leads, or goes there for the first time.
func (s *State) way(r rune) *State {
	var took uint64
	for i, top := range s.stacks {
		if top != nil && top.seq[top.at].has(r) {
			took |= 1 << (i % 64)
		}
	}
	known := s.memo.ways.Load()
	if known != nil && len(s.stacks) <= 64 {
		for _, w := range *known {
			if w.took == took {
				return w.to
			}
		}
	}
	out := &State{g: s.g, memo: &memo{}}
	for _, top := range s.stacks {
		if top != nil && top.seq[top.at].has(r) {
			out.push(&node{top.seq, top.at + 1, top.next})
		}
	}
	var more []way
	if known != nil {
		more = slices.Clone(*known)
	}
	if len(more) < maxWays && len(s.stacks) <= 64 {
		more = append(more, way{took, out})
		s.memo.ways.CompareAndSwap(known, &more) // who comes second is not remembered
	}
	return out
}

func (it *item) has(r rune) bool {
	in := slices.ContainsFunc(it.ranges, func(x span) bool { return x.lo <= r && r <= x.hi })
	return in != it.negate
}

// mayBegin reports whether some character that begins with tail is allowed.
func (s *State) mayBegin() bool {
	lo, hi := s.bounds()
	return slices.ContainsFunc(s.stacks, func(top *node) bool {
		if top == nil {
			return false
		}
		it := &top.seq[top.at]
		if !it.negate {
			return slices.ContainsFunc(it.ranges, func(x span) bool { return x.lo <= hi && lo <= x.hi })
		}
		return !slices.ContainsFunc(it.ranges, func(x span) bool { return x.lo <= lo && hi <= x.hi })
	})
}

// bounds are the first and the last character that begin with tail.
func (s *State) bounds() (lo, hi rune) {
	need, least := 2, rune(0x80) // the first character that takes so many bytes
	first := rune(s.tail[0])
	switch {
	case first >= 0xF0:
		need, least, first = 4, 0x10000, first&0x07
	case first >= 0xE0:
		need, least, first = 3, 0x800, first&0x0F
	default:
		first &= 0x1F
	}
	lo, hi = first, first
	for i := 1; i < need; i++ {
		if i < s.n {
			lo, hi = lo<<6|rune(s.tail[i]&0x3F), hi<<6|rune(s.tail[i]&0x3F)
		} else {
			lo, hi = lo<<6, hi<<6|0x3F
		}
	}
	lo, hi = max(lo, least), min(hi, utf8.MaxRune)
	if lo < surrogates && surrogates <= hi {
		hi = surrogates - 1 // what begins with 0xED
	}
	return lo, hi
}

// surrogates is where the code points begin that are no characters; the bytes
// 0xED 0xA0 … are never taken.
const surrogates = 0xD800

// Complete reports whether the reply may end here.
func (s *State) Complete() bool { return s.n == 0 && slices.Contains(s.stacks, nil) }

// Finished reports whether the reply must end here.
func (s *State) Finished() bool { return s.Complete() && len(s.stacks) == 1 }

// Forced is the text that must follow, up to about most bytes: as long as there
// is one character that may come and the reply may not end. It is empty within
// a character.
func (s *State) Forced(most int) string {
	var out []byte
	for s.n == 0 && len(out) < most {
		r, ok := s.only()
		if !ok {
			break
		}
		out = utf8.AppendRune(out, r)
		s = s.step(r)
	}
	return string(out)
}

// only is the one character that may come next, if there is just one.
func (s *State) only() (rune, bool) {
	one := rune(-1)
	for _, top := range s.stacks {
		if top == nil || top.seq[top.at].negate {
			return 0, false
		}
		for _, x := range top.seq[top.at].ranges {
			if x.lo != x.hi || one >= 0 && x.lo != one {
				return 0, false
			}
			one = x.lo
		}
	}
	return one, one >= 0
}

// Match reports whether a whole text is a reply that the grammar allows.
func (g *Grammar) Match(text string) bool {
	s, ok := g.Start().Next([]byte(text))
	return ok && s.Complete()
}

// Begins tells for each byte whether some text that may follow begins with it:
// a sieve for whoever looks through a vocabulary, most of which it drops
// without a call of Next. Where it says true, Next may still refuse.
func (s *State) Begins() (first [256]bool) {
	if s.n > 0 {
		for b := 0x80; b < 0xC0; b++ {
			first[b] = true
		}
		return first
	}
	for _, top := range s.stacks {
		if top == nil {
			continue
		}
		it := &top.seq[top.at]
		for b := range utf8.RuneSelf {
			first[b] = first[b] || it.has(rune(b))
		}
		beyond := it.negate || slices.ContainsFunc(it.ranges, func(x span) bool { return x.hi >= utf8.RuneSelf })
		for b := 0xC2; b < 0xF5 && beyond; b++ {
			first[b] = true
		}
	}
	return first
}
