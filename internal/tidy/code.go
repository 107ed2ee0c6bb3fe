package tidy

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/format"
	"go/token"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func findBroken(c *checker) { c.found = append(c.found, c.tree.Broken...) }

func findUnformatted(c *checker) {
	c.tree.Go(func(f *File) {
		if want, err := format.Source(f.Data); err == nil && !bytes.Equal(want, f.Data) {
			c.report(f, 1+firstDifference(f.Data, want), "not as gofmt writes it", "run gofmt -w on it")
		}
	})
}

// firstDifference is how many lines a and b have in common at their heads.
func firstDifference(a, b []byte) int {
	la, lb := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	n := 0
	for n < len(la) && n < len(lb) && bytes.Equal(la[n], lb[n]) {
		n++
	}
	return min(n, len(la)-1)
}

// maxStatements is how many lines with statements a function may have: it fits
// on one screen.
const maxStatements = 70

func findLongFunctions(c *checker) {
	c.tree.Go(func(f *File) {
		if isGenerated(f) {
			return
		}
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := statementLines(f, fn.Body)
			if lines > maxStatements && !c.excused(f, declName(fn)) {
				c.report(f, f.Line(fn.Pos()), declName(fn)+" has "+strconv.Itoa(lines)+" lines",
					"split it, "+strconv.Itoa(maxStatements)+" lines are a screen")
			}
		}
	})
}

// statementLines counts the lines of a body on which code stands. Blank lines
// and comments are free, so that nobody saves on them; so are the rows of a
// table and the lines of a raw string, which are data. Code inside a table (a
// function literal) counts.
func statementLines(f *File, body *ast.BlockStmt) int {
	lines := map[int]bool{}
	var count, inTable func(ast.Node) bool
	count = func(n ast.Node) bool {
		switch n := n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		case *ast.CompositeLit:
			if n.Type != nil {
				ast.Inspect(n.Type, count)
			}
			lines[f.Line(n.Lbrace)], lines[f.Line(n.Rbrace)] = true, true
			for _, e := range n.Elts {
				ast.Inspect(e, inTable)
			}
			return false
		case *ast.BasicLit:
			lines[f.Line(n.Pos())] = true
			return false
		default:
			lines[f.Line(n.Pos())], lines[f.Line(n.End()-1)] = true, true
			return true
		}
	}
	inTable = func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncLit); ok {
			ast.Inspect(fn, count)
			return false
		}
		return true
	}
	for _, s := range body.List {
		ast.Inspect(s, count)
	}
	return len(lines)
}

// findMissingPackageDocs wants one comment on each package that begins as godoc
// wants it.
func findMissingPackageDocs(c *checker) {
	first := map[string]*File{}
	documented := map[string]bool{}
	c.tree.Go(func(f *File) {
		if f.IsTest() {
			return
		}
		if first[f.Dir()] == nil {
			first[f.Dir()] = f
		}
		doc := f.AST.Doc.Text()
		named := strings.HasPrefix(doc, "Package "+f.AST.Name.Name+" ")
		if named || f.AST.Name.Name == "main" && strings.TrimSpace(doc) != "" {
			documented[f.Dir()] = true
		}
	})
	for dir, f := range first {
		if !documented[dir] {
			c.report(f, f.Line(f.AST.Package), "package "+f.AST.Name.Name+" has no package comment",
				"write a doc.go that begins \"Package "+f.AST.Name.Name+" …\" and teaches the model")
		}
	}
}

// documentedDirs are the packages that other people program against.
var documentedDirs = []string{"scheduler", "runtime/llm", "npc"}

// selfEvident are methods whose meaning an interface of the standard library
// fixes: a comment could only repeat it.
var selfEvident = []string{"String", "Error", "Unwrap"}

func findMissingDocs(c *checker) {
	c.tree.Go(func(f *File) {
		if f.IsTest() || !slices.Contains(documentedDirs, f.Dir()) {
			return
		}
		for _, decl := range f.AST.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				recv := receiverType(d)
				private := !d.Name.IsExported() || recv != "" && !ast.IsExported(recv)
				if !private && d.Doc == nil && !(recv != "" && slices.Contains(selfEvident, d.Name.Name)) {
					undocumented(c, f, d.Pos(), declName(d))
				}
			case *ast.GenDecl:
				findUndocumentedSpecs(c, f, d)
			}
		}
	})
}

// findUndocumentedSpecs accepts the comment of a whole group for its constants
// and variables; a type wants its own.
func findUndocumentedSpecs(c *checker, f *File, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			lone := !d.Lparen.IsValid() && d.Doc != nil
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && !lone {
				undocumented(c, f, s.Pos(), s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					undocumented(c, f, name.Pos(), name.Name)
				}
			}
		}
	}
}

func undocumented(c *checker, f *File, pos token.Pos, name string) {
	c.report(f, f.Line(pos), "exported "+name+" has no comment", "say what it is, with unit and range")
}

// builds are the systems that lull is built for. A file that none of them
// includes is dead: nothing would notice if it stopped compiling.
var builds = []struct{ os, arch string }{
	{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"darwin", "arm64"}, {"android", "arm64"},
	{"freebsd", "amd64"}, // stands for "every other system" in files of fallbacks
}

// buildTags are the tags that a recipe of this repository sets: none so far.
var buildTags = []string{}

func findDeadFiles(c *checker) {
	c.tree.Go(func(f *File) {
		if !builtSomewhere(f) {
			c.report(f, 1, "no build includes this file", "correct its name or build constraint, or remove it")
		}
	})
}

func builtSomewhere(f *File) bool {
	for dir := f.Dir(); dir != "."; dir = path.Dir(dir) {
		if base := path.Base(dir); strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
			return false
		}
	}
	ctx := build.Default
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.Data)), nil }
	for _, b := range builds {
		for _, cgo := range []bool{false, true} {
			for _, tags := range [][]string{nil, buildTags} {
				ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled, ctx.BuildTags = b.os, b.arch, cgo, tags
				if ok, err := ctx.MatchFile(f.Dir(), path.Base(f.Path)); ok && err == nil {
					return true
				}
			}
		}
	}
	return false
}

var (
	// generatedMark is Go's convention, with the comment signs of other languages.
	generatedMark = regexp.MustCompile(`(?m)^\s*(//|/\*|#|--|;)\s*Code generated .* DO NOT EDIT\.`)
	// generatedClaim is a comment that says so in other words.
	generatedClaim = regexp.MustCompile(`(?im)^\s*(//|/\*|#|--|;)\s*<?(this file (is|was) |file )?(auto-?)?generated\b`)
	// generatedName is a file name that says so.
	generatedName = regexp.MustCompile(`(?i)(^|[/._-])(gen|generated)([._-][\w.]*)?\.[a-z]+$|^zz_`)
	// generatedOutput is the file that a go:generate line writes.
	generatedOutput = regexp.MustCompile(`^//go:generate\b.*\s-(?:o|out|output)[= ](\S+)`)
)

// headBytes is how much of a file may stand before the mark: a licence at most.
const headBytes = 2 << 10

func isGenerated(f *File) bool {
	return generatedMark.Match(f.Data[:min(len(f.Data), headBytes)])
}

func findUnmarkedGenerated(c *checker) {
	const what, instead = "generated file without its mark", "begin it with \"Code generated by NAME. DO NOT EDIT.\""
	outputs := map[string]bool{}
	c.tree.Go(func(f *File) {
		f.lines(func(_ int, line string) {
			if m := generatedOutput.FindStringSubmatch(line); m != nil {
				outputs[path.Join(f.Dir(), m[1])] = true
			}
		})
	})
	for _, f := range c.tree.Files {
		if f.InTestdata() || !slices.Contains(sources, path.Ext(f.Path)) || isGenerated(f) {
			continue
		}
		head := f.Data[:min(len(f.Data), headBytes)]
		if outputs[f.Path] || generatedName.MatchString(path.Base(f.Path)) || generatedClaim.Match(head) {
			c.report(f, 1, what, instead)
		}
	}
}
