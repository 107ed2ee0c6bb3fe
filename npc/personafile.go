package npc

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// PersonaVersion is the format of persona files that this package reads: the
// value of the optional key "lull".
const PersonaVersion = 1

// PersonaError says what is wrong with a persona file, and where. It wraps
// ErrPersona.
type PersonaError struct {
	File         string
	Line, Column int    // from 1; 0 where the whole file is meant
	Message      string // what is wrong and what is wanted
	Excerpt      string // the lines around it, with a caret, or empty
}

func (e *PersonaError) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	text := at + ": " + e.Message
	if e.Excerpt != "" {
		text += "\n" + e.Excerpt
	}
	return text
}

func (e *PersonaError) Unwrap() error { return ErrPersona }

// ParsePersona reads a persona file. Unknown keys, keys given twice, wrong
// types and limits exceeded are errors that point at their place; file is the
// name they give. The error is a *PersonaError, or several joined.
// Safe for concurrent use.
func ParsePersona(file string, data []byte) (Persona, error) {
	if len(data) > MaxPersonaBytes {
		return Persona{}, &PersonaError{File: file,
			Message: fmt.Sprintf("more than %d bytes: no character needs that much", MaxPersonaBytes)}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // editors of Windows begin UTF-8 with it
	if line, column, ok := invalidUTF8(data); ok {
		return Persona{}, &PersonaError{File: file, Line: line, Column: column,
			Message: "not valid UTF-8: save the file as UTF-8"}
	}
	if e := tooTangled(data); e != nil {
		e.File = file
		return Persona{}, e
	}
	sheet, root, err := decodeSheet(data)
	if err != nil {
		return Persona{}, located(file, err)
	}
	p, where := sheet.persona()
	var all []error
	for _, x := range p.problems() {
		at := where[x.field]
		if at == nil {
			at = root
		}
		all = append(all, located(file, wrong(at, x.field+" "+x.what)))
	}
	if err := errors.Join(all...); err != nil {
		return Persona{}, err
	}
	return p, nil
}

// invalidUTF8 finds the first byte that is no UTF-8.
func invalidUTF8(data []byte) (line, column int, found bool) {
	line, column = 1, 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			return line, column, true
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
		data = data[n:]
	}
	return 0, 0, false
}

const (
	// maxFileLine bounds a line of a file, in bytes. The longest text allowed on
	// one line has 600 characters of up to four bytes.
	maxFileLine = 4 << 10

	// maxBrackets bounds how deep [ and { nest. A persona needs three. The YAML
	// library takes quadratic time and memory on what nests deeper: 64 KiB of
	// "[" kept it busy for 39 s.
	maxBrackets = 16
)

// tooTangled finds what no persona needs and the YAML library chokes on, before
// the library sees it. Brackets in text count, which is why there may be some.
func tooTangled(data []byte) *PersonaError {
	line, column, depth := 1, 0, 0
	for _, b := range data {
		column++
		switch b {
		case '\n', '\r':
			if b == '\n' {
				line++
			}
			column = 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		switch {
		case depth > maxBrackets:
			return &PersonaError{Line: line, Column: column,
				Message: fmt.Sprintf("more than %d brackets are open: close them", maxBrackets)}
		case column > maxFileLine:
			return &PersonaError{Line: line, Column: column,
				Message: fmt.Sprintf("the line has more than %d bytes: break it", maxFileLine)}
		}
	}
	return nil
}

// sheet is a persona file as it is written. Every scalar keeps its place.
type sheet struct {
	Lull        *number           `yaml:"lull"`
	Name        text              `yaml:"name"`
	Description text              `yaml:"description"`
	Style       text              `yaml:"style"`
	Knowledge   []text            `yaml:"knowledge"`
	Examples    []sheetExchange   `yaml:"examples"`
	Limits      []text            `yaml:"limits"`
	Greeting    text              `yaml:"greeting"`
	Sampling    sheetSampling     `yaml:"sampling"`
	Barks       map[string][]text `yaml:"barks"`
	Emotions    []text            `yaml:"emotions"`
	Blocked     []text            `yaml:"blocked"`
}

type sheetExchange struct {
	Player text `yaml:"player"`
	NPC    text `yaml:"npc"`
}

type sheetSampling struct {
	Temperature   *number `yaml:"temperature"`
	TopP          *number `yaml:"top_p"`
	MinP          *number `yaml:"min_p"`
	RepeatPenalty *number `yaml:"repeat_penalty"`
	MaxTokens     *number `yaml:"max_tokens"`
}

// text is a string that was written as one: YAML would turn 5 and yes into
// strings silently, and a colon in a sentence into a mapping.
type text struct {
	value string
	at    *token.Token
}

// UnmarshalYAML is called by the YAML library.
func (t *text) UnmarshalYAML(n ast.Node) error {
	t.at = n.GetToken()
	switch n := n.(type) {
	case *ast.StringNode:
		t.value = n.Value
	case *ast.LiteralNode:
		t.value = n.Value.Value
	case *ast.NullNode:
	case *ast.MappingNode, *ast.MappingValueNode:
		return wrong(t.at, "a key with a value found, want text: put a line with a colon in quotes")
	default:
		return wrong(t.at, kindName(n)+" found, want text: put it in quotes")
	}
	t.value = strings.TrimSpace(t.value)
	return nil
}

// number is a number with its place.
type number struct {
	value   float64
	integer bool
	at      *token.Token
}

// UnmarshalYAML is called by the YAML library.
func (x *number) UnmarshalYAML(n ast.Node) error {
	x.at = n.GetToken()
	switch n := n.(type) {
	case *ast.FloatNode:
		x.value = n.Value
	case *ast.IntegerNode:
		x.integer = true
		switch v := n.Value.(type) {
		case int64:
			x.value = float64(v)
		case uint64:
			x.value = float64(v)
		}
	default:
		return wrong(x.at, kindName(n)+" found, want a finite number")
	}
	return nil
}

func kindName(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.NanNode, *ast.InfinityNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	}
	return "a value of kind " + strings.ToLower(n.Type().String())
}

// decodeSheet parses YAML. A panic of the library becomes an error: a bad mod
// must not end the game.
func decodeSheet(data []byte) (s sheet, root *token.Token, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not readable as YAML (%v)", r)
		}
	}()
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return s, nil, err
	}
	if len(tree.Docs) <= 1 && (len(tree.Docs) == 0 || tree.Docs[0].Body == nil) {
		return s, nil, errors.New("the file is empty: want one that begins with name and description")
	}
	if len(tree.Docs) != 1 {
		return s, nil, fmt.Errorf("%d documents, want one that begins with name and description", len(tree.Docs))
	}
	body := tree.Docs[0].Body
	plain := &plainness{}
	ast.Walk(plain, body)
	if plain.err != nil {
		return s, nil, plain.err
	}
	if err := yaml.NodeToValue(body, &s, yaml.Strict()); err != nil {
		return s, nil, err
	}
	if s.Lull != nil && (!s.Lull.integer || s.Lull.value != PersonaVersion) {
		return s, nil, wrong(s.Lull.at, fmt.Sprintf("format %v, want %d: this file is for another lull",
			s.Lull.value, PersonaVersion))
	}
	if m := s.Sampling.MaxTokens; m != nil && !m.integer {
		return s, nil, wrong(m.at, "sampling.max_tokens is a fraction: want a whole number")
	}
	return s, body.GetToken(), nil
}

// plainness refuses the parts of YAML that let a short file become a huge one
// or mean something else than it reads.
type plainness struct{ err error }

// Visit is called by ast.Walk.
func (p *plainness) Visit(n ast.Node) ast.Visitor {
	if p.err != nil {
		return nil
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		p.err = wrong(n.GetToken(), "anchors, aliases and merge keys are not for personas: write the text out")
	case *ast.TagNode, *ast.DirectiveNode:
		p.err = wrong(n.GetToken(), "tags and directives are not for personas: write plain text")
	default:
		return p
	}
	return nil
}

func wrong(at *token.Token, message string) error {
	return &yaml.SyntaxError{Message: message, Token: at}
}

// located turns an error of the YAML library into a PersonaError.
func located(file string, err error) error {
	e := &PersonaError{File: file, Message: err.Error()}
	var source yaml.Error
	if !errors.As(err, &source) {
		return e
	}
	e.Message = source.GetMessage()
	if _, ok := source.(*yaml.UnknownFieldError); ok {
		e.Message += ": a persona has lull, name, description, style, knowledge, examples (player, npc), limits, " +
			"greeting, sampling (temperature, top_p, min_p, repeat_penalty, max_tokens), emotions, blocked and barks"
	}
	if at := source.GetToken(); at != nil && at.Position != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
		_, e.Excerpt, _ = strings.Cut(yaml.FormatErrorWithToken(e.Message, at, false, true), "\n")
	}
	return e
}

// persona turns the sheet into a Persona, with the place of each field.
func (s *sheet) persona() (Persona, map[string]*token.Token) {
	where := map[string]*token.Token{}
	one := func(field string, t text) string {
		if t.at != nil {
			where[field] = t.at
		}
		return t.value
	}
	many := func(field string, ts []text) []string {
		var out []string
		for i, t := range ts {
			if i == 0 {
				where[field] = t.at
			}
			out = append(out, one(fmt.Sprintf("%s[%d]", field, i), t))
		}
		return out
	}
	p := Persona{
		Name:        one("name", s.Name),
		Description: one("description", s.Description),
		Style:       one("style", s.Style),
		Knowledge:   many("knowledge", s.Knowledge),
		Limits:      many("limits", s.Limits),
		Greeting:    one("greeting", s.Greeting),
		Emotions:    many("emotions", s.Emotions),
		Blocked:     many("blocked", s.Blocked),
		Sampling:    DefaultSampling(),
		MaxTokens:   DefaultMaxTokens,
	}
	for i, e := range s.Examples {
		field := fmt.Sprintf("examples[%d].", i)
		p.Examples = append(p.Examples, Exchange{one(field+"player", e.Player), one(field+"npc", e.NPC)})
	}
	if len(s.Barks) > 0 {
		p.Barks = map[string][]string{}
	}
	for _, situation := range sortedKeys(s.Barks) {
		p.Barks[situation] = many("barks."+situation, s.Barks[situation])
	}
	set := func(field string, to *float32, x *number) {
		if x != nil {
			*to, where["sampling."+field] = float32(x.value), x.at
		}
	}
	set("temperature", &p.Sampling.Temperature, s.Sampling.Temperature)
	set("top_p", &p.Sampling.TopP, s.Sampling.TopP)
	set("min_p", &p.Sampling.MinP, s.Sampling.MinP)
	set("repeat_penalty", &p.Sampling.RepeatPenalty, s.Sampling.RepeatPenalty)
	if m := s.Sampling.MaxTokens; m != nil {
		p.MaxTokens = int(max(-1, min(m.value, MaxReplyTokens+1)))
		where["sampling.max_tokens"] = m.at
	}
	return p, where
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
