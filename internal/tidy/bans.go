package tidy

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pureImports are packages that scheduler may not import, with the reason's
// other side: what to do instead. An entry covers what is below it.
var pureImports = map[string]string{
	"sync":      "return a decision and let the caller share it",
	"log":       "put the reason into Decision.Reason",
	"os":        "take the bytes as an argument",
	"io/fs":     "take the bytes as an argument",
	"net":       "take the bytes as an argument",
	"syscall":   "take the measured value in FrameSample",
	"runtime":   "take the measured value in FrameSample",
	"unsafe":    "use plain Go",
	"math/rand": "take random numbers as an argument, or a seeded generator of its own",
}

// clockReads are the functions of package time that read a clock or wait on one.
var clockReads = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// findImpure keeps scheduler a pure function of its arguments: it runs the same
// in the game, behind the C ABI and in the simulator.
func findImpure(c *checker) {
	c.tree.Go(func(f *File) {
		if !below(f.Dir(), "scheduler") || f.IsTest() {
			return
		}
		for _, spec := range f.AST.Imports {
			for banned, instead := range pureImports {
				if imported := importPath(spec); below(imported, banned) {
					c.report(f, f.Line(spec.Pos()), "import of "+imported+" in scheduler", instead)
				}
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				c.report(f, f.Line(g.Pos()), "go statement in scheduler", "let the worker that calls it run it")
			}
			for _, name := range clockReads {
				if isPackageFunc(f.AST, n, "time", name) {
					c.report(f, f.Line(n.Pos()), "time."+name+" in scheduler",
						"use an instant that the caller passes in")
				}
			}
			return true
		})
	})
}

func findTestSleeps(c *checker) {
	c.tree.Go(func(f *File) {
		if !f.IsTest() {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if isPackageFunc(f.AST, n, "time", "Sleep") {
				c.report(f, f.Line(n.Pos()), "time.Sleep in a test",
					"wait for the event itself, or pass time as an argument")
			}
			return true
		})
	})
}

// findPrints keeps libraries quiet: a game's standard output is not ours. The
// shared library of bindings/capi is package main and still a library.
func findPrints(c *checker) {
	c.tree.Go(func(f *File) {
		program := f.AST.Name.Name == "main" && !below(f.Dir(), "bindings/capi")
		if f.IsTest() || program {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			for _, name := range []string{"Print", "Printf", "Println"} {
				if isPackageFunc(f.AST, n, "fmt", name) {
					c.report(f, f.Line(n.Pos()), "fmt."+name+" in a library", "return the text or take an io.Writer")
				}
			}
			if name := builtinCall(n); name == "print" || name == "println" {
				c.report(f, f.Line(n.Pos()), name+" in a library", "return the text or take an io.Writer")
			}
			return true
		})
	})
}

// findPanics allows panic only where an exception states the place. What bad
// input causes is an error; a panic would end the game that embeds us.
func findPanics(c *checker) {
	c.tree.Go(func(f *File) {
		if f.IsTest() {
			return
		}
		for _, decl := range f.AST.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				if builtinCall(n) == "panic" && !c.excused(f, declName(decl)) {
					c.report(f, f.Line(n.Pos()), "panic",
						"return an error, or state the place in internal/tidy/exceptions.go")
				}
				return true
			})
		}
	})
}

// unfinished is written so that this file does not match it.
var unfinished = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X])\b`)

func findUnfinished(c *checker) {
	for _, f := range c.tree.Files {
		if f.InTestdata() || f.Path == "go.sum" {
			continue
		}
		f.lines(func(n int, line string) {
			if mark := unfinished.FindString(line); mark != "" {
				c.report(f, n, mark, "do it, or file an issue and say in a sentence what is missing")
			}
		})
	}
}

func findSkips(c *checker) {
	c.tree.Go(func(f *File) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isTestingValue(method.X) {
				return true
			}
			name := method.Sel.Name
			mute := name == "SkipNow" || name == "Skip" && !saysSomething(call.Args) ||
				name == "Skipf" && !saysSomething(call.Args)
			if mute {
				c.report(f, f.Line(n.Pos()), "skip without a reason", "say what is missing and how to get it")
			}
			return true
		})
	})
}

// saysSomething reports whether the first argument can hold a reason.
func saysSomething(args []ast.Expr) bool {
	if len(args) == 0 {
		return false
	}
	lit, ok := args[0].(*ast.BasicLit)
	if !ok {
		return true
	}
	text, err := strconv.Unquote(lit.Value)
	return err != nil || strings.TrimSpace(text) != ""
}

// isTestingValue reports whether x is a *testing.T or the like: a parameter
// declared so, or a field with one of the customary names.
func isTestingValue(x ast.Expr) bool {
	if sel, ok := x.(*ast.SelectorExpr); ok {
		return slices.Contains([]string{"t", "tb", "T", "TB"}, sel.Sel.Name)
	}
	id, ok := x.(*ast.Ident)
	if !ok || id.Obj == nil {
		return false
	}
	field, ok := id.Obj.Decl.(*ast.Field)
	if !ok {
		return false
	}
	typ := field.Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	sel, ok := typ.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"T", "B", "F", "TB"}, sel.Sel.Name)
}

// isPackageFunc reports whether n names a function of a package, whatever the
// file calls the package and whether it is called or passed on.
func isPackageFunc(file *ast.File, n ast.Node, pkg, name string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok || id.Obj != nil { // an object of the file shadows the package
		return false
	}
	for _, spec := range file.Imports {
		if importPath(spec) == pkg {
			return spec.Name == nil && id.Name == pkg || spec.Name != nil && id.Name == spec.Name.Name
		}
	}
	return false
}

// builtinCall is the name of the predeclared function that n calls, or nothing.
func builtinCall(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Obj != nil {
		return ""
	}
	return id.Name
}

// declName is the name of a function, with its receiver's type before a dot.
func declName(decl ast.Decl) string {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if recv := receiverType(fn); recv != "" {
		return recv + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiverType is the name of a method's type, or nothing for a function.
func receiverType(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	typ := fn.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
