package ctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readmes are the programs of bindings/README.md: what stands before the world is
// created to have the scripted model, before the NPC to have its most probable
// words, and what compiles and runs the program.
var readmes = []struct {
	language, file, world, scripted, npc, greedy string
	run                                          func(t *testing.T, source string) string
}{
	{"c", "talk.c", "    if (failed(none, lull_world_create", "    def.model_kind = LULL_MODEL_SCRIPTED;\n",
		"    who.persona_file", "    who.greedy = 1;\n", func(t *testing.T, source string) string {
			out := source + ".out"
			args := append([]string{"-std=c99"}, strict...)
			command(t, time.Minute, nil, "gcc", append(args, source, "-o", out, "-L"+built.dir, "-llull")...)
			return command(t, time.Minute, nil, out)
		}},
	{"cpp", "talk.cpp", "    who.persona_file", "    def.model_kind = LULL_MODEL_SCRIPTED;\n",
		"    who.persona_file", "    who.greedy = 1;\n", func(t *testing.T, source string) string {
			out := source + ".out"
			args := append([]string{"-std=c++17", "-fno-exceptions", "-fno-rtti"}, strict...)
			args = append(args, source, "-o", out, "-L"+built.dir, "-llull")
			command(t, 2*time.Minute, nil, need(t, "g++", "g++"), args...)
			return command(t, time.Minute, nil, out)
		}},
	{"csharp", "Talk.cs", "        Check(lull_world_create", "        def.model_kind = 1;\n",
		"            who.persona_file", "            who.greedy = 1;\n", func(t *testing.T, source string) string {
			mono := need(t, "mono", "mono-runtime and libmono-system-core4.0-cil")
			command(t, 2*time.Minute, nil, need(t, "mcs", "mono-mcs"), "-unsafe", "-langversion:7", "-warnaserror",
				"-out:"+source+".exe", source, "../unity/com.lull.npc/Runtime/Native.g.cs")
			return command(t, time.Minute, nil, mono, source+".exe")
		}},
	{"lua", "talk.lua", "check(C.lull_world_create", "def.model_kind = lull.MODEL_SCRIPTED\n",
		"who.persona_file", "who.greedy = 1\n", func(t *testing.T, source string) string {
			cdef, err := filepath.Abs("../love/lull_cdef.lua")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(cdef, filepath.Join(filepath.Dir(source), "lull_cdef.lua")); err != nil {
				t.Fatal(err)
			}
			return command(t, time.Minute, nil, "sh", "-c", `cd "$1" && exec "$2" "$3"`, "sh",
				filepath.Dir(source), need(t, "luajit", "luajit"), source)
		}},
}

// TestReadme compiles the programs of bindings/README.md under every warning and
// lets them talk, with the scripted model and its most probable words.
func TestReadme(t *testing.T) {
	library(t)
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readmes {
		t.Run(r.language, func(t *testing.T) {
			_, program, ok := strings.Cut(string(text), "```"+r.language+"\n")
			if !ok {
				t.Fatalf("there is no %s in README.md", r.language)
			}
			program, _, _ = strings.Cut(program, "```")
			if n := strings.Count(program, "\n"); n > 60 {
				t.Errorf("the program has %d lines, want 60 at most", n)
			}
			for _, before := range []string{r.world, r.npc} {
				if strings.Count(program, before) != 1 {
					t.Fatalf("%q stands %d times in the program", before, strings.Count(program, before))
				}
			}
			program = strings.Replace(program, r.world, r.scripted+r.world, 1)
			program = strings.Replace(program, r.npc, r.greedy+r.npc, 1)
			source := filepath.Join(t.TempDir(), r.file)
			if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
				t.Fatal(err)
			}
			if said := r.run(t, source); said != "What do you sell?" {
				t.Errorf("it said %q", said)
			}
		})
	}
}
