package harness

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxFileBytes bounds a scenario: the longest shipped one has 3 KB. The YAML
	// library takes 0.6 s for that much of the worst kind.
	maxFileBytes = 64 << 10
	// maxBrackets bounds how deep [ and { nest. A scenario needs two; the YAML
	// library takes quadratic time on what nests deeper.
	maxBrackets = 16
	// maxLineBytes bounds a line, for the same reason.
	maxLineBytes = 8 << 10
	// maxProblems keeps an error readable.
	maxProblems = 10
)

// problem is something wrong with a value: its place as a YAML path, and what.
type problem struct{ path, text string }

// checks collects problems.
type checks struct{ found []problem }

func (c *checks) add(path, format string, args ...any) {
	c.found = append(c.found, problem{path, fmt.Sprintf(format, args...)})
}

// between also refuses NaN.
func (c *checks) between(path string, v, low, high float64) {
	if !(v >= low && v <= high) {
		c.add(path, "%v: want %s … %s", v, number(low), number(high))
	}
}

func (c *checks) count(path string, n, low, high int) {
	if n < low || n > high {
		c.add(path, "%d: want %d … %d", n, low, high)
	}
}

func (c *checks) text(path, s string, wanted bool) {
	switch {
	case wanted && strings.TrimSpace(s) == "":
		c.add(path, "missing or empty")
	case len(s) > maxTextBytes:
		c.add(path, "%d bytes: want %d at most", len(s), maxTextBytes)
	}
}

// FileError says what is wrong with a file, and where. It wraps ErrScenario.
type FileError struct {
	File         string
	Line, Column int // from 1; 0 where the whole file is meant
	Message      string
	Excerpt      string // the lines around it, or empty
}

func (e *FileError) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	if e.Excerpt == "" {
		return at + ": " + e.Message
	}
	return at + ": " + e.Message + "\n" + strings.TrimRight(e.Excerpt, "\n")
}

func (e *FileError) Unwrap() error { return ErrScenario }

// decode reads a YAML file strictly into v and places the problems that check
// finds. A panic of the YAML library becomes an error.
func decode(file string, text []byte, v any, check func() []problem) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &FileError{File: file, Message: fmt.Sprintf("not readable as YAML (%v)", r)}
		}
	}()
	if e := tangled(text); e != nil {
		e.File = file
		return e
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return placed(file, err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return &FileError{File: file, Message: fmt.Sprintf("%d documents with something in them, want one",
			len(tree.Docs))}
	}
	body := tree.Docs[0].Body
	var plain plainOnly
	ast.Walk(&plain, body)
	if plain.err != nil {
		return placed(file, plain.err)
	}
	if err := yaml.NodeToValue(body, v, yaml.Strict()); err != nil {
		return placed(file, err)
	}
	var all []error
	for i, p := range check() {
		if i == maxProblems {
			all = append(all, &FileError{File: file, Message: "and more"})
			break
		}
		all = append(all, locate(file, tree, p))
	}
	return errors.Join(all...)
}

// locate finds the line of a problem: that of its value, or of the nearest
// thing around it that is there.
func locate(file string, tree *ast.File, p problem) error {
	message := strings.TrimPrefix(strings.TrimPrefix(p.path, "$"), ".") + ": " + p.text
	for at := p.path; at != "$" && at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		path, err := yaml.PathString(at)
		if err != nil {
			break
		}
		node, err := path.FilterFile(tree)
		if err != nil || node == nil || node.GetToken() == nil {
			continue
		}
		return placed(file, &yaml.SyntaxError{Message: message, Token: node.GetToken()})
	}
	return &FileError{File: file, Message: message}
}

// placed turns an error of the YAML library into a FileError.
func placed(file string, err error) error {
	e := &FileError{File: file, Message: err.Error()}
	var source yaml.Error
	if !errors.As(err, &source) {
		return e
	}
	e.Message = source.GetMessage()
	if at := source.GetToken(); at != nil && at.Position != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
		_, e.Excerpt, _ = strings.Cut(yaml.FormatErrorWithToken(e.Message, at, false, true), "\n")
	}
	return e
}

// tangled finds what no scenario needs and the YAML library chokes on.
func tangled(text []byte) *FileError {
	if len(text) > maxFileBytes {
		return &FileError{Message: fmt.Sprintf("more than %d bytes: no scenario needs that much", maxFileBytes)}
	}
	if !utf8.Valid(text) {
		return &FileError{Message: "not valid UTF-8: save the file as UTF-8"}
	}
	line, column, depth := 1, 0, 0
	for _, b := range text {
		column++
		switch b {
		case '\n':
			line, column = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		switch {
		case depth > maxBrackets:
			return &FileError{Line: line, Column: column, Message: fmt.Sprintf("more than %d brackets are open",
				maxBrackets)}
		case column > maxLineBytes:
			return &FileError{Line: line, Column: column,
				Message: fmt.Sprintf("the line has more than %d bytes: break it", maxLineBytes)}
		}
	}
	return nil
}

// plainOnly refuses the parts of YAML that let a short file become a huge one.
type plainOnly struct{ err error }

// Visit is called by ast.Walk.
func (p *plainOnly) Visit(n ast.Node) ast.Visitor {
	if p.err != nil {
		return nil
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode, *ast.DirectiveNode:
		p.err = &yaml.SyntaxError{Message: "anchors, aliases, merge keys, tags and directives are not for scenarios: " +
			"write the value out", Token: n.GetToken()}
		return nil
	}
	return p
}
