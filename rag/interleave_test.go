package rag

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func rand64(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }

// interleave plays a dozen random steps of a game on one store, and after each
// checks that everything remembered so far is recalled by a word of its own.
func interleave(t *testing.T, r *rand.Rand) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.ChromemMost = []int{0, 3, 1000}[r.IntN(3)]
	cfg.Backlog = []int{1, 4, 4096}[r.IntN(3)]
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	trace := ""
	type kept struct {
		id   ID
		word string
		by   string
	}
	var all []kept
	for i := range 12 {
		switch step := r.IntN(6); step {
		case 0, 1, 2:
			k := kept{word: fmt.Sprintf("w%dx%d", i, r.IntN(1000)), by: npcs[r.IntN(len(npcs))]}
			id, err := s.Remember(Memory{Owner: k.by, Text: "the " + k.word + " of the story"})
			if err != nil {
				t.Fatal(err)
			}
			k.id = id
			all = append(all, k)
			trace += fmt.Sprintf("%s remembers %s; ", k.by, k.word)
		case 3:
			budget := time.Duration(r.IntN(80)) * time.Millisecond
			s.Work(budget)
			trace += fmt.Sprintf("work %v; ", budget)
		case 4:
			if err := s.Reindex(r.IntN(4) == 0); err != nil {
				t.Fatal(err)
			}
			trace += "reindex; "
		case 5:
			if _, err := s.Recall(t.Context(), Query{Knower: mara, Text: "story", Now: GameTime(i)}); err != nil {
				t.Fatal(err)
			}
			trace += "recall; "
		}
		if len(all) == 0 {
			continue
		}
		k := all[r.IntN(len(all))]
		got, err := s.Recall(t.Context(), Query{Knower: Knower{NPC: k.by}, Text: k.word, Limit: 1, ReadOnly: true,
			LexicalOnly: r.IntN(2) == 0})
		if err != nil || len(got.Found) != 1 || got.Found[0].ID != k.id {
			t.Fatalf("%s\n%s asks for %s: %+v, %v", trace, k.by, k.word, got, err)
		}
	}
}
