package ctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadme compiles the program of bindings/README.md under every warning and
// lets it talk, with the scripted model and its
// most probable words.
func TestReadme(t *testing.T) {
	library(t)
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(text), "```c\n")
	if !ok {
		t.Fatal("there is no C in README.md")
	}
	program, _, _ = strings.Cut(program, "```")
	if n := strings.Count(program, "\n"); n > 60 {
		t.Errorf("the program has %d lines, want 60 at most", n)
	}
	const at = "    if (failed(none, lull_world_create"
	if strings.Count(program, at) != 1 {
		t.Fatal("the program creates no world")
	}
	program = strings.Replace(program, at, "    def.model_kind = LULL_MODEL_SCRIPTED;\n"+at, 1)
	program = strings.Replace(program, "    who.persona_file", "    who.greedy = 1;\n    who.persona_file", 1)
	dir := t.TempDir()
	source, out := filepath.Join(dir, "talk.c"), filepath.Join(dir, "talk")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-std=c99"}, strict...)
	args = append(args, source, "-o", out, "-L"+built.dir, "-llull")
	command(t, time.Minute, nil, "gcc", args...)
	if said := command(t, time.Minute, nil, out); said != "What do you sell?" {
		t.Errorf("it said %q", said)
	}
}
