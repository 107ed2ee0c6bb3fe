package demo

import "time"

// bar is one column of the strip: some frames that follow each other.
type bar struct {
	work time.Duration // of the longest
	late int           // how many were late
	any  bool
}

// bars gives n columns that together are the window, the newest last. Columns
// begin at fixed instants, so that they move but do not flicker. A frame stands
// in the column in which it began; columns that no frame began in show the one
// that was running.
func (m *Meter) bars(n int) []bar {
	if n < 1 || len(m.recent) == 0 {
		return nil
	}
	span := max(window/time.Duration(n), 1)
	oldest := int64(m.last/span) - int64(n) + 1
	list := make([]bar, n)
	for i := range m.recent {
		f := &m.recent[i]
		k := int64(f.Start/span) - oldest
		if k < 0 {
			continue
		}
		b := &list[k] // no frame starts after the newest
		b.any = true
		b.work = max(b.work, f.Work)
		if f.Overrun > 0 {
			b.late++
		}
	}
	for i := 1; i < n; i++ {
		if !list[i].any {
			list[i] = list[i-1]
			list[i].late = 0
		}
	}
	return list
}

// eighths are blocks by their height.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// cell draws one row of a bar. The strip has rows rows and shows up to twice
// the period; row 0 is the lowest.
func (b bar) cell(row, rows int, period time.Duration) rune {
	if !b.any || period <= 0 {
		return ' '
	}
	full := float64(b.work) / float64(2*period) * float64(rows) * 8
	level := int(full+0.5) - 8*row
	if row == 0 {
		level = max(level, 1) // a frame that did nothing is a frame
	}
	return eighths[min(max(level, 0), 8)]
}

// mark is what stands below a bar.
func (b bar) mark() rune {
	switch {
	case b.late == 0:
		return ' '
	case b.late == 1:
		return '×'
	case b.late <= 9:
		return rune('0' + b.late)
	}
	return '+'
}
