package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// File is one text file of a Tree.
type File struct {
	Path string // relative to the root of the tree, with slashes
	Data []byte
	Fset *token.FileSet // of AST
	AST  *ast.File      // of a Go file that parses, else nil
}

// Dir is the folder of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// IsGo reports whether the file is Go source.
func (f *File) IsGo() bool { return strings.HasSuffix(f.Path, ".go") }

// IsTest reports whether the file is a Go test.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// InTestdata reports whether the file is data of a test: goldens and corpora
// are written by programs, so only the rules on what may be named apply.
func (f *File) InTestdata() bool { return slices.Contains(strings.Split(f.Path, "/"), "testdata") }

// Line is the line number of a position in the file.
func (f *File) Line(p token.Pos) int { return f.Fset.Position(p).Line }

// Tree is what the rules look at. Safe for concurrent use once loaded.
type Tree struct {
	Files  []*File
	Dirs   map[string]bool // every folder that holds something, "." included
	Broken []Finding       // Go files that do not parse
	FS     fs.FS
}

// unwalked are folders at the root that hold what the build makes, never source.
var unwalked = []string{"bin", "dist", ".cache"}

// byproducts are the endings of files that Go's tools drop beside the source.
var byproducts = []string{".test", ".prof", ".out"}

// Load reads a tree. It follows no version control, so that an export checks
// as a checkout does.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{Dirs: map[string]bool{".": true}, FS: root}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || slices.Contains(unwalked, p)):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || slices.Contains(byproducts, path.Ext(p)):
			return nil
		}
		return t.add(root, p)
	})
	if err != nil {
		return nil, fmt.Errorf("tidy: reading the tree: %w", err)
	}
	return t, nil
}

func (t *Tree) add(root fs.FS, p string) error {
	data, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	for dir := path.Dir(p); !t.Dirs[dir]; dir = path.Dir(dir) {
		t.Dirs[dir] = true
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil // binary: nothing here reads it
	}
	f := &File{Path: p, Data: data}
	t.Files = append(t.Files, f)
	if !f.IsGo() || f.InTestdata() {
		return nil
	}
	f.Fset = token.NewFileSet()
	parsed, err := parser.ParseFile(f.Fset, p, data, parser.ParseComments)
	if err != nil {
		t.Broken = append(t.Broken, Finding{p, 1, "does not parse (" + err.Error() + ")", "fix it"})
		return nil
	}
	f.AST = parsed
	return nil
}

// Go calls visit for each Go file that parses and is not data of a test.
func (t *Tree) Go(visit func(*File)) {
	for _, f := range t.Files {
		if f.AST != nil {
			visit(f)
		}
	}
}

// lines calls visit with each line of the file and its number from 1.
func (f *File) lines(visit func(n int, line string)) {
	n := 0
	for line := range strings.Lines(string(f.Data)) {
		n++
		visit(n, strings.TrimRight(line, "\r\n"))
	}
}
