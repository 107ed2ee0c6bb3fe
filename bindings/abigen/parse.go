package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Header is what lull.h says.
type Header struct {
	Constants []Constant
	Enums     []Enum
	Structs   []Struct
	Functions []Function
}

// Constant is a define of an integer, or a member of an enum.
type Constant struct {
	Name  string
	Value int64
	Doc   string
}

// Enum is a set of constants; values of it travel as int32_t.
type Enum struct {
	Name    string
	Doc     string
	Members []Constant
}

// Struct is a plain struct.
type Struct struct {
	Name   string
	Doc    string
	Fields []Variable
}

// Function is an entry of the library.
type Function struct {
	Name   string
	Doc    string
	Result string
	Params []Variable
}

// Variable is a field or a parameter.
type Variable struct {
	Name    string
	Type    string // without const and star
	Const   bool
	Pointer bool
	Array   int // elements, 0: no array
	Doc     string
}

// parser walks over the tokens. The first error ends it.
type parser struct {
	tokens []token
	at     int
	err    error
	header Header
	doc    string // the last comment that stood alone
}

// Parse reads a header. The error names the line.
func Parse(text string) (*Header, error) {
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	for p.err == nil && p.peek().kind != tokenEnd {
		p.declaration()
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := p.header.check(); err != nil {
		return nil, err
	}
	return &p.header, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

func (p *parser) fail(t token, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %q, want %s", t.line, t.text, want)
	}
}

// expect takes one token of that text.
func (p *parser) expect(text string) {
	if t := p.next(); t.text != text {
		p.fail(t, strconv.Quote(text))
	}
}

func (p *parser) word() string {
	t := p.next()
	if t.kind != tokenWord {
		p.fail(t, "a name")
	}
	return t.text
}

// declaration takes what stands at file level.
func (p *parser) declaration() {
	switch t := p.next(); {
	case t.kind == tokenComment:
		p.doc = commentText(t.text)
		return
	case t.kind == tokenDirective:
		p.directive(t)
	case t.text == "extern": // extern "C" {
		p.next()
		p.expect("{")
	case t.text == "}": // its end
	case t.text == "enum":
		p.enum()
	case t.text == "typedef":
		p.structure()
	case t.text == "LULL_API":
		p.function()
	default:
		p.fail(t, "a define, an enum, a typedef struct or LULL_API")
	}
	p.doc = ""
}

var definePattern = regexp.MustCompile(`^#define\s+(LULL_[A-Z0-9_]+)\s+\(?(-?[0-9]+)\)?$`)

func (p *parser) directive(t token) {
	if m := definePattern.FindStringSubmatch(strings.TrimSpace(t.text)); m != nil {
		value, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			p.fail(t, "an integer")
		}
		p.header.Constants = append(p.header.Constants, Constant{m[1], value, p.doc})
	}
}

func (p *parser) enum() {
	e := Enum{Doc: p.doc, Name: p.word()}
	p.expect("{")
	for p.err == nil && p.peek().text != "}" {
		c := Constant{Name: p.word()}
		p.expect("=")
		t := p.next()
		var err error
		if c.Value, err = strconv.ParseInt(t.text, 10, 32); err != nil {
			p.fail(t, "a number")
		}
		if p.peek().text == "," {
			p.next()
		}
		c.Doc = p.trailing()
		e.Members = append(e.Members, c)
	}
	p.expect("}")
	p.expect(";")
	p.header.Enums = append(p.header.Enums, e)
}

// trailing takes the comment behind a field or member.
func (p *parser) trailing() string {
	if p.peek().kind != tokenComment {
		return ""
	}
	return commentText(p.next().text)
}

func (p *parser) structure() {
	s := Struct{Doc: p.doc}
	p.expect("struct")
	s.Name = p.word()
	p.expect("{")
	for p.err == nil && p.peek().text != "}" {
		v := p.variable()
		if p.peek().text == "[" {
			p.next()
			t := p.next()
			n, err := strconv.Atoi(t.text)
			if err != nil || n < 1 {
				p.fail(t, "a number of elements")
			}
			v.Array = n
			p.expect("]")
		}
		p.expect(";")
		v.Doc = p.trailing()
		s.Fields = append(s.Fields, v)
	}
	p.expect("}")
	if name := p.word(); name != s.Name {
		p.fail(p.tokens[p.at-1], "the same name as before the brace, "+s.Name)
	}
	p.expect(";")
	p.header.Structs = append(p.header.Structs, s)
}

// variable takes "[const] type [*] name".
func (p *parser) variable() Variable {
	var v Variable
	if p.peek().text == "const" {
		p.next()
		v.Const = true
	}
	v.Type = p.word()
	if p.peek().text == "*" {
		p.next()
		v.Pointer = true
	}
	v.Name = p.word()
	return v
}

func (p *parser) function() {
	f := Function{Doc: p.doc, Result: p.word(), Name: p.word()}
	p.expect("(")
	if p.peek().text == "void" && p.tokens[p.at+1].text == ")" {
		p.next()
	}
	for p.err == nil && p.peek().text != ")" {
		f.Params = append(f.Params, p.variable())
		if p.peek().text == "," {
			p.next()
		}
	}
	p.expect(")")
	p.expect(";")
	p.header.Functions = append(p.header.Functions, f)
}
