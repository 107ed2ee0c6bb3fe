// Package page writes reports for people: lines and tables of plain text, without
// frames around them or blanks at the ends of lines.
package page

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Printer writes lines and keeps the first error of its writer; after that it
// writes nothing. Not safe for concurrent use.
type Printer struct {
	w   io.Writer
	err error
}

// NewPrinter returns a printer to w.
func NewPrinter(w io.Writer) *Printer { return &Printer{w: w} }

// Err is the first error of the writer.
func (p *Printer) Err() error { return p.err }

// Line writes one line.
func (p *Printer) Line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// Table writes a table.
func (p *Printer) Table(t table.Writer) {
	for line := range strings.Lines(t.Render()) {
		p.Line("%s", strings.TrimRight(line, " \n"))
	}
}

// NewTable returns a table with a header as it is written here, not in capitals.
func NewTable(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = 0
	style.Options = table.OptionsNoBordersAndSeparators
	t.SetStyle(style)
	t.AppendHeader(table.Row(header))
	return t
}
