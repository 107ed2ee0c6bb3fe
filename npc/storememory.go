package npc

import (
	"context"
	"strconv"

	"github.com/lull-npc/lull/rag"
)

// storeMemory is a Memory in a store of package rag.
type storeMemory struct{ store *rag.Store }

// StoreMemory keeps what the characters of a world live through in a store,
// which stays the caller's: the game gives it time to work, saves and closes
// it. A character knows what it heard itself, and nothing of others. Safe for
// concurrent use.
func StoreMemory(s *rag.Store) Memory { return storeMemory{s} }

// Remember implements Memory.
func (m storeMemory) Remember(e Experience) error {
	_, err := m.store.Remember(rag.Memory{Owner: string(e.Agent), Speaker: e.Speaker, Text: e.Text,
		At: rag.GameTime(e.Now)})
	return err
}

// Recall implements Memory.
func (m storeMemory) Recall(q Query) ([]Recalled, error) {
	found, err := m.store.Recall(context.Background(), rag.Query{Knower: rag.Knower{NPC: string(q.Agent)},
		Text: q.Text, Now: rag.GameTime(q.Now), Limit: q.Limit, LexicalOnly: q.Quick})
	if err != nil {
		return nil, err
	}
	out := make([]Recalled, len(found.Found))
	for i, f := range found.Found {
		text := f.Text
		if f.Speaker != "" {
			text = f.Speaker + " said: " + text
		}
		out[i] = Recalled{ID: strconv.FormatUint(uint64(f.ID), 10), Text: text, Score: f.Score}
	}
	return out, nil
}
