package soc

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// PlotFormats are the endings of files that Plot can make.
func PlotFormats() []string { return []string{".png", ".svg"} }

const plotWidth, plotHeight = 30 * vg.Centimeter, 11 * vg.Centimeter

// Plot draws late frames against tokens/s, tokens/J and the first word's delay,
// a dot for each policy, with the front of those that no other beats.
func (r *Report) Plot(file string) ([]byte, error) {
	format := strings.ToLower(filepath.Ext(file))
	if !slices.Contains(PlotFormats(), format) {
		return nil, fmt.Errorf("soc: plot %s: want a file that ends in %s", file, strings.Join(PlotFormats(), " or "))
	}
	ttft := func(s Summary) float64 {
		if s.TTFT == nil {
			return 0
		}
		return s.TTFT.Median / 1e3
	}
	panels := []struct {
		name string
		y    func(Summary) float64
	}{
		{"tokens/s", func(s Summary) float64 { return s.Tokens.Median }},
		{"tokens/J", func(s Summary) float64 { return s.Joule.Median }},
		{"first word after s", ttft},
	}
	row := make([]*plot.Plot, len(panels))
	for i, panel := range panels {
		p, err := r.panel(panel.name, panel.y, i == 0)
		if err != nil {
			return nil, fmt.Errorf("soc: plot: %w", err)
		}
		row[i] = p
	}
	var out interface {
		vg.CanvasWriterTo
		vg.CanvasSizer
	}
	if format == ".svg" {
		out = vgsvg.New(plotWidth, plotHeight)
	} else {
		out = vgimg.PngCanvas{Canvas: vgimg.New(plotWidth, plotHeight)}
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(row), PadX: vg.Centimeter / 2}
	for i, c := range plot.Align([][]*plot.Plot{row}, tiles, draw.New(out))[0] {
		row[i].Draw(c)
	}
	var b bytes.Buffer
	if _, err := out.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("soc: plot: %w", err)
	}
	return b.Bytes(), nil
}

func (r *Report) panel(name string, y func(Summary) float64, front bool) (*plot.Plot, error) {
	p := plot.New()
	if front {
		p.Title.Text = r.Scenario + " on " + r.Host.CPU
	}
	p.X.Label.Text, p.Y.Label.Text = "late frames, %", name
	p.X.Min, p.Y.Min = 0, 0
	p.Add(plotter.NewGrid())
	points, others := r.points(y, front)
	if len(points.XYs) == 0 {
		return p, nil
	}
	dots, err := scatter(points, color.NRGBA{0x1f, 0x5f, 0xa8, 0xff})
	if err != nil {
		return nil, err
	}
	if len(others.XYs) > 0 {
		grey, err := scatter(others, color.NRGBA{0xa0, 0xa0, 0xa0, 0xff})
		if err != nil {
			return nil, err
		}
		p.Add(grey)
	}
	labels, err := plotter.NewLabels(points)
	if err != nil {
		return nil, err
	}
	labels.Offset = vg.Point{X: 4, Y: -3}
	p.Add(dots, labels)
	if front && len(r.Pareto) > 1 {
		line, err := r.front(y)
		if err != nil {
			return nil, err
		}
		p.Add(line)
	}
	p.X.Max, p.Y.Max = 1.45*p.X.Max, 1.1*p.Y.Max // room for the names
	spread(labels, p.X.Max, p.Y.Max)
	return p, nil
}

// points are the policies that say something, and those that get no names: without a
// feature of lull, and beside the first panel all off its front.
func (r *Report) points(y func(Summary) float64, front bool) (named, others plotter.XYLabels) {
	for _, policy := range r.order() {
		s := r.Summary[policy]
		if y(s) == 0 && !front {
			continue // the game alone says nothing
		}
		to := &named
		if _, ok := ablated(policy); ok || !front && policy != PolicyLull && !slices.Contains(r.Pareto, policy) {
			to = &others
		}
		to.XYs = append(to.XYs, plotter.XY{X: 100 * s.Jank.Median, Y: y(s)})
		to.Labels = append(to.Labels, policy)
	}
	return named, others
}

func scatter(points plotter.XYLabels, c color.Color) (*plotter.Scatter, error) {
	dots, err := plotter.NewScatter(points)
	if err == nil {
		dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: 3, Shape: draw.CircleGlyph{}}
	}
	return dots, err
}

// labelWide and labelHigh are about what a name takes, as shares of the axes.
const labelWide, labelHigh = 0.34, 0.042

// spread moves names up where they would cover one another.
func spread(l *plotter.Labels, wide, high float64) {
	order := make([]int, len(l.XYs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(l.XYs[a].Y, l.XYs[b].Y) })
	for at, i := range order {
		for _, k := range order[:at] {
			near := math.Abs(l.XYs[i].X-l.XYs[k].X) < labelWide*wide
			if near && l.XYs[i].Y-l.XYs[k].Y < labelHigh*high {
				l.XYs[i].Y = l.XYs[k].Y + labelHigh*high
			}
		}
	}
}

// front is the line through the policies that no other beats.
func (r *Report) front(y func(Summary) float64) (*plotter.Line, error) {
	var points plotter.XYs
	for _, policy := range r.Pareto {
		s := r.Summary[policy]
		points = append(points, plotter.XY{X: 100 * s.Jank.Median, Y: y(s)})
	}
	slices.SortFunc(points, func(a, b plotter.XY) int {
		switch {
		case a.X < b.X:
			return -1
		case a.X > b.X:
			return 1
		}
		return 0
	})
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.Color = color.NRGBA{0xc0, 0x40, 0x20, 0xff}
	return line, nil
}
