package ui

import (
	"image"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMeasure(t *testing.T) {
	for text, want := range map[string]int{"": 0, "Hello": 30, "마을": 24, "Hello 마을": 60} {
		if got := Measure(text); got != want {
			t.Errorf("%q is %d pixels wide, want %d", text, got, want)
		}
	}
	if d := cmp.Diff([]string{"Hello", "마을"}, Wrap("Hello 마을", 50)); d != "" {
		t.Errorf("wrapped (-want +got):\n%s", d)
	}
}

// Wrapped lines fit, and nothing but blanks is lost.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab ,가나 \n")), 0, 80, -1).Draw(t, "text")
		width := rapid.IntRange(12, 120).Draw(t, "width")
		lines := Wrap(text, width)
		for _, l := range lines {
			if Measure(l) > width {
				t.Errorf("%q is wider than %d", l, width)
			}
		}
		bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if bare(strings.Join(lines, "")) != bare(text) {
			t.Errorf("%q became %q", text, lines)
		}
		if f := Fit(text, width); Measure(f) > width {
			t.Errorf("Fit gives %q, wider than %d", f, width)
		}
	})
}

// Check finds each kind of fault.
func TestCheck(t *testing.T) {
	box := image.Rect(10, 10, 110, 40)
	for name, c := range map[string]struct {
		draw func(*Canvas)
		want int
	}{
		"nothing wrong": {func(c *Canvas) { c.Text(box, 0, "one", Ink); c.Text(box, 15, "two", Ink) }, 0},
		"cut":           {func(c *Canvas) { c.Text(box, 0, "much longer than the box is wide", Ink) }, 1},
		"overlap":       {func(c *Canvas) { c.Text(box, 0, "one", Ink); c.Text(box, 6, "two", Ink) }, 1},
		"below the box": {func(c *Canvas) { c.Text(box, 25, "one", Ink) }, 1},
		"half covered": {func(c *Canvas) {
			c.Text(box, 0, "one two", Ink)
			c.Fill(image.Rect(20, 0, 90, 60), Ink)
		}, 1},
		"covered": {func(c *Canvas) {
			c.Text(box, 0, "one", Ink)
			c.Fill(box, Ink)
			c.Text(box, 0, "two", Ink)
		}, 0},
	} {
		var canvas Canvas
		c.draw(&canvas)
		if got := canvas.Check(); len(got) != c.want {
			t.Errorf("%s: %q, want %d", name, got, c.want)
		}
	}
}
