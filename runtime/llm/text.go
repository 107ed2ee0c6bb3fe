package llm

import "unicode/utf8"

// replacement is U+FFFD, what bytes turn into that are no UTF-8.
const replacement = "\uFFFD"

// Text turns the pieces of tokens, which may end anywhere, into text that a
// game can show: whole, valid UTF-8 characters only, up to the first stop
// string and without it.
//
// It holds back what it cannot judge yet: the first bytes of a character (three
// at most) and text that a stop string may begin with. Each byte is looked at
// once, whatever the splitting, so that the same bytes give the same text.
// Bytes that can never become valid turn into one U+FFFD for each longest
// prefix of a character, as the Unicode standard recommends (chapter 3,
// "U+FFFD Substitution of Maximal Subparts"). The stop string that is complete
// first wins; of two complete at once, the longer.
//
// The zero value has no stop strings. Call from one goroutine at a time.
type Text struct {
	stops []matcher

	held []byte // whole characters; those from sent on are not given out yet
	sent int

	tail   [utf8.UTFMax]byte // the first n of need bytes of a character
	n      int
	need   int
	lo, hi byte // what the next byte of the character must lie between

	produced int
	stopped  bool
}

// matcher looks for one stop string in a stream of bytes (Knuth, Morris, Pratt).
type matcher struct {
	pattern string
	back    []int // back[i] is the longest proper border of pattern[:i+1]
	at      int   // bytes of pattern that the stream ends with
}

// NewText returns a Text that ends at the first of the stop strings. Empty ones
// are ignored, and bytes in them that are no UTF-8 are replaced as in the text.
func NewText(stops []string) *Text {
	t := &Text{}
	for _, s := range stops {
		if s = ValidText(s); s != "" {
			t.stops = append(t.stops, newMatcher(s))
		}
	}
	return t
}

// Add takes the next bytes, appends to dst what can be given out, and reports
// whether a stop string was completed. After that it takes no more.
func (t *Text) Add(dst, piece []byte) ([]byte, bool) {
	for _, b := range piece {
		if t.stopped {
			break
		}
		if t.n > 0 {
			if t.lo <= b && b <= t.hi {
				dst = t.extend(dst, b)
				continue
			}
			t.n = 0
			if dst = t.give(dst, replacement); t.stopped {
				break
			}
		}
		dst = t.begin(dst, b)
	}
	return dst, t.stopped
}

// Flush appends to dst what is held back, now that nothing can follow. A
// character that was begun turns into U+FFFD, which may complete a stop string:
// it reports that as Add does.
func (t *Text) Flush(dst []byte) ([]byte, bool) {
	if t.n > 0 {
		t.n = 0
		dst = t.give(dst, replacement)
	}
	dst = append(dst, t.held[t.sent:]...)
	t.held, t.sent = t.held[:0], 0
	return dst, t.stopped
}

// DropPartial forgets a character of which only the first bytes came: it was
// cut off, not wrong.
func (t *Text) DropPartial() { t.n = 0 }

// Partial reports whether the first bytes of a character are held back.
func (t *Text) Partial() bool { return t.n > 0 }

// Produced is how many bytes of text the pieces gave so far, held back or not,
// a stop string included.
func (t *Text) Produced() int { return t.produced }

// begin takes a byte that no character is waiting for.
func (t *Text) begin(dst []byte, b byte) []byte {
	t.lo, t.hi = 0x80, 0xBF
	switch {
	case b < utf8.RuneSelf:
		t.tail[0] = b
		return t.giveBytes(dst, t.tail[:1])
	case b < 0xC2 || b > 0xF4: // a stray continuation, an overlong form, or beyond U+10FFFF
		return t.give(dst, replacement)
	case b < 0xE0:
		t.need = 2
	case b < 0xF0:
		t.need = 3
	default:
		t.need = 4
	}
	switch b {
	case 0xE0:
		t.lo = 0xA0 // below: overlong
	case 0xED:
		t.hi = 0x9F // above: surrogates
	case 0xF0:
		t.lo = 0x90 // below: overlong
	case 0xF4:
		t.hi = 0x8F // above: beyond U+10FFFF
	}
	t.tail[0], t.n = b, 1
	return dst
}

// extend takes a byte that continues the character begun.
func (t *Text) extend(dst []byte, b byte) []byte {
	t.tail[t.n] = b
	t.n++
	t.lo, t.hi = 0x80, 0xBF
	if t.n < t.need {
		return dst
	}
	n := t.n
	t.n = 0
	return t.giveBytes(dst, t.tail[:n])
}

func (t *Text) give(dst []byte, char string) []byte {
	var c [len(replacement)]byte
	return t.giveBytes(dst, c[:copy(c[:], char)])
}

// giveBytes takes one whole character. What no stop string can begin with is
// appended to dst. Both text and stop strings are valid UTF-8, so a match
// begins and ends between characters.
func (t *Text) giveBytes(dst, char []byte) []byte {
	t.produced += len(char)
	if len(t.stops) == 0 {
		return append(dst, char...)
	}
	t.held = append(t.held, char...)
	hold, match := 0, 0
	for i := range t.stops {
		m := &t.stops[i]
		for _, b := range char {
			m.next(b)
		}
		hold = max(hold, m.at)
		if m.at == len(m.pattern) {
			match = max(match, m.at)
		}
	}
	end := len(t.held) - hold
	if match > 0 {
		end = len(t.held) - match
		t.stopped = true
	}
	dst = append(dst, t.held[t.sent:max(t.sent, end)]...)
	t.sent = max(t.sent, end)
	if t.stopped || t.sent == len(t.held) {
		t.held, t.sent = t.held[:0], 0
	} else if t.sent > len(t.held)/2 { // move little, and seldom
		t.held, t.sent = t.held[:copy(t.held, t.held[t.sent:])], 0
	}
	return dst
}

func newMatcher(pattern string) matcher {
	m := matcher{pattern: pattern, back: make([]int, len(pattern))}
	for i, k := 1, 0; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = m.back[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		m.back[i] = k
	}
	return m
}

func (m *matcher) next(b byte) {
	for m.at > 0 && (m.at == len(m.pattern) || m.pattern[m.at] != b) {
		m.at = m.back[m.at-1]
	}
	if m.pattern[m.at] == b {
		m.at++
	}
}

// ValidText returns s with everything that is no UTF-8 replaced as Text does
// it. Safe for concurrent use.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var t Text
	dst, _ := t.Add(make([]byte, 0, len(s)+len(s)/2), []byte(s))
	dst, _ = t.Flush(dst)
	return string(dst)
}
