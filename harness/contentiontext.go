package harness

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/lull-npc/lull/harness/page"

	// The formats that a plot can be written in.
	_ "gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgsvg"
)

// WriteText writes the report for people.
func (r *ContentionReport) WriteText(w io.Writer) error {
	p := page.NewPrinter(w)
	p.Line("contention score of the layers against the memory that one thread streams beside them")
	p.Line("%s, %d cores, %s; %s, %s", cmp.Or(r.Host.CPU, "unknown processor"), r.Host.Cores, r.Host.OS,
		cmp.Or(r.Host.Model, "no model"), cmp.Or(r.Host.Llama, "–"))
	p.Line("%d thread(s) of the model, %.4g s at rates in random order, seed %d", r.Threads, r.Seconds, r.Seed)
	p.Line("")
	t := page.NewTable("asked GB/s", "streamed GB/s", "slices", "groups of layers", "score", "quartiles")
	for _, c := range r.Rates {
		score, spread := "–", "–"
		if c.Score != nil {
			score = fmt.Sprintf("%.3f", *c.Score)
			spread = fmt.Sprintf("%.3f … %.3f … %.3f", *c.P25, *c.P50, *c.P75)
		}
		t.AppendRow(table.Row{
			fmt.Sprintf("%.4g", c.Asked), fmt.Sprintf("%.2f", c.Streamed), c.Slices, c.N, score, spread,
		})
	}
	p.Table(t)
	p.Line("")
	p.Line("Pearson r over groups of layers: %s", r.Pearson.text())
	p.Line("Pearson r over slices:           %s", r.BySlice.text())
	p.Line("Groups of one slice are alike, so the first interval is too narrow; slices are nearly independent.")
	for _, l := range r.scatter() {
		p.Line("%s", l)
	}
	for _, n := range r.Notes {
		p.Line("note: %s", n)
	}
	if r.Interrupted {
		p.Line("note: interrupted: only complete slices are counted")
	}
	return p.Err()
}

func (c Correlation) text() string {
	if c.R == nil {
		return fmt.Sprintf("not known, n = %d", c.N)
	}
	return fmt.Sprintf("%.3f, 95 %% interval %.3f … %.3f (Fisher's z), n = %d", *c.R, *c.Low, *c.High, c.N)
}

// scatter draws the slices: bandwidth to the right, score upwards.
func (r *ContentionReport) scatter() []string {
	most, low, high := 0.0, 0.0, 0.05
	n := 0
	for _, s := range r.Slices {
		if s.Score != nil {
			n++
			most, low, high = max(most, s.Streamed), min(low, *s.Score), max(high, *s.Score)
		}
	}
	if n == 0 || most <= 0 {
		return nil
	}
	counts := make([][]int, plotHeight)
	for i := range counts {
		counts[i] = make([]int, plotWidth)
	}
	for _, s := range r.Slices {
		if s.Score != nil {
			col := int(s.Streamed/most*(plotWidth-1) + 0.5)
			row := plotHeight - 1 - int((*s.Score-low)/(high-low)*(plotHeight-1)+0.5)
			counts[min(max(row, 0), plotHeight-1)][min(max(col, 0), plotWidth-1)]++
		}
	}
	marks := []rune(" ·∘●")
	out := []string{""}
	for i, row := range counts {
		text := make([]rune, plotWidth)
		for k, c := range row {
			text[k] = marks[min(c, len(marks)-1)]
		}
		label := "        "
		switch i {
		case 0:
			label = fmt.Sprintf("%7.3f ", high)
		case plotHeight - 1:
			label = fmt.Sprintf("%7.3f ", low)
		}
		out = append(out, strings.TrimRight(label+"│"+string(text), " "))
	}
	return append(out, "  score └"+strings.Repeat("─", plotWidth-1),
		fmt.Sprintf("        0 GB/s%*.2f", plotWidth-5, most), "  · one slice  ∘ two  ● three and more")
}

// PlotFormats are the endings of files that Plot can fill.
func PlotFormats() []string { return []string{".png", ".svg"} }

// Plot draws the slices and the rates' quartiles in the format of a file's
// ending.
func (r *ContentionReport) Plot(file string) ([]byte, error) {
	format := strings.ToLower(filepath.Ext(file))
	if !slices.Contains(PlotFormats(), format) {
		return nil, fmt.Errorf("harness: plot %s: want a file that ends in %s", file,
			strings.Join(PlotFormats(), " or "))
	}
	p := plot.New()
	p.Title.Text = "Contention score against memory bandwidth"
	if r.BySlice.R != nil {
		p.Title.Text += fmt.Sprintf("\nr = %.3f over %d slices, %.3f over %d groups of layers",
			*r.BySlice.R, r.BySlice.N, value(r.Pearson.R), r.Pearson.N)
	}
	p.X.Label.Text, p.Y.Label.Text = "GB/s streamed beside the model", "(T - T0) / T0"
	p.Add(plotter.NewGrid())
	var points plotter.XYs
	for _, s := range r.Slices {
		if s.Score != nil {
			points = append(points, plotter.XY{X: s.Streamed, Y: *s.Score})
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("harness: plot %s: there is no slice with layers to draw", file)
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return nil, fmt.Errorf("harness: plot: %w", err)
	}
	blue := color.NRGBA{0x1f, 0x5f, 0xa8, 0xa0}
	dots.GlyphStyle = draw.GlyphStyle{Color: blue, Radius: 2.5, Shape: draw.CircleGlyph{}}
	p.Add(dots)
	p.Legend.Add("a slice of a second", dots)
	if err := r.plotRates(p); err != nil {
		return nil, err
	}
	p.Legend.Top, p.Legend.Left = true, true
	out, err := p.WriterTo(18*vg.Centimeter, 12*vg.Centimeter, format[1:])
	if err != nil {
		return nil, fmt.Errorf("harness: plot: %w", err)
	}
	var b bytes.Buffer
	if _, err := out.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("harness: plot: %w", err)
	}
	return b.Bytes(), nil
}

// rateBars are the rates with the quartiles of their layers.
type rateBars struct {
	plotter.XYs
	plotter.YErrors
}

func (r *ContentionReport) plotRates(p *plot.Plot) error {
	var bars rateBars
	// In the order of what was streamed: two rates beyond what the machine reads
	// may come out in the other order.
	rates := slices.SortedFunc(slices.Values(r.Rates), func(a, b ContentionRate) int {
		return cmp.Compare(a.Streamed, b.Streamed)
	})
	for _, c := range rates {
		if c.Score != nil {
			bars.XYs = append(bars.XYs, plotter.XY{X: c.Streamed, Y: *c.Score})
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{*c.Score - *c.P25, *c.P75 - *c.Score})
		}
	}
	red := color.NRGBA{0xc6, 0x28, 0x28, 0xff}
	line, err := plotter.NewLine(bars.XYs)
	if err != nil {
		return fmt.Errorf("harness: plot: %w", err)
	}
	line.Color = red
	whiskers, err := plotter.NewYErrorBars(bars)
	if err != nil {
		return fmt.Errorf("harness: plot: %w", err)
	}
	whiskers.Color = red
	p.Add(line, whiskers)
	p.Legend.Add("a rate, with the quartiles of its layers", line)
	return nil
}
