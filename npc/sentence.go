package npc

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSentence is where a sentence that does not end is cut, in characters, at
// the next blank or comma, and at twice that anywhere: a voice has to begin
// some time, and memory is bounded. The longest sentence of a novel's dialogue
// has some 250.
const maxSentence = 300

// Sentences cuts a stream of text into sentences while it comes, for voices and
// subtitles. The same text gives the same sentences, however it is split. Only
// white space is lost, at their ends.
//
// A sentence ends at a line break, at 。！？ ؟ ۔ । and their like, at ! and ? when
// a script without blanks follows, and at . ! ? and … when white space follows
// and neither the word before is an abbreviation nor a small letter shows that it
// goes on. Closing quotes and brackets belong
// to the sentence before them. So each sentence comes out with the first letter
// of the next one, or at End.
//
// The zero value is ready. Call from one goroutine at a time.
type Sentences struct {
	cur   []byte // the sentence so far
	runes int    // of cur
	total int    // bytes taken
	end   int    // of total, at the end of what is visible of cur

	phase  sentencePhase
	strong bool // the mark needs no white space and no capital after it
	marks  int  // of the run of . ! ? …
	dots   bool // all of them are full stops
	asks   bool // one of them is ! or ?
	closed bool // a quote or bracket closed after them
	word   []rune
	quoted bool // a straight double quote is open
}

type sentencePhase uint8

const (
	inSentence sentencePhase = iota
	afterMark                // marks and closing quotes
	afterGap                 // white space after them
)

// Add takes the next piece of text and appends the sentences that it completes.
func (s *Sentences) Add(dst []string, text string) []string {
	for _, r := range text {
		if sentence, _, ok := s.push(r); ok {
			dst = append(dst, sentence)
		}
	}
	return dst
}

// End appends what is left, now that nothing follows. The next text begins anew.
func (s *Sentences) End(dst []string) []string {
	sentence, _, ok := s.flush()
	*s = Sentences{}
	if ok {
		dst = append(dst, sentence)
	}
	return dst
}

// push takes one character. Where that shows that a sentence is over, it
// returns it, and how many bytes of all taken stand before its end.
func (s *Sentences) push(r rune) (sentence string, end int, ok bool) {
	if s.over(r) {
		sentence, end, ok = s.flush()
	}
	s.take(r)
	return sentence, end, ok
}

// over reports whether the sentence so far ends before r.
func (s *Sentences) over(r rune) bool {
	space := unicode.IsSpace(r)
	switch {
	case r == '\n':
		return true
	case s.runes >= 2*maxSentence:
		return true
	case s.runes >= maxSentence && s.phase == inSentence:
		last, _ := utf8.DecodeLastRune(s.cur)
		return unicode.IsSpace(last) || strings.ContainsRune(",;:—、，；،؛", last)
	case s.phase == afterMark:
		strong := s.strong || s.asks && !spaced(r) || s.asks && strings.ContainsRune("「『（《“", r)
		return strong && !space && !s.closes(r) && !endsSentence(r)
	case s.phase == afterGap && !space:
		return s.strong || !s.goesOn(r)
	}
	return false
}

// take appends r and notes what it is.
func (s *Sentences) take(r rune) {
	var b [utf8.UTFMax]byte
	n := utf8.EncodeRune(b[:], r)
	s.total += n
	space := unicode.IsSpace(r)
	if len(s.cur) == 0 && space {
		return
	}
	s.cur = append(s.cur, b[:n]...)
	s.runes++
	if !space {
		s.end = s.total
	}
	closes := s.phase == afterMark && s.closes(r)
	if r == '"' {
		s.quoted = !s.quoted
	}
	switch {
	case endsSentence(r):
		if s.phase != afterMark {
			s.marks, s.dots, s.asks, s.strong, s.closed = 0, true, false, false, false
		}
		s.phase = afterMark
		s.marks++
		s.dots = s.dots && r == '.'
		s.asks = s.asks || r == '!' || r == '?'
		s.strong = s.strong || strongMark(r)
	case closes:
		s.closed = true
	case s.phase == afterMark && space:
		s.phase = afterGap
	case s.phase == afterGap && space:
	default:
		switch s.phase {
		case afterMark:
			s.word = append(s.word, '.') // "e.g", "example.com"
		case afterGap:
			s.word = s.word[:0]
		}
		s.phase = inSentence
		s.spell(r, space)
	}
}

// spell keeps the last word, without the quotes or brackets that open before it.
func (s *Sentences) spell(r rune, space bool) {
	const longestAbbreviation = 12
	switch {
	case space || len(s.word) == 0 && !unicode.IsLetter(r) && !unicode.IsDigit(r):
		s.word = s.word[:0]
	case len(s.word) <= longestAbbreviation:
		s.word = append(s.word, r)
	}
}

// goesOn reports whether r, the first letter after a mark and a gap, shows that
// the sentence is not over.
func (s *Sentences) goesOn(r rune) bool {
	word := strings.ToLower(string(s.word))
	small := unicode.IsLower(r)
	full := s.dots && s.marks == 1 && !s.closed // one full stop
	switch {
	case full && slices.Contains(titles, word), full && s.initial():
		return true
	case full && s.onlyNumber(): // "1. Iron"
		return true
	case full && unicode.IsDigit(r) && slices.Contains(counted, word): // "No. 5"
		return true
	case full:
		return small && (slices.Contains(abbreviations, word) || strings.Contains(word, "."))
	case s.closed:
		return small // "Stop!" he cried
	}
	return small && (s.dots || s.marks > 0 && strings.HasSuffix(strings.TrimSpace(string(s.cur)), "…"))
}

// initial reports whether the last word is a letter that stands for a name; the
// one that is a word itself is not.
func (s *Sentences) initial() bool {
	return len(s.word) == 1 && unicode.IsUpper(s.word[0]) && s.word[0] != 'I'
}

// onlyNumber reports whether the sentence so far is a number.
func (s *Sentences) onlyNumber() bool {
	digits := strings.TrimRight(strings.TrimSpace(string(s.cur)), ".")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// closes reports whether r, after a mark, closes what stands before it.
func (s *Sentences) closes(r rune) bool {
	if r == '"' {
		return s.quoted
	}
	return strings.ContainsRune("'’”»)]}*_」』）】》〉›", r)
}

func (s *Sentences) flush() (sentence string, end int, ok bool) {
	sentence, end = strings.TrimSpace(string(s.cur)), s.end
	s.cur, s.word, s.runes, s.phase = s.cur[:0], s.word[:0], 0, inSentence
	return sentence, end, sentence != ""
}

func endsSentence(r rune) bool { return strings.ContainsRune(".!?…", r) || strongMark(r) }

// strongMark reports whether r ends a sentence whatever follows: marks that no
// abbreviation or number has.
func strongMark(r rune) bool {
	return r >= 0x80 && strings.ContainsRune("。！？｡．︒؟۔।॥።፧။։‼⁇⁈⁉", r)
}

// titles stand before a name, so that the capital after them begins no
// sentence; abbreviations also end sentences. What is a word itself ("no.") is
// in neither.
var (
	titles = []string{"mr", "mrs", "ms", "dr", "prof", "st", "mt", "ft", "sr", "jr", "lt", "sgt", "capt", "col", "gen",
		"cmdr", "maj", "rev", "hon", "e.g", "i.e", "vs", "cf", "hr", "fr", "mme", "mlle", "z.b", "d.h", "bzw"}
	abbreviations = []string{"etc", "approx", "ca", "vol", "fig", "p", "pp", "a.m", "p.m", "usw", "ca", "max", "min",
		"al", "dept", "est", "inc", "ltd"}

	// counted are abbreviations before a number.
	counted = []string{"no", "nos", "nr", "num", "ch", "chap", "sec", "art", "op", "ver", "p", "pp", "vol", "fig",
		"approx", "ca"}
)
