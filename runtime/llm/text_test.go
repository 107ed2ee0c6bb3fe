package llm

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// specimens are texts whose characters take 1 to 4 bytes, combine, join or run
// from right to left.
var specimens = []string{
	"plain", "é", "€", "😀", "a\u0301e\u0308", "👩‍👩‍👧‍👦", "🏳️‍🌈", "שלום עולם", "مرحبا", "नमस्ते", "日本語", "\x00nul", "",
	"mixed é€😀 \u202Eright\u202C to left",
}

// TestTextReplacement holds the examples of the Unicode standard, chapter 3.
func TestTextReplacement(t *testing.T) {
	for in, want := range map[string]string{
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41":     "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41":     "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42":     "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41":     "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"a\xF1\x80\x80\xE1\x80\xC2b\x80c\x80\xBFd": "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd",
		"cut \xF0\x9F\x98":                         "cut \uFFFD",
	} {
		if got := ValidText(in); got != want {
			t.Errorf("ValidText(%+q) = %+q, want %+q", in, got, want)
		}
	}
	for _, s := range specimens {
		if got := ValidText(s); got != s {
			t.Errorf("ValidText(%+q) = %+q, want it unchanged", s, got)
		}
	}
}

func TestTextHoldsBackOnlyWhatItMust(t *testing.T) {
	text := NewText([]string{"END", "\n\n"})
	var got []string
	for _, piece := range []string{"Hi", " \xF0\x9F", "\x98\x80 E", "N", "x\n", "EN", "D more"} {
		delta, _ := text.Add(nil, []byte(piece))
		got = append(got, string(delta))
	}
	want := []string{"Hi", " ", "😀 ", "", "ENx", "\n", ""}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("deltas (-want +got):\n%s", d)
	}
}

func TestTextPartial(t *testing.T) {
	var text Text
	got, _ := text.Add(nil, []byte("a\xE2\x82"))
	if string(got) != "a" || !text.Partial() || text.Produced() != 1 {
		t.Fatalf("Add = %q, partial %v, produced %d; want a, true, 1", got, text.Partial(), text.Produced())
	}
	text.DropPartial()
	if got, _ := text.Flush(nil); len(got) != 0 {
		t.Errorf("Flush after DropPartial = %q, want nothing", got)
	}
}

// validSlowly is what the standard asks for, written as plainly as can be.
func validSlowly(s string) string {
	var out strings.Builder
	for s != "" {
		if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
			out.WriteString(s[:n])
			s = s[n:]
			continue
		}
		n := 1 // the longest prefix that some continuation would complete
		for k := 2; k <= min(3, len(s)); k++ {
			if completable(s[:k]) {
				n = k
			}
		}
		out.WriteRune(utf8.RuneError)
		s = s[n:]
	}
	return out.String()
}

func completable(prefix string) bool {
	for _, more := range []string{"\x80", "\x80\x80", "\x80\x80\x80", "\xBF", "\xBF\xBF", "\xBF\xBF\xBF"} {
		if r, n := utf8.DecodeRuneInString(prefix + more); r != utf8.RuneError && n == len(prefix+more) {
			return true
		}
	}
	return false
}

// cutSlowly ends text before the stop string that is complete first.
func cutSlowly(text string, stops []string) (string, bool) {
	for end := range len(text) + 1 {
		best := ""
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) && len(s) > len(best) {
				best = s
			}
		}
		if best != "" {
			return text[:end-len(best)], true
		}
	}
	return text, false
}

func checkText(t interface {
	Fatalf(string, ...any)
}, in []byte, cuts []int, stops []string) {
	text := NewText(stops)
	var out []byte
	stopped := false
	begin := 0
	for _, cut := range append(cuts, len(in)) {
		if cut < begin || cut > len(in) {
			continue
		}
		var s bool
		before := len(out)
		out, s = text.Add(out, in[begin:cut])
		stopped = stopped || s
		if !utf8.Valid(out[before:]) {
			t.Fatalf("delta %+q is no UTF-8", out[before:])
		}
		begin = cut
	}
	out, s := text.Flush(out)
	stopped = stopped || s
	for i := range stops {
		stops[i] = validSlowly(stops[i])
	}
	want, wantStopped := cutSlowly(validSlowly(string(in)), stops)
	if string(out) != want || stopped != wantStopped {
		t.Fatalf("%+q cut at %v with stops %+q: got %+q, %v, want %+q, %v",
			in, cuts, stops, out, stopped, want, wantStopped)
	}
}

// TestTextProperty: however the bytes are cut, the deltas join to the valid
// text before the first stop string.
func TestTextProperty(t *testing.T) {
	alphabet := []string{
		"a", "b", "\n", "é", "è", "€", "😀", "\u0301", "\u200D", "\xE2", "\x82", "\xF0\x9F", "\x80", "\xFF",
	}
	word := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 4).Draw(t, "word"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "text"), ""))
		var cuts []int
		for i := range in {
			if rapid.Bool().Draw(t, "cut") {
				cuts = append(cuts, i)
			}
		}
		checkText(t, in, cuts, rapid.SliceOfN(word, 0, 3).Draw(t, "stops"))
	})
}

func FuzzText(f *testing.F) {
	for _, s := range specimens {
		f.Add([]byte(s), []byte{1, 2, 3}, "END", "\n")
	}
	f.Add([]byte("aaaaaab"), []byte{1}, "aab", "ab")
	f.Add([]byte("\xE2\x82x\xF0\x9F"), []byte{2}, "\uFFFD", "\xE2")
	f.Fuzz(func(t *testing.T, in, steps []byte, stop1, stop2 string) {
		var cuts []int
		at := 0
		for _, s := range steps {
			at += int(s % 5)
			cuts = append(cuts, at)
		}
		checkText(t, in, cuts, []string{stop1, stop2})
	})
}
