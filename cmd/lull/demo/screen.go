package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"github.com/lull-npc/lull/scheduler"
)

const (
	// minWidth and minHeight are the smallest screen that shows everything.
	minWidth, minHeight = 60, 20

	// leastStrip and mostStrip are the rows of the strip there and on a large
	// screen. Both are even, so that the deadline lies between two rows.
	leastStrip, mostStrip = 4, 12

	// axisWidth is that of "33.3 ┤ ".
	axisWidth = 7

	// maxWidth keeps lines readable on a wide screen.
	maxWidth = 160

	// maxErrorLines is what an error may take from the talk.
	maxErrorLines = 3
)

// styles are the colours: the 8 basic ones follow the user's own theme.
type styles struct {
	title, dim, good, bad, warn, chosen lipgloss.Style
}

// newStyles makes styles; without colour they change nothing.
func newStyles(colour bool) styles {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.Ascii)
	if colour {
		r.SetColorProfile(termenv.ANSI)
	}
	s := r.NewStyle()
	return styles{
		title: s.Bold(true), dim: s.Faint(true), good: s.Foreground(lipgloss.Color("2")),
		bad: s.Foreground(lipgloss.Color("1")), warn: s.Foreground(lipgloss.Color("3")), chosen: s.Reverse(true),
	}
}

// Screen is everything that is shown.
type Screen struct {
	Setting Setting
	Model   string // name and device
	Mode    Mode
	Meter   Meter
	Said    []Said
	Err     error
	Input   string // the line being typed, drawn; empty: none is

	style styles
}

// View draws the screen into a terminal of that size: at most height lines of
// at most width columns.
func (s *Screen) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	if width < minWidth || height < minHeight {
		return clip(s.small(), width, height)
	}
	w := min(width, maxWidth)
	rows := min(leastStrip+(height-minHeight)/4*2, mostStrip)
	lines := append([]string{s.head(), s.modes()}, s.strip(w, rows)...)
	lines = append(lines, s.now(), s.decision(), "")
	lines = append(lines, s.table()...)
	var foot []string
	if s.Err != nil {
		text := strings.Split(ansi.Wrap("! "+printable(s.Err.Error()), w, ""), "\n")
		for _, l := range text[:min(len(text), maxErrorLines)] {
			foot = append(foot, s.style.bad.Render(l))
		}
	}
	if s.Input != "" {
		foot = append(foot, s.Input)
	}
	foot = append(foot, s.keys())
	lines = append(lines, s.talk(w, height-len(lines)-len(foot))...)
	return clip(append(lines, foot...), width, height)
}

// clip cuts lines to the terminal.
func clip(lines []string, width, height int) string {
	if len(lines) > height {
		lines = lines[:height]
	}
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, width, "…")
	}
	return strings.Join(lines, "\n")
}

// small is what fits anywhere.
func (s *Screen) small() []string {
	r := s.Meter.Recent()
	return []string{
		fmt.Sprintf("%s: %s late", s.Mode, percent(r.LateShare)),
		fmt.Sprintf("larger, please: %d×%d", minWidth, minHeight),
		"q quits",
	}
}

func (s *Screen) head() string {
	return s.style.title.Render("lull demo") + fmt.Sprintf("  %.4g Hz, %d × %.4g ms of CPU a frame", s.Setting.Hz,
		s.Setting.Workers, ms(s.Setting.Load)) + "  " + s.style.dim.Render(s.Model)
}

func (s *Screen) modes() string {
	var parts []string
	for m := Off; m < Modes; m++ {
		text := fmt.Sprintf(" %d %s ", m+1, m)
		if m == s.Mode {
			parts = append(parts, s.style.chosen.Render("["+text[1:len(text)-1]+"]"))
		} else {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

// strip draws frame times of the last seconds: a bar is one frame or a few, the
// dotted line is the deadline.
func (s *Screen) strip(width, rows int) []string {
	period := s.Setting.Period()
	columns := width - axisWidth
	bars := s.Meter.bars(columns)
	pad := strings.Repeat(" ", max(0, columns-len(bars)))
	deadlineRow := rows / 2 // its lower edge is the period
	var lines []string
	for row := rows - 1; row >= 0; row-- {
		label := "     │ "
		switch row {
		case rows - 1:
			label = fmt.Sprintf("%4.3g ┤ ", ms(2*period))
		case deadlineRow:
			label = fmt.Sprintf("%4.3g ┤ ", ms(period))
		case 0:
			label = "   0 ┤ "
		}
		lines = append(lines, label+pad+s.row(bars, row, rows, row == deadlineRow))
	}
	var marks strings.Builder
	for _, b := range bars {
		marks.WriteRune(b.mark())
	}
	return append(lines, "late × "+pad+s.style.bad.Render(marks.String()))
}

// row draws runs of one colour at a time.
func (s *Screen) row(bars []bar, row, rows int, deadline bool) string {
	var out, run strings.Builder
	late := false
	flush := func() {
		if run.Len() > 0 && late {
			out.WriteString(s.style.bad.Render(run.String()))
		} else {
			out.WriteString(run.String())
		}
		run.Reset()
	}
	for _, b := range bars {
		if (b.late > 0) != late {
			flush()
			late = b.late > 0
		}
		c := b.cell(row, rows, s.Setting.Period())
		if c == ' ' && deadline {
			c = '┈'
		}
		run.WriteRune(c)
	}
	flush()
	return out.String()
}

func (s *Screen) now() string {
	r := s.Meter.Recent()
	text := fmt.Sprintf("last 5 s: %s late, hitch %.1f ms/s, frame p99 %.1f ms", percent(r.LateShare), r.HitchMsPerS,
		r.FrameP99Ms)
	switch {
	case r.Frames == 0:
		return s.style.dim.Render("last 5 s: no frame yet")
	case r.LateShare >= 0.05:
		return s.style.bad.Render(text)
	case r.LateShare >= 0.01:
		return s.style.warn.Render(text)
	}
	return s.style.good.Render(text)
}

func (s *Screen) decision() string {
	f, ok := s.Meter.Newest()
	if !ok {
		return ""
	}
	switch f.Mode {
	case Off:
		return s.style.dim.Render("the LLM is off: nothing to decide")
	case Plain:
		return s.style.dim.Render("nobody decides: llama.cpp takes every core whenever it has work")
	}
	d := f.Decision
	text := fmt.Sprintf("gate %s · openness %.2f · threads %d · reason %s", d.Gate, d.Openness, d.Threads, d.Reason)
	switch { // last, since a narrow screen cuts it
	case d.Gate == scheduler.GateWindow && d.OpenAfter != scheduler.AtFrameEnd:
		text += fmt.Sprintf(" · from %.1f ms", ms(d.OpenAfter))
	case d.Gate == scheduler.GateWindow:
		text += fmt.Sprintf(" · margin %.1f ms", ms(d.Margin))
	case d.Gate == scheduler.GatePaced:
		text += fmt.Sprintf(" · pause %.1f ms", ms(d.Pause))
	}
	return text
}

// table stands the modes side by side.
func (s *Screen) table() []string {
	// The table is of one load; a mode's first second is not in it.
	under := fmt.Sprintf("load %.4g ms", ms(s.Setting.Load))
	if s.Meter.Settling() {
		under += " …"
	}
	names := s.cells(func(m Mode, _ Total) string { return m.String() })
	lines := []string{s.style.dim.Render(fmt.Sprintf("%-16s", under)) + names}
	for _, row := range []struct {
		name string
		text func(m Mode, t Total) string
	}{
		{"late", func(_ Mode, t Total) string { return percent(t.LateShare) }},
		{"hitch ms/s", func(_ Mode, t Total) string { return fmt.Sprintf("%.1f", t.HitchMsPerS) }},
		{"frame p99 ms", func(_ Mode, t Total) string { return fmt.Sprintf("%.1f", t.FrameP99Ms) }},
		{"tokens/s", func(m Mode, t Total) string {
			if m == Off {
				return "–"
			}
			return fmt.Sprintf("%.1f", t.TokensPerSecond)
		}},
		{"first token ms", func(_ Mode, t Total) string {
			if t.Replies == 0 {
				return "–"
			}
			return fmt.Sprintf("%.0f", t.TTFTMs)
		}},
	} {
		lines = append(lines, fmt.Sprintf("%-16s", row.name)+s.cells(func(m Mode, t Total) string {
			if t.Frames == 0 {
				return "–"
			}
			return row.text(m, t)
		}))
	}
	return lines
}

// cells right-aligns one row: the mode that runs is marked.
func (s *Screen) cells(text func(Mode, Total) string) string {
	widths := [Modes]int{9, 19, 9}
	var b strings.Builder
	for m := Off; m < Modes; m++ {
		cell := fmt.Sprintf("%*s", widths[m], text(m, s.Meter.Total(m)))
		if m == s.Mode {
			cell = s.style.title.Render(cell)
		}
		b.WriteString(cell)
	}
	return b.String()
}

// talk shows the end of the conversation in the lines that are left.
func (s *Screen) talk(width, lines int) []string {
	var all []string
	need := 0
	for i := len(s.Said) - 1; i >= 0 && need < lines; i-- {
		part := s.exchange(s.Said[i], width)
		all = append(part, all...)
		need += len(part)
	}
	if s.Input == "" && s.Mode == Off {
		all = append(all, s.style.dim.Render("(the LLM is off: 2 or 3 lets them speak)"))
	}
	if over := len(all) - lines; over > 0 {
		all = all[over:]
	}
	for len(all) < lines {
		all = append(all, "")
	}
	return all
}

func (s *Screen) exchange(e Said, width int) []string {
	const you = "you> "
	player := s.style.dim.Render(you) + printable(e.Player)
	name := e.NPC + "> "
	reply := printable(e.Reply)
	switch e.End {
	case "":
		reply += "▌"
	case "end", "stop":
	case "length", "context":
		reply += " …"
	default:
		reply += " … (" + e.End + ")"
	}
	indent := strings.Repeat(" ", lipgloss.Width(name))
	wrapped := strings.Split(ansi.Wrap(strings.TrimLeft(reply, " "), max(10, width-len(indent)), ""), "\n")
	lines := []string{player}
	for i, l := range wrapped {
		if i == 0 {
			lines = append(lines, s.style.good.Render(name)+l)
		} else {
			lines = append(lines, indent+l)
		}
	}
	return lines
}

func (s *Screen) keys() string {
	if s.Input != "" {
		return s.style.dim.Render("enter says it · esc leaves it · ctrl-c ends")
	}
	return s.style.dim.Render("1 2 3 mode · + - load · t say something yourself · q quit")
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
