package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func header(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../include/lull.h")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFresh: what is committed is what the header says.
func TestFresh(t *testing.T) {
	h, err := Parse(header(t))
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := Outputs(h)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range outputs {
		have, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("bindings/%s is stale, run make generate:\n%s", name, diff)
		}
	}
}

// TestCheck: -check finds an output that was changed by hand, and writes nothing.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	if err := write(filepath.Join(root, "include", "lull.h"), header(t)); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Fatal("outputs that are missing are not found stale")
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Fatalf("fresh outputs: %v", err)
	}
	path := filepath.Join(root, "abi.golden.txt")
	if err := os.WriteFile(path, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := run(root, true)
	if err == nil || !strings.Contains(err.Error(), "abi.golden.txt is not what lull.h says") {
		t.Errorf("a changed golden: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "changed" {
		t.Error("-check wrote")
	}
}

// TestRefuses plants one defect for each rule.
func TestRefuses(t *testing.T) {
	const thread = "/** \\threadsafety Any thread. */\n"
	fields := func(f string) string {
		return "/* x */ typedef struct lull_x { uint32_t struct_size; " + f + " } lull_x;"
	}
	for name, c := range map[string]struct{ text, want string }{
		"gap":          {fields("int64_t a;"), "would leave a gap before it"},
		"tail gap":     {fields("uint32_t b; int64_t a; uint16_t c;"), "gap at its end"},
		"struct size":  {"/* x */ typedef struct lull_x { int32_t a; } lull_x;", "struct_size"},
		"no comment":   {"typedef struct lull_x { uint32_t struct_size; } lull_x;", "no comment"},
		"other name":   {"/* x */ typedef struct lull_x { uint32_t struct_size; } lull_y;", "want the same name"},
		"unknown type": {fields("long a;"), "only numbers and ids"},
		"enum value":   {"enum lull_e { LULL_A };", "want \"=\""},
		"no thread":    {"LULL_API int32_t lull_f(void);", "threadsafety"},
		"thread words": {"/** \\threadsafety Sometimes. */\nLULL_API int32_t lull_f(void);", "threadsafety"},
		"result":       {thread + "LULL_API float lull_f(void);", "want int32_t or int64_t"},
		"prefix":       {thread + "LULL_API int32_t f(void);", "begin with lull_"},
		"parameter":    {thread + "LULL_API int32_t lull_f(size_t n);", "unknown type size_t"},
		"callback":     {thread + "LULL_API int32_t lull_f(void (*call)(int));", "want"},
		"not C":        {"static int x;", "want a define"},
		"cut":          {thread + "LULL_API int32_t lull_f(", "want"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want one about %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/** \\threadsafety Any thread. */\nLULL_API int32_t lull_f(const char *a, int32_t b);")
	f.Add("#define LULL_X (-1)\nenum lull_e { LULL_A = 1, /* a */ };")
	f.Add("typedef struct lull_x_id { uint32_t a[3]; } lull_x_id;")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err != nil {
			return
		}
		if _, err := Outputs(h); err != nil && !strings.Contains(err.Error(), "do not parse") {
			t.Error(err) // a header that was accepted can be written
		}
	})
}
