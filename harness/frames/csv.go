package frames

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// maxPreambleLines bounds what may stand before the first header: tool
	// versions, the machine's specification, comments.
	maxPreambleLines = 100
	// sniffRows are looked at ahead of a segment to learn its units.
	sniffRows = 128
)

// csvParser reads rows of one file. Call from one goroutine at a time.
type csvParser struct {
	*builder
	lines    lineReader
	l        *layout
	fields   [numColumns][]byte
	quotes   quoted
	scratch  []byte
	preamble int // lines still expected to be no rows, after MangoHud's first
	wide     int64
}

func readCSV(lines lineReader, b *builder) error {
	p := &csvParser{builder: b, lines: lines}
	if err := p.findHeader(); err != nil {
		return err
	}
	for {
		line, ended, tooLong, err := p.lines.next()
		if errors.Is(err, io.EOF) {
			return p.end()
		}
		if err != nil {
			return fmt.Errorf("%w after row %d: %w", ErrBroken, p.sum.Rows, err)
		}
		if tooLong {
			p.sum.Rows++
			p.reject(LineTooLong)
			continue
		}
		if err := p.line(line, ended); err != nil {
			return err
		}
	}
}

func (p *csvParser) end() error {
	if p.wide > 0 && p.wide*2 > p.sum.Rows && p.l.sep == ',' {
		p.note("%d rows have more fields than the header: if the numbers have decimal commas, "+
			"export with semicolons or quotes", p.wide)
	}
	return nil
}

func (p *csvParser) findHeader() error {
	for range maxPreambleLines {
		line, _, tooLong, err := p.lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		if tooLong {
			continue
		}
		if l := newLayout(line); l != nil {
			p.begin(l)
			return nil
		}
	}
	return fmt.Errorf("%w: no header with frame times in the first %d lines; want a CSV of PresentMon "+
		"(MsBetweenPresents or FrameTime), of MangoHud (fps,frametime), or a JSON of CapFrameX",
		ErrNoCapture, maxPreambleLines)
}

// begin starts a segment.
func (p *csvParser) begin(l *layout) {
	p.l, p.preamble = l, 0
	p.fields = [numColumns][]byte{} // of another layout
	p.sniff()
	p.segment(l.format)
	for _, name := range l.duplicates {
		p.note("column %q stands twice in the header: the first one is used", name)
	}
	for f, has := range l.available() {
		if !has {
			p.missing(Field(f))
		}
	}
}

// available says which values of a Record the columns can give.
func (l *layout) available() [NumFields]bool {
	inPresent := l.has(colInPresent)
	return [NumFields]bool{
		FieldFrameTime:      true,
		FieldStart:          l.has(colStart),
		FieldCPUBusy:        l.has(colCPUBusy) || l.format == PresentMon1 && inPresent,
		FieldCPUWait:        l.has(colCPUWait) || inPresent,
		FieldGPUTime:        l.has(colGPUTime),
		FieldGPUBusy:        l.has(colGPUBusy) || l.format == MangoHud && l.has(colGPULoad),
		FieldDisplayedTime:  l.has(colDisplayedTime) || l.has(colBetweenDisplayChange),
		FieldAnimationError: l.has(colAnimationError),
	}
}

func (p *csvParser) line(line []byte, ended bool) error {
	if len(line) == 0 {
		return nil
	}
	if p.preamble > 0 {
		p.preamble--
		if l := newLayout(line); l != nil {
			p.begin(l)
		}
		return nil
	}
	r := p.split(line, ended)
	if r == OK && startsNumber(p.fields[p.frameColumn()]) {
		return p.row(ended)
	}
	if p.header(line) {
		return nil
	}
	if r == OK {
		return p.row(ended)
	}
	p.sum.Rows++
	p.reject(r)
	return nil
}

func startsNumber(field []byte) bool {
	field = trim(field)
	return len(field) > 0 && (field[0] >= '0' && field[0] <= '9' || field[0] == '-' || field[0] == '.')
}

// header handles lines that are no rows: a header of a capture that was
// appended, or what stands before one.
func (p *csvParser) header(line []byte) bool {
	line = bytes.TrimPrefix(line, utf8BOM)
	if l := newLayout(line); l != nil {
		p.begin(l)
		return true
	}
	switch {
	case bytes.HasPrefix(line, []byte("os,cpu,")):
		p.preamble = 2 // the machine's values, then possibly a rule
		return true
	case bytes.Equal(line, []byte("v1")):
		p.preamble = 5
		return true
	case bytes.HasPrefix(line, []byte("//")), bytes.HasPrefix(line, []byte("---")),
		bytes.HasPrefix(line, []byte("sep=")):
		return true
	}
	return false
}

// split finds the known fields of a row. A row with another number of fields
// than its header is not read at all: nobody knows which field slipped.
func (p *csvParser) split(line []byte, ended bool) Reason {
	l := p.l
	if bytes.IndexByte(line, '"') >= 0 {
		return p.splitQuoted(line, ended)
	}
	n := bytes.Count(line, []byte{l.sep}) + 1
	switch {
	case n == l.fields, n == l.fields+1 && line[len(line)-1] == l.sep:
	case n < l.fields && !ended:
		return CutLastLine
	default:
		if n > l.fields {
			p.wide++
		}
		return BadRow
	}
	for _, c := range l.at {
		field := line
		if i := bytes.IndexByte(line, l.sep); i >= 0 {
			field, line = line[:i], line[i+1:]
		} else {
			line = nil
		}
		if c != numColumns {
			p.fields[c] = field
		}
	}
	return OK
}

func (p *csvParser) splitQuoted(line []byte, ended bool) Reason {
	fields, err := p.quotes.split(line, p.l.sep)
	if err != nil || len(fields) != p.l.fields {
		if !ended {
			return CutLastLine
		}
		return BadRow
	}
	p.scratch = p.scratch[:0]
	for _, f := range fields {
		p.scratch = append(p.scratch, f...)
	}
	from := 0
	for i, c := range p.l.at {
		if c != numColumns {
			p.fields[c] = p.scratch[from : from+len(fields[i])]
		}
		from += len(fields[i])
	}
	return OK
}

// frameColumn is the column that decides whether a row is one.
func (p *csvParser) frameColumn() column {
	switch {
	case p.l.has(colFrameTime):
		return colFrameTime
	case p.l.has(colCPUBusy) && p.l.has(colCPUWait):
		return colCPUBusy
	}
	return colBetweenPresents
}

func (p *csvParser) number(c column) (float64, Reason) {
	if !p.l.has(c) {
		return 0, MissingColumn
	}
	return p.l.decimal.parse(p.fields[c])
}

// row turns the fields into what a builder wants: values in milliseconds.
func (p *csvParser) row(ended bool) error {
	l := p.l
	var v values
	for f := range v.reason {
		v.reason[f] = MissingColumn
	}
	v.frameMs, v.reason[FieldFrameTime] = p.frameTime()
	if l.has(colStart) {
		v.startMs, v.reason[FieldStart] = p.number(colStart)
		if v.reason[FieldStart] == OK && l.startUnit == 0 {
			v.reason[FieldStart] = UnknownUnit
		}
		v.startMs *= l.startUnit
		v.startIsEnd = l.presents
	}
	v.ms[FieldCPUBusy], v.reason[FieldCPUBusy] = p.number(colCPUBusy)
	v.ms[FieldCPUWait], v.reason[FieldCPUWait] = p.number(colCPUWait)
	if l.has(colInPresent) && !l.has(colCPUWait) {
		v.ms[FieldCPUWait], v.reason[FieldCPUWait] = p.number(colInPresent)
	}
	v.deriveCPU = l.format == PresentMon1 && l.has(colInPresent)
	v.ms[FieldGPUTime], v.reason[FieldGPUTime] = p.number(colGPUTime)
	v.ms[FieldGPUBusy], v.reason[FieldGPUBusy] = p.gpuBusy(v.frameMs)
	v.ms[FieldAnimationError], v.reason[FieldAnimationError] = p.number(colAnimationError)
	p.displayed(&v)
	v.generated = l.has(colFrameType) && !isGamesOwn(p.fields[colFrameType])
	if !ended {
		p.distrustLast(&v)
	}
	return p.add(&v, p.fields[colProcess], p.fields[colProcessID], p.fields[colSwapChain])
}

func (p *csvParser) frameTime() (float64, Reason) {
	l := p.l
	c := p.frameColumn()
	ms, r := p.number(c)
	if c == colCPUBusy && r == OK {
		wait, bad := p.number(colCPUWait)
		if bad == OK && wait < 0 {
			bad = Negative
		}
		return ms + wait, bad
	}
	if r == OK && l.frameUnit == 0 {
		r = UnknownUnit
	}
	return ms * l.frameUnit, r
}

func (p *csvParser) gpuBusy(frameMs float64) (float64, Reason) {
	if p.l.has(colGPUBusy) || p.l.format != MangoHud {
		return p.number(colGPUBusy)
	}
	load, r := p.number(colGPULoad)
	if r != OK {
		return 0, r
	}
	if load < 0 {
		return 0, Negative
	}
	if load > 100 {
		return 0, Absurd
	}
	return frameMs * load / 100, OK
}

// displayed finds out whether the frame reached the screen, and for how long
// the image stood there.
func (p *csvParser) displayed(v *values) {
	l := p.l
	time := colDisplayedTime
	if !l.has(time) {
		time = colBetweenDisplayChange
	}
	ms, r := p.number(time)
	dropped := false
	switch {
	case l.has(colDropped):
		f := trim(p.fields[colDropped])
		dropped = bytes.Equal(f, []byte("1")) || bytes.EqualFold(f, []byte("true"))
	case l.has(colDisplayedTime):
		dropped = r == NA
	case l.has(colUntilDisplayed):
		until, bad := p.number(colUntilDisplayed)
		dropped = bad == NA || bad == OK && until == 0
	}
	if dropped {
		ms, r = 0, NotDisplayed
	}
	v.dropped, v.ms[FieldDisplayedTime], v.reason[FieldDisplayedTime] = dropped, ms, r
}

// distrustLast drops what the last column of a file without a last line end
// says: 16.67 may have been cut to 16.6.
func (p *csvParser) distrustLast(v *values) {
	if len(p.l.at) != p.l.fields {
		return
	}
	switch p.l.at[p.l.fields-1] {
	case colFrameTime, colBetweenPresents:
		v.reason[FieldFrameTime] = CutLastLine
	case colStart, colElapsed:
		v.reason[FieldStart] = CutLastLine
	case colCPUBusy, colCPUWait, colInPresent:
		v.reason[FieldCPUBusy], v.reason[FieldCPUWait] = CutLastLine, CutLastLine
		if p.frameColumn() == colCPUBusy {
			v.reason[FieldFrameTime] = CutLastLine
		}
	case colGPUTime:
		v.reason[FieldGPUTime] = CutLastLine
	case colGPUBusy, colGPULoad:
		v.reason[FieldGPUBusy] = CutLastLine
	case colDisplayedTime, colBetweenDisplayChange:
		v.reason[FieldDisplayedTime] = CutLastLine
	case colAnimationError:
		v.reason[FieldAnimationError] = CutLastLine
	}
}

// isGamesOwn tells frames of the application from those that a driver or SDK
// put between them. Unknown spellings of "not known" count as the game's.
func isGamesOwn(t []byte) bool {
	t = trim(t)
	for _, own := range []string{"", "NA", "NotSet", "Unspecified", "Application"} {
		if bytes.EqualFold(t, []byte(own)) {
			return true
		}
	}
	return false
}

// sniff looks at the coming rows to learn the decimal mark and the units.
func (p *csvParser) sniff() {
	l := p.l
	var frames, rates, starts []float64
	for i, line := range p.lines.ahead() {
		if i == sniffRows || p.split(line, true) != OK {
			break
		}
		frame, r := p.frameTime()
		start, s := p.number(colStart)
		fps, _ := p.number(colFPS)
		if r != OK || frame <= 0 || l.has(colStart) && s != OK {
			continue
		}
		frames, starts, rates = append(frames, frame), append(starts, start), append(rates, fps*frame)
	}
	p.wide = 0
	if l.format == MangoHud {
		// MangoHud writes milliseconds, and wrote microseconds long ago. Its fps
		// is a mean over half a second, so only the order of magnitude counts.
		l.frameUnit = unit(rates, []float64{1, 1e-3, 1e3}, 1000)
		l.startUnit = 1e-6 // "elapsed" is in nanoseconds
		return
	}
	if l.has(colStart) {
		l.startUnit = clockUnit(starts, frames)
	}
}

// unit returns the factor that brings the median of xs to want, or 0.
func unit(xs, factors []float64, want float64) float64 {
	if len(xs) == 0 {
		return 1
	}
	slices.Sort(xs)
	for _, f := range factors {
		if q := xs[len(xs)/2] * f / want; q > 1.0/8 && q < 8 {
			return f
		}
	}
	return 0
}

// clockUnit compares the steps of a clock with the frame times. PresentMon has
// written seconds, milliseconds and counts of 100 ns under like names.
func clockUnit(starts, framesMs []float64) float64 {
	var steps []float64
	for i := 1; i < len(starts); i++ {
		if d := starts[i] - starts[i-1]; d > 0 {
			steps = append(steps, framesMs[i]/d)
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	median := steps[len(steps)/2]
	for _, ms := range []float64{1, 1000, 1e-3, 1e-4, 1e-6} {
		if q := median / ms; q > 0.5 && q < 2 {
			return ms
		}
	}
	return 0
}

// quoted splits lines with quotes by encoding/csv, which needs a reader.
type quoted struct {
	r    *csv.Reader
	feed bytes.Reader
}

func (q *quoted) split(line []byte, sep byte) ([]string, error) {
	q.feed.Reset(line)
	if q.r == nil || q.r.Comma != rune(sep) {
		q.r = csv.NewReader(&q.feed)
		q.r.Comma, q.r.ReuseRecord, q.r.LazyQuotes, q.r.FieldsPerRecord = rune(sep), true, true, -1
	}
	fields, err := q.r.Read()
	if err != nil {
		q.r = nil // its state after an error is its own business
	}
	return fields, err
}
