package speculative

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
)

func learnText(t *Table, text []llm.Token, s Source) {
	for i := 1; i < len(text); i++ {
		t.Learn(text[:i], text[i], s)
	}
}

func bytesOf(s string) []llm.Token {
	out := make([]llm.Token, len(s))
	for i := range s {
		out[i] = llm.Token(s[i])
	}
	return out
}

// TestTableCopies: what was seen once is continued to its end.
func TestTableCopies(t *testing.T) {
	list := bytesOf("3 healing potions, 2 torches, 1 rope; ")
	tab := NewTable(0)
	learnText(tab, list, FromPrompt)
	at := slices.Clone(list[:6])
	for len(at) < len(list) {
		c, ok := tab.Best(at)
		if !ok || c.Source != FromPrompt {
			t.Fatalf("after %d tokens: %+v, %v", len(at), c, ok)
		}
		at = append(at, c.Token)
	}
	if !slices.Equal(at, list) {
		t.Errorf("copied %v, want %v", at, list)
	}
}

// TestTableTrust says who wins where two sources disagree.
func TestTableTrust(t *testing.T) {
	const a, b, x, y = 1, 2, 10, 11
	short, long := []llm.Token{b}, []llm.Token{a, b}
	for _, c := range []struct {
		name  string
		learn func(*Table)
		want  Candidate
	}{
		{"reply over prompt", func(tab *Table) {
			tab.Learn(short, x, FromPrompt)
			tab.Learn(short, y, FromReply)
			tab.Learn(short, x, FromRejected)
		}, Candidate{y, FromReply, 1, 4}},
		{"prompt over a rejected draft", func(tab *Table) {
			tab.Learn(short, x, FromPrompt)
			tab.Learn(short, y, FromRejected)
		}, Candidate{x, FromPrompt, 1, 2}},
		{"longer over more often", func(tab *Table) {
			tab.Learn(long, x, FromReply)
			for range 100 {
				tab.Learn(short, y, FromReply)
			}
		}, Candidate{x, FromReply, 2, 4}},
		{"the newer of equals", func(tab *Table) {
			tab.Learn(short, x, FromReply)
			tab.Learn(short, y, FromReply)
		}, Candidate{y, FromReply, 1, 4}},
		{"seen by a more trusted source later", func(tab *Table) {
			tab.Learn(short, x, FromRejected)
			tab.Learn(short, x, FromReply)
			tab.Learn(short, x, FromPrompt)
		}, Candidate{x, FromReply, 1, 7}},
	} {
		tab := NewTable(64)
		c.learn(tab)
		if got, ok := tab.Best(long); !ok || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, ok, c.want)
		}
	}
}

// TestTableRemovesFailing: three failures in a row remove a pattern seen once,
// at every length, and a pattern that came true again needs them anew.
func TestTableRemovesFailing(t *testing.T) {
	context := []llm.Token{1, 2, 3, 4}
	tab := NewTable(64)
	tab.Learn(context, 9, FromReply)
	for range 2 {
		tab.Weaken(context, 9)
	}
	tab.Learn(context, 9, FromReply)
	tab.Weaken(context, 8) // another token: no effect
	for i := range 3 {
		if _, ok := tab.Best(context); !ok {
			t.Fatalf("gone after %d failures", i)
		}
		tab.Weaken(context, 9)
	}
	if c, ok := tab.Best(context); ok || tab.Len() != 0 {
		t.Errorf("after three failures: %+v, %d patterns", c, tab.Len())
	}
}

func TestTableIgnoresModelAndEmpty(t *testing.T) {
	tab := NewTable(8)
	tab.Learn([]llm.Token{1}, 2, FromModel)
	tab.Learn(nil, 2, FromReply)
	tab.Weaken(nil, 2)
	if _, ok := tab.Best(nil); ok || tab.Len() != 0 {
		t.Errorf("%d patterns, want none", tab.Len())
	}
}

// TestTableProperties draws texts and tables of any size: a candidate was seen
// after its context, no longer context was seen, and the size never grows.
func TestTableProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := NewTable(rapid.IntRange(1, 256).Draw(t, "patterns"))
		size := len(tab.patterns)
		text := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 5), asToken), 2, 300).Draw(t, "text")
		for i := 1; i < len(text); i++ {
			if c, ok := tab.Best(text[:i]); ok && !follows(text[:i], c) {
				t.Fatalf("%+v never followed the last %d of %v", c, c.Length, text[:i])
			}
			s := Source(rapid.IntRange(0, int(FromRejected)).Draw(t, "source"))
			tab.Learn(text[:i], text[i], s)
			if c, ok := tab.Best(text[:i]); !ok || c.Weight < 1 || c.Weight > maxWeight {
				t.Fatalf("just learned and %+v, %v", c, ok)
			}
		}
		if tab.Len() > size || len(tab.patterns) != size {
			t.Fatalf("%d of %d patterns", tab.Len(), size)
		}
		tab.Reset()
		if tab.Len() != 0 {
			t.Fatalf("%d patterns after Reset", tab.Len())
		}
	})
}

func asToken(i int) llm.Token { return llm.Token(i) }

func follows(text []llm.Token, c Candidate) bool {
	tail := text[len(text)-c.Length:]
	for i := c.Length; i < len(text); i++ {
		if text[i] == c.Token && slices.Equal(text[i-c.Length:i], tail) {
			return true
		}
	}
	return false
}

func TestTableAllocatesNothing(t *testing.T) {
	tab := NewTable(256)
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]llm.Token, 64)
	if n := testing.AllocsPerRun(500, func() {
		for i := range text {
			text[i] = llm.Token(random.IntN(9))
		}
		tab.Learn(text, llm.Token(random.IntN(9)), FromReply)
		if c, ok := tab.Best(text); ok {
			tab.Weaken(text, c.Token)
		}
	}); n != 0 {
		t.Errorf("%v allocations a token, want none", n)
	}
}

// FuzzTable: any bytes as commands leave the table consistent.
func FuzzTable(f *testing.F) {
	f.Add([]byte("abcabcabc"), uint16(16))
	f.Add([]byte{0, 1, 2, 255, 254, 0, 0, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, size uint16) {
		tab := NewTable(int(size))
		tab.count = ^uint32(3) // wraps around soon
		text := make([]llm.Token, 0, len(data))
		for _, b := range data {
			token := llm.Token(int32(b)*0x01010101) ^ llm.Token(b%3)
			switch b % 4 {
			case 0:
				if c, ok := tab.Best(text); ok {
					if c.Length < 1 || c.Length > longest || c.Weight < 1 || c.Weight > maxWeight {
						t.Fatalf("%+v", c)
					}
					tab.Weaken(text, c.Token)
				}
			default:
				tab.Learn(text, token, Source(b%5))
			}
			text = append(text, token)
		}
		for i, p := range tab.patterns {
			if p.weight > maxWeight || (p.weight == 0) != (p == pattern{}) || p.source >= FromModel {
				t.Fatalf("pattern %d: %+v", i, p)
			}
		}
	})
}
