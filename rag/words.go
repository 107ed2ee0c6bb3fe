package rag

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"github.com/kljensen/snowball/english"
)

// maxTerms bounds the terms of one text: a text of MaxText bytes has about
// 20,000 words. What is beyond is not found by words.
const maxTerms = 32 << 10

// maxTerm bounds one term in bytes: longer "words" are keys and addresses, of
// which the beginning is enough.
const maxTerm = 64

// functionWords say how a sentence is built, not what it is about.
var functionWords = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`a an the of to in on at is are was were be been do does did i you he she it we
		they and or but for with what when where who how which that this my your his her its our their has have had
		will would can could from as by`) {
		out[w] = true
	}
	return out
}()

// eachTerm calls visit with what a text is found by: words in the sense of
// Unicode's annex 29, in lower case, English ones by their stem and without
// function words; Chinese, Japanese and other scripts without spaces as pairs
// of neighbouring characters, and single ones where they stand alone.
func eachTerm(text string, visit func(term string)) {
	var p pairs
	left := maxTerms
	emit := func(t string) {
		if left--; left >= 0 {
			visit(t)
		}
	}
	for it := words.FromString(text); it.Next() && left > 0; {
		w := it.Value()
		r, _ := utf8.DecodeRuneInString(w)
		if spaceless(r) {
			for _, r := range w {
				p.add(r, emit)
			}
			continue
		}
		p.flush(emit)
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !hasWord(w) {
			continue
		}
		if w = foldWord(w); w != "" && !functionWords[w] {
			emit(stemmed(w))
		}
	}
	p.flush(emit)
}

// spaceless reports whether r is of a script that writes words without spaces
// between them.
func spaceless(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

func hasWord(w string) bool {
	return strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// foldWord is w in lower case, cut to maxTerm, without an English possessive.
func foldWord(w string) string {
	w = strings.ToLower(w)
	if len(w) > maxTerm {
		end := maxTerm
		for !utf8.RuneStart(w[end]) {
			end--
		}
		w = w[:end]
	}
	w = strings.TrimSuffix(w, "'s")
	return strings.TrimSuffix(w, "’s")
}

// stemmed is the stem of an English word: of all that ASCII letters spell. A
// word of another language is cut the same in texts and queries, so it is still
// found.
func stemmed(w string) string {
	for i := range len(w) {
		if (w[i] < 'a' || w[i] > 'z') && w[i] != '\'' {
			return w
		}
	}
	return english.Stem(w, false)
}

// pairs makes bigrams of a run of characters.
type pairs struct {
	last rune
	n    int
}

func (p *pairs) add(r rune, emit func(string)) {
	if p.n++; p.n > 1 {
		emit(string([]rune{p.last, r}))
	}
	p.last = r
}

// flush ends a run. A character that stood alone has no pair.
func (p *pairs) flush(emit func(string)) {
	if p.n == 1 {
		emit(string(p.last))
	}
	*p = pairs{}
}
