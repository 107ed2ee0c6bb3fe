//go:build windows || cgo

package draw

import (
	"image"
	"image/color"
	"math"

	"github.com/hajimehoshi/bitmapfont/v3"
	"github.com/hajimehoshi/ebiten/v2"
	"github.com/hajimehoshi/ebiten/v2/text/v2"

	"github.com/lull-npc/lull/demo-game/art"
	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/ui"
)

// Renderer draws canvases. Call from Ebitengine's Draw.
type Renderer struct {
	face    *text.GoXFace
	sprites map[string][]*ebiten.Image
	grounds map[string]*ebiten.Image
	painted map[string]chan *image.RGBA // areas, painted in the background
	screen  *ebiten.Image               // 640×360
	dot     *ebiten.Image
}

// New begins to paint the areas in the background.
func New(g *data.Game) *Renderer {
	r := &Renderer{face: text.NewGoXFace(bitmapfont.Face), sprites: map[string][]*ebiten.Image{},
		grounds: map[string]*ebiten.Image{}, painted: map[string]chan *image.RGBA{},
		screen: ebiten.NewImage(ui.Width, ui.Height), dot: ebiten.NewImage(1, 1)}
	r.dot.Fill(color.White)
	for name, frames := range art.Sprites() {
		for _, f := range frames {
			r.sprites[name] = append(r.sprites[name], ebiten.NewImageFromImage(f))
		}
	}
	for i := range g.Areas {
		a := &g.Areas[i]
		done := make(chan *image.RGBA, 1)
		r.painted[a.ID] = done
		go func() { done <- art.Ground(a) }()
	}
	return r
}

// Canvas draws all operations and returns the picture of 640×360.
func (r *Renderer) Canvas(c *ui.Canvas) *ebiten.Image {
	r.screen.Fill(color.Black)
	for i := range c.Ops {
		o := &c.Ops[i]
		switch o.Kind {
		case ui.OpFill:
			r.fill(o.Rect, o.Colour)
		case ui.OpFrame:
			r.edge(o.Rect, o.Colour)
		case ui.OpText:
			r.text(o)
		case ui.OpSprite:
			r.sprite(o)
		case ui.OpArea:
			if m := r.ground(o.Name); m != nil {
				r.screen.DrawImage(m, nil)
			}
		case ui.OpGlow:
			r.glow(o.Frame)
		}
	}
	return r.screen
}

// fill multiplies the colour by its alpha, as Ebitengine wants it.
func (r *Renderer) fill(rect image.Rectangle, c color.RGBA) {
	rect = rect.Intersect(r.screen.Bounds())
	if rect.Empty() {
		return
	}
	op := &ebiten.DrawImageOptions{}
	op.GeoM.Scale(float64(rect.Dx()), float64(rect.Dy()))
	op.GeoM.Translate(float64(rect.Min.X), float64(rect.Min.Y))
	op.ColorScale.ScaleWithColor(color.NRGBA(c))
	r.screen.DrawImage(r.dot, op)
}

func (r *Renderer) edge(b image.Rectangle, c color.RGBA) {
	r.fill(image.Rect(b.Min.X, b.Min.Y, b.Max.X, b.Min.Y+1), c)
	r.fill(image.Rect(b.Min.X, b.Max.Y-1, b.Max.X, b.Max.Y), c)
	r.fill(image.Rect(b.Min.X, b.Min.Y, b.Min.X+1, b.Max.Y), c)
	r.fill(image.Rect(b.Max.X-1, b.Min.Y, b.Max.X, b.Max.Y), c)
}

func (r *Renderer) text(o *ui.Op) {
	op := &text.DrawOptions{}
	times := float64(max(o.Frame, 1))
	op.GeoM.Scale(times, times)
	op.GeoM.Translate(float64(o.Rect.Min.X), float64(o.Rect.Min.Y))
	op.ColorScale.ScaleWithColor(color.NRGBA(o.Colour))
	text.Draw(r.screen, o.Text, r.face, op)
}

func (r *Renderer) sprite(o *ui.Op) {
	frames := r.sprites[o.Name]
	if len(frames) == 0 {
		return
	}
	op := &ebiten.DrawImageOptions{}
	if o.Flip {
		op.GeoM.Scale(-1, 1)
		op.GeoM.Translate(data.TileSize, 0)
	}
	times := float64(o.Rect.Dx()) / data.TileSize
	op.GeoM.Scale(times, times)
	op.GeoM.Translate(float64(o.Rect.Min.X), float64(o.Rect.Min.Y))
	r.screen.DrawImage(frames[o.Frame%len(frames)], op)
}

// ground is the picture of an area, or nil while it is being painted.
func (r *Renderer) ground(area string) *ebiten.Image {
	if m := r.grounds[area]; m != nil {
		return m
	}
	select {
	case m := <-r.painted[area]:
		r.grounds[area] = ebiten.NewImageFromImage(m)
		return r.grounds[area]
	default:
		return nil
	}
}

// Wait returns when all areas are painted: for pictures that are compared.
func (r *Renderer) Wait() {
	for area, done := range r.painted {
		if r.grounds[area] == nil {
			r.grounds[area] = ebiten.NewImageFromImage(<-done)
		}
	}
}

// glow draws n large, faint particles: work for the GPU, or for what stands in
// for one.
func (r *Renderer) glow(n int) {
	const size = 24
	for i := range n {
		x := math.Mod(float64(i)*97.3, ui.Width)
		y := math.Mod(float64(i)*57.7, ui.Height)
		op := &ebiten.DrawImageOptions{Blend: ebiten.BlendLighter}
		op.GeoM.Scale(size, size)
		op.GeoM.Translate(x-size/2, y-size/2)
		op.ColorScale.ScaleAlpha(0.002)
		r.screen.DrawImage(r.dot, op)
	}
}

// Scale is how many times larger a window shows each pixel, and where the
// picture begins.
func Scale(w, h int) (factor, x, y int) {
	factor = max(1, min(w/ui.Width, h/ui.Height))
	return factor, (w - factor*ui.Width) / 2, (h - factor*ui.Height) / 2
}

// Show puts a picture on the window's screen.
func Show(screen, picture *ebiten.Image) {
	f, x, y := Scale(screen.Bounds().Dx(), screen.Bounds().Dy())
	op := &ebiten.DrawImageOptions{}
	op.GeoM.Scale(float64(f), float64(f))
	op.GeoM.Translate(float64(x), float64(y))
	screen.DrawImage(picture, op)
}
