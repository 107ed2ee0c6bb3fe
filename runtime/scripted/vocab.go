package scripted

import (
	"fmt"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// pieces are the word pieces, among them some that end inside a character.
var pieces = []string{
	" the", " a", " you", " I", " to", " of", " and", " is", " in", " my", " we", " not", " old", " road", " gold",
	" sword", " night", " king", " river", " stone", "ing", "er", "ed", "ly", "th", "Hello", " traveller", " friend",
	"system", "user", "assistant", "\n\n", ". ", ", ", "! ", "? ",
	"\xE2\x82", "\xF0\x9F", "\xF0\x9F\x98", " \xF0\x9F", "\xE2\x80", "\xD7", "\xD8", "\xE3\x81", "\xEF\xB8",
}

// babbled are the pieces that the model babbles: the words.
const babbled = 20

// control are the control tokens, in the order of their numbers.
var control = []string{"<s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"}

const (
	firstPiece llm.Token = 256
	longest    int       = 10 // bytes of the longest piece: " traveller"
)

var (
	firstControl = firstPiece + llm.Token(len(pieces))
	bos          = firstControl
	turnStart    = firstControl + 1
	turnEnd      = firstControl + 2
	textEnd      = firstControl + 3
	vocabSize    = int(firstControl) + len(control)

	byPiece = func() map[string]llm.Token {
		m := make(map[string]llm.Token, len(pieces))
		for i, p := range pieces {
			m[p] = firstPiece + llm.Token(i)
		}
		return m
	}()

	// replyHeader is what follows turnStart where the assistant begins.
	replyHeader = tokenize(nil, "assistant\n", false)
)

// Tokenize implements llm.Tokenizer.
func (m *Model) Tokenize(dst []llm.Token, text string, markup bool) ([]llm.Token, error) {
	if m.closed.Load() {
		return dst, fmt.Errorf("scripted: tokenize: %w", llm.ErrClosed)
	}
	return tokenize(dst, llm.ValidText(text), markup), nil
}

func tokenize(dst []llm.Token, text string, markup bool) []llm.Token {
	for text != "" {
		t, n := longestPiece(text)
		if markup && text[0] == '<' {
			for i, c := range control {
				if strings.HasPrefix(text, c) {
					t, n = firstControl+llm.Token(i), len(c)
				}
			}
		}
		dst = append(dst, t)
		text = text[n:]
	}
	return dst
}

func longestPiece(text string) (llm.Token, int) {
	for n := min(longest, len(text)); n > 1; n-- {
		if t, ok := byPiece[text[:n]]; ok {
			return t, n
		}
	}
	return llm.Token(text[0]), 1
}

// AppendPiece implements llm.Tokenizer.
func (m *Model) AppendPiece(dst []byte, t llm.Token) []byte { return appendPiece(dst, t) }

func appendPiece(dst []byte, t llm.Token) []byte {
	switch {
	case t < 0 || t >= firstControl:
		return dst
	case t < firstPiece:
		return append(dst, byte(t))
	}
	return append(dst, pieces[t-firstPiece]...)
}

// BOS implements llm.Tokenizer.
func (m *Model) BOS() (llm.Token, bool) { return bos, true }

// IsEnd implements llm.Tokenizer.
func (m *Model) IsEnd(t llm.Token) bool { return t == turnEnd || t == textEnd }

// RenderChat implements llm.Tokenizer with ChatML.
func (m *Model) RenderChat(turns []llm.Turn, reply bool) ([]llm.Segment, error) {
	var out []llm.Segment
	for i, t := range turns {
		switch t.Role {
		case llm.System, llm.User, llm.Assistant:
		default:
			return nil, fmt.Errorf("scripted: turn %d: role %q: want system, user or assistant: %w",
				i, t.Role, llm.ErrRequest)
		}
		out = append(out,
			llm.Segment{Text: "<|im_start|>" + string(t.Role) + "\n", Markup: true, Turn: i},
			llm.Segment{Text: t.Text, Turn: i, Tokens: t.Tokens},
			llm.Segment{Text: "<|im_end|>\n", Markup: true, Turn: i})
	}
	if reply {
		out = append(out, llm.Segment{Text: "<|im_start|>assistant\n", Markup: true, Turn: len(turns) - 1})
	}
	return out, nil
}
