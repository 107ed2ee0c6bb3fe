package llamacpp

import (
	"fmt"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// maxText: bytes of text tokenised in one call. llama.cpp counts in int32, and
// no prompt for a local model is anywhere near.
const maxText = 16 << 20

// borrow reports whether the vocabulary is there, and keeps it so until m.users is
// unlocked for reading. Prompts are made on goroutines that know nothing of who
// closes the model.
func (m *Model) borrow() bool {
	m.users.RLock()
	if m.closed.Load() {
		m.users.RUnlock()
		return false
	}
	return true
}

// Tokenize implements llm.Tokenizer.
func (m *Model) Tokenize(dst []llm.Token, text string, markup bool) ([]llm.Token, error) {
	if len(text) > maxText {
		return dst, fmt.Errorf("llamacpp: text of %d bytes, at most %d: %w", len(text), maxText, llm.ErrRequest)
	}
	if text == "" {
		return dst, nil
	}
	if !m.borrow() {
		return dst, fmt.Errorf("llamacpp: tokenize: %w", llm.ErrClosed)
	}
	defer m.users.RUnlock()
	// A NUL would end the string in C, and the rest would become no text at all.
	text = strings.ReplaceAll(llm.ValidText(text), "\x00", "\uFFFD")
	for _, t := range llama.Tokenize(m.vocab, text, false, markup) {
		dst = append(dst, llm.Token(t))
	}
	return dst, nil
}

// AppendPiece implements llm.Tokenizer.
func (m *Model) AppendPiece(dst []byte, t llm.Token) []byte {
	if t < 0 || int(t) >= m.info.Vocab || !m.borrow() {
		return dst
	}
	defer m.users.RUnlock()
	var buf [256]byte
	n := m.pieceInto(buf[:], int32(t))
	if n < 0 { // longer than the buffer: -n bytes are wanted
		long := make([]byte, -n)
		n = m.pieceInto(long, int32(t))
		return append(dst, long[:max(n, 0)]...)
	}
	return append(dst, buf[:n]...)
}

// BOS implements llm.Tokenizer.
func (m *Model) BOS() (llm.Token, bool) {
	if !m.borrow() {
		return 0, false
	}
	defer m.users.RUnlock()
	if !llama.VocabGetAddBOS(m.vocab) {
		return 0, false
	}
	t := llama.VocabBOS(m.vocab)
	return llm.Token(t), t >= 0
}

// IsEnd implements llm.Tokenizer.
func (m *Model) IsEnd(t llm.Token) bool {
	if t < 0 || int(t) >= m.info.Vocab || !m.borrow() {
		return false
	}
	defer m.users.RUnlock()
	return m.ends(int32(t))
}

// marker stands for the content of turn i while the template is rendered. Its
// characters are private-use, so no template and no cleaned text holds them.
func marker(i int) string { return fmt.Sprintf("\uE0A0%d\uE0A1", i) }

// RenderChat implements llm.Tokenizer. The template is rendered with markers
// in place of the contents, so that contents never meet the template engine
// and can be tokenised without control tokens.
func (m *Model) RenderChat(turns []llm.Turn, reply bool) ([]llm.Segment, error) {
	messages := make([]llama.ChatMessage, len(turns))
	for i, t := range turns {
		switch t.Role {
		case llm.System, llm.User, llm.Assistant:
		default:
			return nil, fmt.Errorf("llamacpp: turn %d: role %q, want system, user or assistant: %w", i, t.Role,
				llm.ErrRequest)
		}
		messages[i] = llama.NewChatMessage(string(t.Role), marker(i))
	}
	buf := make([]byte, 256+128*len(turns))
	n := llama.ChatApplyTemplate(m.template, messages, reply, buf)
	if int(n) > len(buf) {
		buf = make([]byte, n)
		n = llama.ChatApplyTemplate(m.template, messages, reply, buf)
	}
	if n < 0 {
		return nil, fmt.Errorf("llamacpp: llama.cpp's built-in engine does not know the chat template of %s: %w",
			m.info.Name, ErrModelFile)
	}
	return splitRendered(string(buf[:n]), turns)
}

// splitRendered cuts a rendered template at the markers.
func splitRendered(text string, turns []llm.Turn) ([]llm.Segment, error) {
	var out []llm.Segment
	last := -1
	for i, t := range turns {
		before, after, found := strings.Cut(text, marker(i))
		if !found {
			return nil, fmt.Errorf("llamacpp: the chat template drops turn %d (%s): %w", i, t.Role, ErrModelFile)
		}
		if before != "" {
			out = append(out, llm.Segment{Text: before, Markup: true, Turn: i})
		}
		out = append(out, llm.Segment{Text: t.Text, Turn: i, Tokens: t.Tokens})
		text, last = after, i
	}
	if text != "" {
		out = append(out, llm.Segment{Text: text, Markup: true, Turn: last})
	}
	return out, nil
}
