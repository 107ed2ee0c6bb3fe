package frames

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Options say what of a capture is wanted.
type Options struct {
	// Process keeps one process: its name with or without .exe, in any case, or
	// its process id. Empty keeps all.
	Process string
}

// Read reads a capture of any known format and hands out its records in file
// order. The record is valid until emit returns; an error from emit ends the
// reading and comes back as it is. Memory is bounded and does not grow with a
// CSV; of a CapFrameX file, one run is held at a time. On ErrBroken the summary
// says what was read before. Call from one goroutine at a time.
func Read(r io.Reader, o Options, emit func(*Record) error) (*Summary, error) {
	b := newBuilder(o, emit)
	text := newText(r)
	head, err := text.Peek(1)
	for err == nil && bytes.IndexByte([]byte(" \t\r\n"), head[0]) >= 0 {
		_, _ = text.Discard(1)
		head, err = text.Peek(1)
	}
	if err == io.EOF {
		return b.finish(), fmt.Errorf("%w: the file is empty", ErrNoCapture)
	}
	if err != nil {
		return b.finish(), fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if head[0] == '{' {
		err = readCapFrameX(text, b)
	} else {
		err = readCSV(lineReader{text}, b)
	}
	return b.finish(), err
}

// matcher compares names of processes as people type them.
type matcher string

func newMatcher(want string) matcher { return matcher(bareName(want)) }

func (m matcher) fits(process, id string) bool {
	return m == "" || bareName(process) == string(m) || id == string(m)
}

func bareName(s string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), ".exe")
}
