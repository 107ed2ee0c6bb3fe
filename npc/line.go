package npc

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxLineRunes is how much of a player's line is used. Longer lines are a
	// paste or an attack, and each character costs up to a token of prefill:
	// 500 characters are about 130 tokens of English.
	MaxLineRunes = 500

	// maxMarks is how many combining marks one character keeps. Languages need
	// four at most; more is ornament that costs a token each.
	maxMarks = 6

	// maxLineBytes is how much of a line is looked at: twice what MaxLineRunes of
	// the longest characters take, the rest is for what is removed. A paste of
	// 100 MB took seconds on the game thread. maxLeadingBlanks is how many blanks
	// are stepped over before that.
	maxLineBytes     = 8 * MaxLineRunes
	maxLeadingBlanks = 1 << 20
)

// Cleaned says what CleanLine changed.
type Cleaned struct {
	Removed int // characters removed or replaced: control, invisible, invalid, marks beyond a language's need
	Cut     int // characters of the original from the cut on, 0 for none; of a huge line, bytes
}

// CleanLine turns what a player typed into one line that a prompt may hold:
// valid UTF-8, without control characters and characters that nobody sees,
// white space folded into single blanks, at most MaxLineRunes long. The cut
// falls between characters as a reader sees them. Cleaning twice changes
// nothing more. Safe for concurrent use.
func CleanLine(line string) (string, Cleaned) {
	var did Cleaned
	line, beyond := firstOf(line)
	out := make([]rune, 0, min(len(line), MaxLineRunes+1))
	marks := 0
	blank := false
	for i, r := range line {
		switch {
		case unicode.IsSpace(r) || r == '\u2028' || r == '\u2029':
			blank = len(out) > 0
			marks = 0
			continue
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD"):
			did.Removed++ // a byte that is no UTF-8; U+FFFD stands for it
			marks = 0
		case unicode.IsControl(r) || invisible(r):
			did.Removed++
			continue
		case unicode.In(r, unicode.Mn, unicode.Me):
			if marks++; marks > maxMarks {
				did.Removed++
				continue
			}
		default:
			marks = 0
		}
		if blank {
			out, blank = append(out, ' '), false
		}
		out = append(out, r)
		if len(out) > MaxLineRunes {
			kept := cutBefore(out, MaxLineRunes)
			did.Cut = utf8.RuneCountInString(line[i:]) + len(out) - 1 - kept
			out = out[:kept]
			break
		}
	}
	did.Cut += beyond
	return strings.TrimRight(string(out), " "), did
}

// firstOf is what is looked at of a line, and how many bytes stand beyond it.
func firstOf(line string) (first string, beyond int) {
	for i := 0; i < len(line) && i < maxLeadingBlanks && len(line) > maxLineBytes; i++ {
		if line[i] > ' ' {
			line = line[i:]
			break
		}
	}
	if len(line) <= maxLineBytes {
		return line, 0
	}
	end := maxLineBytes
	for k := range utf8.UTFMax {
		if utf8.RuneStart(line[end-k]) {
			end -= k // in the middle of no character
			break
		}
	}
	return line[:end], len(line) - end
}

// invisible reports whether a character has no glyph and can hide text from the
// player or reorder it: zero-width spaces, bidirectional controls, tags, and
// variation selectors beyond the sixteen that emoji use. The joiners U+200C and
// U+200D stay: Persian, Hindi and emoji need them.
func invisible(r rune) bool {
	switch {
	case r == '\u00AD', r == '\u034F', r == '\u061C', r == '\u180E', r == '\uFEFF': // hyphen, joiner, marks, BOM
		return true
	case r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0': // Hangul fillers
		return true
	case r == '\u200B', r == '\u200E', r == '\u200F': // zero-width space, direction marks
		return true
	case r >= '\u202A' && r <= '\u202E', r >= '\u2060' && r <= '\u206F': // direction, invisible operators
		return true
	case r >= '\uFFF9' && r <= '\uFFFB': // interlinear annotation
		return true
	case r >= 0xE0000 && r <= 0xE0FFF: // tags, variation selectors 17 … 256
		return true
	}
	return r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF // noncharacters
}

// cutBefore is the largest index up to n at which text may be cut without
// splitting a character with its marks, an emoji sequence or a flag. Where one
// such cluster fills the whole text, it is cut at n.
func cutBefore(text []rune, n int) int {
	for k := n; k > 0; k-- {
		if !joined(text[k-1], text[k]) && !(regional(text[k]) && oddFlags(text[:k])) {
			return k
		}
	}
	return n
}

// joined reports whether b belongs to the same visible character as a before it.
func joined(a, b rune) bool {
	const joiner, variation15, variation16 = '\u200D', '\uFE0E', '\uFE0F'
	tone := b >= 0x1F3FB && b <= 0x1F3FF
	return a == joiner || b == joiner || b == variation15 || b == variation16 || tone || unicode.Is(unicode.M, b)
}

// regional reports whether r is half a flag.
func regional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// oddFlags reports whether text ends in half a flag.
func oddFlags(text []rune) bool {
	n := 0
	for i := len(text) - 1; i >= 0 && regional(text[i]); i-- {
		n++
	}
	return n%2 == 1
}
