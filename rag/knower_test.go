package rag

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	npcs     = []string{"Mara", "Bo", "Ilse", "Tarn"}
	factions = []string{"guild", "watch"}
	regions  = []string{"Halm", "Orr"}
)

func drawKnower(t *rapid.T) Knower {
	some := func(from []string, name string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, len(from), rapid.ID).Draw(t, name)
	}
	return Knower{NPC: rapid.SampledFrom(npcs).Draw(t, "npc"), Factions: some(factions, "factions"),
		Regions: some(regions, "regions")}
}

func drawMemory(t *rapid.T, text string) Memory {
	m := Memory{Owner: rapid.SampledFrom(npcs).Draw(t, "owner"), Text: text,
		Scope: Scope(rapid.IntRange(0, int(scopes)-1).Draw(t, "scope"))}
	from := map[Scope][]string{Witnessed: npcs, Faction: factions, Region: regions}[m.Scope]
	if from != nil {
		m.Audience = rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, len(from), rapid.ID).Draw(t, "audience")
	}
	return m
}

// allowed is the rule, written again as the game's designer would say it.
func allowed(k Knower, m Memory) bool {
	in := func(list []string, name string) bool { return slices.Contains(list, name) }
	switch {
	case m.Owner == k.NPC, m.Scope == World:
		return true
	case m.Scope == Witnessed:
		return in(m.Audience, k.NPC)
	case m.Scope == Faction:
		return slices.ContainsFunc(k.Factions, func(f string) bool { return in(m.Audience, f) })
	case m.Scope == Region:
		return slices.ContainsFunc(k.Regions, func(f string) bool { return in(m.Audience, f) })
	}
	return false
}

func TestRecallsExactlyWhatItMayKnow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEmbedder()
		cfg := inMemory(e)
		cfg.ChromemMost = rapid.SampledFrom([]int{0, 2, 1000}).Draw(t, "chromem")
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		all := map[ID]Memory{}
		for i := range rapid.IntRange(1, 25).Draw(t, "memories") {
			m := drawMemory(t, fmt.Sprintf("the wolf was seen, report %d", i))
			id, err := s.Remember(m)
			if err != nil {
				t.Fatal(err)
			}
			all[id] = m
			if rapid.Bool().Draw(t, "index") {
				s.Work(time.Hour)
			}
		}
		k := drawKnower(t)
		r, err := s.Recall(t.Context(), Query{Knower: k, Text: "wolf seen", Limit: 100,
			LexicalOnly: rapid.Bool().Draw(t, "lexical only")})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Found {
			if !allowed(k, all[f.ID]) {
				t.Fatalf("%+v recalls %+v", k, f.Memory)
			}
		}
		for id, m := range all {
			_, err := s.Show(k, id)
			if allowed(k, m) != has(r.Found, id) || allowed(k, m) != (err == nil) {
				t.Fatalf("%+v: memory %d %+v: may know %v, recalled %v, shown %v", k, id, m, allowed(k, m),
					has(r.Found, id), err)
			}
		}
	})
}

// What others know changes neither scores nor order of what one knows itself.
func TestOthersMemoriesLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Knower{NPC: "Mara"}
		answers := [2]string{}
		noise := rapid.IntRange(1, 20).Draw(t, "noise")
		for i := range 2 {
			e := newEmbedder()
			s, err := Open(inMemory(e))
			if err != nil {
				t.Fatal(err)
			}
			for n := range 12 {
				if _, err := s.Remember(own(fmt.Sprintf("wolf number %d near the mill", n%7+n))); err != nil {
					t.Fatal(err)
				}
				for j := range i * noise {
					m := Memory{Owner: "Bo", Speaker: "Wolf", Text: fmt.Sprintf("mill wolf mill %d %d", n, j)}
					if _, err := s.Remember(m); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.Work(time.Hour)
			r, err := s.Recall(t.Context(), Query{Knower: k, Text: "wolf at the mill, 7", Limit: 20})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Found {
				answers[i] += fmt.Sprintln(f.Text, f.Score, f.LexicalRank, f.DenseRank)
			}
		}
		if answers[0] != answers[1] {
			t.Fatalf("alone:\n%s\nbeside Bo:\n%s", answers[0], answers[1])
		}
	})
}

// Whoever recalls a conclusion may know what it was drawn from, given that its
// owner did.
func TestConclusionsDoNotTellTheirSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open(inMemory(nil))
		if err != nil {
			t.Fatal(err)
		}
		source := drawMemory(t, "Bo took the money.")
		id, err := s.Remember(source)
		if err != nil {
			t.Fatal(err)
		}
		derived := drawMemory(t, "Bo can't be trusted.")
		derived.Sources = []ID{id}
		k := drawKnower(t)
		if _, err := s.Remember(derived); err == nil && derived.Owner != k.NPC && allowed(k, derived) &&
			!allowed(k, source) {
			t.Fatalf("%+v learns of %+v by %+v", k, source, derived)
		}
	})
}

func TestConclusionsCite(t *testing.T) {
	s := openStore(t, inMemory(nil))
	a := remember(t, s, own("Bo paid with false coins."))
	id, err := s.Remember(Memory{Owner: "Mara", Text: "Bo is a cheat.", Sources: []ID{a}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Show(mara, id); err != nil || !slices.Equal(m.Sources, []ID{a}) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, m := range []Memory{
		{Owner: "Mara", Text: "No source.", Sources: []ID{99}},
		{Owner: "Mara", Scope: World, Text: "All know it.", Sources: []ID{a}},
		{Owner: "Bo", Text: "Not mine.", Sources: []ID{a}},
	} {
		if _, err := s.Remember(m); err == nil {
			t.Errorf("%+v was kept", m)
		}
	}
}
