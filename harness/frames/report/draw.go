package report

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"regexp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// drawColumns: one stretch of time for each and a half pixels of a usual
	// window; more only makes the file larger.
	drawColumns = 700
	drawWidth   = 27 * vg.Centimeter
	// leftMargin holds an axis label and numbers of five digits.
	leftMargin = 1.7 * vg.Centimeter
	// bins of the histogram, over the visible range.
	drawBins = 80
)

// Colours, chosen to differ in brightness too, for readers who see hues alike.
var (
	ink       = color.NRGBA{0x22, 0x2b, 0x36, 0xff}
	paleInk   = color.NRGBA{0x8a, 0x94, 0xa0, 0xff}
	gridInk   = color.NRGBA{0xe4, 0xe8, 0xec, 0xff}
	bandInk   = color.NRGBA{0xc3, 0xd0, 0xde, 0xff}
	cpuInk    = color.NRGBA{0x1f, 0x5f, 0xa8, 0xff}
	gpuInk    = color.NRGBA{0xe0, 0x7b, 0x1a, 0xff}
	lateInk   = color.NRGBA{0xc6, 0x28, 0x28, 0xff}
	targetInk = color.NRGBA{0x2e, 0x7d, 0x32, 0xff}
)

var bottleneckInk = map[scheduler.Bottleneck]color.NRGBA{
	scheduler.BoundCPU:     cpuInk,
	scheduler.BoundGPU:     gpuInk,
	scheduler.BoundPresent: {0x5e, 0x9c, 0x76, 0xff},
	scheduler.BoundNone:    {0xb9, 0xad, 0xd9, 0xff},
	scheduler.BoundUnknown: {0xd5, 0xd9, 0xde, 0xff},
}

// top is the upper end of the time axis: what nearly all frames reach. Frames
// above it are drawn on the edge, so that one hitch does not flatten the rest.
func (a *Analysis) top() float64 {
	p99 := metrics.Quantile(a.frameMs, 0.99)
	most := a.frameMs[len(a.frameMs)-1]
	return min(most, max(3*p99, 2*ms(a.Target))) * 1.05
}

func newPlot(y string) *plot.Plot {
	p := plot.New()
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: 9}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = face, face
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = ink, ink
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = paleInk, paleInk
		axis.Padding = 0
	}
	p.Y.Label.Text = y
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = gridInk, gridInk
	p.Add(g)
	return p
}

// svg draws p with its left axis at leftMargin, so that plots below each other
// share their time axis.
func svg(p *plot.Plot, height vg.Length) (string, error) {
	canvas := vgsvg.NewWith(vgsvg.UseWH(drawWidth, height))
	area := draw.Crop(draw.New(canvas), 4, -8, 4, -6)
	if free := leftMargin - p.DataCanvas(area).Min.X; free > 0 {
		area = draw.Crop(area, free, 0, 0, 0)
	}
	p.Draw(area)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("frames: draw: %w", err)
	}
	return inline(b.Bytes()), nil
}

var (
	prolog     = regexp.MustCompile(`(?s)^.*?<svg`)
	namespaces = regexp.MustCompile(`\s+xmlns(:\w+)?="[^"]*"`)
	typeface   = regexp.MustCompile(`font-family:Liberation Sans[^;"]*`)
	fixedSize  = regexp.MustCompile(`(?s)^<svg width="[^"]*" height="[^"]*"`)
)

// inline makes a file of SVG a part of HTML: no prolog, no namespaces (their
// names look like addresses), fonts that are everywhere, and a free width.
func inline(file []byte) string {
	file = prolog.ReplaceAll(file, []byte("<svg"))
	file = namespaces.ReplaceAll(file, nil)
	file = typeface.ReplaceAll(file, []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	return string(fixedSize.ReplaceAll(file, []byte("<svg")))
}

func line(xys plotter.XYs, c color.Color, width vg.Length) (*plotter.Line, error) {
	l, err := plotter.NewLine(xys)
	if err != nil {
		return nil, fmt.Errorf("frames: draw: %w", err)
	}
	l.Color, l.Width = c, width
	return l, nil
}

// timeline draws frame times: the band from the fastest to the slowest frame of
// each stretch, its mean, the target and the late ones.
func (a *Analysis) timeline(columns []column) (picture, error) {
	p := newPlot("frame time, ms")
	legend := []mark{
		{bandInk, "fastest to slowest"}, {ink, "mean"}, {targetInk, fmt.Sprintf("target %.2f ms", ms(a.Target))},
	}
	top := a.top()
	var band, mean plotter.XYs
	var late, beyond plotter.XYs
	for _, c := range columns {
		band = append(band, plotter.XY{X: c.at, Y: min(c.max, top)})
		mean = append(mean, plotter.XY{X: c.at, Y: min(c.mean, top)})
		switch {
		case c.max > top:
			beyond = append(beyond, plotter.XY{X: c.slowestSecond, Y: top})
		case c.late:
			late = append(late, plotter.XY{X: c.slowestSecond, Y: c.max})
		}
	}
	for _, c := range slices.Backward(columns) {
		band = append(band, plotter.XY{X: c.at, Y: min(c.min, top)})
	}
	if len(late) > 0 {
		legend = append(legend, mark{lateInk, "● slowest frame of its stretch, late"})
	}
	if len(beyond) > 0 {
		legend = append(legend, mark{lateInk, fmt.Sprintf("▲ the same, above the axis (longest %.1f ms)",
			a.frameMs[len(a.frameMs)-1])})
	}
	l, err := line(mean, ink, 0.9)
	if err != nil {
		return picture{}, err
	}
	err = errors.Join(a.addBand(p, band), a.addLate(p, late, beyond), a.addTarget(p, columns))
	if err != nil {
		return picture{}, err
	}
	p.Add(l)
	a.frameAxes(p, columns, top)
	return finish(p, 7*vg.Centimeter, legend)
}

// picture is a drawing with its legend, which HTML lays out better.
type picture struct {
	SVG    template.HTML
	Legend []mark
}

type mark struct {
	ink  color.NRGBA
	Name string
}

// Colour is the mark's colour as CSS writes it.
func (m mark) Colour() template.CSS {
	return template.CSS(fmt.Sprintf("#%02x%02x%02x", m.ink.R, m.ink.G, m.ink.B))
}

func finish(p *plot.Plot, height vg.Length, legend []mark) (picture, error) {
	s, err := svg(p, height)
	// The drawing holds numbers and texts of this package only.
	return picture{template.HTML(s), legend}, err
}

func (a *Analysis) frameAxes(p *plot.Plot, columns []column, top float64) {
	p.X.Min, p.X.Max = 0, a.endSecond(columns)
	p.Y.Min, p.Y.Max = 0, top
}

func (a *Analysis) endSecond(columns []column) float64 {
	last := columns[len(columns)-1]
	return max(2*last.at-a.lastBegin(columns), 1e-9)
}

// lastBegin is where the last stretch begins; its middle is as far from there
// as from the end.
func (a *Analysis) lastBegin(columns []column) float64 {
	last := columns[len(columns)-1]
	return last.at - last.mean*float64(last.end-last.first)/2000
}

func (a *Analysis) addBand(p *plot.Plot, band plotter.XYs) error {
	poly, err := plotter.NewPolygon(band)
	if err != nil {
		return fmt.Errorf("frames: draw: %w", err)
	}
	poly.Color, poly.LineStyle.Color, poly.LineStyle.Width = bandInk, bandInk, 0.5
	p.Add(poly)
	return nil
}

func (a *Analysis) addLate(p *plot.Plot, late, beyond plotter.XYs) error {
	for _, m := range []struct {
		at    plotter.XYs
		shape draw.GlyphDrawer
		size  vg.Length
	}{
		{late, draw.CircleGlyph{}, 1.1},
		{beyond, draw.PyramidGlyph{}, 3},
	} {
		if len(m.at) == 0 {
			continue
		}
		s, err := plotter.NewScatter(m.at)
		if err != nil {
			return fmt.Errorf("frames: draw: %w", err)
		}
		s.GlyphStyle = draw.GlyphStyle{Color: lateInk, Radius: m.size, Shape: m.shape}
		p.Add(s)
	}
	return nil
}

func (a *Analysis) addTarget(p *plot.Plot, columns []column) error {
	t := ms(a.Target)
	l, err := line(plotter.XYs{{X: 0, Y: t}, {X: a.endSecond(columns), Y: t}}, targetInk, 1)
	if err != nil {
		return err
	}
	l.Dashes = []vg.Length{4, 3}
	p.Add(l)
	return nil
}

// busyPlot draws CPU and GPU busy; a side that was never measured is left out
// and named in the text below.
func (a *Analysis) busyPlot(columns []column) (picture, error) {
	p := newPlot("mean, ms")
	var legend []mark
	top, edge := 0.0, a.top()
	for _, side := range []struct {
		mark
		get func(column) (float64, bool)
	}{
		{mark{paleInk, "frame time"}, func(c column) (float64, bool) { return c.mean, true }},
		{mark{gpuInk, "GPU busy"}, func(c column) (float64, bool) { return c.gpu, c.gpuOK }},
		{mark{cpuInk, "CPU busy"}, func(c column) (float64, bool) { return c.cpu, c.cpuOK }},
	} {
		known := parts(columns, side.get)
		for _, part := range known {
			for i := range part {
				part[i].Y = min(part[i].Y, edge)
				top = max(top, part[i].Y)
			}
			l, err := line(part, side.ink, 1)
			if err != nil {
				return picture{}, err
			}
			p.Add(l)
		}
		if len(known) > 0 {
			legend = append(legend, side.mark)
		}
	}
	a.frameAxes(p, columns, top*1.05)
	return finish(p, 5*vg.Centimeter, legend)
}

// parts are the stretches in which a value is known.
func parts(columns []column, get func(column) (float64, bool)) (out []plotter.XYs) {
	open := false
	for _, c := range columns {
		v, ok := get(c)
		if !ok {
			open = false
			continue
		}
		if !open {
			out = append(out, nil)
			open = true
		}
		last := &out[len(out)-1]
		*last = append(*last, plotter.XY{X: c.at, Y: v})
	}
	return out
}

// strip draws which bottleneck held when.
func (a *Analysis) strip(columns []column) (picture, error) {
	p := newPlot(" ")
	var legend []mark
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	p.X.Label.Text = "seconds of frames"
	drawn := map[scheduler.Bottleneck]bool{}
	now, i := 0.0, 0
	for _, s := range a.Spans {
		begin := now
		for ; i < s.End; i++ {
			now += a.Capture.At(i).FrameTime.Seconds()
		}
		poly, err := plotter.NewPolygon(plotter.XYs{{X: begin, Y: 0}, {X: now, Y: 0}, {X: now, Y: 1}, {X: begin, Y: 1}})
		if err != nil {
			return picture{}, fmt.Errorf("frames: draw: %w", err)
		}
		fill, ok := bottleneckInk[s.Bottleneck]
		if !ok {
			fill = paleInk
		}
		poly.Color, poly.LineStyle.Width = fill, 0
		p.Add(poly)
		if !drawn[s.Bottleneck] {
			drawn[s.Bottleneck] = true
			legend = append(legend, mark{fill, s.Bottleneck.String()})
		}
	}
	a.frameAxes(p, columns, 1)
	return finish(p, 2.6*vg.Centimeter, legend)
}

// distribution draws a histogram of frame times and the share of frames below.
func (a *Analysis) distribution() (picture, error) {
	p := newPlot("share of frames")
	p.X.Label.Text = "frame time, ms"
	top, t := a.top(), ms(a.Target)
	highest, bars, err := a.histogram(top)
	if err != nil {
		return picture{}, err
	}
	below, err := line(a.cumulative(top), cpuInk, 1.2)
	if err != nil {
		return picture{}, err
	}
	target, err := line(plotter.XYs{{X: t, Y: 0}, {X: t, Y: 1}}, targetInk, 1)
	if err != nil {
		return picture{}, err
	}
	target.Dashes = []vg.Length{4, 3}
	p.Add(bars, below, target)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, top, 0, 1
	return finish(p, 6*vg.Centimeter, []mark{
		{bandInk, fmt.Sprintf("histogram, highest bar %.1f %% of frames", 100*highest)},
		{cpuInk, "share of frames at or below"}, {targetInk, "target"},
	})
}

// histogram scales the highest bar to 1; frames beyond top are in the last one.
func (a *Analysis) histogram(top float64) (highest float64, bars *plotter.Polygon, err error) {
	counts := make([]float64, drawBins)
	for _, v := range a.frameMs {
		counts[min(int(v/top*drawBins), drawBins-1)]++
	}
	most := slices.Max(counts)
	var steps plotter.XYs
	for i, n := range counts {
		left, right := top*float64(i)/drawBins, top*float64(i+1)/drawBins
		steps = append(steps, plotter.XY{X: left, Y: n / most}, plotter.XY{X: right, Y: n / most})
	}
	steps = append(steps, plotter.XY{X: top, Y: 0}, plotter.XY{X: 0, Y: 0})
	bars, err = plotter.NewPolygon(steps)
	if err != nil {
		return 0, nil, fmt.Errorf("frames: draw: %w", err)
	}
	bars.Color, bars.LineStyle.Color, bars.LineStyle.Width = bandInk, paleInk, 0.4
	return most / float64(len(a.frameMs)), bars, nil
}

// cumulative is the curve of the share of frames at or below a time.
func (a *Analysis) cumulative(top float64) plotter.XYs {
	const points = 400 // finer than the paper
	var curve plotter.XYs
	for i := range points + 1 {
		at := min(len(a.frameMs)*i/points, len(a.frameMs)-1)
		curve = append(curve, plotter.XY{X: min(a.frameMs[at], top), Y: float64(at+1) / float64(len(a.frameMs))})
	}
	return curve
}
