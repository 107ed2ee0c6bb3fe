package gbnf_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

func parse(t fataler, text string) *gbnf.Grammar {
	t.Helper()
	g, err := gbnf.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return g
}

func TestMatch(t *testing.T) {
	cases := []struct{ grammar, yes, no string }{
		{`root ::= "a" "b"`, "ab", "a,b,abc,"},
		{`root ::= "a" | "b" | ""`, "a,b,", "ab"},
		{"root ::= \"a\" |\n  \"b\" # end\n", "a,b", "c"},
		{`root ::= [a-c0-9_]+`, "a,c9_", ",d"},
		{`root ::= [^a-c"]*`, ",xyz,é日", "a,xb"},
		{`root ::= .`, "a,日,😀", ",ab"},
		{`root ::= [0-9]{2,3}`, "12,123", "1,1234"},
		{`root ::= [0-9]{2}`, "12", "1,123"},
		{`root ::= [0-9]{2,}`, "12,12345", "1"},
		{`root ::= ("ab"|"c")? "d"`, "d,abd,cd", "ad"},
		{"root ::= list\nlist ::= \"x\" (\",\" list)?", "x", "y"},
		{`root ::= "\"" "\\" "\n" "\x41" "\u00e9" "\U0001F600" [\]\[]`, "\"\\\nAé😀],\"\\\nAé😀[", "x"},
		{"root ::= \"(\" root \")\" | \"x\"", "x,((x))", "(x,x)"},
		{`root ::= [a-]`, "a,-", "b"},
	}
	for _, c := range cases {
		g := parse(t, c.grammar)
		for _, s := range strings.Split(c.yes, ",") {
			if !g.Match(s) {
				t.Errorf("%s: %q is refused", c.grammar, s)
			}
		}
		for _, s := range strings.Split(c.no, ",") {
			if g.Match(s) {
				t.Errorf("%s: %q is taken", c.grammar, s)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("(", 40) + `"x"` + strings.Repeat(")", 40)
	cases := []struct{ grammar, says string }{
		{"", "no rule root"},
		{`x ::= "a"`, "no rule root"},
		{`root = "a"`, "want ::="},
		{`root ::= x`, "rule x is used and not given"},
		{"root ::= \"a\"\nroot ::= \"b\"", "line 2: rule root is given twice"},
		{`root ::= root "a" | "b"`, "left recursion"},
		{"root ::= a\na ::= b? root \"x\"\nb ::= \"y\"", "left recursion"},
		{`root ::= ("a"?)*`, "left recursion"},
		{`root ::= ""*`, "repetition of nothing"},
		{`root ::= "ab"*`, "put it in ( )"},
		{`root ::= "a`, "not closed"},
		{`root ::= [a`, "not closed"},
		{`root ::= []`, "empty class"},
		{`root ::= [b-a]`, "backwards"},
		{`root ::= "a"{3,2}`, "backwards"},
		{`root ::= "a"{9999}`, "more than 512"},
		{`root ::= "a"{x}`, "wants a number"},
		{`root ::= "\q"`, "unknown escape"},
		{`root ::= "\xZZ"`, "hexadecimal"},
		{`root ::= "\uD800"`, "no character"},
		{`root ::= ("a"`, "not closed: want )"},
		{`root ::= "a" )`, "unexpected"},
		{"root ::= " + deep, "deeper than 32"},
		{"root ::= \"\xff\"", "not valid UTF-8"},
		{"root ::= \"\x00\"", "NUL"},
		{"root ::= \"" + strings.Repeat("a", gbnf.MaxBytes) + "\"", "want at most"},
		{"root ::= " + strings.Repeat(`("a"|"b") `, gbnf.MaxRules+1), "more than 4096 rules"},
	}
	for _, c := range cases {
		_, err := gbnf.Parse(c.grammar)
		if !errors.Is(err, gbnf.ErrGrammar) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60q: error %v, want one that says %q", c.grammar, err, c.says)
		}
	}
}

func TestForced(t *testing.T) {
	const call = "root ::= \"{\\\"do\\\":\\\"\" verb \"\\\"}\"\nverb ::= \"give\" | \"go\" | \"gaze 日\"\n"
	g := parse(t, call)
	trace := func(said string) string {
		s, ok := g.Start().Next([]byte(said))
		if !ok {
			return "refused"
		}
		return fmt.Sprintf("%q complete %v finished %v", s.Forced(100), s.Complete(), s.Finished())
	}
	for said, want := range map[string]string{
		"":                      `"{\"do\":\"g" complete false finished false`,
		`{"do":"g`:              `"" complete false finished false`,
		`{"do":"gi`:             `"ve\"}" complete false finished false`,
		`{"do":"ga`:             `"ze 日\"}" complete false finished false`,
		"{\"do\":\"gaze \xe6":   `"" complete false finished false`, // within a character
		"{\"do\":\"gaze \xe7":   "refused",
		`{"do":"go"}`:           `"" complete true finished true`,
		`{"do":"go"}x`:          "refused",
		"{\"do\":\"go\xff":      "refused",
		"{\"do\":\"gaze \xe6\"": "refused",
	} {
		if got := trace(said); got != want {
			t.Errorf("after %q: %s, want %s", said, got, want)
		}
	}
}

// Both follow the same strings: the classes, repetitions and groups here mean
// the same in a regular expression.
func TestAgreesWithRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var gen func(depth int) (g, re string)
		gen = func(depth int) (string, string) {
			kind := rapid.IntRange(0, 5).Draw(t, "kind")
			if depth == 0 {
				kind %= 3
			}
			switch kind {
			case 0:
				return `"a"`, "a"
			case 1:
				return `[ab]`, "[ab]"
			case 2:
				return `[^a]`, `[^a]`
			case 3:
				g1, r1 := gen(depth - 1)
				g2, r2 := gen(depth - 1)
				return "(" + g1 + " " + g2 + ")", "(?:" + r1 + r2 + ")"
			case 4:
				g1, r1 := gen(depth - 1)
				g2, r2 := gen(depth - 1)
				return "(" + g1 + " | " + g2 + ")", "(?:" + r1 + "|" + r2 + ")"
			}
			g1, r1 := gen(0)
			op := rapid.SampledFrom([]string{"*", "+", "?", "{2}", "{1,3}", "{2,}"}).Draw(t, "op")
			return g1 + op, "(?:" + r1 + ")" + op
		}
		grammar, re := gen(4)
		g := parse(t, "root ::= "+grammar)
		want := regexp.MustCompile("^(?s:" + re + ")$")
		for range 20 {
			s := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 8, -1).Draw(t, "text")
			if g.Match(s) != want.MatchString(s) {
				t.Fatalf("%s and %s differ about %q", grammar, re, s)
			}
		}
	})
}

// A state within a character lives: some character that begins so is allowed.
func TestPartialCharacters(t *testing.T) {
	for _, grammar := range []string{`root ::= "\""`, `root ::= [a-z]`, `root ::= "é"`, `root ::= [日-旧]`, `root ::= .`,
		`root ::= [^\x00-\U00010000]`, `root ::= [😀-😂]`, `root ::= [퟿]`, `root ::= [^\x00-\uD7FF]`} {
		g := parse(t, grammar)
		alive := map[string]bool{}
		for r := rune(0); r <= utf8.MaxRune; r++ {
			if r > 0x1F700 {
				r += 62 // one of each 64, which share all bytes but the last
			}
			if utf8.ValidRune(r) && g.Match(string(r)) {
				for n := 1; n < utf8.RuneLen(r); n++ {
					alive[string(r)[:n]] = true
				}
			}
		}
		for a := 0x80; a < 0x100; a++ {
			prefixes := []string{string([]byte{byte(a)})}
			for b := 0x80; b < 0xC0; b++ {
				prefixes = append(prefixes, string([]byte{byte(a), byte(b)}), string([]byte{byte(a), byte(b), 0x80}))
			}
			for _, p := range prefixes {
				if utf8.FullRuneInString(p) {
					continue
				}
				if _, ok := g.Start().Next([]byte(p)); ok != alive[p] {
					t.Fatalf("%s: after the bytes % x: %v, want %v", grammar, p, ok, alive[p])
				}
			}
		}
	}
}

// fataler is a test, or one case of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`root ::= "a" | [b-d]{2,3} x` + "\nx ::= (\"y\")*",
		"root ::= [^\\x00-\\x1f]+ .", `root ::= "\u00e9"`} {
		f.Add(s, "abc")
	}
	f.Fuzz(func(t *testing.T, text, said string) {
		g, err := gbnf.Parse(text)
		if err != nil {
			if !errors.Is(err, gbnf.ErrGrammar) {
				t.Fatal(err)
			}
			return
		}
		s := g.Start()
		forced := s.Forced(64)
		if forced != "" {
			if _, ok := s.Next([]byte(forced)); !ok {
				t.Fatalf("what is forced (%q) is refused", forced)
			}
		}
		for at, first := s, 0; first < len(said); first++ {
			begins := at.Begins()
			next, ok := at.Next([]byte(said[first : first+1]))
			if ok && !begins[said[first]] {
				t.Fatalf("Begins refuses %q of %q, Next takes it", said[first], said)
			}
			if !ok {
				break
			}
			at = next
		}
		// Byte by byte is the same as at once.
		whole, ok := s.Next([]byte(said))
		one, oneOK := s, true
		for i := 0; i < len(said) && oneOK; i++ {
			one, oneOK = one.Next([]byte(said[i : i+1]))
		}
		if ok != oneOK || ok && whole.Complete() != one.Complete() {
			t.Fatalf("%q: at once %v, byte by byte %v", said, ok, oneOK)
		}
	})
}

// What a state remembers changes nothing, whoever asks it at the same time.
func TestRemembersRightly(t *testing.T) {
	const text = `root ::= "{" ("a" [^"\\\x00-\x1F]{1,6} | num | "é" ("x" | "y")*) "}"
num ::= [1-9] [0-9]{0,2} | "1" "2" "é" | "12" [a-f]+
`
	shared := parse(t, text)
	start := shared.Start()
	random := rand.New(rand.NewPCG(1, 1))
	letters := []rune("{}a1290cfxyé猫\"\\")
	var group sync.WaitGroup
	defer group.Wait()
	for range 4 {
		var words []string
		for range 150 {
			word := []rune("{")
			for range random.IntN(9) {
				word = append(word, letters[random.IntN(len(letters))])
			}
			words = append(words, string(word))
		}
		group.Go(func() {
			for _, w := range words {
				a, ok := start.Next([]byte(w))
				b, want := parse(t, text).Start().Next([]byte(w))
				if ok != want || ok && (a.Complete() != b.Complete() || a.Forced(99) != b.Forced(99)) {
					t.Errorf("%q: %v, anew %v", w, ok, want)
				}
			}
		})
	}
}

// BenchmarkVocabulary looks through words as a sampler does, in free text.
func BenchmarkVocabulary(b *testing.B) {
	s, _ := parse(b, `root ::= "\"" [^"\\\x00-\x1F\x7F-\x9F]{1,40} "\""`).Start().Next([]byte(`"and so`))
	var words [][]byte
	for i := range 4096 {
		words = append(words, fmt.Appendf(nil, " w%xrd", i*7919))
	}
	for b.Loop() {
		for _, w := range words {
			s.Next(w)
		}
	}
}
