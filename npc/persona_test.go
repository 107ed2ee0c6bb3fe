package npc

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: write it with go test ./npc -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if this is meant, go test ./npc -update:\n%s", path, diff)
	}
}

func TestShippedPersonas(t *testing.T) {
	names := Shipped()
	if diff := cmp.Diff([]string{"blacksmith", "innkeeper"}, names); diff != "" {
		t.Fatal(diff)
	}
	seen := map[string]string{}
	for _, name := range names {
		p, err := LoadPersona(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if other, ok := seen[p.Style]; ok {
			t.Errorf("%s speaks as %s does", name, other)
		}
		seen[p.Style] = name
		if len(p.Examples) == 0 || len(p.Limits) == 0 || p.Greeting == "" || len(p.Barks["thinking"]) == 0 {
			t.Errorf("%s: a shipped persona shows examples, limits, a greeting and barks", name)
		}
		golden(t, filepath.Join("system", name+".txt"), p.SystemText()+"\n")
	}
}

const smallest = "name: Ann\ndescription: a guard\n"

func TestParsePersonaDefaults(t *testing.T) {
	got, err := ParsePersona("ann.yaml", []byte(smallest))
	if err != nil {
		t.Fatal(err)
	}
	want := Persona{Name: "Ann", Description: "a guard", Sampling: DefaultSampling(), MaxTokens: DefaultMaxTokens}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParsePersonaEveryKey(t *testing.T) {
	const file = "lull: 1\nname: \"Ann\"\ndescription: |\n  a guard\n  at the gate\nstyle: stern\r\n" +
		"knowledge: [one, \"two: 2\"]\n" +
		"examples:\n  - {player: Hi, npc: Halt!}\nlimits:\n  - You never sleep.\ngreeting: Halt!\n" +
		"sampling: {temperature: 0, top_p: 0.5, min_p: 0.1, repeat_penalty: 1, max_tokens: 7}\n" +
		"barks: {idle: [Hm., \"No.\"]}\nemotions: [joy, cold anger]\n"
	got, err := ParsePersona("ann.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := Persona{
		Name: "Ann", Description: "a guard\nat the gate", Style: "stern", Knowledge: []string{"one", "two: 2"},
		Examples: []Exchange{{"Hi", "Halt!"}}, Limits: []string{"You never sleep."}, Greeting: "Halt!",
		Sampling:  llm.Sampling{TopK: 40, TopP: 0.5, MinP: 0.1, RepeatPenalty: 1},
		MaxTokens: 7, Barks: map[string][]string{"idle": {"Hm.", "No."}}, Emotions: []string{"joy", "cold anger"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestParsePersonaErrors shows each mistake as the writer of a file sees it.
func TestParsePersonaErrors(t *testing.T) {
	long := strings.Repeat("x", 1000)
	cases := []struct {
		name, file string
		line       int // of the error
		column     int
		says       string
	}{
		{"unknown key", smallest + "nmae: x\n", 3, 1, `unknown field "nmae": a persona has`},
		{"unknown inner key", smallest + "sampling: {temprature: 1}\n", 3, 12, `unknown field "temprature"`},
		{"number for text", "name: 5\ndescription: x\n", 1, 7, "a number found, want text: put it in quotes"},
		{"yes for text", smallest + "knowledge:\n  - yes\n  - true\n", 5, 5, "true or false found, want text"},
		{"colon in a line", smallest + "knowledge:\n  - Price: 5\n", 4, 10, "put a line with a colon in quotes"},
		{"text for a list", smallest + "knowledge: x\n", 3, 12, "sequence is expected"},
		{"list for text", smallest + "style: [x]\n", 3, 8, "a list found, want text"},
		{"text for a number", smallest + "sampling: {top_p: high}\n", 3, 19, "text found, want a finite number"},
		{"key given twice", smallest + "name: Bob\n", 3, 1, "already defined"},
		{"name missing", "description: x\n", 1, 12, "name is missing"},
		{"name null", "name:\ndescription: x\n", 1, 5, "name is missing"},
		{"two lines of name", "name: \"a\\nb\"\ndescription: x\n", 1, 7, "line break"},
		{"name too long", "name: " + long + "\ndescription: x\n", 1, 7, "name has 1000 characters: want at most 48"},
		{"line too long", smallest + "limits:\n  - ok\n  - " + long + "\n", 5, 5, "limits[1] has 1000 characters"},
		{"too many lines", smallest + "limits:\n" + strings.Repeat("  - x\n", 13), 4, 5, "13 entries: want at most 12"},
		{"half an example", smallest + "examples:\n  - player: Hi\n", 0, 0, "examples[0].npc is missing"},
		{"temperature", smallest + "sampling: {temperature: 3}\n", 3, 25, "3: want 0 … 2"},
		{"not a number", smallest + "sampling: {temperature: .nan}\n", 3, 25, "want a finite number"},
		{"huge number", smallest + "sampling: {temperature: 1e999}\n", 3, 25, "want"},
		{"tokens", smallest + "sampling: {max_tokens: 0}\n", 3, 24, "0: want 1 … 1024"},
		{"half a token", smallest + "sampling: {max_tokens: 1.5}\n", 3, 24, "whole number"},
		{"version", "lull: 2\n" + smallest, 1, 7, "format 2, want 1"},
		{"alias", "name: &a Ann\ndescription: *a\n", 1, 7, "write the text out"},
		{"merge", "<<: {name: x}\n" + smallest, 1, 1, "write the text out"},
		{"tag", "name: !!str 5\ndescription: x\n", 1, 7, "write plain text"},
		{"invisible", "name: A\u202Enn\ndescription: x\n", 1, 7, "U+202E"},
		{"control", smallest + "style: \"a\\u0007b\"\n", 3, 8, "U+0007"},
		{"emotion", smallest + "emotions: [joy, \"[x]\"]\n", 3, 17, "want a word"},
		{"not UTF-8", "name: Ann\ndescription: a\xFFb\n", 2, 15, "not valid UTF-8"},
		{"not closed", "name: [\n", 1, 7, "not found"},
		{"list at top", "- a\n", 1, 1, "mapping is expected"},
		{"empty", "", 0, 0, "want one that begins with name"},
		{"only a comment", "# nothing\n", 0, 0, "want"},
		{"two documents", smallest + "---\n" + smallest, 0, 0, "2 documents, want one"},
		{"brackets", "name: x\n" + strings.Repeat("[", 20000), 2, 17, "more than 16 brackets are open"},
		{"long line", "name: x\n\nstyle: " + strings.Repeat("x", 5000), 3, 4097, "the line has more than 4096 bytes"},
		{"huge", strings.Repeat("#", MaxPersonaBytes+1), 0, 0, "more than 65536 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParsePersona("x.yaml", []byte(c.file))
			if err == nil {
				t.Fatalf("no error, got %+v", p)
			}
			if !errors.Is(err, ErrPersona) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v\ndoes not say %q", err, c.says)
			}
			var e *PersonaError
			if !errors.As(err, &e) {
				t.Fatalf("%T is no *PersonaError", err)
			}
			if c.line > 0 && (e.Line != c.line || e.Column != c.column) {
				t.Errorf("at %d:%d, want %d:%d: %v", e.Line, e.Column, c.line, c.column, err)
			}
			if e.Line > 0 && !strings.HasPrefix(err.Error(), "x.yaml:") {
				t.Errorf("%v does not begin with its place", err)
			}
		})
	}
}

func TestPersonaErrorShowsTheSource(t *testing.T) {
	_, err := ParsePersona("mods/ann.yaml", []byte(smallest+"style: 7\n"))
	if err == nil {
		t.Fatal("no error")
	}
	golden(t, "errors/style.txt", err.Error()+"\n")
}

func TestParsePersonaReportsEveryProblem(t *testing.T) {
	_, err := ParsePersona("x.yaml", []byte("style: x\nsampling: {top_p: 2, max_tokens: -1}\n"))
	for _, want := range []string{"name is missing", "description is missing", "top_p", "max_tokens"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

func TestLoadPersona(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ann.yaml")
	if err := os.WriteFile(path, []byte(smallest), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := LoadPersona(path); err != nil || p.Name != "Ann" {
		t.Errorf("got %v, %v", p.Name, err)
	}
	_, err := LoadPersona("nobody")
	if !errors.Is(err, ErrPersona) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "blacksmith") {
		t.Errorf("%v: want the shipped names", err)
	}
	if _, err := LoadPersona("../personas/blacksmith"); err == nil {
		t.Error("a path reached into the shipped files")
	}
	if _, err := LoadPersona(t.TempDir()); !errors.Is(err, ErrPersona) {
		t.Errorf("a folder: %v", err)
	}
}

func TestValidateNamesEveryField(t *testing.T) {
	p := Persona{Name: "A\xFF", Description: "x", Sampling: llm.Sampling{Temperature: float32(math.NaN())}}
	err := p.Validate()
	for _, want := range []string{"name: is not valid UTF-8", "sampling.temperature", "sampling.max_tokens"} {
		if err == nil || !errors.Is(err, ErrPersona) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

func FuzzParsePersona(f *testing.F) {
	for _, name := range Shipped() {
		data, err := shipped.ReadFile("personas/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{smallest, "", "- a", "a: &a [*a]", "? x", "name: |", "{{{{", "%TAG ! x\n---\n", "\tx: y",
		"barks: {a: {b: c}}", "name: \"\\xff\"", "lull: 1e400", "sampling: [1]", "[[[[[[", "name: 'x", "a:\r b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePersona("f.yaml", data)
		if err != nil {
			if !errors.Is(err, ErrPersona) {
				t.Errorf("%v does not wrap ErrPersona", err)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Errorf("accepted, but %v", err)
		}
		if !utf8.ValidString(p.SystemText()) {
			t.Errorf("system text is not UTF-8: %q", p.SystemText())
		}
	})
}

// Editors of Windows begin a file with a byte order mark, which nobody sees.
func TestParsePersonaSkipsByteOrderMark(t *testing.T) {
	p, err := ParsePersona("ann.yaml", []byte("\uFEFFname: Ann\ndescription: a guard\n"))
	if err != nil || p.Name != "Ann" {
		t.Errorf("%q, %v", p.Name, err)
	}
	_, err = ParsePersona("ann.yaml", []byte("\uFEFFname: 7\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "ann.yaml:1:7: ") {
		t.Errorf("error %v, want one that points at 1:7", err)
	}
	for _, nothing := range []string{"", "\uFEFF", "# nobody yet\n", "---\n"} {
		_, err := ParsePersona("ann.yaml", []byte(nothing))
		if err == nil || !strings.Contains(err.Error(), "the file is empty") {
			t.Errorf("%q: %v", nothing, err)
		}
	}
}
