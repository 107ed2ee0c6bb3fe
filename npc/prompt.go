package npc

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/lull-npc/lull/runtime/llm"
)

// Budget bounds a prompt, in tokens.
type Budget struct {
	Context int // what the model's sequence holds: prompt and reply together
	Reply   int // of Context, kept free for the reply
	Slack   int // when something must be dropped, how far below the limit to go
}

// DefaultBudget is the budget of a persona on a model. The slack is a quarter
// of what the prompt may take: less drops, and so prefills everything behind
// the head, more often; more forgets more at once. Safe for concurrent use.
func DefaultBudget(info llm.Info, p Persona) Budget {
	return Budget{Context: info.Context, Reply: p.MaxTokens, Slack: max(0, info.Context-p.MaxTokens) / 4}
}

// Part is a stretch of a prompt: one turn with the markup that leads to it.
type Part struct {
	Name   string // "system", "example 1: player", "turn 3: npc", "line"
	Start  int    // offset of its first token
	Tokens int
}

// Prompt is what the model reads. Valid as long as nobody changes it.
type Prompt struct {
	Tokens   []llm.Token
	Keep     int           // tokens at the head that survive an overflow
	Cuts     []int         // where exchanges begin, rising; Cuts[0] == Keep, the last is the player's line
	Parts    []Part        // in order, without gaps
	Segments []llm.Segment // the text, as the template laid it out
	Line     Cleaned       // what was done to the player's line

	// DroppedTurns were left out of the history, oldest first, because the
	// prompt would have been DroppedTokens longer. Tell the game before the
	// request is made.
	DroppedTurns  int
	DroppedTokens int

	// Retokenised counts replies whose tokens could not be used again: they
	// are another model's, or the text was changed.
	Retokenised int
}

// greetingCue is what the player is made to have said before the greeting: the
// templates of some models insist that the player speaks first.
const greetingCue = "Hello!"

// SystemText is the persona as the model is told it. The sentences are short
// and direct, and what matters most comes last, because a model of a few
// hundred million parameters follows that and little else.
// Safe for concurrent use.
func (p Persona) SystemText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are %s, %s\n", p.Name, sentence(p.Description))
	if p.Style != "" {
		fmt.Fprintf(&b, "You speak like this: %s\n", sentence(p.Style))
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, line := range lines {
			fmt.Fprintf(&b, "- %s\n", sentence(line))
		}
	}
	list("What you know:", p.Knowledge)
	list("Rules:", p.Limits)
	if len(p.Emotions) > 0 {
		fmt.Fprintf(&b, "\nBegin with what you feel: [%s].\n", strings.Join(p.Emotions, "] or ["))
	}
	fmt.Fprintf(&b, "\nAnswer as %s, in one or two short sentences.", p.Name)
	return b.String()
}

// sentence ends a text with a full stop if nothing ends it.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?\"") || !isASCII(s[len(s)-1]) {
		return s
	}
	return s + "."
}

func isASCII(b byte) bool { return b < 0x80 }

// BuildPrompt lays out what the model must read to say the next reply. The
// history alternates between llm.User and llm.Assistant and ends with the
// player's line, which is cleaned here. Replies with Tokens that still spell
// their Text are used as those tokens, so that the model's cache of them fits.
//
// When the prompt exceeds Context − Reply, whole exchanges are dropped, oldest
// first, down to Slack below that. The result is a pure function of the
// arguments. Errors wrap ErrPersona, ErrHistory, ErrLine, ErrBudget, or the tokenizer's.
// Safe for concurrent use.
func BuildPrompt(tok llm.Tokenizer, p Persona, history []llm.Turn, budget Budget) (Prompt, error) {
	limit := budget.Context - budget.Reply
	if budget.Reply < 0 || budget.Slack < 0 || limit <= 0 {
		return Prompt{}, fmt.Errorf("%w: context %d, reply %d, slack %d: want a reply below the context",
			ErrBudget, budget.Context, budget.Reply, budget.Slack)
	}
	if err := p.Validate(); err != nil {
		return Prompt{}, err
	}
	clean, line, err := cleanHistory(history)
	if err != nil {
		return Prompt{}, err
	}
	retokenised := dropForeignTokens(tok, clean)
	head := headTurns(p)
	full := 0
	for dropped := 0; ; {
		out, err := layOut(tok, head, clean[dropped:])
		if err != nil {
			return Prompt{}, err
		}
		full = max(full, len(out.Tokens))
		if len(out.Tokens) <= limit {
			out.Line, out.Retokenised = line, retokenised
			out.DroppedTurns, out.DroppedTokens = dropped, full-len(out.Tokens)
			return out, nil
		}
		if len(out.Cuts) == 1 {
			return Prompt{}, fmt.Errorf("%w: %s and the line take %d tokens without any history, at most %d may: "+
				"shorten the persona or raise the context", ErrBudget, p.Name, len(out.Tokens), limit)
		}
		dropped += 2 * exchangesToDrop(out, limit-budget.Slack)
	}
}

// exchangesToDrop is how many of the oldest exchanges must go to bring the
// prompt down to target, if it can be reached; one at least.
func exchangesToDrop(p Prompt, target int) int {
	for k := 1; k < len(p.Cuts); k++ {
		if len(p.Tokens)-(p.Cuts[k]-p.Keep) <= target {
			return k
		}
	}
	return len(p.Cuts) - 1
}

// cleanHistory checks and copies the history.
func cleanHistory(history []llm.Turn) ([]llm.Turn, Cleaned, error) {
	if len(history)%2 == 0 {
		return nil, Cleaned{}, fmt.Errorf("%w: %d turns: want player, npc, … and the player's line last",
			ErrHistory, len(history))
	}
	var line Cleaned
	out := make([]llm.Turn, len(history))
	for i, t := range history {
		want := speaker(i)
		if t.Role != want {
			return nil, line, fmt.Errorf("%w: turn %d is the %s's, want the %s's", ErrHistory, i, t.Role, want)
		}
		if want == llm.Assistant {
			out[i] = llm.Turn{Role: want, Text: withoutControls(llm.ValidText(t.Text)), Tokens: t.Tokens}
			continue
		}
		text, did := CleanLine(t.Text)
		if text == "" {
			return nil, did, fmt.Errorf("%w: turn %d: of %d bytes nothing can be read", ErrLine, i, len(t.Text))
		}
		out[i], line = llm.Turn{Role: want, Text: text}, did
	}
	return out, line, nil
}

// withoutControls drops characters that are no text from a reply: a model may
// say any byte, a save may hold any, and libraries in C stop at the first NUL.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// speaker is who says turn i of a history.
func speaker(i int) llm.Role {
	if i%2 == 0 {
		return llm.User
	}
	return llm.Assistant
}

// dropForeignTokens takes away tokens that do not spell their turn's text, and
// returns how many turns that were.
func dropForeignTokens(tok llm.Tokenizer, turns []llm.Turn) int {
	n := 0
	for i, t := range turns {
		if len(t.Tokens) > 0 && !spells(tok, t.Tokens, t.Text) {
			turns[i].Tokens = nil
			n++
		}
	}
	return n
}

// spells reports whether tokens are plain text and read as text. A control
// token has no piece or ends a reply, so a save game cannot smuggle one in.
// Some vocabularies begin a text with a blank that the reader does not see.
func spells(tok llm.Tokenizer, tokens []llm.Token, text string) bool {
	spelled := make([]byte, 0, len(text)+1)
	for _, t := range tokens {
		before := len(spelled)
		spelled = tok.AppendPiece(spelled, t)
		if len(spelled) == before || tok.IsEnd(t) || before > len(text)+1 {
			return false
		}
	}
	return string(spelled) == text || string(spelled) == " "+text
}

// promptTurn is one turn of a prompt and what it is for.
type promptTurn struct {
	llm.Turn
	name string
}

// headTurns are the turns that always stay.
func headTurns(p Persona) []promptTurn {
	head := []promptTurn{{llm.Turn{Role: llm.System, Text: p.SystemText()}, "system"}}
	add := func(name, player, npc string) {
		head = append(head, promptTurn{llm.Turn{Role: llm.User, Text: player}, name + ": player"},
			promptTurn{llm.Turn{Role: llm.Assistant, Text: npc}, name + ": npc"})
	}
	for i, e := range p.Examples {
		add(fmt.Sprintf("example %d", i+1), e.Player, e.NPC)
	}
	if p.Greeting != "" {
		add("greeting", greetingCue, p.Greeting)
	}
	return head
}

// layOut renders and tokenises the head and a history.
func layOut(tok llm.Tokenizer, head []promptTurn, history []llm.Turn) (Prompt, error) {
	turns := make([]llm.Turn, 0, len(head)+len(history))
	names := make([]string, 0, cap(turns))
	for _, t := range head {
		turns, names = append(turns, t.Turn), append(names, t.name)
	}
	for i, t := range history {
		name := fmt.Sprintf("turn %d: player", i+1)
		switch {
		case i == len(history)-1:
			name = "line"
		case t.Role == llm.Assistant:
			name = fmt.Sprintf("turn %d: npc", i+1)
		}
		turns, names = append(turns, t), append(names, name)
	}
	segments, err := tok.RenderChat(turns, true)
	if err != nil {
		return Prompt{}, fmt.Errorf("npc: chat template: %w", err)
	}
	if err := tokeniseContent(tok, segments); err != nil {
		return Prompt{}, err
	}
	tokens, starts, err := llm.TokenizeChat(tok, segments)
	if err != nil {
		return Prompt{}, fmt.Errorf("npc: %w", err)
	}
	if len(starts) != len(turns) {
		return Prompt{}, fmt.Errorf("npc: the chat template drops %d of %d turns", len(turns)-len(starts), len(turns))
	}
	starts[0] = 0 // what begins a prompt is the head's
	out := Prompt{Tokens: tokens, Segments: segments}
	for i, name := range names {
		end := len(tokens)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		out.Parts = append(out.Parts, Part{name, starts[i], end - starts[i]})
	}
	out.Cuts = everySecond(starts[len(head):])
	out.Keep = out.Cuts[0]
	return out, nil
}

// everySecond keeps the cuts before the player's turns: an exchange goes whole.
func everySecond(starts []int) []int {
	var out []int
	for i := 0; i < len(starts); i += 2 {
		out = append(out, starts[i])
	}
	return out
}

// tokeniseContent turns what is not the template's own text into tokens, none
// of which may be a control token. A reply that still has its tokens keeps them.
func tokeniseContent(tok llm.Tokenizer, segments []llm.Segment) error {
	for i := range segments {
		s := &segments[i]
		if s.Markup || len(s.Tokens) > 0 {
			continue
		}
		tokens, err := tok.Tokenize(nil, s.Text, false)
		if err != nil {
			return fmt.Errorf("npc: turn %d: %w", s.Turn, err)
		}
		if k := slices.IndexFunc(tokens, tok.IsEnd); k >= 0 {
			return fmt.Errorf("%w: token %d in turn %d", ErrControl, tokens[k], s.Turn)
		}
		s.Tokens = tokens
	}
	return nil
}

// Explain shows the prompt for people: what takes how many tokens, and the
// text, with the template's own in «…». Safe for concurrent use.
func (p Prompt) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tokens, keep %d, cuts at %v\n", len(p.Tokens), p.Keep, p.Cuts)
	if p.DroppedTurns > 0 {
		fmt.Fprintf(&b, "dropped %d turns, %d tokens\n", p.DroppedTurns, p.DroppedTokens)
	}
	if p.Retokenised > 0 {
		fmt.Fprintf(&b, "tokenised %d replies anew\n", p.Retokenised)
	}
	if p.Line != (Cleaned{}) {
		fmt.Fprintf(&b, "of the line %d characters removed, %d cut\n", p.Line.Removed, p.Line.Cut)
	}
	for _, part := range p.Parts {
		fmt.Fprintf(&b, "%5d +%-4d %s\n", part.Start, part.Tokens, part.Name)
	}
	b.WriteString("---\n")
	for _, s := range p.Segments {
		if s.Markup {
			fmt.Fprintf(&b, "«%s»", s.Text)
		} else {
			b.WriteString(s.Text)
		}
	}
	b.WriteString("\n")
	return b.String()
}
