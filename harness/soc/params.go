package soc

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ErrParameters is wrapped by every error about a file of parameters, or a name
// of one.
var ErrParameters = errors.New("soc: bad parameters")

//go:embed chips/*.yaml apps/*.yaml models/*.yaml tasks/*.yaml
var shipped embed.FS

const (
	// maxFile is 64 KB: the longest shipped file has 6.
	maxFile = 64 << 10
	// maxNesting bounds brackets, which the YAML library takes quadratic time for.
	maxNesting = 8
	// maxLine bounds a line, for the same reason.
	maxLine = 4 << 10
	// Fitted as a Source says that the value was found by fitting outcomes within
	// its bounds, not read anywhere.
	Fitted = "fitted"
)

// Value is a number with where it comes from: a row of the facts, a public
// figure that is named, or "fitted" (with a remark after it).
type Value struct {
	Value  float64 `yaml:"value" json:"value"`
	Source string  `yaml:"source" json:"source"`
}

// IsFitted reports whether the value was fitted.
func (v Value) IsFitted() bool { return strings.HasPrefix(v.Source, Fitted) }

// Field is one parameter with its place and its physical bounds, which a fit
// stays within.
type Field struct {
	Path      string
	To        *Value
	Low, High float64
}

// check says what is wrong with fields.
func check(fields []Field) error {
	var all []error
	for _, f := range fields {
		switch v := f.To.Value; {
		case !(v >= f.Low && v <= f.High):
			all = append(all, fmt.Errorf("%w: %s: %v: want %v … %v", ErrParameters, f.Path, v, f.Low, f.High))
		case strings.TrimSpace(f.To.Source) == "":
			all = append(all, fmt.Errorf("%w: %s: no source: name a row of the facts, a public figure, or %q",
				ErrParameters, f.Path, Fitted))
		}
	}
	return errors.Join(all...)
}

// validated is what is read from a file and can be wrong.
type validated[T any] interface {
	*T
	Validate() error
}

// loadValid reads a shipped file of a kind; parseValid reads a file's text.
func loadValid[T any, P validated[T]](kind, name string) (*T, error) {
	var x T
	if err := load(kind, name, &x); err != nil {
		return nil, err
	}
	return &x, P(&x).Validate()
}

func parseValid[T any, P validated[T]](file string, text []byte) (*T, error) {
	var x T
	if err := parse(file, text, &x); err != nil {
		return nil, err
	}
	return &x, P(&x).Validate()
}

// Names lists the shipped files of a kind: chips, apps, models or tasks.
func Names(kind string) []string {
	entries, err := shipped.ReadDir(kind)
	if err != nil {
		return nil // a kind that isn't one has no files
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// load reads a shipped file into v.
func load(kind, name string, v any) error {
	if !slices.Contains(Names(kind), name) {
		return fmt.Errorf("%w: no %s %q: want one of %s", ErrParameters, strings.TrimSuffix(kind, "s"), name,
			strings.Join(Names(kind), ", "))
	}
	text, err := shipped.ReadFile(path.Join(kind, name+".yaml"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrParameters, err)
	}
	return parse(name+".yaml", text, v)
}

// parse reads YAML strictly. Whatever the YAML library does becomes an error.
func parse(file string, text []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %s: not readable as YAML (%v)", ErrParameters, file, r)
		}
	}()
	if why := tangled(text); why != "" {
		return fmt.Errorf("%w: %s: %s", ErrParameters, file, why)
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fmt.Errorf("%w: %s: %s", ErrParameters, file, yaml.FormatError(err, false, true))
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return fmt.Errorf("%w: %s: %d documents: want one with something in it", ErrParameters, file, len(tree.Docs))
	}
	var plain plainOnly
	ast.Walk(&plain, tree.Docs[0].Body)
	if plain.found != "" {
		return fmt.Errorf("%w: %s: %s is not for parameters: write the value out", ErrParameters, file, plain.found)
	}
	if err := yaml.NodeToValue(tree.Docs[0].Body, v, yaml.Strict()); err != nil {
		return fmt.Errorf("%w: %s: %s", ErrParameters, file, yaml.FormatError(err, false, true))
	}
	return nil
}

// tangled says what no file of parameters needs and the YAML library chokes on.
func tangled(text []byte) string {
	if len(text) > maxFile {
		return fmt.Sprintf("more than %d bytes", maxFile)
	}
	if !utf8.Valid(text) {
		return "not valid UTF-8"
	}
	column, depth := 0, 0
	for _, b := range text {
		switch column++; b {
		case '\n':
			column = 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxNesting || column > maxLine {
			return fmt.Sprintf("more than %d open brackets, or a line of more than %d bytes", maxNesting, maxLine)
		}
	}
	return ""
}

// plainOnly refuses the parts of YAML that let a short file become a huge one.
type plainOnly struct{ found string }

// Visit is called by ast.Walk.
func (p *plainOnly) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode, *ast.DirectiveNode:
		p.found = n.Type().String()
	}
	if p.found != "" {
		return nil
	}
	return p
}
