package npc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// dialect is how one family of models writes a conversation.
type dialect struct {
	name     string
	controls []string // what becomes one control token each when markup is true
	ends     []string // of those, what ends a reply
	bos      string   // of those, what begins a prompt, or empty
	render   func(turns []llm.Turn, reply bool) []llm.Segment
}

var dialects = []dialect{
	{name: "chatml", controls: []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>"},
		ends: []string{"<|im_end|>", "<|endoftext|>"}, render: renderChatML},
	{name: "llama3", controls: []string{"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		ends: []string{"<|eot_id|>"}, bos: "<|begin_of_text|>", render: renderLlama3},
	{name: "gemma", controls: []string{"<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"},
		ends: []string{"<eos>", "<end_of_turn>"}, bos: "<bos>", render: renderGemma},
	{name: "mistral", controls: []string{"<s>", "</s>", "[INST]", "[/INST]"},
		ends: []string{"</s>"}, bos: "<s>", render: renderMistral},
}

func renderChatML(turns []llm.Turn, reply bool) []llm.Segment {
	var out []llm.Segment
	between := ""
	for i, t := range turns {
		out = append(out, markup(i, between+"<|im_start|>"+string(t.Role)+"\n"), content(i, t))
		between = "<|im_end|>\n"
	}
	if reply {
		between += "<|im_start|>assistant\n"
	}
	return append(out, markup(len(turns)-1, between))
}

// renderLlama3 writes the BOS itself: the prompt must not get a second one.
func renderLlama3(turns []llm.Turn, reply bool) []llm.Segment {
	out := []llm.Segment{markup(-1, "<|begin_of_text|>")}
	between := ""
	for i, t := range turns {
		header := "<|start_header_id|>" + string(t.Role) + "<|end_header_id|>\n\n"
		out = append(out, markup(i, between+header), content(i, t))
		between = "<|eot_id|>"
	}
	if reply {
		between += "<|start_header_id|>assistant<|end_header_id|>\n\n"
	}
	return append(out, markup(len(turns)-1, between))
}

// renderGemma has no system role: what it says stands in the first line.
func renderGemma(turns []llm.Turn, reply bool) []llm.Segment {
	var out []llm.Segment
	between := ""
	for i, t := range turns {
		lead := between + "<start_of_turn>user\n"
		switch {
		case t.Role == llm.Assistant:
			lead = between + "<start_of_turn>model\n"
		case i == 1 && turns[0].Role == llm.System:
			lead = "\n\n"
		}
		out = append(out, markup(i, lead), content(i, t))
		between = "<end_of_turn>\n"
	}
	if reply {
		between += "<start_of_turn>model\n"
	}
	return append(out, markup(len(turns)-1, between))
}

func renderMistral(turns []llm.Turn, reply bool) []llm.Segment {
	var out []llm.Segment
	for i, t := range turns {
		switch {
		case t.Role == llm.Assistant:
			out = append(out, markup(i, " [/INST] "), content(i, t), markup(i, "</s>"))
		case i == 1 && turns[0].Role == llm.System:
			out = append(out, markup(i, "\n\n"), content(i, t))
		default:
			out = append(out, markup(i, "[INST] "), content(i, t))
		}
	}
	if reply {
		out = append(out, markup(len(turns)-1, " [/INST] "))
	}
	return out
}

func markup(turn int, text string) llm.Segment {
	return llm.Segment{Text: text, Markup: true, Turn: turn}
}

func content(i int, t llm.Turn) llm.Segment {
	return llm.Segment{Text: t.Text, Turn: i, Tokens: t.Tokens}
}

// The vocabulary of a fakeTokenizer: 256 bytes, then common pairs and words,
// then the control tokens of its dialect.
const (
	firstWord    = llm.Token(256)
	firstControl = llm.Token(512)
)

// words let one text be written as different tokens, as in a real vocabulary.
var words = longestFirst([]string{" the", "the", " you", "you", "ing", " and", "er",
	"in", "th", "sword", " sword", " a", ". "})

func longestFirst(s []string) []string {
	slices.SortStableFunc(s, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return s
}

// fakeTokenizer recognises the control strings of its dialect in markup, and
// only there.
type fakeTokenizer struct {
	dialect
	bosRefused bool // BOS says that the model wants none
}

func (f fakeTokenizer) Tokenize(dst []llm.Token, text string, markup bool) ([]llm.Token, error) {
	text = strings.ToValidUTF8(text, "\uFFFD")
next:
	for text != "" {
		if markup {
			for i, c := range f.controls {
				if strings.HasPrefix(text, c) {
					dst, text = append(dst, firstControl+llm.Token(i)), text[len(c):]
					continue next
				}
			}
		}
		for i, w := range words {
			if strings.HasPrefix(text, w) {
				dst, text = append(dst, firstWord+llm.Token(i)), text[len(w):]
				continue next
			}
		}
		dst, text = append(dst, llm.Token(text[0])), text[1:]
	}
	return dst, nil
}

func (f fakeTokenizer) AppendPiece(dst []byte, t llm.Token) []byte {
	switch {
	case t >= 0 && t < firstWord:
		return append(dst, byte(t))
	case t >= firstWord && int(t-firstWord) < len(words):
		return append(dst, words[t-firstWord]...)
	}
	return dst
}

func (f fakeTokenizer) BOS() (llm.Token, bool) {
	i := slices.Index(f.controls, f.bos)
	return firstControl + llm.Token(i), i >= 0 && !f.bosRefused
}

func (f fakeTokenizer) IsEnd(t llm.Token) bool {
	i := int(t - firstControl)
	return i >= 0 && i < len(f.controls) && slices.Contains(f.ends, f.controls[i])
}

func (f fakeTokenizer) RenderChat(turns []llm.Turn, reply bool) ([]llm.Segment, error) {
	if len(turns) == 0 {
		return nil, fmt.Errorf("fake: no turns")
	}
	return f.render(turns, reply), nil
}

func (f fakeTokenizer) isControl(t llm.Token) bool { return t >= firstControl }

// spell writes tokens as text, control tokens by their names.
func (f fakeTokenizer) spell(tokens []llm.Token) string {
	var out []byte
	for _, t := range tokens {
		if f.isControl(t) {
			out = append(out, f.controls[t-firstControl]...)
		}
		out = f.AppendPiece(out, t)
	}
	return string(out)
}

// byteTokens is a text as a model might have generated it: not as Tokenize
// would split it.
func byteTokens(text string) []llm.Token {
	var out []llm.Token
	for i := range len(text) {
		out = append(out, llm.Token(text[i]))
	}
	return out
}

func chatML() fakeTokenizer { return fakeTokenizer{dialect: dialects[0]} }
