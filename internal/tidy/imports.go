package tidy

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/lull-npc/lull"

// rung is one step of the import ladder: the packages below dir may import the
// standard library, each other, other modules unless stdlibOnly, and the
// packages of this module that stand in may.
type rung struct {
	dir        string
	stdlibOnly bool
	may        []string
}

// libraries is what the programs on top may import.
var libraries = []string{"scheduler", "runtime", "rag", "npc", "internal/wholefile"}

// windowless are the packages of the demo game that need no display: the command
// plays them, and does not open one.
var windowless = []string{"demo-game/data", "demo-game/display", "demo-game/headless", "demo-game/input",
	"demo-game/play", "demo-game/talk"}

// ladder goes from the bottom up. A package that is on no rung is a finding, so
// that a new one gets its place by decision.
var ladder = []rung{
	{dir: "internal/wholefile", stdlibOnly: true},
	{dir: "scheduler", stdlibOnly: true},
	{dir: "runtime/llm", stdlibOnly: true},
	{dir: "runtime/speculative", may: []string{"runtime/llm"}},
	{dir: "runtime/scripted", may: []string{"runtime/llm"}},
	{dir: "runtime/llmtest", may: []string{"runtime/llm"}},
	{dir: "runtime/remote", may: []string{"runtime/llm"}},
	{dir: "runtime/llamacpp", may: []string{"runtime/llm"}},
	{dir: "runtime/calibrate", may: []string{"scheduler", "runtime/llm"}},
	{dir: "runtime/predict", may: []string{"scheduler", "runtime/llm"}},
	{dir: "runtime/probe", may: []string{"scheduler", "runtime/llm"}},
	{dir: "runtime/assets"},
	{dir: "rag"},
	{dir: "npc", may: []string{"scheduler", "runtime/llm", "rag"}},
	{dir: "runtime/local", may: libraries},
	{dir: "harness", may: libraries},
	{dir: "bindings/capi", may: libraries},
	{dir: "bindings/abigen"},
	{dir: "bindings/ctest"},
	{dir: "demo-game", may: append([]string{"harness"}, libraries...)},
	{dir: "cmd/lull", may: append(append([]string{"harness"}, windowless...), libraries...)},
	{dir: "internal/tidy", stdlibOnly: true},
	{dir: "internal/deps"},
	{dir: "internal/testassets", may: []string{"runtime/assets"}},
}

func findLadder(c *checker) {
	c.tree.Go(func(f *File) {
		if f.IsTest() || c.excused(f, "") {
			return
		}
		i := slices.IndexFunc(ladder, func(r rung) bool { return below(f.Dir(), r.dir) })
		if i < 0 {
			c.report(f, f.Line(f.AST.Name.Pos()), "package "+f.Dir()+" has no rung on the import ladder",
				"give it one in internal/tidy/imports.go, as low as it can stand")
			return
		}
		for _, spec := range f.AST.Imports {
			if what, instead := ladder[i].objects(importPath(spec)); what != "" {
				c.report(f, f.Line(spec.Pos()), what, instead)
			}
		}
	})
}

// objects says what is wrong with an import on this rung, or nothing.
func (r rung) objects(imported string) (what, instead string) {
	local, ours := strings.CutPrefix(imported, Module+"/")
	holds := func(dir string) bool { return below(local, dir) }
	switch {
	case ours && (holds(r.dir) || slices.ContainsFunc(r.may, holds)):
		return "", ""
	case ours:
		return r.dir + " imports " + local + ", which is not below it",
			"declare an interface where it is used, or move the code to the package that wires both"
	case r.stdlibOnly && !isStdlib(imported):
		return r.dir + " imports " + imported, "use the standard library only"
	}
	return "", ""
}

// fence keeps a dependency in few places. An import that equals prefix or lies
// below it is allowed only below the folders in dirs.
type fence struct {
	prefix string
	dirs   []string
	why    string
}

const (
	useModel    = "use runtime/llm's Model: only llamacpp guards these calls"
	useNoWindow = "draw in demo-game/draw, sound in demo-game/audio: the rest needs neither display nor speakers"
	useNoCgo    = "go through runtime/llamacpp: cgo makes every cross build need a C compiler"
)

var fences = []fence{
	{"C", []string{"bindings/capi", "runtime/llamacpp"}, useNoCgo},
	{"github.com/hajimehoshi/ebiten", []string{"demo-game/draw", "demo-game/main"}, useNoWindow},
	{"github.com/ebitengine/oto", []string{"demo-game/audio"}, useNoWindow},
	{"github.com/hybridgroup/yzma", []string{"runtime/llamacpp"}, useModel},
	{"github.com/ebitengine/purego", []string{"runtime/llamacpp"}, useModel},
	{"github.com/jupiterrider/ffi", []string{"runtime/llamacpp"}, useModel},
	{"github.com/philippgille/chromem-go", []string{"rag"}, "use package rag: it guards the index"},
}

func findFences(c *checker) {
	c.tree.Go(func(f *File) {
		for _, spec := range f.AST.Imports {
			imported := importPath(spec)
			for _, fence := range fences {
				inside := slices.ContainsFunc(fence.dirs, func(dir string) bool { return below(f.Dir(), dir) })
				if below(imported, fence.prefix) && !inside && !c.excused(f, "") {
					c.report(f, f.Line(spec.Pos()), "import of "+strconv.Quote(imported)+" outside "+
						strings.Join(fence.dirs, " and "), fence.why)
				}
			}
		}
	})
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}

// isStdlib reports whether an import path is of the standard library: its first
// element is no host name.
func isStdlib(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && imported != "C"
}
