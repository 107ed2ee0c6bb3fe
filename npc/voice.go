package npc

import (
	"slices"
	"unicode"
)

// maxVoiceMarks bounds the marks before a name: "**", a bullet, a quote.
const maxVoiceMarks = 6

// voiceMarks are what models write around the name of who speaks, with what
// closes it again; voiceBullets stand before a line.
var (
	voiceMarks = map[rune]rune{'*': '*', '_': '_', '"': '"', '\'': '\'', '“': '”', '‘': '’', '«': '»', '<': '>',
		'[': ']', '(': ')', '「': '」', '『': '』', '【': '】', '［': '］', '（': '）'}
	voiceBullets = []rune("-–—•>#")
)

// voiceOf compares the beginning of a line or sentence with a name that says who
// speaks. It returns how long that is, the colon and the marks around it
// included, or 0; more is that further text may make it so, or longer.
func voiceOf(name string, text []rune) (n int, more bool) {
	want := []rune(name)
	if len(want) == 0 {
		return 0, false
	}
	i, closing := marksBefore(want[0], text)
	for _, r := range want {
		switch {
		case i == len(text):
			return 0, true
		case unicode.ToLower(text[i]) != unicode.ToLower(r):
			return 0, false
		}
		i++
	}
	i, closing = closeMarks(text, i, closing)
	for blanks := 0; i < len(text) && unicode.IsSpace(text[i]) && text[i] != '\n' && blanks < 2; blanks++ {
		i++
	}
	switch {
	case i == len(text):
		return 0, true
	case text[i] != ':' && text[i] != '：' && text[i] != '﹕':
		return 0, false
	}
	i, closing = closeMarks(text, i+1, closing)
	return i, i == len(text) && len(closing) > 0
}

// marksBefore is where a name may begin that begins with a letter, and what
// closes the marks that were opened, the last first.
func marksBefore(letter rune, text []rune) (begin int, closing []rune) {
	i := 0
	for ; i < len(text) && i < maxVoiceMarks && unicode.ToLower(text[i]) != unicode.ToLower(letter); i++ {
		end, opens := voiceMarks[text[i]]
		switch {
		case opens:
			closing = slices.Insert(closing, 0, end)
		case slices.Contains(voiceBullets, text[i]), i > 0 && text[i] == ' ':
		default:
			return i, closing
		}
	}
	return i, closing
}

func closeMarks(text []rune, i int, closing []rune) (int, []rune) {
	for i < len(text) && len(closing) > 0 && text[i] == closing[0] {
		i, closing = i+1, closing[1:]
	}
	return i, closing
}
