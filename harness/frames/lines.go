package frames

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxLineBytes bounds one line. The widest captures have lines of 2 KiB; a
// longer line than this is no row, and is skipped without being held.
const maxLineBytes = 64 << 10

// lineReader hands out lines without their end. Call from one goroutine at a
// time.
type lineReader struct {
	br *bufio.Reader
}

// newText decodes UTF-16 (with a byte order mark, or told by its zero bytes),
// which spreadsheets and PowerShell write, and drops the mark of UTF-8.
func newText(r io.Reader) *bufio.Reader {
	br := bufio.NewReaderSize(r, maxLineBytes)
	head, _ := br.Peek(64)
	endian, bom := unicode.LittleEndian, unicode.IgnoreBOM
	switch {
	case len(head) >= 2 && (head[0] == 0xFF && head[1] == 0xFE || head[0] == 0xFE && head[1] == 0xFF):
		bom = unicode.UseBOM
	case len(head) >= 4 && head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0:
	case len(head) >= 4 && head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0:
		endian = unicode.BigEndian
	case bytes.HasPrefix(head, utf8BOM):
		_, _ = br.Discard(len(utf8BOM))
		return br
	default:
		return br
	}
	decoded := transform.NewReader(br, unicode.UTF16(endian, bom).NewDecoder())
	return bufio.NewReaderSize(decoded, maxLineBytes)
}

var utf8BOM = []byte("\xEF\xBB\xBF")

// next returns the next line; ended says that a line end followed it. The line
// is valid until the next call. tooLong lines come without their content.
func (l *lineReader) next() (line []byte, ended, tooLong bool, err error) {
	line, err = l.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.br.ReadSlice('\n')
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, tooLong, err
	}
	if err != nil && len(line) == 0 && !tooLong {
		return nil, false, false, io.EOF
	}
	ended = err == nil
	if tooLong {
		return nil, ended, true, nil
	}
	if ended {
		line = line[:len(line)-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, ended, false, nil
}

// ahead returns the lines that are already near, without taking them: the
// ended ones within the next maxLineBytes. Valid until the next call.
func (l *lineReader) ahead() [][]byte {
	head, err := l.br.Peek(maxLineBytes)
	lines := bytes.Split(head, []byte("\n"))
	if !errors.Is(err, io.EOF) && len(lines) > 0 {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		lines[i] = bytes.TrimSuffix(line, []byte("\r"))
	}
	return lines
}
