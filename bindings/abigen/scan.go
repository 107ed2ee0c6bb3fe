package main

import (
	"fmt"
	"regexp"
	"strings"
)

// token is a piece of the header. Comments are kept: they are the
// documentation of what they stand at.
type token struct {
	kind tokenKind
	text string
	line int
}

type tokenKind uint8

const (
	tokenComment tokenKind = iota
	tokenDirective
	tokenWord // identifiers and numbers
	tokenPunct
	tokenEnd
)

var tokenPattern = regexp.MustCompile(
	`^(?:(/\*(?s:.*?)\*/)|(#(?:[^\n\\]|\\.|\\\n)*)|("[^"\n]*"|-?[A-Za-z0-9_]+)|([{}()\[\];,*=]))`)

// scan splits the header into tokens.
func scan(text string) ([]token, error) {
	var out []token
	line := 1
	for {
		trimmed := strings.TrimLeft(text, " \t\r\n")
		line += strings.Count(text[:len(text)-len(trimmed)], "\n")
		text = trimmed
		if text == "" {
			return append(out, token{tokenEnd, "", line}), nil
		}
		m := tokenPattern.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("line %d: cannot read %.20q", line, text)
		}
		for k, s := range m[1:] {
			if s != "" {
				out = append(out, token{tokenKind(k), s, line})
			}
		}
		line += strings.Count(m[0], "\n")
		text = text[len(m[0]):]
	}
}

// commentText frees a comment of its stars.
func commentText(c string) string {
	c = strings.TrimSuffix(strings.TrimLeft(strings.TrimPrefix(c, "/*"), "*"), "*/")
	lines := strings.Split(c, "\n")
	for i, l := range lines {
		l = strings.TrimSpace(l)
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(l, "*"), " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
