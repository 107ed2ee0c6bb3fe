package tidy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository is what this package is for.
func TestRepository(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("no go.mod above the test: run it inside the repository")
		}
		root = filepath.Dir(root)
	}
	tree, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Check(tree, All(), Exceptions) {
		t.Error(f)
	}
}

// plant is a tree with a defect. Each file is its lines; want are the places
// where the rule must find something, and nothing else may be found.
type plant struct {
	rule  string
	files map[string]string
	want  []string
}

// long is a comment of n columns.
func long(n int) string { return "//" + strings.Repeat("x", n-2) }

// body is n statements, one a line.
func body(n int) string { return strings.Repeat("\tx++\n", n) }

const module = Module

var plants = []plant{
	{"parse", map[string]string{"a/a.go": "package a\nfunc {"}, []string{"a/a.go:1"}},
	{"gofmt", map[string]string{
		"a/a.go": "package a\n\nvar  x = 1\n",
		"a/b.go": "package a\n\nvar y = 1\n",
	}, []string{"a/a.go:3"}},
	{"ladder", map[string]string{
		"scheduler/a.go":        "package scheduler\nimport _ \"" + module + "/runtime/llm\"",
		"scheduler/b.go":        "package scheduler\nimport _ \"gonum.org/v1/gonum/stat\"",
		"scheduler/c.go":        "package scheduler\nimport _ \"math\"",
		"scheduler/d_test.go":   "package scheduler\nimport _ \"pgregory.net/rapid\"",
		"runtime/llm/a.go":      "package llm\nimport _ \"" + module + "/scheduler\"",
		"runtime/scripted/a.go": "package scripted\nimport _ \"" + module + "/runtime/llm\"",
		"npc/a.go":              "package npc\nimport _ \"" + module + "/runtime/llamacpp\"",
		"npc/b.go":              "package npc\nimport _ \"" + module + "/npc/inner\"\nimport _ \"" + module + "/rag\"",
		"runtime/local/a.go":    "package local\nimport _ \"" + module + "/npc\"",
		"cmd/lull/a.go":         "package main\nimport _ \"" + module + "/demo-game\"",
		"elsewhere/a.go":        "package elsewhere",
	}, []string{"cmd/lull/a.go:2", "elsewhere/a.go:1", "npc/a.go:2", "runtime/llm/a.go:2",
		"scheduler/a.go:2", "scheduler/b.go:2"}},
	{"fences", map[string]string{
		"npc/a.go":                "package npc\nimport \"C\"",
		"npc/b_test.go":           "package npc\nimport _ \"github.com/hybridgroup/yzma/pkg/llama\"",
		"harness/a.go":            "package harness\nimport _ \"github.com/hajimehoshi/ebiten/v2\"",
		"runtime/probe/a.go":      "package probe\nimport _ \"github.com/ebitengine/purego\"",
		"runtime/llamacpp/a.go":   "package llamacpp\nimport \"C\"\nimport _ \"github.com/ebitengine/purego\"",
		"bindings/capi/a.go":      "package main\nimport \"C\"",
		"demo-game/draw/a.go":     "package draw\nimport _ \"github.com/hajimehoshi/ebiten/v2/inpututil\"",
		"demo-game/play/a.go":     "package play\nimport _ \"github.com/hajimehoshi/ebiten/v2\"",
		"runtime/llamacpp/b/b.go": "package b\nimport _ \"github.com/hybridgroup/yzma/pkg/llama\"",
	}, []string{"demo-game/play/a.go:2", "harness/a.go:2", "npc/a.go:2", "npc/b_test.go:2",
		"runtime/probe/a.go:2"}},
	{"pure", map[string]string{
		"scheduler/a.go": "package scheduler\nimport \"time\"\nvar x = time.Now()\n",
		"scheduler/b.go": "package scheduler\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n",
		"scheduler/c.go": "package scheduler\nfunc g() {\n\tgo g()\n}\n",
		"scheduler/d.go": "package scheduler\nimport (\n\t\"sync/atomic\"\n\t\"log/slog\"\n\t\"os\"\n)\n",
		"scheduler/e.go": "package scheduler\nimport \"time\"\nvar y time.Duration\n" +
			"func h(time T) { time.Now() }\n",
		"scheduler/f_test.go": "package scheduler\nimport \"os\"\n",
		"npc/a.go":            "package npc\nimport \"sync\"\n",
	}, []string{"scheduler/a.go:3", "scheduler/b.go:3", "scheduler/c.go:3",
		"scheduler/d.go:3", "scheduler/d.go:4", "scheduler/d.go:5"}},
	{"test-sleep", map[string]string{
		"npc/a_test.go": "package npc\nimport \"time\"\nfunc f() {\n\ttime.Sleep(1)\n}\n",
		"npc/b_test.go": "package npc\nfunc g() { clock.Sleep(1) }\n",
		"npc/c.go":      "package npc\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
	}, []string{"npc/a_test.go:4"}},
	{"print", map[string]string{
		"npc/a.go": "package npc\nimport \"fmt\"\nfunc f() {\n" +
			"\tfmt.Println()\n\tprintln()\n\tfmt.Sprint()\n}\n",
		"npc/a_test.go":      "package npc\nimport \"fmt\"\nfunc Example() { fmt.Println() }\n",
		"cmd/lull/a.go":      "package main\nimport \"fmt\"\nfunc main() { fmt.Println() }\n",
		"bindings/capi/a.go": "package main\nimport \"fmt\"\nfunc main() { fmt.Print() }\n",
	}, []string{"bindings/capi/a.go:3", "npc/a.go:4", "npc/a.go:5"}},
	{"panic", map[string]string{
		"npc/a.go":      "package npc\nfunc f() {\n\tpanic(1)\n}\nfunc stated() {\n\tpanic(2)\n}\n",
		"npc/b.go":      "package npc\nfunc g(panic func(int)) { panic(1) }\n",
		"npc/a_test.go": "package npc\nfunc h() { panic(1) }\n",
	}, []string{"npc/a.go:3"}},
	{"unfinished", map[string]string{
		"npc/a.go":         "package npc\n// TO" + "DO: more\n// TODOS\n",
		"README.md":        "# Title\nFIX" + "ME\n",
		"Makefile":         "x:\n\techo XX" + "X\n",
		"npc/testdata/a.c": "// XX" + "X\n",
	}, []string{"Makefile:2", "README.md:2", "npc/a.go:2"}},
	{"skip", map[string]string{
		"npc/a_test.go": "package npc\nfunc TestA(t *testing.T) {\n\tt.Skip()\n\tt.Skip(\"\")\n\tt.SkipNow()\n" +
			"\tt.Skipf(\" \")\n\tt.Skip(\"no model: make assets\")\n\tt.Skip(why)\n}\n",
		"npc/b_test.go": "package npc\nfunc TestB(s *scanner) { s.Skip() }\nfunc (s suite) f() {\n\ts.t.Skip()\n}\n",
	}, []string{"npc/a_test.go:3", "npc/a_test.go:4", "npc/a_test.go:5", "npc/a_test.go:6", "npc/b_test.go:4"}},
	{"machine", map[string]string{
		"a.md": "see /tm" + "p/x\nsee /hom" + "e/me\nC:\\Us" + "ers\\me\n" +
			"see /proc/pressure and https://go.dev\n",
		"b/package.json":   "{\"resolved\": \"https://registry.npm" + "js.org/x\"}\n",
		"c/c.go":           "package c\nconst x = \"/wo" + "rk/main\"\nconst y = \"net/work\"\n",
		"d.md":             "http://10" + ".0.0.1/simple\n~" + "/tmpfile\na/root\n",
		"e/testdata/x.txt": "/ro" + "ot/x\n",
		"go.sum":           "pypi" + ".org\n",
		"f.md":             "py" + "pi.org\n",
	}, []string{"a.md:1", "a.md:2", "a.md:3", "b/package.json:1", "c/c.go:2", "d.md:1",
		"e/testdata/x.txt:1", "f.md:1"}},
	{"lines", map[string]string{
		"a/a.go": "package a\n" + long(121) + "\n" + long(120) + "\n\t" + long(117) + "\n\t" + long(116) + "\n",
		"a/b.go": "// Code generated by x. DO NOT EDIT.\n\npackage a\n" + long(200) + "\n",
		"a/c.go": "package a\n// https://go.dev/" + strings.Repeat("x", 120) +
			"\n// " + strings.Repeat("é", 117) + "\n",
		"a.md":  strings.Repeat("x", 300) + "\n",
		"a/d.c": long(121) + "\n",
	}, []string{"a/a.go:2", "a/a.go:4", "a/d.c:1"}},
	{"functions", map[string]string{
		"a/a.go": "package a\nfunc f(x int) {\n" + body(71) + "}\n",
		"a/b.go": "package a\nfunc g(x int) {\n" + body(70) + strings.Repeat("\t// why\n\n", 50) + "}\n",
		"a/c.go": "package a\nfunc h() {\n_ = []int{\n" + strings.Repeat("1,\n", 200) + "}\n}\n",
		"a/d.go": "package a\nfunc i() {\n_ = []func(){\nfunc() {\n" + body(70) + "},\n}\n}\n",
		"a/e.go": "package a\nfunc stated(x int) {\n" + body(71) + "}\n",
		"a/f.go": "package a\nfunc j() {\n_ = `" + strings.Repeat("x\n", 100) + "`\n}\n",
	}, []string{"a/a.go:2", "a/d.go:2"}},
	{"package-doc", map[string]string{
		"a/a.go":      "package a\n",
		"b/doc.go":    "// Package b is documented.\npackage b\n",
		"b/b.go":      "package b\n",
		"c/c.go":      "// Something else.\npackage c\n",
		"d/d.go":      "// Command d runs.\npackage main\n",
		"e/e_test.go": "package e\n",
	}, []string{"a/a.go:1", "c/c.go:2"}},
	{"exported-doc", map[string]string{
		"npc/a.go": "package npc\nfunc F() {}\n// G is.\nfunc G() {}\nfunc h() {}\ntype T int\nfunc (T) M() {}\n" +
			"func (T) String() string { return \"\" }\ntype u int\nfunc (u) M() {}\n",
		"npc/b.go": "package npc\nconst A = 1\nconst (\n\tB = 1\n\tC = 2 // C is.\n)\n" +
			"// Both.\nvar (\n\tD = 1\n\tE = 2\n)\n",
		"npc/c.go": "package npc\n// Group.\ntype (\n\tV int\n\tW int // W is.\n)\n// X is.\ntype X int\n",
		"rag/a.go": "package rag\nfunc F() {}\n",
	}, []string{"npc/a.go:2", "npc/a.go:6", "npc/a.go:7", "npc/b.go:2", "npc/b.go:4", "npc/c.go:4"}},
	{"titles", map[string]string{
		"a.md": "# One\n\n# Two\n",
		"b.md": "## None\n",
		"c.md": "# One\n```\n# a comment\n```\n",
	}, []string{"a.md:3", "b.md:1"}},
	{"architecture", map[string]string{
		"ARCHITECTURE.md": "# Map\nSee `npc/` and `gone/`, built into `bin/`.\n" +
			"```\nruntime/  a folder\n  llm/    there\n" +
			"  lost/   not\nnpc/\n```\nA path like npc/x is prose.\n",
		"npc/a.go":         "package npc\n",
		"runtime/llm/a.go": "package llm\n",
		"README.md":        "# Other\n`nowhere/`\n",
	}, []string{"ARCHITECTURE.md:2", "ARCHITECTURE.md:6"}},
	{"dead", map[string]string{
		"a/a_plan9.go":   "package a\n",
		"a/b.go":         "//go:build ignore\n\npackage a\n",
		"a/_c.go":        "package a\n",
		"a/d_windows.go": "package a\n",
		"a/e.go":         "//go:build !cgo && linux\n\npackage a\n",
		"a/f.go":         "//go:build cgo\n\npackage a\n",
		"a/g.go":         "//go:build linux && windows\n\npackage a\n",
		"a/h.go":         "//go:build !linux && !windows && !darwin\n\npackage a\n",
		"_old/i.go":      "package old\n",
	}, []string{"_old/i.go:1", "a/_c.go:1", "a/a_plan9.go:1", "a/b.go:1", "a/g.go:1"}},
	{"generated", map[string]string{
		"a/x_gen.go":     "package a\n",
		"a/y_gen.go":     "// Code generated by y. DO NOT EDIT.\n\npackage a\n",
		"a/B.cs":         "// <auto-generated>\nclass B {}\n",
		"a/gen.go":       "// This file was generated by hand-made magic.\npackage a\n",
		"a/generator.go": "package a\n\n//go:generate tool -output made.go\n",
		"a/made.go":      "package a\n",
		"a/D.g.cs":       "// Code generated by abigen. DO NOT EDIT.\nclass D {}\n",
	}, []string{"a/B.cs:1", "a/gen.go:1", "a/made.go:1", "a/x_gen.go:1"}},
}

// planted excuses the functions called "stated" of the plants above.
var planted = []Exception{
	{"panic", "npc/a.go", "stated", "planted"},
	{"functions", "a/e.go", "stated", "planted"},
}

func TestEachRuleFindsItsPlant(t *testing.T) {
	for _, rule := range All() {
		t.Run(rule.Name, func(t *testing.T) {
			i := slices.IndexFunc(plants, func(p plant) bool { return p.rule == rule.Name })
			if i < 0 {
				t.Fatal("no planted defect: a rule that finds nothing checks nothing")
			}
			tree, err := Load(mapFS(plants[i].files))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range Check(tree, []Rule{rule}, planted) {
				got = append(got, fmt.Sprintf("%s:%d", f.Path, f.Line))
				if f.What == "" || f.Instead == "" {
					t.Errorf("%v: does not say what is wrong and what to do", f)
				}
			}
			if !slices.Equal(got, plants[i].want) {
				t.Errorf("found %v\nwant %v", got, plants[i].want)
			}
		})
	}
}

func TestStaleExceptionIsFound(t *testing.T) {
	tree, err := Load(mapFS(map[string]string{"npc/a.go": "package npc\n"}))
	if err != nil {
		t.Fatal(err)
	}
	rule := Rule{"panic", findPanics}
	got := Check(tree, []Rule{rule}, []Exception{{"panic", "npc/a.go", "f", "was needed once"}})
	if len(got) != 1 || !strings.Contains(got[0].String(), "excuses nothing") {
		t.Errorf("got %v, want one finding about the exception", got)
	}
}

func TestExceptionsHaveReasons(t *testing.T) {
	for _, e := range Exceptions {
		if len(strings.Fields(e.Reason)) < 4 {
			t.Errorf("exception from %s for %s %s: reason %q convinces nobody", e.Rule, e.Path, e.Name, e.Reason)
		}
	}
}

func TestLoadSkipsWhatIsBuilt(t *testing.T) {
	tree, err := Load(mapFS(map[string]string{
		"bin/a.go": "x", "dist/a.go": "x", ".git/config": "x", ".cache/a.go": "x", "npc.test": "x",
		"npc/image.png": "\x89PNG\x00", "npc/testdata/a.go": "not Go", "npc/bin/a.txt": "kept",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tree.Files {
		got = append(got, f.Path)
	}
	want := []string{"npc/bin/a.txt", "npc/testdata/a.go"}
	if !slices.Equal(got, want) || len(tree.Broken) != 0 {
		t.Errorf("loaded %v (broken %v), want %v", got, tree.Broken, want)
	}
}

func mapFS(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}
