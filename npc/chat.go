package npc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// maxTurns is how many turns a Chat keeps, most of which no prompt holds any
	// more. At the limit the oldest exchange is forgotten: what should outlast
	// it is package rag's.
	maxTurns = 500

	// maxTurnBytes is how much of one reply the history keeps. A reply of
	// MaxReplyTokens has about four bytes a token; one that exceeds this is
	// made of runs of blanks.
	maxTurnBytes = 16 << 10
)

// Chat is the conversation of one character with one player. It is a state
// machine without a clock or a goroutine: Say makes a request, Hear takes the
// events of that request, and between the two the chat is busy.
//
// A reply that was cancelled or failed stays in the history as far as it was
// said, since the player has read it; if nothing was said, the player's line is
// taken back too, so that player and character always alternate.
//
// Call from one goroutine at a time.
type Chat struct {
	// Owner names the conversation to the engine, which keeps one cache for
	// each. Two chats at one time need two owners. NewChat sets it to the
	// persona's name.
	Owner string

	persona Persona
	history []llm.Turn // player, npc, player, npc …
	first   int        // history before it no prompt holds any more
	said    uint32     // lines said so far: varies the seed
	asked   *asked     // while a reply is under way
}

// asked is what is known of the reply under way.
type asked struct {
	request llm.RequestID // 0 until Sent tells
	line    string
	text    strings.Builder // said so far
	cuts    []int           // of the prompt
}

// NewChat begins a conversation. The persona must be valid.
func NewChat(p Persona) *Chat { return &Chat{Owner: p.Name, persona: p} }

// Persona returns who is spoken to.
func (c *Chat) Persona() Persona { return c.persona }

// History returns the finished exchanges, oldest first: a copy of the list,
// whose Tokens must not be changed.
func (c *Chat) History() []llm.Turn { return slices.Clone(c.history) }

// Forgotten is how many of the first turns of History no prompt holds any more.
func (c *Chat) Forgotten() int { return c.first }

// Busy reports whether a reply is under way.
func (c *Chat) Busy() bool { return c.asked != nil }

// Speaking returns the line that is being answered and the answer so far.
func (c *Chat) Speaking() (line, reply string) {
	if c.asked == nil {
		return "", ""
	}
	return c.asked.line, c.asked.text.String()
}

// Say makes the request that answers a line of the player. The caller sets
// Priority and Deadline, submits it, and calls Sent, or Undo if the engine
// refused it. Where the prompt says that turns were dropped, the caller tells
// the game before it submits. On error nothing has changed; the error wraps
// ErrBusy or one of BuildPrompt's.
func (c *Chat) Say(tok llm.Tokenizer, budget Budget, text string) (llm.Request, Prompt, error) {
	if c.asked != nil {
		return llm.Request{}, Prompt{}, fmt.Errorf("%w: %s is answering: cancel it or wait for its end",
			ErrBusy, c.persona.Name)
	}
	line, cleaned := CleanLine(text)
	turns := append(slices.Clip(c.history[c.first:]), llm.Turn{Role: llm.User, Text: line})
	if line == "" {
		return llm.Request{}, Prompt{}, fmt.Errorf("%w: of %d bytes nothing can be read", ErrLine, len(text))
	}
	prompt, err := BuildPrompt(tok, c.persona, turns, budget)
	if err != nil {
		return llm.Request{}, Prompt{}, err
	}
	prompt.Line = cleaned
	c.first += prompt.DroppedTurns
	c.said++
	c.asked = &asked{line: line, cuts: prompt.Cuts}
	sampling := c.persona.Sampling
	sampling.Seed += c.said // the same line again is answered otherwise
	return llm.Request{
		Owner:     c.Owner,
		Prompt:    prompt.Tokens,
		Keep:      prompt.Keep,
		Cuts:      prompt.Cuts,
		MaxTokens: min(c.persona.MaxTokens, budget.Reply),
		Stop:      c.persona.StopStrings(),
		Sampling:  sampling,
	}, prompt, nil
}

// StopStrings are the texts that end a reply: a small model likes to go on with
// the player's next line, or writes its template's markup as plain letters.
// Safe for concurrent use.
func (p Persona) StopStrings() []string {
	return []string{"\nPlayer:", "\nUser:", "\n" + p.Name + ":",
		"<|im_", "<|eot_id|>", "<end_of_turn>", "</s>", "[INST]"}
}

// Sent tells which request the engine made of the last Say. Events of any other
// request are then not this chat's. Without it, Hear goes by Owner alone, which
// mistakes the last words of a reply undone for those of the next.
func (c *Chat) Sent(id llm.RequestID) {
	if c.asked != nil {
		c.asked.request = id
	}
}

// Hear folds an event into the chat and reports whether it was this chat's.
func (c *Chat) Hear(e llm.Event) bool {
	if c.asked == nil || e.Owner != c.Owner {
		return false
	}
	if c.asked.request == 0 {
		c.asked.request = e.Request
	}
	if c.asked.request != e.Request {
		return false
	}
	switch e.Kind {
	case llm.EventText:
		c.asked.text.WriteString(e.Text)
	case llm.EventOverflow:
		c.overflowed(e.Tokens)
	case llm.EventDone, llm.EventCancelled, llm.EventFailed:
		c.conclude(e.Reply)
	}
	return true
}

// overflowed follows the engine: the exchanges that it dropped stay out of the
// next prompt too, so that its cache fits.
func (c *Chat) overflowed(tokens int) {
	cuts := c.asked.cuts
	for k := 1; k < len(cuts) && tokens > 0; k++ {
		if cuts[k]-cuts[0] >= tokens || k == len(cuts)-1 {
			c.first = min(c.first+2*k, len(c.history))
			c.asked.cuts = nil // offsets of a prompt that is no more
			return
		}
	}
}

// conclude ends the reply under way, with the tokens of what was said.
func (c *Chat) conclude(reply []llm.Token) {
	a := c.asked
	c.asked = nil
	text := llm.ValidText(a.text.String())
	if len(reply) > MaxReplyTokens {
		reply = nil
	}
	if len(text) > maxTurnBytes {
		text, reply = strings.ToValidUTF8(text[:maxTurnBytes], ""), nil
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	c.history = append(c.history, llm.Turn{Role: llm.User, Text: a.line},
		llm.Turn{Role: llm.Assistant, Text: text, Tokens: slices.Clone(reply)})
	if over := len(c.history) - maxTurns; over > 0 {
		c.history = slices.Delete(c.history, 0, over)
		c.first = max(0, c.first-over)
	}
}

// Undo takes back the line being answered or else the last exchange, and
// reports whether there was one. The caller cancels a request under way; its
// last events are then not this chat's any more.
func (c *Chat) Undo() bool {
	switch {
	case c.asked != nil:
		c.asked = nil
	case len(c.history) > 0:
		c.history = c.history[:len(c.history)-2]
		c.first = min(c.first, len(c.history))
	default:
		return false
	}
	return true
}

// Clear forgets the conversation, a reply under way included.
func (c *Chat) Clear() { c.history, c.first, c.asked = nil, 0, nil }
