package npc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The limits of a block list: of a world and of a persona, each.
const (
	MaxBlocked     = 4096 // entries; the public lists have some hundreds a language
	MaxBlockedText = 80   // characters of one
)

// blockList finds words and phrases that are not to be said. An entry is
// compared as a reader would: whatever its case, its Unicode form (NFKC: "ﬁ" is
// "fi", "Ａ" is "a"), and what stands between its words. It is whole words,
// unless it ends in *, which lets its last word go on; in scripts without blanks
// between words it is found anywhere. Safe for concurrent use.
type blockList struct {
	phrases map[rune][]phrase // by the first letter
}

type phrase struct {
	letters []rune // folded, one blank between words
	open    bool   // its last word may go on
	entry   string // as it was written
}

// newBlockList joins lists; nil where they are empty.
func newBlockList(lists ...[]string) *blockList {
	b := &blockList{phrases: map[rune][]phrase{}}
	f := folder{}
	for _, entry := range slices.Concat(lists...) {
		stem, open := strings.CutSuffix(strings.TrimSpace(entry), "*")
		p := phrase{open: open, entry: entry, letters: f.letters(stem)}
		if len(p.letters) > 0 {
			b.phrases[p.letters[0]] = append(b.phrases[p.letters[0]], p)
		}
	}
	if len(b.phrases) == 0 {
		return nil
	}
	return b
}

// blocked checks a block list of a sheet or a world.
func (ps *problems) blocked(field string, list []string) {
	ps.list(field, list, MaxBlocked, MaxBlockedText)
	for i, entry := range list {
		if f := (folder{}); len(f.letters(strings.TrimSuffix(strings.TrimSpace(entry), "*"))) == 0 {
			ps.add(fmt.Sprintf("%s[%d]", field, i), "has no letter or digit: want a word or a phrase")
		}
	}
}

// finds reports whether a whole text holds an entry, and which.
func (b *blockList) finds(text string) (entry string, found bool) {
	if b == nil {
		return "", false
	}
	w := watch{list: b}
	_, entry, found = w.add(text, true)
	return entry, found
}

// allows leaves out the lines that hold an entry.
func (b *blockList) allows(lines []string) []string {
	if b == nil {
		return lines
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { _, found := b.finds(l); return found })
}

// found says what comes of a comparison.
type found uint8

const (
	foundNot found = iota
	foundPart
	foundWhole
)

// look compares what begins at text[i] with every entry. At the end of a
// sentence nothing follows the text.
func (b *blockList) look(text []rune, i int, end bool) (best found, entry string) {
	for _, p := range b.phrases[text[i]] {
		if i > 0 && text[i-1] != ' ' && spaced(text[i-1]) && spaced(text[i]) {
			continue // in the middle of a word
		}
		switch p.at(text[i:], end) {
		case foundWhole:
			return foundWhole, p.entry
		case foundPart:
			best = foundPart
		}
	}
	return best, ""
}

func (p phrase) at(text []rune, end bool) found {
	n := len(p.letters)
	for k := range min(n, len(text)) {
		if text[k] != p.letters[k] {
			return foundNot
		}
	}
	switch {
	case len(text) < n:
		return foundPart
	case p.open || !spaced(p.letters[n-1]):
		return foundWhole
	case len(text) == n && !end:
		return foundPart // the word may go on
	case len(text) > n && text[n] != ' ' && spaced(text[n]):
		return foundNot
	}
	return foundWhole
}

// spaced reports whether the script of a letter has blanks between its words.
func spaced(r rune) bool {
	return r < 0x0E00 || !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// folder makes texts comparable. The zero value is ready. Call from one
// goroutine at a time.
type folder struct {
	caser *cases.Caser
	iter  norm.Iter
}

// letters folds a whole text.
func (f *folder) letters(text string) []rune {
	var out []rune
	f.each(text, func(r rune, _ int) {
		if r != ' ' || len(out) > 0 && out[len(out)-1] != ' ' {
			out = append(out, r)
		}
	})
	if n := len(out); n > 0 && out[n-1] == ' ' {
		out = out[:n-1]
	}
	return out
}

// each calls visit with each letter of the folded text and where in text the
// character begins that it comes from. What is no letter, mark or digit is a
// blank; what nobody sees is nothing.
func (f *folder) each(text string, visit func(r rune, at int)) {
	if f.caser == nil {
		c := cases.Fold()
		f.caser = &c
	}
	f.iter.InitString(norm.NFKC, text)
	for !f.iter.Done() {
		at := f.iter.Pos()
		segment := f.iter.Next()
		if len(segment) > 1 || segment[0] >= utf8.RuneSelf || 'A' <= segment[0] && segment[0] <= 'Z' {
			segment = norm.NFKC.Bytes(f.caser.Bytes(segment))
		}
		for len(segment) > 0 {
			r, n := utf8.DecodeRune(segment)
			segment = segment[n:]
			switch {
			case invisible(r) || r == '\u200C' || r == '\u200D' || r >= '\uFE00' && r <= '\uFE0F':
			case unicode.In(r, unicode.L, unicode.M, unicode.N):
				visit(r, at)
			default:
				visit(' ', at)
			}
		}
	}
}

// watch follows a stream of text and lets through what can't become an entry of
// a block list any more. What it lets through, joined, never holds one. Call
// from one goroutine at a time.
type watch struct {
	list *blockList
	folder

	raw    []byte // not let through
	given  int    // bytes before raw
	folded int    // bytes of the stream that are in text

	text []rune // folded: what may begin an entry, with one letter before it
	at   []int  // where in the stream the character of each begins
	open int    // of text: what begins before it can't become an entry
}

// add takes the next piece and returns what may be said now. At the end of a
// sentence nothing is held back. Where an entry was found, everything from its
// beginning on, as far as it was not let through, is dropped.
func (w *watch) add(piece string, end bool) (pass, entry string, hit bool) {
	w.raw = append(w.raw, piece...)
	w.take(end)
	first, cut := len(w.text), -1
	for i := w.open; i < len(w.text); i++ {
		if w.text[i] == ' ' {
			continue
		}
		what, e := w.list.look(w.text, i, end)
		if what == foundPart && first == len(w.text) {
			first = i
		}
		if what == foundWhole {
			first, cut, entry = min(first, i), max(w.at[i], w.given), e
			break
		}
	}
	w.open = first
	switch {
	case cut >= 0:
		pass = w.giveOut(cut, false)
		w.drop(cut)
	case end:
		pass = w.giveOut(w.given+len(w.raw), true)
	case first < len(w.text):
		pass = w.giveOut(w.at[first], false)
	default:
		pass = w.giveOut(w.folded, false)
	}
	w.compact()
	return pass, entry, cut >= 0
}

// take folds what came, up to the last character: marks may follow that one.
func (w *watch) take(end bool) {
	fresh := w.raw[w.folded-w.given:]
	if !end {
		fresh = fresh[:max(0, norm.NFKC.LastBoundary(fresh))]
	}
	from := w.folded
	w.each(string(fresh), func(r rune, at int) {
		if r == ' ' && (len(w.text) == 0 || w.text[len(w.text)-1] == ' ') {
			return
		}
		w.text, w.at = append(w.text, r), append(w.at, from+at)
	})
	w.folded += len(fresh)
}

// giveOut lets the stream through up to a byte. Blanks wait for what follows
// them, unless all is let through.
func (w *watch) giveOut(to int, all bool) string {
	ready := w.raw[:max(0, to-w.given)]
	if !all {
		ready = bytes.TrimRightFunc(ready, unicode.IsSpace)
	}
	pass := string(ready)
	w.given += len(pass)
	w.raw = w.raw[:copy(w.raw, w.raw[len(pass):])]
	return pass
}

// drop forgets what was not let through, from a byte on, and the blanks before
// it. What was stays, so that nothing completes it later.
func (w *watch) drop(from int) {
	keep, _ := slices.BinarySearch(w.at, from)
	w.text, w.at, w.raw = w.text[:keep], w.at[:keep], w.raw[:0]
	w.folded = w.given
	for i := range w.at { // blanks before it that are dropped, too
		w.at[i] = min(w.at[i], w.given)
	}
	if n := len(w.text); n > 0 && w.text[n-1] != ' ' {
		w.text, w.at = append(w.text, ' '), append(w.at, w.given)
	}
	w.open = min(w.open, len(w.text))
}

// compact forgets what nothing begins in, but for the letter before the rest.
func (w *watch) compact() {
	if n := w.open - 1; n > 0 {
		w.text = w.text[:copy(w.text, w.text[n:])]
		w.at = w.at[:copy(w.at, w.at[n:])]
		w.open = 1
	}
}
