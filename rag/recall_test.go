package rag

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

var mara = Knower{NPC: "Mara"}

func TestNewestLineIsFoundAtOnce(t *testing.T) {
	s := openStore(t, inMemory(nil))
	id := remember(t, s, own("The bridge at Halm is broken."))
	remember(t, s, own("Apples are cheap this year."))
	found := recall(t, s, Query{Knower: mara, Text: "What about the bridge?"})
	if len(found) != 1 || found[0].ID != id || found[0].LexicalRank != 1 || found[0].DenseRank != 0 {
		t.Errorf("found %+v", found)
	}
}

func TestMemoryWithoutVectorIsFoundBesideOthers(t *testing.T) {
	e := newEmbedder()
	s := openStore(t, inMemory(e))
	old := remember(t, s, own("The smith forges a sword for the baron."))
	s.Work(time.Hour)
	fresh := remember(t, s, own("A sword was stolen last night."))
	found := recall(t, s, Query{Knower: mara, Text: "Tell me of the sword."})
	if !has(found, old) || !has(found, fresh) || found[0].DenseRank == 0 && found[1].DenseRank == 0 {
		t.Errorf("found %+v", found)
	}
}

func TestSameWordsReinforce(t *testing.T) {
	s := openStore(t, inMemory(nil))
	first := remember(t, s, Memory{Owner: "Mara", Text: "The king is dead.", Importance: 4, At: time.Hour})
	again := remember(t, s, Memory{Owner: "Mara", Text: "The king is dead.", Importance: 9, At: 3 * time.Hour})
	other := remember(t, s, Memory{Owner: "Bo", Text: "The king is dead."})
	spoken := remember(t, s, Memory{Owner: "Mara", Speaker: "Bo", Text: "The king is dead."})
	m, err := s.Show(mara, first)
	if err != nil || first != again || other == first || spoken == first || m.Reinforced != 1 || m.Importance != 9 ||
		m.LastUse != 3*time.Hour || m.At != time.Hour {
		t.Errorf("ids %d %d %d %d: %+v, %v", first, again, other, spoken, m, err)
	}
}

func TestSupersededIsKeptAndNotRecalled(t *testing.T) {
	s := openStore(t, inMemory(nil))
	open := remember(t, s, Memory{Owner: "Mara", Text: "The gate is open.", At: time.Hour})
	shut, err := s.Supersede(open, Memory{Owner: "Mara", Text: "The gate is shut.", At: 5 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(now GameTime, past bool) string {
		return texts(recall(t, s, Query{Knower: mara, Text: "the gate?", Now: now, Past: past, ReadOnly: true}))
	}
	for _, c := range []struct {
		now  GameTime
		past bool
		want string
	}{
		{2 * time.Hour, false, "The gate is open."},
		{6 * time.Hour, false, "The gate is shut."},
		{6 * time.Hour, true, "The gate is shut.\nThe gate is open."},
	} {
		if got := ask(c.now, c.past); got != c.want {
			t.Errorf("at %v, past %v: %q, want %q", c.now, c.past, got, c.want)
		}
	}
	m, err := s.Show(mara, open)
	if err != nil || !m.Superseded || m.Until != 5*time.Hour || m.SupersededBy != shut ||
		m.Text != "The gate is open." {
		t.Errorf("%+v, %v", m, err)
	}
	// What was true once may become true again: that is a new memory.
	if again := remember(t, s, Memory{Owner: "Mara", Text: "The gate is open.", At: 9 * time.Hour}); again == open {
		t.Error("a superseded memory was reinforced")
	}
	if _, err := s.Supersede(shut, Memory{Owner: "Mara", Text: "The gate is shut."}); !errors.Is(err, ErrMemory) {
		t.Errorf("superseded by itself: %v", err)
	}
	if _, err := s.Supersede(999, own("x")); !errors.Is(err, ErrUnknown) {
		t.Errorf("superseding nothing: %v", err)
	}
}

// The most recently used has the highest recency, by hours and not by rank.
func TestRecencyFollowsLastUse(t *testing.T) {
	s := openStore(t, inMemory(nil))
	old := remember(t, s, Memory{Owner: "Mara", Text: "wolves in the north wood"})
	young := remember(t, s, Memory{Owner: "Mara", Text: "wolves in the south wood", At: 100 * time.Hour})
	q := Query{Knower: mara, Text: "wolves wood", Now: 200 * time.Hour, ReadOnly: true}
	recency := func() map[ID]float64 {
		out := map[ID]float64{}
		for _, f := range recall(t, s, q) {
			out[f.ID] = f.Recency
		}
		return out
	}
	before := recency()
	if math.Abs(before[old]-math.Pow(0.995, 200)) > 1e-12 || math.Abs(before[young]-math.Pow(0.995, 100)) > 1e-12 {
		t.Errorf("recency %v", before)
	}
	found := recall(t, s, Query{Knower: mara, Text: "north", Now: 200 * time.Hour})
	if len(found) != 1 || found[0].ID != old {
		t.Fatalf("found %+v", found)
	}
	if after := recency(); after[old] != 1 || after[young] != before[young] {
		t.Errorf("after use %v", after)
	}
}

func TestReadOnlyRecallChangesNothing(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	s := openStore(t, cfg)
	for i := range 30 {
		remember(t, s, Memory{Owner: "Mara", Text: fmt.Sprintf("the tavern on day %d", i), At: GameTime(i) * time.Hour})
	}
	s.Work(time.Hour)
	var before, after strings.Builder
	if _, err := s.Export(&before); err != nil {
		t.Fatal(err)
	}
	position := s.Stats().Position
	q := Query{Knower: mara, Text: "tavern", Now: 90 * time.Hour, ReadOnly: true}
	first := fmt.Sprint(recall(t, s, q))
	for range 3 {
		if again := fmt.Sprint(recall(t, s, q)); again != first {
			t.Fatalf("the same question was answered differently:\n%s\n%s", first, again)
		}
	}
	if _, err := s.Export(&after); err != nil || before.String() != after.String() || s.Stats().Position != position {
		t.Errorf("a read-only recall changed the store: %v", err)
	}
}

// All scores equal: no division by their spread, and the older one first.
func TestTiesHaveAnOrderAndNoNaN(t *testing.T) {
	s := openStore(t, inMemory(nil))
	for _, name := range []string{"a", "b", "c", "d"} {
		remember(t, s, Memory{Owner: "Mara", Speaker: name, Text: "Hello there, traveller.", Importance: 1})
	}
	found := recall(t, s, Query{Knower: mara, Text: "traveller"})
	for i, f := range found {
		if f.Score != f.Score || f.Score < 0 || f.Score > 1 || f.ID != ID(i+1) {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if len(found) != 4 {
		t.Errorf("found %d, want 4", len(found))
	}
}

func TestBlankIsNoMemory(t *testing.T) {
	s := openStore(t, inMemory(nil))
	for _, m := range []Memory{own(""), own(" \n\t"), {Text: "no owner"}, {Owner: "Mara", Text: "x", Importance: 11},
		{Owner: "Mara", Text: "x", Scope: Witnessed}, {Owner: "Mara", Text: "x", Audience: []string{"Bo"}},
		{Owner: "Mara", Text: strings.Repeat("x", MaxText+1)}, {Owner: strings.Repeat("x", MaxName+1), Text: "x"},
		{Owner: "Mara", Text: "x", Scope: 77}, {Owner: "Mara", Text: "x", Sources: make([]ID, MaxSources+1)}} {
		if _, err := s.Remember(m); !errors.Is(err, ErrMemory) {
			t.Errorf("%.60v: %v", m, err)
		}
	}
	if n := s.Stats().Memories; n != 0 {
		t.Errorf("%d memories were kept", n)
	}
}

func TestAnyTextIsKeptAndFound(t *testing.T) {
	e := newEmbedder()
	s := openStore(t, inMemory(e))
	for _, c := range []struct{ text, query string }{
		{"Der Müller aus Grünau schuldet mir zwölf Gulden.", "müller"},
		{"昨日の夜、狼が村に来た。", "狼が村"},
		{"王国的国王已经去世了", "国王"},
		{"ראיתי זאב ליד הנהר", "זאב"},
		{"رأيت ذئبا قرب النهر", "النهر"},
		{"🐺🐺 at the 👩‍👩‍👧 house", "house"},
		{"broken \xff\xfe bytes here", "bytes"},
		{strings.Repeat("long story ", 9000) + "zweihander", "zweihander"},
		{"มีหมาป่าในหมู่บ้าน", "หมาป่า"},
	} {
		id := remember(t, s, own(c.text))
		if found := recall(t, s, Query{Knower: mara, Text: c.query}); !has(found, id) {
			t.Errorf("%.40q is not found by %q", c.text, c.query)
		}
		d := s.Work(time.Hour)
		found := recall(t, s, Query{Knower: mara, Text: c.query})
		if d.Err != nil || d.Indexed != 1 || !has(found, id) {
			t.Errorf("%.40q is not found by %q once indexed: %+v", c.text, c.query, d)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	s := openStore(t, inMemory(newEmbedder()))
	remember(t, s, own("something"))
	for _, q := range []Query{{Knower: mara, Limit: -1}, {Knower: mara, Limit: maxDepth + 1},
		{Knower: mara, Text: strings.Repeat("x", MaxText+1)}} {
		if _, err := s.Recall(t.Context(), q); !errors.Is(err, ErrQuery) {
			t.Errorf("limit %d: %v", q.Limit, err)
		}
	}
	r, err := s.Recall(t.Context(), Query{Knower: mara, Text: "\xff"})
	if err != nil || len(r.Found) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNamesBecomeTheFirstPerson(t *testing.T) {
	names := map[string]struct{}{"Caroline": {}, "Old Tom": {}, "Tom": {}, "Bo": {}}
	for _, c := range []struct{ question, text, named string }{
		{"When did Caroline paint?", "When did I paint?", "Caroline"},
		{"What is Caroline's job?", "What is my job?", "Caroline"},
		{"what did old tom see?", "what did I see?", "Old Tom"},
		{"Old Tom's dog and Tom’s cat", "my dog and my cat", "Old Tom Tom"},
		{"A bottle in the boat", "A bottle in the boat", ""},
		{"Bo, BO and bo!", "I, I and I!", "Bo"},
		{"", "", ""},
	} {
		text, named := asSpeaker(c.question, names)
		got := ""
		for _, n := range []string{"Caroline", "Old Tom", "Tom", "Bo"} {
			if named[n] {
				got += " " + n
			}
		}
		if text != c.text || strings.TrimSpace(got) != c.named {
			t.Errorf("%q: %q (%s), want %q (%s)", c.question, text, got, c.text, c.named)
		}
	}
}

// A reply is found by the words of the line before it.
func TestAnswerIsFoundByItsQuestion(t *testing.T) {
	s := openStore(t, inMemory(nil))
	ask := Memory{Owner: "Mara", Scene: "talk 1", Speaker: "player", Text: "Where did you grow up?"}
	remember(t, s, ask)
	answer := remember(t, s, Memory{Owner: "Mara", Scene: "talk 1", Speaker: "Mara", Text: "In Halm, by the sea."})
	later := remember(t, s, Memory{Owner: "Mara", Scene: "talk 2", Speaker: "player", Text: "Good evening!"})
	found := recall(t, s, Query{Knower: mara, Text: "grow up"})
	if !has(found, answer) || has(found, later) {
		t.Errorf("found:\n%s", texts(found))
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"Clock": func(c *Config) { c.Clock = nil }, "Weights": func(c *Config) { c.Weights.Recency = math.NaN() },
		"Decay": func(c *Config) { c.Decay = 0 }, "FusionK": func(c *Config) { c.FusionK = -1 },
		"Depth": func(c *Config) { c.Depth = 0 }, "K1": func(c *Config) { c.B = 2 },
		"SpeakerBonus": func(c *Config) { c.SpeakerBonus = math.NaN() },
		"EmbedWithin":  func(c *Config) { c.EmbedWithin = 0 }, "EmbedBytes": func(c *Config) { c.EmbedBytes = 1 },
		"Backlog": func(c *Config) { c.Backlog = 0 }, "ChromemMost": func(c *Config) { c.ChromemMost = -1 },
		"Sync":      func(c *Config) { c.Sync = 9 },
		"dimension": func(c *Config) { c.Embedder = &wordEmbedder{identity: Identity{"m", "", 0}} },
	} {
		cfg := DefaultConfig("")
		spoil(&cfg)
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The worked example of the package's documentation.
func TestWorkedExample(t *testing.T) {
	cfg := DefaultConfig("")
	s := newState(&cfg)
	it := func(id ID, hour, importance int, vectors []vector) *item {
		return &item{m: Memory{ID: id, Importance: importance, LastUse: GameTime(hour) * time.Hour}, vectors: vectors}
	}
	some := []vector{{}}
	forged, stole, thief := it(1, 0, 3, some), it(2, 71, 8, nil), it(3, 24, 5, some)
	found := s.fuse([]ranked{{stole, 9}, {forged, 7}}, []ranked{{thief, 0.8}, {forged, 0.7}}, 72*time.Hour)
	got := ""
	for _, f := range found {
		got += fmt.Sprintf("%d %d %d %.3f %.3f %.3f %.3f\n", f.ID, f.LexicalRank, f.DenseRank, f.Relevance, f.Recency,
			f.Importance, f.Score)
	}
	const want = "2 1 0 1.000 0.995 0.778 0.981\n1 2 2 0.917 0.697 0.222 0.840\n3 0 1 0.500 0.786 0.444 0.519\n"
	if got != want {
		t.Errorf("\n%swant\n%s", got, want)
	}
}
