package frames

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxRunFrames bounds one run of CapFrameX, which must be held because its
	// columns come one after the other: an hour and a half at 200 fps, 80 MB.
	maxRunFrames = 1 << 20
	// maxTokenBytes bounds one string or number of the JSON.
	maxTokenBytes = 1 << 20
	// maxDepth bounds nesting; the format itself has five levels.
	maxDepth = 64
)

var (
	errTokenTooLong = errors.New("a value is longer than 1 MiB")
	errTooDeep      = errors.New("nested deeper than 64 levels")
)

// jsonParser walks the tokens of a CapFrameX file without holding more than one
// run. Call from one goroutine at a time.
type jsonParser struct {
	*builder
	dec     *json.Decoder
	guard   *tokenGuard
	process string
	runs    int
}

// tokenGuard ends reading when the decoder asks for more than one token may
// have.
type tokenGuard struct {
	r          io.Reader
	read, mark int64
}

func (g *tokenGuard) Read(p []byte) (int, error) {
	if g.read-g.mark > maxTokenBytes {
		return 0, errTokenTooLong
	}
	n, err := g.r.Read(p)
	g.read += int64(n)
	return n, err
}

func readCapFrameX(r io.Reader, b *builder) error {
	p := &jsonParser{builder: b, guard: &tokenGuard{r: r}}
	p.dec = json.NewDecoder(p.guard)
	err := p.object(func(key string) error {
		switch {
		case strings.EqualFold(key, "Info"):
			return p.info()
		case strings.EqualFold(key, "Runs"):
			return p.array(p.run)
		}
		return p.skipRest(0)
	})
	if err != nil {
		if p.emitFailed(err) {
			return err
		}
		return fmt.Errorf("%w: JSON at byte %d, after %d complete runs: %w",
			ErrBroken, p.dec.InputOffset(), p.runs, err)
	}
	if p.runs == 0 {
		return fmt.Errorf("%w: a JSON without Runs[].CaptureData.MsBetweenPresents, so not CapFrameX's", ErrNoCapture)
	}
	return nil
}

// emitError marks an error of the caller's, to be returned untouched.
type emitError struct{ error }

func (e emitError) Unwrap() error { return e.error }

func (p *jsonParser) emitFailed(err error) bool {
	var e emitError
	return errors.As(err, &e)
}

func (p *jsonParser) token() (json.Token, error) {
	t, err := p.dec.Token()
	p.guard.mark = p.dec.InputOffset()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

// object calls member for each key of the object that comes next. Another kind
// of value is skipped: an absent part is null.
func (p *jsonParser) object(member func(key string) error) error {
	return p.container('{', func() error {
		t, err := p.token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		return member(key)
	})
}

func (p *jsonParser) array(element func() error) error { return p.container('[', element) }

func (p *jsonParser) container(open json.Delim, each func() error) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	d, isDelim := t.(json.Delim)
	if !isDelim {
		return nil
	}
	if d != open {
		return p.skipRest(1)
	}
	for p.dec.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err = p.token()
	return err
}

// skipRest passes over tokens until depth open containers are closed; with
// depth 0, over one value.
func (p *jsonParser) skipRest(depth int) error {
	for {
		t, err := p.token()
		if err != nil {
			return err
		}
		if d, ok := t.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
		}
		if depth > maxDepth {
			return errTooDeep
		}
		if depth <= 0 {
			return nil
		}
	}
}

func (p *jsonParser) info() error {
	return p.object(func(key string) error {
		if !strings.EqualFold(key, "ProcessName") {
			return p.skipRest(0)
		}
		t, err := p.token()
		if err != nil {
			return err
		}
		if s, ok := t.(string); ok {
			p.process = s
		} else if _, ok := t.(json.Delim); ok {
			return p.skipRest(1)
		}
		return nil
	})
}

// cell is one number of a column, or why it is none.
type cell struct {
	ms     float64
	reason Reason
}

// run reads one run and hands its records out.
func (p *jsonParser) run() error {
	var columns [numColumns][]cell
	err := p.object(func(key string) error {
		if !strings.EqualFold(key, "CaptureData") {
			return p.skipRest(0)
		}
		return p.object(func(key string) error {
			c, _, ok := lookup(key)
			if !ok || columns[c] != nil {
				return p.skipRest(0)
			}
			var err error
			columns[c], err = p.column()
			return err
		})
	})
	if err != nil {
		return err
	}
	if columns[colBetweenPresents] == nil {
		return nil
	}
	p.runs++
	return p.rows(&columns)
}

func (p *jsonParser) column() ([]cell, error) {
	cells := []cell{}
	var d decimal
	over := int64(0)
	err := p.array(func() error {
		t, err := p.token()
		if err != nil {
			return err
		}
		c := cell{}
		switch t := t.(type) {
		case float64:
			c.ms = t
		case bool:
			if t {
				c.ms = 1
			}
		case string:
			c.ms, c.reason = d.parse([]byte(t))
		case json.Delim:
			c.reason = NotANumber
			if err := p.skipRest(1); err != nil {
				return err
			}
		default:
			c.reason = NA
		}
		if len(cells) == maxRunFrames {
			over++
			return nil
		}
		cells = append(cells, c)
		return nil
	})
	if over > 0 {
		p.note("a run of more than %d frames was cut there", maxRunFrames)
	}
	return cells, err
}

func (p *jsonParser) rows(columns *[numColumns][]cell) error {
	p.segment(CapFrameX)
	frames := columns[colBetweenPresents]
	// CapFrameX fills arrays that it has no values for with zeros.
	for _, c := range []column{colCPUBusy, colCPUWait, colGPUTime, colGPUBusy, colDisplayedTime,
		colAnimationError} {
		if allZero(columns[c]) {
			columns[c] = nil
		}
	}
	unit := 0.0
	if starts := columns[colStart]; starts != nil {
		unit = clockUnit(numbers(starts, len(frames)), numbers(frames, len(frames)))
	}
	l := layout{format: CapFrameX}
	for c := range l.index {
		l.index[c] = -1
		if columns[c] != nil {
			l.index[c] = 0
		}
	}
	available := l.available()
	available[FieldCPUBusy] = available[FieldCPUBusy] || l.has(colInPresent)
	for f, has := range available {
		if !has {
			p.missing(Field(f))
		}
	}
	for i := range frames {
		v := p.values(columns, i, unit)
		if err := p.add(&v, []byte(p.process), nil, nil); err != nil {
			return emitError{err}
		}
	}
	return nil
}

func (p *jsonParser) values(columns *[numColumns][]cell, i int, unit float64) values {
	at := func(c column) (float64, Reason) {
		switch {
		case columns[c] == nil:
			return 0, MissingColumn
		case i >= len(columns[c]):
			return 0, Empty
		}
		return columns[c][i].ms, columns[c][i].reason
	}
	var v values
	for f := range v.reason {
		v.reason[f] = MissingColumn
	}
	v.frameMs, v.reason[FieldFrameTime] = at(colBetweenPresents)
	v.startMs, v.reason[FieldStart] = at(colStart)
	if v.reason[FieldStart] == OK && unit == 0 {
		v.reason[FieldStart] = UnknownUnit
	}
	v.startMs *= unit
	v.startIsEnd = true
	v.ms[FieldCPUBusy], v.reason[FieldCPUBusy] = at(colCPUBusy)
	v.ms[FieldCPUWait], v.reason[FieldCPUWait] = at(colCPUWait)
	if columns[colCPUWait] == nil {
		v.ms[FieldCPUWait], v.reason[FieldCPUWait] = at(colInPresent)
	}
	v.deriveCPU = columns[colCPUBusy] == nil && columns[colInPresent] != nil
	v.ms[FieldGPUTime], v.reason[FieldGPUTime] = at(colGPUTime)
	v.ms[FieldGPUBusy], v.reason[FieldGPUBusy] = at(colGPUBusy)
	v.ms[FieldAnimationError], v.reason[FieldAnimationError] = at(colAnimationError)
	v.ms[FieldDisplayedTime], v.reason[FieldDisplayedTime] = at(colDisplayedTime)
	if columns[colDisplayedTime] == nil {
		v.ms[FieldDisplayedTime], v.reason[FieldDisplayedTime] = at(colBetweenDisplayChange)
	}
	if d, r := at(colDropped); r == OK && d != 0 {
		v.dropped = true
		v.ms[FieldDisplayedTime], v.reason[FieldDisplayedTime] = 0, NotDisplayed
	}
	return v
}

func allZero(cells []cell) bool {
	for _, c := range cells {
		if c.reason != OK || c.ms != 0 {
			return false
		}
	}
	return true
}

// numbers returns the first numbers of a column, for guessing its unit; a cell
// that is none becomes 0.
func numbers(cells []cell, n int) []float64 {
	out := make([]float64, min(n, sniffRows))
	for i := range out {
		if i < len(cells) && cells[i].reason == OK {
			out[i] = cells[i].ms
		}
	}
	return out
}
