package scripted

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// Script says what the model answers. It must always say the same to the same
// conversation. Called from the goroutine that decodes.
type Script func(c Conversation) string

// Conversation is what a script is asked about.
type Conversation struct {
	Turns []llm.Turn // with text only; Valid during the call
}

// Last is the text of the newest turn of role, or "".
func (c Conversation) Last(role llm.Role) string {
	for _, t := range slices.Backward(c.Turns) {
		if t.Role == role {
			return t.Text
		}
	}
	return ""
}

// Echo answers with what the user said last.
func Echo(c Conversation) string { return c.Last(llm.User) }

// Table answers what the user said last with what stands for it in replies, or
// else with otherwise.
func Table(replies map[string]string, otherwise string) Script {
	return func(c Conversation) string {
		if r, ok := replies[c.Last(llm.User)]; ok {
			return r
		}
		return otherwise
	}
}

// scripted is a reply that a script gave, kept so that it is asked once.
type scriptedReply struct {
	at    int // length of the ledger where the reply begins; 0 is none
	reply []llm.Token
}

// next is the token that the model would say after the first n of the ledger.
func (s *sequence) next(n int) llm.Token {
	ledger := s.tokens[:n]
	at := replyStart(ledger)
	if at == 0 || s.model.cfg.Script == nil {
		return babble(ledger, n-at)
	}
	if s.cached.at != at {
		text := llm.ValidText(s.model.cfg.Script(Conversation{parse(ledger[:at])}))
		s.cached = scriptedReply{at, append(tokenize(nil, text, false), turnEnd)}
	}
	said := ledger[at:]
	want := s.cached.reply
	if len(said) < len(want) && slices.Equal(said, want[:len(said)]) {
		return want[len(said)]
	}
	if t, ok := resume(want, said); ok {
		return t
	}
	return babble(ledger, len(said))
}

// resume goes on with want where said is a part of its text in other tokens, as
// it is after a grammar forced some.
func resume(want, said []llm.Token) (llm.Token, bool) {
	var text, begun []byte
	for _, t := range want {
		text = appendPiece(text, t)
	}
	for _, t := range said {
		begun = appendPiece(begun, t)
	}
	rest, ok := strings.CutPrefix(string(text), string(begun))
	if !ok || len(said) > len(text) {
		return 0, false
	}
	if rest == "" {
		return turnEnd, true
	}
	t, _ := longestPiece(rest)
	return t, true
}

// replyStart returns where the reply begins that the ledger ends with, or 0.
func replyStart(ledger []llm.Token) int {
	for i, t := range slices.Backward(ledger) {
		if t == turnStart {
			if at := i + 1 + len(replyHeader); at <= len(ledger) && slices.Equal(ledger[i+1:at], replyHeader) {
				return at
			}
			return 0
		}
	}
	return 0
}

// parse reads the turns that are complete.
func parse(ledger []llm.Token) []llm.Turn {
	var turns []llm.Turn
	var text []byte
	open := false
	for _, t := range ledger {
		switch t {
		case turnStart:
			text, open = text[:0], true
		case turnEnd:
			if role, rest, ok := strings.Cut(string(text), "\n"); ok && open {
				turns = append(turns, llm.Turn{Role: llm.Role(role), Text: rest})
			}
			open = false
		default:
			text = appendPiece(text, t)
		}
	}
	return turns
}

// babble draws a word from a hash of the last tokens; after said tokens the
// reply may end. 16 tokens and their number make loops rare.
func babble(ledger []llm.Token, said int) llm.Token {
	const look, meanWords = 16, 12
	h := fnv.New64a()
	var b [4]byte
	for _, t := range ledger[max(0, len(ledger)-look):] {
		binary.LittleEndian.PutUint32(b[:], uint32(t))
		h.Write(b[:])
	}
	binary.LittleEndian.PutUint32(b[:], uint32(len(ledger)))
	h.Write(b[:])
	x := h.Sum64() >> 20 // the low bits of this hash are poor
	if said >= 4 && x%meanWords == 0 {
		return turnEnd
	}
	return firstPiece + llm.Token(x/meanWords%babbled)
}
