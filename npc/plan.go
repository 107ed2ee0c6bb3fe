package npc

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
)

// EntryKind says what an Entry is.
type EntryKind uint8

const (
	EntryHeard EntryKind = iota // somebody else said it
	EntryOwn                    // the character said it
	EntryNote                   // nobody said it: a memory, a fact, what happened
)

func (k EntryKind) String() string { return named("EntryKind", uint8(k), "heard", "own", "note") }

// Entry is one thing that a character heard, said or was told, in order.
type Entry struct {
	Kind    EntryKind   `json:"kind"`
	Speaker string      `json:"speaker,omitempty"` // EntryHeard: a name
	Named   bool        `json:"named,omitempty"`   // EntryHeard: more than one voice is heard: the name is written
	Text    string      `json:"text"`              // EntryOwn: what the model said, emotion tags included
	Key     string      `json:"key,omitempty"`     // EntryNote: what it is about; it is not noted twice
	Tokens  []llm.Token `json:"tokens,omitempty"`  // EntryOwn: as it was generated
}

// noteMemory is the Note.From of memories.
const noteMemory = "memory"

// maxKey bounds the key of a note, in bytes: a longer one is cut, which at worst
// has two memories taken for one.
const maxKey = 2 * MaxValue

// Note is something that a character could be told now.
type Note struct {
	Key   string
	Text  string
	From  string  // where it comes from: "fact", "quest" or "memory"
	Score float64 // of a memory: why it was recalled
}

// PlanBudget bounds the parts of a prompt, in tokens.
type PlanBudget struct {
	Budget
	Head  int // lore, rules, persona, examples; where they exceed it lore is left out, last first
	Notes int // notes new in this turn; further ones are left out
}

// DefaultPlanBudget divides the context of a model: half of it for who the
// character is, an eighth for what comes to its mind, the rest for what was
// said. The reply gets half as much again as the persona allows, so that it can
// end at a sentence. Safe for concurrent use.
func DefaultPlanBudget(info llm.Info, p Persona) PlanBudget {
	reply := p.MaxTokens + p.MaxTokens/2
	room := max(0, info.Context-reply)
	return PlanBudget{Budget: Budget{Context: info.Context, Reply: reply, Slack: room / 4},
		Head: info.Context / 2, Notes: info.Context / 8}
}

// PlanInput is all that a prompt is made of.
type PlanInput struct {
	Persona Persona
	Lore    []string // of the world, the most important first
	Rules   []string // of the world
	Summary string   // of what is not in History any more, or empty
	History []Entry
	Notes   []Note // the most important first
	Budget  PlanBudget
	Go      []llm.Token // a reply that was interrupted and goes on, or nil
}

// Plan is a prompt and why it is as it is.
type Plan struct {
	Prompt  Prompt
	Notes   []Entry // that were taken: they stand in the prompt, and belong into the history now
	Dropped int     // entries of History, oldest first, that no prompt holds any more
	Parts   []PlanPart
	Full    float64 // share of the room for history that is taken, after dropping
}

// PlanPart is what one part of the prompt takes.
type PlanPart struct {
	Name   string
	Tokens int
	Budget int      // 0: what the others leave
	Items  int      // lines, notes, entries
	Left   []string // what was left out
}

// MakePlan lays out what a character must read to speak next. The parts stand
// in the order in which they change, so that a model reads anew only what is
// new: the lore and rules of the world, which all its characters share; the
// persona; what was said, with what came to the character's mind at the time
// beside it; and last what is new. It is a pure function. Errors wrap
// ErrPersona, ErrBudget, ErrHistory, or the tokenizer's. Safe for concurrent use.
func MakePlan(tok llm.Tokenizer, in PlanInput) (Plan, error) {
	b := in.Budget
	limit := b.Context - b.Reply - len(in.Go)
	if b.Reply < 0 || b.Slack < 0 || b.Head < 1 || b.Notes < 0 || limit <= 0 {
		return Plan{}, fmt.Errorf("%w: context %d, reply %d, slack %d, head %d, notes %d: want each in its range",
			ErrBudget, b.Context, b.Reply, b.Slack, b.Head, b.Notes)
	}
	if err := in.Persona.Validate(); err != nil {
		return Plan{}, err
	}
	m := planner{tok: tok, in: in}
	head, err := m.head()
	if err != nil {
		return Plan{}, err
	}
	if err := m.choose(); err != nil {
		return Plan{}, err
	}
	if err := m.fit(head, limit); err != nil {
		return Plan{}, err
	}
	m.plan.Prompt.Tokens = append(m.plan.Prompt.Tokens, in.Go...)
	m.count(head)
	return m.plan, nil
}

// planner makes one plan.
type planner struct {
	tok   llm.Tokenizer
	in    PlanInput
	plan  Plan
	lore  []string // that fits
	left  []string // that does not
	notes PlanPart
}

// head are the turns that always stay, with as much lore as fits.
func (m *planner) head() ([]promptTurn, error) {
	m.lore = m.in.Lore
	for {
		head := headTurns(m.in.Persona)
		head[0].Text = m.world() + head[0].Text
		tokens := 0
		for _, t := range head {
			n, err := m.tokens(t.Text)
			if err != nil {
				return nil, err
			}
			tokens += n
		}
		if tokens <= m.in.Budget.Head || len(m.lore) == 0 {
			return head, nil // a persona is never cut: if it does not fit, fit says so
		}
		last := len(m.lore) - 1
		m.left = append(m.left, m.lore[last])
		m.lore = m.lore[:last]
	}
}

// world is the text that all characters of a world share.
func (m *planner) world() string {
	var b strings.Builder
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		b.WriteString(title + "\n")
		for _, line := range lines {
			b.WriteString("- " + sentence(line) + "\n")
		}
		b.WriteString("\n")
	}
	list("The world:", m.lore)
	list("Rules of the world:", m.in.Rules)
	return b.String()
}

func (m *planner) tokens(text string) (int, error) {
	t, err := m.tok.Tokenize(nil, text, false)
	if err != nil {
		return 0, fmt.Errorf("npc: plan: %w", err)
	}
	return len(t), nil
}

// choose takes the notes that are new and fit.
func (m *planner) choose() error {
	m.notes = PlanPart{Name: "new notes", Budget: m.in.Budget.Notes}
	for _, n := range m.in.Notes {
		text, _ := CleanLine(n.Text)
		if text == "" || m.known(n.Key[:min(len(n.Key), maxKey)], text) || m.fresh(n) {
			continue
		}
		e := Entry{Kind: EntryNote, Text: text, Key: n.Key[:min(len(n.Key), maxKey)]}
		tokens, err := m.tokens(noteText(text) + "\n")
		if err != nil {
			return err
		}
		if m.notes.Tokens+tokens > m.in.Budget.Notes {
			m.notes.Left = append(m.notes.Left, text)
			continue
		}
		m.notes.Tokens += tokens
		m.notes.Items++
		m.plan.Notes = append(m.plan.Notes, e)
	}
	return nil
}

// known reports whether the newest note with a key says the same.
func (m *planner) known(key, text string) bool {
	for _, list := range [][]Entry{m.plan.Notes, m.in.History} {
		for _, e := range slices.Backward(list) {
			if e.Kind == EntryNote && e.Key == key {
				return e.Text == text
			}
		}
	}
	return false
}

// fresh reports whether a memory is of something that still stands in the
// history.
func (m *planner) fresh(n Note) bool {
	return n.From == noteMemory && slices.ContainsFunc(m.in.History, func(e Entry) bool {
		return e.Kind != EntryNote && strings.Contains(n.Text, e.Text)
	})
}

// fit drops the oldest exchanges until the rest is short enough, and of the last
// exchange the oldest lines, since a character may hear many without answering.
func (m *planner) fit(head []promptTurn, limit int) error {
	full := 0
	for dropped := 0; ; {
		turns, first := m.turns(withNotes(m.in.History[dropped:], m.plan.Notes))
		retokenised := dropForeignTokens(m.tok, turns)
		out, err := layOut(m.tok, head, turns)
		if err != nil {
			return err
		}
		full = max(full, len(out.Tokens))
		if len(out.Tokens) <= limit {
			out.Retokenised, out.DroppedTurns, out.DroppedTokens = retokenised, dropped, full-len(out.Tokens)
			m.plan.Prompt, m.plan.Dropped = out, dropped
			m.plan.Full = float64(len(out.Tokens)-out.Keep) / float64(max(1, limit-out.Keep))
			return nil
		}
		if left := len(m.in.History) - dropped; len(out.Cuts) == 1 && left > 1 {
			dropped += max(1, left/4)
			continue
		}
		if len(out.Cuts) == 1 {
			return fmt.Errorf("%w: the rules of the world, %s and what was said last take %d tokens without any "+
				"history, at most %d may: shorten them or raise the context",
				ErrBudget, m.in.Persona.Name, len(out.Tokens), limit)
		}
		dropped += first[exchangesToDrop(out, limit-m.in.Budget.Slack)]
	}
}

// withNotes puts notes before what was heard last, which is what is answered.
func withNotes(history, notes []Entry) []Entry {
	at := len(history)
	for at > 0 && history[at-1].Kind != EntryOwn {
		at--
	}
	return slices.Concat(history[:at], notes, history[at:])
}

// turns joins entries to turns that alternate and begin and end with the
// other side's. first[k] is how many entries stand before exchange k.
func (m *planner) turns(entries []Entry) (turns []llm.Turn, first []int) {
	var lines []string
	if m.in.Summary != "" {
		lines = append(lines, noteText("Before: "+m.in.Summary))
	}
	begin := 0
	flush := func(i int, or string) {
		if len(lines) == 0 {
			lines = append(lines, or)
		}
		turns = append(turns, llm.Turn{Role: llm.User, Text: strings.Join(lines, "\n")})
		first = append(first, begin)
		lines, begin = lines[:0], i
	}
	for i, e := range entries {
		switch e.Kind {
		case EntryOwn:
			flush(i+1, "(You go on.)")
			own := withoutControls(llm.ValidText(e.Text))
			turns = append(turns, llm.Turn{Role: llm.Assistant, Text: own, Tokens: e.Tokens})
		case EntryNote:
			lines = append(lines, noteText(e.Text))
		default:
			lines = append(lines, e.line())
		}
	}
	flush(len(entries), "(You speak first.)")
	return turns, first
}

// line is how others' words are written. Words in brackets would look like the
// game's own notes.
func (e Entry) line() string {
	text, _ := CleanLine(e.Text)
	if e.Named || strings.HasPrefix(text, "(") || strings.HasPrefix(text, "（") {
		return e.Speaker + ": " + text
	}
	return text
}

func noteText(s string) string { return "(" + sentence(s) + ")" }

// count notes what each part takes.
func (m *planner) count(head []promptTurn) {
	p := &m.plan
	shared := m.world()
	sharedTokens := 0
	if n, err := m.tokens(shared); err == nil {
		sharedTokens = n
	}
	history, notes := len(m.in.History)-p.Dropped, m.notes
	p.Parts = []PlanPart{
		{Name: "lore and rules", Tokens: sharedTokens, Items: len(m.lore) + len(m.in.Rules), Left: m.left},
		{Name: "persona", Tokens: p.Prompt.Keep - sharedTokens, Budget: m.in.Budget.Head - sharedTokens,
			Items: len(head)},
		{Name: "history", Tokens: len(p.Prompt.Tokens) - p.Prompt.Keep - notes.Tokens - len(m.in.Go), Items: history},
		notes,
		{Name: "reply", Tokens: m.in.Budget.Reply, Budget: m.in.Budget.Reply},
	}
	if len(m.in.Go) > 0 {
		p.Parts = append(p.Parts, PlanPart{Name: "said before the interruption", Tokens: len(m.in.Go), Items: 1})
	}
	for _, e := range m.in.History[:p.Dropped] {
		p.Parts[2].Left = append(p.Parts[2].Left, e.line())
	}
}

// Explain shows the plan for people. Safe for concurrent use.
func (p Plan) Explain() string {
	var b strings.Builder
	for _, part := range p.Parts {
		fmt.Fprintf(&b, "%6d tokens  %-16s %d items", part.Tokens, part.Name, part.Items)
		if part.Budget > 0 {
			fmt.Fprintf(&b, ", of %d tokens", part.Budget)
		}
		b.WriteString("\n")
		for _, left := range part.Left {
			fmt.Fprintf(&b, "               left out: %s\n", cutText(left, 70))
		}
	}
	b.WriteString(p.Prompt.Explain())
	return b.String()
}

// cutText is a text for a line of a table.
func cutText(s string, runes int) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}
