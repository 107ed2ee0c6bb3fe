package npc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// SaveVersion is the format that Save writes and Load reads.
	SaveVersion = 1

	// maxSaveBytes bounds a save before it is parsed. The longest that Save
	// writes: maxTurns turns of maxTurnBytes, each byte escaped as six, with
	// their tokens as numbers of ten digits: 54 MB. A usual one has 200 KB.
	maxSaveBytes = 64 << 20
)

// save is a saved chat. Keys may be added with a new version, never renamed.
type save struct {
	Lull    int                      `json:"lull"`
	Persona string                   `json:"persona"`
	Said    uint32                   `json:"said"`
	First   int                      `json:"first"`
	Turns   list[saveTurn, turnRule] `json:"turns"`
}

type saveTurn struct {
	Role   llm.Role    `json:"role"`
	Text   string      `json:"text"`
	Tokens []llm.Token `json:"tokens,omitempty"`
}

// Save returns the finished exchanges as JSON. A reply under way is not in it.
func (c *Chat) Save() ([]byte, error) {
	s := save{Lull: SaveVersion, Persona: c.persona.Name, Said: c.said, First: c.first,
		Turns: list[saveTurn, turnRule]{}}
	for _, t := range c.history {
		s.Turns = append(s.Turns, saveTurn(t))
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	return data, nil
}

// Load replaces the conversation by a saved one of the same persona, and drops
// a reply under way. Tokens of another model do no harm: a prompt uses them
// only where they spell the text. On error, which wraps ErrSave, nothing has
// changed.
func (c *Chat) Load(data []byte) error {
	var s save
	if err := readSave(data, maxSaveBytes, &s); err != nil {
		return err
	}
	switch {
	case s.Lull != SaveVersion:
		return fmt.Errorf("%w: format %d, want %d", ErrSave, s.Lull, SaveVersion)
	case s.Persona != c.persona.Name:
		return fmt.Errorf("%w: it is of %q, this chat is with %q", ErrSave, s.Persona, c.persona.Name)
	case len(s.Turns)%2 != 0:
		return fmt.Errorf("%w: %d turns, want an even number up to %d", ErrSave, len(s.Turns), maxTurns)
	case s.First < 0 || s.First > len(s.Turns) || s.First%2 != 0:
		return fmt.Errorf("%w: first %d, want an even number up to %d", ErrSave, s.First, len(s.Turns))
	}
	history := make([]llm.Turn, len(s.Turns))
	for i, t := range s.Turns {
		history[i] = llm.Turn(t)
	}
	c.history, c.first, c.said, c.asked = history, s.First, s.Said, nil
	return nil
}

// readSave reads JSON of most bytes at most into a save: known fields, and nothing
// after it. The error wraps ErrSave.
func readSave(data []byte, most int, into any) error {
	if len(data) > most {
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrSave, len(data), most)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: byte %d: %w", ErrSave, d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: byte %d: something follows the save", ErrSave, d.InputOffset())
	}
	return nil
}

func (t saveTurn) check(want llm.Role) error {
	switch {
	case t.Role != want:
		return fmt.Errorf("role %q, want %q", t.Role, want)
	case len(t.Text) > maxTurnBytes || len(t.Tokens) > MaxReplyTokens:
		return fmt.Errorf("%d bytes, %d tokens: want at most %d and %d",
			len(t.Text), len(t.Tokens), maxTurnBytes, MaxReplyTokens)
	case strings.TrimSpace(t.Text) == "" || !utf8.ValidString(t.Text):
		return fmt.Errorf("no text")
	}
	if want == llm.User {
		if line, _ := CleanLine(t.Text); line != t.Text || len(t.Tokens) > 0 {
			return fmt.Errorf("the text is no line as Save writes it")
		}
	}
	for _, token := range t.Tokens {
		if token < 0 || token > math.MaxInt32-1 {
			return fmt.Errorf("token %d, want one from 0", token)
		}
	}
	return nil
}
