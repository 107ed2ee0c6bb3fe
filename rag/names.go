package rag

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// asSpeaker puts "I" in place of each of the names in a question, and tells which
// occur. A line says "I saw the wolf", not "Mara saw the wolf"; a question about
// Mara's line is nearer to it in the first person.
func asSpeaker(question string, names map[string]struct{}) (text string, named map[string]bool) {
	named = map[string]bool{}
	folded := map[string]string{} // name in lower case → name
	first := map[string][]string{}
	for name := range names {
		low := strings.ToLower(name)
		folded[low] = name
		if w := firstWord(low); w != "" {
			first[w] = append(first[w], low)
		}
	}
	var out strings.Builder
	for rest := question; rest != ""; {
		w := firstToken(rest)
		low, own := possessive(strings.ToLower(w))
		found := ""
		for _, name := range first[low] {
			if len(name) > len(found) && beginsWith(rest, name) {
				found = name
			}
		}
		switch {
		case found == "":
			out.WriteString(w)
			rest = rest[len(w):]
			continue
		case len(found) > len(low): // several words; a possessive stands after the last
			rest = rest[len(found):]
			own = strings.HasPrefix(rest, "'s") || strings.HasPrefix(rest, "’s")
			if own {
				rest = rest[strings.IndexByte(rest, 's')+1:]
			}
		default:
			rest = rest[len(w):]
		}
		named[folded[found]] = true
		if own {
			out.WriteString("my")
		} else {
			out.WriteString("I")
		}
	}
	return out.String(), named
}

// possessive cuts an English possessive off a word.
func possessive(w string) (string, bool) {
	for _, end := range []string{"'s", "’s"} {
		if s, ok := strings.CutSuffix(w, end); ok {
			return s, true
		}
	}
	return w, false
}

func firstToken(s string) string {
	it := words.FromString(s)
	if !it.Next() {
		return s
	}
	return it.Value()
}

func firstWord(s string) string {
	w, _ := possessive(firstToken(s))
	return w
}

// beginsWith reports whether s begins with a name, in any case, that ends where
// a word ends.
func beginsWith(s, name string) bool {
	if len(s) < len(name) || !strings.EqualFold(s[:len(name)], name) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s[len(name):])
	return len(s) == len(name) || !unicode.IsLetter(r) && !unicode.IsNumber(r)
}
