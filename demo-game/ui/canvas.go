package ui

import (
	"fmt"
	"image"
	"image/color"
	"strings"

	"github.com/hajimehoshi/bitmapfont/v3"
)

// The screen in pixels.
const (
	Width  = 640
	Height = 360
)

const (
	// LineHeight is from one line of text to the next: 13 of letters, 2 of air.
	LineHeight = 15
	// LetterHeight is how high letters are.
	LetterHeight = 13
)

// The colours, one palette for all.
var (
	Ink    = color.RGBA{0x1b, 0x1a, 0x2e, 0xff}
	Night  = color.RGBA{0x1b, 0x1a, 0x2e, 0xe4}
	Shade  = color.RGBA{0x0c, 0x0c, 0x18, 0x90}
	Paper  = color.RGBA{0xf4, 0xe9, 0xcd, 0xff}
	Dim    = color.RGBA{0xa7, 0x9f, 0x95, 0xff}
	Gold   = color.RGBA{0xf2, 0xc1, 0x4e, 0xff}
	Leaf   = color.RGBA{0x7c, 0xc0, 0x6a, 0xff}
	Ember  = color.RGBA{0xe0, 0x5d, 0x44, 0xff}
	Violet = color.RGBA{0xa8, 0x7c, 0xd8, 0xff}
	Meadow = color.RGBA{0x3f, 0x6a, 0x3c, 0xff}
	Sky    = color.RGBA{0x6f, 0xb7, 0xd9, 0xff}
)

// OpKind says what an Op does.
type OpKind uint8

// The kinds of operations.
const (
	OpFill   OpKind = iota // Rect in Colour
	OpFrame                // its edge, one pixel
	OpText                 // Text from the upper left corner of Rect, Frame times as large (0: once)
	OpSprite               // Name, Frame, as large as Rect, mirrored with Flip
	OpArea                 // the ground of area Name
	OpGlow                 // Frame particles, for load on the GPU
)

// Op is one operation.
type Op struct {
	Kind   OpKind
	Rect   image.Rectangle
	Within image.Rectangle // OpText: where it has to stay
	Colour color.RGBA
	Text   string
	Name   string
	Frame  int
	Flip   bool
	Cut    bool // OpText: the line was too long for its box
}

// Canvas is a list of operations, in order. Call from one goroutine at a time.
type Canvas struct{ Ops []Op }

// Reset empties it and keeps its memory.
func (c *Canvas) Reset() { c.Ops = c.Ops[:0] }

// Fill covers a rectangle.
func (c *Canvas) Fill(r image.Rectangle, col color.RGBA) {
	c.Ops = append(c.Ops, Op{Kind: OpFill, Rect: r, Colour: col})
}

// Edge draws the edge of a rectangle.
func (c *Canvas) Edge(r image.Rectangle, col color.RGBA) {
	c.Ops = append(c.Ops, Op{Kind: OpFrame, Rect: r, Colour: col})
}

// Panel is a dark box with an edge; it returns the room inside.
func (c *Canvas) Panel(r image.Rectangle) image.Rectangle {
	c.Fill(r, Night)
	c.Edge(r, Gold)
	return r.Inset(8)
}

// Text writes one line into a box, from a height below its top. What is too long
// for the box ends in dots.
func (c *Canvas) Text(box image.Rectangle, dy int, text string, col color.RGBA) {
	c.fitted(box, dy, text, col, func(int) int { return 0 })
}

// fitted writes a line where place says it begins, by the room that is left.
func (c *Canvas) fitted(box image.Rectangle, dy int, text string, col color.RGBA, place func(left int) int) {
	fit := Fit(text, box.Dx())
	c.put(box, place(box.Dx()-Measure(fit)), dy, fit, col)
	if fit != text && fit != "" {
		c.Ops[len(c.Ops)-1].Cut = true
	}
}

// Centred writes one line in the middle of a box.
func (c *Canvas) Centred(box image.Rectangle, dy int, text string, col color.RGBA) {
	c.fitted(box, dy, text, col, func(left int) int { return left / 2 })
}

// Right writes one line at the right edge of a box.
func (c *Canvas) Right(box image.Rectangle, dy int, text string, col color.RGBA) {
	c.fitted(box, dy, text, col, func(left int) int { return left })
}

// Big writes one line in the middle of a box, so many times as large.
func (c *Canvas) Big(box image.Rectangle, dy, times int, text string, col color.RGBA) {
	w := Measure(text) * times
	x, y := box.Min.X+(box.Dx()-w)/2, box.Min.Y+dy
	c.Ops = append(c.Ops, Op{Kind: OpText, Rect: image.Rect(x, y, x+w, y+LetterHeight*times), Within: box,
		Text: text, Colour: col, Frame: times})
}

func (c *Canvas) put(box image.Rectangle, dx, dy int, text string, col color.RGBA) {
	if text == "" {
		return
	}
	x, y := box.Min.X+dx, box.Min.Y+dy
	c.Ops = append(c.Ops, Op{Kind: OpText, Rect: image.Rect(x, y, x+Measure(text), y+LetterHeight), Within: box,
		Text: text, Colour: col})
}

// Paragraph writes wrapped text, the last lines where not all fit, and returns
// how many lines it wrote.
func (c *Canvas) Paragraph(box image.Rectangle, dy int, text string, col color.RGBA) int {
	lines := Wrap(text, box.Dx())
	room := (box.Dy() - dy + LineHeight - LetterHeight) / LineHeight
	if over := len(lines) - room; over > 0 {
		lines = lines[min(over, len(lines)):]
	}
	for i, l := range lines {
		c.put(box, 0, dy+i*LineHeight, l, col)
	}
	return len(lines)
}

// Sprite shows a picture of package art, with its upper left corner at a point.
func (c *Canvas) Sprite(name string, frame, x, y int, flip bool) {
	c.Ops = append(c.Ops, Op{Kind: OpSprite, Name: name, Frame: frame, Flip: flip,
		Rect: image.Rect(x, y, x+16, y+16)})
}

// Portrait shows a picture of package art as large as a square.
func (c *Canvas) Portrait(name string, frame int, square image.Rectangle) {
	c.Ops = append(c.Ops, Op{Kind: OpSprite, Name: name, Frame: frame, Rect: square})
}

// Measure is how wide a line is in pixels.
func Measure(text string) int {
	n := 0
	for _, r := range text {
		n += advance(r)
	}
	return n
}

// advance is how wide a letter is; a letter that the font has not is a box.
func advance(r rune) int {
	if r >= ' ' && r < 0x7f {
		return 6
	}
	if a, ok := bitmapfont.Face.GlyphAdvance(r); ok {
		return a.Round()
	}
	return 6
}

// Fit cuts a line to a width, with dots at its end.
func Fit(text string, width int) string {
	if Measure(text) <= width {
		return text
	}
	const dots = ".."
	n := 2 * 6
	var b strings.Builder
	for _, r := range text {
		if n += advance(r); n > width {
			break
		}
		b.WriteRune(r)
	}
	if width < 2*6 {
		return ""
	}
	return b.String() + dots
}

// Wrap breaks text into lines of at most a width: between words, and within a
// word that is longer than a line.
func Wrap(text string, width int) (lines []string) {
	for _, part := range strings.Split(text, "\n") {
		line := ""
		for _, word := range strings.Fields(part) {
			if line != "" && Measure(line)+6+Measure(word) <= width {
				line += " " + word
				continue
			}
			if line != "" {
				lines = append(lines, line)
			}
			for line = word; Measure(line) > width; {
				head := cut(line, width)
				if head == line {
					break // narrower than one letter
				}
				lines, line = append(lines, head), line[len(head):]
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// cut is the longest beginning that fits, of one letter at least.
func cut(text string, width int) string {
	n := 0
	for i, r := range text {
		if n += advance(r); n > width && i > 0 {
			return text[:i]
		}
	}
	return text
}

// Check lists what is wrong with texts: cut off by the screen or their box, or
// upon one another. A fill that is laid over a text takes it away.
func (c *Canvas) Check() (problems []string) {
	screen := image.Rect(0, 0, Width, Height)
	var shown []Op
	for _, o := range c.Ops {
		switch o.Kind {
		case OpFill:
			if o.Colour.A < 0xc0 {
				continue
			}
			kept := shown[:0]
			for _, t := range shown {
				if !t.Rect.In(o.Rect) {
					kept = append(kept, t)
				}
			}
			shown = kept
			for _, t := range shown {
				if t.Rect.Overlaps(o.Rect) && o.Rect.Dx() > 40 && o.Rect.Dy() > 12 {
					problems = append(problems, fmt.Sprintf("%q at %v is half covered by %v", t.Text, t.Rect, o.Rect))
				}
			}
		case OpText:
			if !o.Rect.In(screen) || !o.Rect.In(o.Within) {
				problems = append(problems, fmt.Sprintf("%q at %v leaves %v", o.Text, o.Rect, o.Within))
			}
			if o.Cut {
				problems = append(problems, fmt.Sprintf("%q at %v is cut", o.Text, o.Rect))
			}
			for _, t := range shown {
				if t.Rect.Overlaps(o.Rect) {
					problems = append(problems, fmt.Sprintf("%q at %v lies upon %q at %v", o.Text, o.Rect, t.Text,
						t.Rect))
				}
			}
			shown = append(shown, o)
		}
	}
	return problems
}

// Texts lists what is written, in order.
func (c *Canvas) Texts() (out []string) {
	for _, o := range c.Ops {
		if o.Kind == OpText {
			out = append(out, o.Text)
		}
	}
	return out
}

type colour = color.RGBA

// opaque is a colour that nothing shines through.
func opaque(c colour) colour {
	c.A = 0xff
	return c
}
