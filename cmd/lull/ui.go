package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"github.com/lull-npc/lull/harness/page"
	"github.com/lull-npc/lull/runtime/assets"
)

// plainEvery is how often progress gets a line where standard error is no
// terminal: seldom enough for a CI log, often enough to see that it lives.
const plainEvery = 5 * time.Second

// ui is where a command's results and notes go. Call from one goroutine at a
// time.
type ui struct {
	in          io.Reader
	out, errOut io.Writer
	screen      io.Writer // out itself: a terminal program must see that it is one
	json, quiet bool
	outTerminal bool
	errTerminal bool
	colourOut   bool
	colourErr   bool
	now         func() time.Time
}

func newUI(in io.Reader, out, errOut io.Writer, getenv func(string) string) *ui {
	u := &ui{in: in, out: &stickyWriter{Writer: out}, screen: out, errOut: errOut, now: time.Now,
		outTerminal: terminal(out), errTerminal: terminal(errOut)}
	plain := getenv("NO_COLOR") != "" || getenv("TERM") == "dumb"
	u.colourOut, u.colourErr = u.outTerminal && !plain, u.errTerminal && !plain
	return u
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// Colours, as ANSI codes: the 8 basic ones follow the user's own theme.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

// paint colours text for standard output.
func (u *ui) paint(code, text string) string { return paint(u.colourOut, code, text) }

func paint(on bool, code, text string) string {
	if !on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// printf writes a result for people; with --json nothing.
func (u *ui) printf(format string, args ...any) {
	if !u.json {
		fmt.Fprintf(u.out, format, args...)
	}
}

// object writes the one JSON object of a command that got --json.
func (u *ui) object(v any) error {
	e := json.NewEncoder(u.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// notef writes a line for people to standard error.
func (u *ui) notef(format string, args ...any) {
	if !u.quiet {
		fmt.Fprintf(u.errOut, "lull: "+format+"\n", args...)
	}
}

// failure writes an error and its advice to standard error.
func (u *ui) failure(err error) {
	fmt.Fprintf(u.errOut, "%s %s\n", paint(u.colourErr, red, "lull:"), printable(plain(err)))
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(u.errOut, "  %s %s\n", paint(u.colourErr, dim, "→"), printable(hint))
	}
}

// failureObject writes an error as the one JSON object that --json promises,
// unless the command has written its own.
func (u *ui) failureObject(err error) {
	if w, ok := u.out.(*stickyWriter); !u.json || ok && w.used {
		return
	}
	var v struct {
		Error struct {
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
	}
	v.Error.Message, v.Error.Hint = plain(err), hintOf(err)
	_ = u.object(v) // lost, if standard output is: standard error has it
}

// lost is the error of the first result that could not be written.
func (u *ui) lost() error {
	if w, ok := u.out.(*stickyWriter); ok {
		return w.err
	}
	return nil
}

// table makes a table for standard output; render it with u.render.
func (u *ui) table(header ...any) table.Writer { return page.NewTable(header...) }

// render writes a table, without the blanks that pad its last column.
func (u *ui) render(t table.Writer) {
	if !u.json {
		page.NewPrinter(u.out).Table(t)
	}
}

// progress gives a display of long steps on standard error: a bar on a
// terminal, a line now and then elsewhere, nothing with --quiet.
func (u *ui) progress() assets.Progress {
	switch {
	case u.quiet:
		return quietProgress{}
	case u.errTerminal:
		return &barProgress{u: u}
	}
	return &lineProgress{u: u}
}

type quietProgress struct{}

func (quietProgress) Start(string, int64) {}
func (quietProgress) Set(int64)           {}
func (quietProgress) Note(string)         {}
func (quietProgress) Done(error)          {}

// barProgress draws a bar that is replaced by one line when it is done.
type barProgress struct {
	u     *ui
	bar   *progressbar.ProgressBar
	name  string
	total int64
}

func (p *barProgress) Start(name string, totalBytes int64) {
	p.name, p.total = name, totalBytes
	if totalBytes <= 0 {
		totalBytes = -1 // unknown: a spinner with the bytes so far
	}
	p.bar = progressbar.NewOptions64(totalBytes,
		progressbar.OptionSetWriter(p.u.errOut), progressbar.OptionSetDescription(name),
		progressbar.OptionShowBytes(true), progressbar.OptionShowTotalBytes(true), progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionSetSpinnerChangeInterval(0)) // no goroutine that draws behind our back
}

// Set leaves the last byte to Done: a full bar would close itself while the
// archive is still being checked.
func (p *barProgress) Set(doneBytes int64) {
	if p.total > 0 {
		doneBytes = min(doneBytes, p.total-1)
	}
	_ = p.bar.Set64(doneBytes)
}

func (p *barProgress) Note(text string) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.u.notef("%s", printable(plainText(text)))
}

func (p *barProgress) Done(err error) {
	_ = p.bar.Clear()
	p.bar = nil
	if err == nil {
		fmt.Fprintf(p.u.errOut, "%s %s%s\n", paint(p.u.colourErr, green, "✓"), p.name, sizeSuffix(p.total))
	}
}

// lineProgress writes lines: at the start, every plainEvery, and at the end.
type lineProgress struct {
	u     *ui
	name  string
	total int64
	last  time.Time
}

func (p *lineProgress) Start(name string, totalBytes int64) {
	p.name, p.total, p.last = name, totalBytes, p.u.now()
	p.u.notef("%s%s …", name, sizeSuffix(totalBytes))
}

func (p *lineProgress) Set(doneBytes int64) {
	now := p.u.now()
	if now.Sub(p.last) < plainEvery {
		return
	}
	p.last = now
	if p.total > 0 {
		p.u.notef("%s: %s of %s", p.name, megabytes(doneBytes), megabytes(p.total))
		return
	}
	p.u.notef("%s: %s", p.name, megabytes(doneBytes))
}

func (p *lineProgress) Note(text string) { p.u.notef("%s", printable(plainText(text))) }

func (p *lineProgress) Done(err error) {
	if err == nil {
		p.u.notef("%s: done", p.name)
	}
}

func sizeSuffix(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return " (" + megabytes(bytes) + ")"
}

// megabytes writes a number of bytes in decimal units, as download pages do.
func megabytes(bytes int64) string {
	if bytes > 0 && bytes < 1e5 {
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// steps shows how much of something is done, with its name: in place on a
// terminal, as a line now and then elsewhere, not at all with --quiet.
type steps struct {
	u     *ui
	name  string
	last  time.Time
	bar   *progressbar.ProgressBar
	shown int // percent
}

func (u *ui) steps(name string) *steps {
	s := &steps{u: u, name: name, last: u.now()}
	if u.errTerminal && !u.quiet {
		s.bar = progressbar.NewOptions(100, progressbar.OptionSetWriter(u.errOut),
			progressbar.OptionSetDescription(name), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth(),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetRenderBlankState(true), progressbar.OptionSetSpinnerChangeInterval(0))
		return s
	}
	u.notef("%s …", name)
	return s
}

func (s *steps) set(done, of int) { s.at(done, of, "") }

// at is set with what is done now.
func (s *steps) at(done, of int, what string) {
	percent := 100 * done / max(of, 1)
	if s.bar != nil && what != "" {
		s.bar.Describe(s.name + ": " + what)
	}
	if what != "" {
		what = ", " + what
	}
	switch {
	case s.bar != nil:
		if percent = min(percent, 99); percent != s.shown {
			s.shown = percent
			_ = s.bar.Set(percent)
		}
	case s.u.now().Sub(s.last) >= plainEvery:
		s.last = s.u.now()
		s.u.notef("%s: %d %%%s", s.name, percent, what)
	}
}

// clear takes the bar away.
func (s *steps) clear() {
	if s.bar != nil {
		_ = s.bar.Clear()
	}
}
