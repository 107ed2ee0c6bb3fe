package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/guptarohit/asciigraph"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/lull-npc/lull/harness/metrics"
)

// Sizes of text in a terminal of 80 columns.
const (
	plotColumns = 66
	plotLines   = 9
	textColumns = 78
	barColumns  = 40
)

// WriteText writes a report for people.
func (a *Analysis) WriteText(w io.Writer) error {
	var b strings.Builder
	a.head(&b)
	b.WriteString("\n" + a.plot() + "\n\n")
	b.WriteString(a.metricsTable() + "\n\n")
	a.bottlenecks(&b)
	a.unusable(&b)
	paragraph(&b, "Derivation: ", a.Capture.Derivation)
	for _, n := range a.Notes {
		paragraph(&b, "Note: ", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDefinitions writes what each metric means.
func WriteDefinitions(w io.Writer) error {
	var b strings.Builder
	for _, d := range metrics.Definitions() {
		fmt.Fprintf(&b, "%s [%s]\n", d.Name, d.Unit)
		for _, line := range strings.Split(text.WrapSoft(d.Text+" ("+d.Source+")", textColumns-4), "\n") {
			b.WriteString("    " + strings.TrimRight(line, " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Analysis) head(b *strings.Builder) {
	c, m := a.Capture, a.Metrics
	fmt.Fprintf(b, "%s: %s, %d rows", a.File, c.Format, c.Rows)
	if c.Segments > 1 {
		fmt.Fprintf(b, " in %d segments", c.Segments)
	}
	b.WriteString("\n")
	paragraph(b, "Process: ", visible(c.Choice))
	used := fmt.Sprintf("%d used, %.1f s", m.Frames, m.Seconds)
	if c.Stream.Dropped > 0 {
		used += fmt.Sprintf("; %d of them (%.0f %%) never reached the screen, their times count all the same",
			c.Stream.Dropped, 100*float64(c.Stream.Dropped)/float64(c.Len()))
	}
	if !m.Exact {
		used += fmt.Sprintf("; quantiles are of a uniform sample of %d", m.KeptFrames)
	}
	paragraph(b, "Frames:  ", used)
	paragraph(b, "Target:  ", fmt.Sprintf("%.3f ms (%.1f Hz): %s", ms(a.Target), hertz(a.Target), a.TargetFrom))
}

func hertz(period time.Duration) float64 { return float64(time.Second) / float64(period) }

// paragraph wraps a text behind its label.
func paragraph(b *strings.Builder, label, s string) {
	for i, line := range strings.Split(text.WrapSoft(s, textColumns-len(label)), "\n") {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		b.WriteString(label + strings.TrimRight(line, " ") + "\n")
	}
}

// plot draws the slowest frame of each stretch of time, so that no hitch falls
// between two columns.
func (a *Analysis) plot() string {
	columns := a.columns(plotColumns)
	slowest, target := make([]float64, len(columns)), make([]float64, len(columns))
	for i, c := range columns {
		slowest[i], target[i] = c.max, ms(a.Target)
	}
	if len(columns) == 1 {
		slowest, target = append(slowest, slowest[0]), append(target, target[0])
	}
	return asciigraph.PlotMany([][]float64{target, slowest},
		asciigraph.Height(plotLines), asciigraph.LowerBound(0), asciigraph.Precision(1),
		asciigraph.SeriesChars(asciigraph.CreateCharSet("·"), asciigraph.DefaultCharSet),
		asciigraph.Caption(fmt.Sprintf("slowest frame in ms of each %.2f s; ··· is the target",
			a.Metrics.Seconds/float64(len(columns)))))
}

func (a *Analysis) metricsTable() string {
	t := newTable()
	t.AppendHeader(table.Row{"metric", "value", "unit"})
	for _, row := range a.rows() {
		t.AppendRow(table.Row{row[0], row[1], row[2]})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}})
	return t.Render()
}

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateRows = false
	return t
}

// rows are the metrics as texts: name, value, unit.
func (a *Analysis) rows() [][3]string {
	m := a.Metrics
	number := func(format string, v float64) string { return fmt.Sprintf(format, v) }
	rows := [][3]string{
		{"frame_ms p50 / p99", fmt.Sprintf("%.2f / %.2f", m.FrameMs.P50, m.FrameMs.P99), "ms"},
		{"overrun_ms p50 / p90 / p95 / p99", fmt.Sprintf("%+.2f / %+.2f / %+.2f / %+.2f",
			m.Overrun.P50, m.Overrun.P90, m.Overrun.P95, m.Overrun.P99), "ms"},
		{"jank_rate", number("%.4f", m.JankRate), "of frames"},
		{"jank_rate_2pct", number("%.4f", m.ClearJankRate), "of frames"},
		{"hitch_ms_per_s", number("%.2f", m.HitchMsPerS), "ms/s"},
		{"avg_fps", number("%.1f", m.AverageFPS), "1/s"},
		{"low1_fps (average)", number("%.1f", m.Low1FPS), "1/s"},
		{"low1_p1_fps", number("%.1f", m.Low1P1FPS), "1/s"},
		{"low1_integral_fps", number("%.1f", m.Low1IntegralFPS), "1/s"},
		{"perfdog_jank / big_jank", fmt.Sprintf("%d / %d", m.PerfDogJank, m.BigJank), "frames"},
		{"stutter_share", number("%.4f", m.StutterShare), "of time"},
		{"ue_hitches", fmt.Sprintf("%d (%.1f/min)", m.UnrealHitches, m.HitchesPerMin), "frames"},
		{"ue_missed_vsync_share", number("%.4f", m.MissedVSync), "of frames"},
	}
	if m.Slow20FPSShare != nil {
		rows = append(rows, [3]string{"android_slow 20fps / 30fps",
			fmt.Sprintf("%.4f / %.4f", *m.Slow20FPSShare, *m.Slow30FPSShare), "of frames"})
	} else {
		rows = append(rows, [3]string{"android_slow 20fps / 30fps", "needs more than 1 min", ""})
	}
	if c := m.Chrome; c != nil {
		rows = append(rows, [3]string{"chrome delayed mean / worst", fmt.Sprintf("%.3f / %.3f", c.DelayedShare,
			c.DelayedWorst), "of 64 frames"})
	}
	if a.AnimErrN > 0 {
		rows = append(rows, [3]string{"animation_error_ms p50 / p99", fmt.Sprintf("%.2f / %.2f", a.AnimErr.P50,
			a.AnimErr.P99), fmt.Sprintf("ms, of %d", a.AnimErrN)})
	}
	return rows
}

func (a *Analysis) bottlenecks(b *strings.Builder) {
	shares := a.Shares()
	b.WriteString("Bottleneck (averages of 60 frames), share of frames\n")
	for _, name := range byShare(shares) {
		bar := strings.Repeat("█", int(shares[name]*barColumns+0.5))
		fmt.Fprintf(b, "  %-16s %5.1f %%  %s\n", name, 100*shares[name], bar)
	}
	b.WriteString("\n")
}

func byShare(shares map[string]float64) []string {
	return slices.SortedFunc(maps.Keys(shares), func(x, y string) int {
		switch {
		case shares[x] > shares[y]:
			return -1
		case shares[x] < shares[y]:
			return 1
		}
		return strings.Compare(x, y)
	})
}

// unusableRow says where something was unusable, why, and how often.
type unusableRow struct {
	Where, Why string
	N          int64
}

func (a *Analysis) unusableRows() (rows []unusableRow) {
	add := func(where string, m map[string]int64) {
		for _, why := range slices.Sorted(maps.Keys(m)) {
			rows = append(rows, unusableRow{where, why, m[why]})
		}
	}
	add("row", a.Capture.Rejected.Map())
	add("clock", a.Metrics.Unusable)
	values := a.UnusableValues()
	for _, field := range slices.Sorted(maps.Keys(values)) {
		add(field, values[field])
	}
	return rows
}

func (a *Analysis) unusable(b *strings.Builder) {
	rows := a.unusableRows()
	if len(rows) == 0 {
		b.WriteString("Everything could be used.\n\n")
		return
	}
	t := newTable()
	t.AppendHeader(table.Row{"unusable", "why", "count"})
	for _, r := range rows {
		t.AppendRow(table.Row{r.Where, r.Why, r.N})
	}
	b.WriteString(t.Render() + "\n\n")
}

// visible shows control characters instead of sending them to a terminal: the
// name of a process comes from the file.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
