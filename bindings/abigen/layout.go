package main

import (
	"errors"
	"fmt"
	"strings"
)

// scalars are the types that fields and parameters may have, with their bytes.
// They are as wide on every system that lull runs on, pointers included.
var scalars = map[string]int{
	"char": 1, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "float": 4, "double": 8, "int64_t": 8, "uint64_t": 8,
}

const pointerBytes = 8

// Layout is a struct as a C compiler lays it out.
type Layout struct {
	Size, Align int
	Offsets     []int
}

// layout lays a struct out. Padding is refused: a reader of the header should
// see every byte.
func (h *Header) layout(s Struct) (Layout, error) {
	l := Layout{Align: 1}
	for _, f := range s.Fields {
		size, align, err := h.size(f)
		if err != nil {
			return l, fmt.Errorf("%s.%s: %w", s.Name, f.Name, err)
		}
		if l.Size%align != 0 {
			return l, fmt.Errorf("%s.%s: the compiler would leave a gap before it: "+
				"order the fields, or name a reserved one", s.Name, f.Name)
		}
		l.Offsets = append(l.Offsets, l.Size)
		l.Size += size
		l.Align = max(l.Align, align)
	}
	if l.Size%l.Align != 0 {
		return l, fmt.Errorf("%s: the compiler would leave a gap at its end: add a reserved field", s.Name)
	}
	return l, nil
}

func (h *Header) size(f Variable) (size, align int, err error) {
	switch {
	case f.Pointer:
		return pointerBytes, pointerBytes, nil
	case scalars[f.Type] > 0:
		size, align = scalars[f.Type], scalars[f.Type]
	default:
		s, ok := h.structure(f.Type)
		if !ok || !isID(f.Type) {
			return 0, 0, fmt.Errorf("type %s: only numbers and ids may stand in a struct", f.Type)
		}
		l, err := h.layout(s)
		if err != nil {
			return 0, 0, err
		}
		size, align = l.Size, l.Align
	}
	if f.Array > 0 {
		size *= f.Array
	}
	return size, align, nil
}

func isID(name string) bool { return strings.HasSuffix(name, "_id") }

func (h *Header) structure(name string) (Struct, bool) {
	for _, s := range h.Structs {
		if s.Name == name {
			return s, true
		}
	}
	return Struct{}, false
}

// threadAnswers are the beginnings that a \threadsafety line may have.
var threadAnswers = []string{"Any thread.", "Any thread, waits.", "One thread at a time for each world."}

// check holds the header to its own rules.
func (h *Header) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, s := range h.Structs {
		if _, err := h.layout(s); err != nil {
			errs = append(errs, err)
		}
		if s.Doc == "" {
			bad("%s has no comment", s.Name)
		}
		grows := !isID(s.Name) && s.Name != "lull_event" // its size is an argument of lull_poll_events
		if grows && (s.Fields[0].Name != "struct_size" || s.Fields[0].Type != "uint32_t") {
			bad("%s: its first field must be uint32_t struct_size", s.Name)
		}
	}
	for _, f := range h.Functions {
		if f.Result != "int32_t" && f.Result != "int64_t" {
			bad("%s returns %s, want int32_t or int64_t", f.Name, f.Result)
		}
		if !strings.HasPrefix(f.Name, "lull_") {
			bad("%s: names begin with lull_", f.Name)
		}
		if !hasThreadLine(f.Doc) {
			bad("%s: no \\threadsafety line that begins with one of %q", f.Name, threadAnswers)
		}
		for _, p := range f.Params {
			if _, known := h.structure(p.Type); !known && scalars[p.Type] == 0 && !(p.Type == "void" && p.Pointer) {
				bad("%s: parameter %s has the unknown type %s", f.Name, p.Name, p.Type)
			}
		}
	}
	return errors.Join(errs...)
}

func hasThreadLine(doc string) bool {
	for line := range strings.Lines(doc) {
		if rest, ok := strings.CutPrefix(line, `\threadsafety `); ok {
			for _, a := range threadAnswers {
				if strings.HasPrefix(rest, a) {
					return true
				}
			}
		}
	}
	return false
}

// spell writes a variable as C has it.
func (v Variable) spell() string {
	s := v.Type + " "
	if v.Const {
		s = "const " + s
	}
	if v.Pointer {
		s += "*"
	}
	s += v.Name
	if v.Array > 0 {
		s += fmt.Sprintf("[%d]", v.Array)
	}
	return s
}

// signature writes a function as C has it, under the given name.
func (f Function) signature(name string) string {
	params := make([]string, len(f.Params))
	for i, p := range f.Params {
		params[i] = p.spell()
	}
	if len(params) == 0 {
		params = []string{"void"}
	}
	return f.Result + " " + name + "(" + strings.Join(params, ", ") + ")"
}
