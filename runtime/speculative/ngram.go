package speculative

import "github.com/lull-npc/lull/runtime/llm"

// Source says where a candidate came from.
type Source uint8

const (
	FromReply    Source = iota // a pattern in text that the target chose
	FromPrompt                 // a pattern in a prompt
	FromRejected               // a pattern in drafts that the target did not choose
	FromModel                  // a draft model

	sources = iota
)

var sourceNames = [sources]string{"reply", "prompt", "rejected", "model"}

func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown"
}

const (
	// longest is the longest context of a pattern in tokens. Copied text is
	// recognised after 3 or 4 tokens; each further length would take as much
	// memory again and hardly ever change the answer.
	longest = 4

	// ways is how many patterns share a set, and so how many continuations of
	// one context are known at most. 4 of them fill a cache line and a half.
	ways = 4

	// defaultPatterns is 8192: a conversation of 2048 tokens has at most 2048
	// patterns of each length. 24 bytes each: 192 KB a conversation.
	defaultPatterns = 2048 * longest
	maxPatterns     = 1 << 20

	// maxWeight is less than outweigh·trust[FromReply], so that one sight of
	// text that the target chose beats any number of sights of a context that
	// is shorter by one token.
	maxWeight = 15

	// outweigh is how much a context counts more than one that is a token
	// shorter. It is what a sight of the target's own text counts more than
	// one of a rejected draft, so trust is worth one token of context.
	outweigh = 4
)

// trust is what one sight of a pattern adds to its weight.
var trust = [sources]uint8{FromReply: 4, FromPrompt: 2, FromRejected: 1}

// Table remembers which token followed which contexts of 1…4 tokens. It is
// bounded: where a set is full, its lightest and then oldest pattern goes.
// Every method takes constant time and allocates nothing. It may forget and it
// may be wrong (contexts are told apart by a 64-bit hash); a wrong candidate
// costs time, never the output. Call from one goroutine at a time.
type Table struct {
	patterns []pattern // ways of them form a set
	mask     uint64    // sets - 1
	count    uint32    // patterns learned: the time by which they grow old
}

// pattern is one context and one token that followed it.
type pattern struct {
	key    uint64 // hash of the context and its length
	next   llm.Token
	seen   uint32 // Table.count when it was last learned
	weight uint8  // 1…maxWeight; 0 is vacant
	source Source // the most trusted that it was learned from
}

// Candidate is what a table expects next.
type Candidate struct {
	Token  llm.Token
	Source Source
	Length int // tokens of context that matched
	Weight int // how often it was seen, weighed by trust
}

// NewTable returns a table for at least so many patterns, rounded up to a power
// of two; 0 means 8192, 1048576 is the most.
func NewTable(patterns int) *Table {
	if patterns <= 0 {
		patterns = defaultPatterns
	}
	sets := 1
	for sets*ways < min(patterns, maxPatterns) {
		sets *= 2
	}
	return &Table{patterns: make([]pattern, sets*ways), mask: uint64(sets - 1)}
}

// Reset forgets everything and keeps the memory.
func (t *Table) Reset() {
	clear(t.patterns)
	t.count = 0
}

// Len is how many patterns the table holds. It looks at all of them.
func (t *Table) Len() int {
	n := 0
	for i := range t.patterns {
		if t.patterns[i].weight > 0 {
			n++
		}
	}
	return n
}

// Learn notes that next followed context, for each length of context.
func (t *Table) Learn(context []llm.Token, next llm.Token, s Source) {
	if s >= FromModel {
		return // a draft model's tokens are no pattern until they were judged
	}
	t.count++
	k := newKeys(context)
	for k.grow() {
		t.learn(k.hash, next, s)
	}
}

func (t *Table) learn(key uint64, next llm.Token, s Source) {
	set := t.set(key)
	victim := &set[0]
	for i := range set {
		p := &set[i]
		if p.weight > 0 && p.key == key && p.next == next {
			p.weight = min(maxWeight, p.weight+trust[s])
			p.source = min(p.source, s)
			p.seen = t.count
			return
		}
		// Ages are differences, so that the count may wrap around.
		if p.weight < victim.weight || p.weight == victim.weight && t.count-p.seen > t.count-victim.seen {
			victim = p
		}
	}
	*victim = pattern{key: key, next: next, seen: t.count, weight: trust[s], source: s}
}

// Best returns what is most likely to follow context. A longer context
// outweighs a shorter one; among the continuations of one context the heavier
// and then the newer one wins.
func (t *Table) Best(context []llm.Token) (Candidate, bool) { return t.best(context, 0) }

// best leaves out the sources whose bit is set in deny.
func (t *Table) best(context []llm.Token, deny uint8) (Candidate, bool) {
	var best Candidate
	score, factor := 0, 1
	k := newKeys(context)
	for k.grow() {
		if p := t.heaviest(k.hash, deny); p != nil && int(p.weight)*factor >= score {
			score = int(p.weight) * factor
			best = Candidate{p.next, p.source, k.length, int(p.weight)}
		}
		factor *= outweigh
	}
	return best, score > 0
}

func (t *Table) heaviest(key uint64, deny uint8) *pattern {
	var best *pattern
	set := t.set(key)
	for i := range set {
		p := &set[i]
		if p.weight == 0 || p.key != key || deny>>p.source&1 != 0 {
			continue
		}
		if best == nil || p.weight > best.weight || p.weight == best.weight && t.count-p.seen < t.count-best.seen {
			best = p
		}
	}
	return best
}

// Weaken notes that wrong did not follow context. A pattern loses half its
// weight, so one of weight 4 is removed by the third failure in a row.
func (t *Table) Weaken(context []llm.Token, wrong llm.Token) {
	k := newKeys(context)
	for k.grow() {
		set := t.set(k.hash)
		for i := range set {
			if p := &set[i]; p.key == k.hash && p.next == wrong {
				if p.weight /= 2; p.weight == 0 {
					*p = pattern{}
				}
			}
		}
	}
}

func (t *Table) set(key uint64) []pattern {
	// The upper half chooses the set: multiplication mixes upwards.
	at := key >> 32 & t.mask * ways
	return t.patterns[at : at+ways]
}

// keys makes the hash of each length of context, from the newest token back.
type keys struct {
	context []llm.Token
	length  int
	hash    uint64
}

func newKeys(context []llm.Token) keys { return keys{context: context} }

// grow takes one more token of context, and reports false when there is none.
func (k *keys) grow() bool {
	if k.length == longest || k.length == len(k.context) {
		return false
	}
	k.length++
	// 2⁶⁴ divided by the golden ratio: spreads neighbouring tokens evenly.
	const golden = 0x9E3779B97F4A7C15
	k.hash = (k.hash ^ uint64(uint32(k.context[len(k.context)-k.length])) + uint64(k.length)<<32) * golden
	k.hash ^= k.hash >> 29
	return true
}
