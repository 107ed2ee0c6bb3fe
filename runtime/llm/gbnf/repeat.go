package gbnf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// repeated reads the repetition that may follow a piece, and turns it into
// rules: x{2,4} becomes x x a, where a ::= x b | nothing and b ::= x | nothing.
func (p *parser) repeated(piece sequence) (sequence, error) {
	least, most, ok, err := p.repetition()
	if err != nil || !ok {
		return piece, err
	}
	switch {
	case len(piece) == 0:
		return nil, errors.New("a repetition of nothing")
	case least > MaxRepeat || most > MaxRepeat:
		return nil, fmt.Errorf("a repetition of more than %d", MaxRepeat)
	case most >= 0 && most < least:
		return nil, fmt.Errorf("repetition {%d,%d} runs backwards", least, most)
	}
	// A literal of several characters repeats its last one only in some readers
	// of GBNF and the whole in others; as a group it is the whole in all.
	if len(piece) > 1 {
		return nil, errors.New("a repeated literal of several characters: put it in ( )")
	}
	var out sequence
	for range least {
		out = append(out, piece...)
	}
	if most < 0 {
		i, err := p.add("(repetition)", nil)
		if err != nil {
			return nil, err
		}
		p.g.rules[i] = []sequence{append(slices.Clone(piece), item{rule: i}), {}}
		return append(out, item{rule: i}), nil
	}
	next := int32(-1)
	for range most - least {
		s := slices.Clone(piece)
		if next >= 0 {
			s = append(s, item{rule: next})
		}
		if next, err = p.add("(repetition)", []sequence{s, {}}); err != nil {
			return nil, err
		}
	}
	if next >= 0 {
		out = append(out, item{rule: next})
	}
	return out, nil
}

// repetition reads * + ? {m} {m,} {m,n}; most is -1 for no limit.
func (p *parser) repetition() (least, most int, ok bool, err error) {
	switch {
	case p.take("*"):
		return 0, -1, true, nil
	case p.take("+"):
		return 1, -1, true, nil
	case p.take("?"):
		return 0, 1, true, nil
	case !p.take("{"):
		return 0, 0, false, nil
	}
	if least, ok = p.number(); !ok {
		return 0, 0, false, errors.New("a repetition wants a number after {")
	}
	most = least
	if p.take(",") {
		if most, ok = p.number(); !ok {
			most = -1
		}
	}
	if !p.take("}") {
		return 0, 0, false, errors.New("a repetition is not closed: want }")
	}
	return least, most, true, nil
}

func (p *parser) number() (int, bool) {
	n, begin := 0, p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		n = min(n*10+int(p.text[p.at]-'0'), MaxRepeat+1)
		p.at++
	}
	return n, p.at > begin
}

// check finds what can't be followed: rules without a body, and loops that take
// no character.
func (g *Grammar) check() error {
	if g.root < 0 {
		return errors.New("there is no rule root, where a reply begins")
	}
	for i, alternatives := range g.rules {
		if alternatives == nil {
			return fmt.Errorf("rule %s is used and not given", g.names[i])
		}
	}
	empty := g.nullable()
	state := make([]byte, len(g.rules)) // 1: on the path, 2: done
	var path []string
	var visit func(i int32) error
	visit = func(i int32) error {
		switch state[i] {
		case 1:
			return fmt.Errorf("rule %s begins with itself (%s): a left recursion never ends",
				g.names[i], strings.Join(path, " → "))
		case 2:
			return nil
		}
		state[i] = 1
		path = append(path, g.names[i])
		for _, s := range g.rules[i] {
			for _, it := range s {
				if it.rule < 0 {
					break
				}
				if err := visit(it.rule); err != nil {
					return err
				}
				if !empty[it.rule] {
					break
				}
			}
		}
		path = path[:len(path)-1]
		state[i] = 2
		return nil
	}
	for i := range g.rules {
		if err := visit(int32(i)); err != nil {
			return err
		}
	}
	return nil
}

// nullable tells which rules may take no character.
func (g *Grammar) nullable() []bool {
	empty := make([]bool, len(g.rules))
	for changed := true; changed; {
		changed = false
		for i, alternatives := range g.rules {
			if empty[i] {
				continue
			}
			empty[i] = slices.ContainsFunc(alternatives, func(s sequence) bool {
				return !slices.ContainsFunc(s, func(it item) bool { return it.rule < 0 || !empty[it.rule] })
			})
			changed = changed || empty[i]
		}
	}
	return empty
}
