package npc

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func cut(pieces ...string) []string {
	var s Sentences
	var out []string
	for _, p := range pieces {
		out = s.Add(out, p)
	}
	return s.End(out)
}

func TestSentencesGolden(t *testing.T) {
	in, err := os.ReadFile("testdata/sentences.in.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(string(in)), "\n") {
		fmt.Fprintf(&b, "%s\n", line)
		for _, s := range cut(line) {
			fmt.Fprintf(&b, "    | %s\n", s)
		}
	}
	golden(t, "sentences.txt", b.String())
}

// visible is a text without its white space.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

func checkSentences(t interface{ Fatalf(string, ...any) }, text string, cuts []int) {
	whole := cut(text)
	if got := visible(strings.Join(whole, "")); got != visible(text) {
		t.Fatalf("%q became %q", text, whole)
	}
	for _, s := range whole {
		if s == "" || s != strings.TrimSpace(s) || len([]rune(s)) > 2*maxSentence {
			t.Fatalf("sentence %q", s)
		}
	}
	var pieces []string
	last := 0
	for _, c := range cuts {
		for c < len(text) && c > 0 && text[c]&0xC0 == 0x80 {
			c++
		}
		if c >= last && c <= len(text) {
			pieces, last = append(pieces, text[last:c]), c
		}
	}
	if split := cut(append(pieces, text[last:])...); fmt.Sprint(split) != fmt.Sprint(whole) {
		t.Fatalf("at once %q, in pieces %q", whole, split)
	}
}

func TestSentencesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"Go", "mr", "I", "e.g", "1", ".", "!", "?", "…", "。",
			"؟", "\"", "”", ")", " ", "\n",
			"日本",
			"é", "a", ", ", strings.Repeat("x", 400), strings.Repeat("word ", 90)})
		text := strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), "")
		checkSentences(t, text, []int{rapid.IntRange(0, len(text)).Draw(t, "cut"), len(text)})
	})
}

func FuzzSentences(f *testing.F) {
	f.Add("Hello. \"You?\" 日本。no", 4)
	f.Fuzz(func(t *testing.T, text string, at int) {
		checkSentences(t, strings.ToValidUTF8(text, "\uFFFD"), []int{at})
	})
}

func TestSentencesComeEarly(t *testing.T) {
	var s Sentences
	for _, step := range []struct{ add, want string }{
		{"Come in", ""}, {".", ""}, {" ", ""}, {"S", "Come in."}, {"it!\n", "Sit!"}, {"はい。", ""}, {"い", "はい。"},
	} {
		if got := strings.Join(s.Add(nil, step.add), "|"); got != step.want {
			t.Errorf("after %q: %q, want %q", step.add, got, step.want)
		}
	}
}
