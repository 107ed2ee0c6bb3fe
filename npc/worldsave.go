package npc

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
)

// WorldSaveVersion is the format that World.Save writes and Load reads.
const WorldSaveVersion = 1

// maxWorldSave bounds a save before it is parsed. A character that talked for
// an hour takes some 100 KB.
const maxWorldSave = 256 << 20

// worldSave is a saved world. Keys may be added with a new version, never
// renamed.
type worldSave struct {
	Lull   int                        `json:"lull_world"`
	Facts  list[Fact, factRule]       `json:"facts,omitempty"`
	Agents list[saveAgent, agentRule] `json:"agents"`
}

type saveAgent struct {
	ID      AgentID                `json:"id"`
	Persona string                 `json:"persona"`
	Said    uint32                 `json:"said"`
	Summary string                 `json:"summary,omitempty"`
	Entries list[Entry, entryRule] `json:"entries,omitempty"`
	Facts   list[Fact, factRule]   `json:"facts,omitempty"`
	Quests  list[Quest, questRule] `json:"quests,omitempty"`
}

// Save returns what the characters lived through, as JSON: histories,
// summaries, facts and quests. A reply under way is not in it, and neither are
// personas, offers and memories. Characters that were loaded and not added yet
// are.
func (w *World) Save() ([]byte, error) {
	s := worldSave{Lull: WorldSaveVersion, Facts: w.facts, Agents: []saveAgent{}}
	for _, id := range slices.Sorted(maps.Keys(w.agents)) {
		a := w.agents[id]
		if len(a.entries) == 0 && len(a.facts) == 0 && len(a.quests) == 0 && a.summary == "" {
			continue
		}
		s.Agents = append(s.Agents, saveAgent{a.id, a.persona.Name, a.said, a.summary, a.entries, a.facts, a.quests})
	}
	for _, id := range slices.Sorted(maps.Keys(w.saved)) {
		s.Agents = append(s.Agents, w.saved[id])
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	return data, nil
}

// Load replaces what the characters lived through by what is saved. Turns under
// way are abandoned and actions that wait are forgotten: they belong to another
// past. Who is not in the world yet gets its past when it is added. A past belongs
// to the id, so it outlives another name in the persona. Tokens of
// another model do no harm. On error, which wraps ErrSave, nothing has changed.
func (w *World) Load(data []byte) error {
	if w.closed {
		return errWorldClosed
	}
	var s worldSave
	if err := readSave(data, maxWorldSave, &s); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	for _, list := range [][]*turn{slices.Clone(w.waiting), slices.Clone(w.active)} {
		for _, t := range list {
			t.lost = true
			w.abandon(t, "another past was loaded")
		}
	}
	w.pending, w.crowded, w.facts = nil, nil, s.Facts
	w.saved, w.barks.said = map[AgentID]saveAgent{}, map[string]int64{}
	for _, a := range w.agents {
		a.restore(saveAgent{})
	}
	for _, old := range s.Agents {
		if a := w.agents[old.ID]; a != nil {
			a.restore(old)
		} else {
			w.saved[old.ID] = old
		}
	}
	return nil
}

func (a *agent) restore(s saveAgent) {
	a.said, a.summary, a.entries, a.facts, a.quests = s.Said, s.Summary, s.Entries, s.Facts, s.Quests
	a.broken, a.records = nil, nil
}

func (s *worldSave) check() error {
	if s.Lull != WorldSaveVersion {
		return fmt.Errorf("format %d, want %d", s.Lull, WorldSaveVersion)
	}
	seen := map[AgentID]bool{}
	for _, a := range s.Agents {
		if seen[a.ID] {
			return fmt.Errorf("%s comes twice", a.ID)
		}
		seen[a.ID] = true
	}
	return nil
}

func (a saveAgent) check() error {
	if clean, _ := CleanLine(a.Summary); clean != a.Summary {
		return fmt.Errorf("%.60s: the summary is none that Save writes", a.ID)
	}
	return nil
}

func (e Entry) check() error {
	switch {
	case e.Kind > EntryNote:
		return fmt.Errorf("unknown kind %d", e.Kind)
	case len(e.Text) > maxTurnBytes || len(e.Tokens) > 2*MaxReplyTokens:
		return fmt.Errorf("%d bytes, %d tokens: want at most %d and %d",
			len(e.Text), len(e.Tokens), maxTurnBytes, 2*MaxReplyTokens)
	case strings.TrimSpace(e.Text) == "" || !utf8.ValidString(e.Text):
		return fmt.Errorf("no text")
	case len(e.Key) > maxKey:
		return fmt.Errorf("a key of %d bytes", len(e.Key))
	}
	if name, _ := CleanLine(e.Speaker); name != e.Speaker || utf8.RuneCountInString(name) > MaxName {
		return fmt.Errorf("speaker %.60q is no name", e.Speaker)
	}
	if slices.ContainsFunc(e.Tokens, func(t llm.Token) bool { return t < 0 }) {
		return fmt.Errorf("a negative token")
	}
	return nil
}
