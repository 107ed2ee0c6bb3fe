package art

import (
	"image"
	"image/color"

	"github.com/lull-npc/lull/demo-game/data"
)

// Ground paints an area, one picture of the whole screen.
func Ground(a *data.Area) *image.RGBA {
	const t = data.TileSize
	m := image.NewRGBA(image.Rect(0, 0, data.Columns*t, data.Rows*t))
	for y := range data.Rows {
		for x := range data.Columns {
			tile{m, a, x, y}.paint()
		}
	}
	return m
}

// tile is one square of the ground that is being painted.
type tile struct {
	m    *image.RGBA
	a    *data.Area
	x, y int
}

// noise is a number for a pixel of the tile that is always the same.
func (t tile) noise(i, j int) uint32 {
	h := uint32(t.x*data.TileSize+i)*374761393 + uint32(t.y*data.TileSize+j)*668265263
	h = (h ^ h>>13) * 1274126177
	return h ^ h>>16
}

func (t tile) set(i, j int, c color.RGBA) {
	if i >= 0 && j >= 0 && i < data.TileSize && j < data.TileSize {
		t.m.SetRGBA(t.x*data.TileSize+i, t.y*data.TileSize+j, c)
	}
}

// each colours all pixels of the tile.
func (t tile) each(f func(i, j int) color.RGBA) {
	for j := range data.TileSize {
		for i := range data.TileSize {
			t.set(i, j, f(i, j))
		}
	}
}

// is reports whether a neighbour has a sign.
func (t tile) is(dx, dy int, sign byte) bool { return t.a.Tile(t.x+dx, t.y+dy) == sign }

func (t tile) paint() {
	switch t.a.Tile(t.x, t.y) {
	case ':':
		t.path()
	case '~':
		t.water()
	case 'R':
		t.roof()
	case 'W', 'O', 'D':
		t.wall()
	case 'S', 'M', 'I':
		t.rock()
	default:
		t.grass()
	}
	switch t.a.Tile(t.x, t.y) {
	case 'T':
		t.tree()
	case '*':
		t.flowers()
	case '#':
		t.fence()
	}
}

func (t tile) grass() {
	t.each(func(i, j int) color.RGBA {
		switch n := t.noise(i, j) % 23; {
		case n == 0:
			return rgb(0x78a857)
		case n == 1:
			return rgb(0x5b8c46)
		}
		return rgb(0x6a9b4f)
	})
}

func (t tile) path() {
	t.each(func(i, j int) color.RGBA {
		edge := j < 2 && !t.is(0, -1, ':') && !t.is(0, -1, 'D') || j > 13 && !t.is(0, 1, ':') ||
			i < 2 && !t.is(-1, 0, ':') && t.x > 0 || i > 13 && !t.is(1, 0, ':') && t.x < data.Columns-1
		switch n := t.noise(i, j) % 19; {
		case edge && n%2 == 0:
			return rgb(0x6a9b4f)
		case n < 2:
			return rgb(0xb8925f)
		case n == 2:
			return rgb(0xd9b988)
		}
		return rgb(0xcaa574)
	})
}

func (t tile) water() {
	t.each(func(i, j int) color.RGBA {
		shore := j < 3 && !t.is(0, -1, '~') || j > 13 && !t.is(0, 1, '~') || i < 2 && !t.is(-1, 0, '~') ||
			i > 13 && !t.is(1, 0, '~')
		switch {
		case shore:
			return rgb(0xc7b183)
		case (j+int(t.noise(i/5, j)%3))%6 == 0 && t.noise(i/5, j)%4 == 0:
			return rgb(0x86c5dc)
		}
		return rgb(0x4d8fb8)
	})
}

func (t tile) roof() {
	t.each(func(i, j int) color.RGBA {
		switch {
		case j%5 == 4:
			return rgb(0x7d332d)
		case (i+j/5*4)%8 == 0:
			return rgb(0x8f3d34)
		case i == 0 && !t.is(-1, 0, 'R') || i == 15 && !t.is(1, 0, 'R') || j == 0 && !t.is(0, -1, 'R'):
			return rgb(0x4f2324)
		}
		return rgb(0xa94c3f)
	})
}

func (t tile) wall() {
	sign := t.a.Tile(t.x, t.y)
	t.each(func(i, j int) color.RGBA {
		switch {
		case sign == 'O' && i > 3 && i < 12 && j > 3 && j < 12:
			if i == 7 || i == 8 || j == 7 {
				return rgb(0x5d442f)
			}
			return rgb(0xf2d27a)
		case sign == 'O' && i > 2 && i < 13 && j > 2 && j < 13:
			return rgb(0x5d442f)
		case sign == 'D' && i > 2 && i < 13 && j > 1:
			if i == 10 && j == 9 {
				return rgb(0xf2c14e)
			}
			if i == 3 || i == 12 || j == 2 {
				return rgb(0x3d2a1d)
			}
			return rgb(0x6e4a2f)
		case i == 0 && !t.wallAt(-1) || i == 15 && !t.wallAt(1):
			return rgb(0x5d442f)
		case t.noise(i, j)%29 == 0:
			return rgb(0xd8c8a4)
		}
		return rgb(0xe6d8b8)
	})
}

func (t tile) wallAt(dx int) bool { return t.is(dx, 0, 'W') || t.is(dx, 0, 'O') || t.is(dx, 0, 'D') }

func (t tile) rock() {
	t.grass()
	sign := t.a.Tile(t.x, t.y)
	for j := range data.TileSize {
		for i := range data.TileSize {
			dx, dy := 2*i-15, 2*j-17
			switch {
			case sign == 'M' && (i-8)*(i-8)+(j-9)*(j-9) < 30:
				t.set(i, j, rgb(0x17141f))
			case sign == 'I' && t.noise(i/2, j/2)%5 == 0 && dx*dx+dy*dy < 190:
				t.set(i, j, rgb(0xd08b4c))
			case dx*dx+dy*dy < 230:
				grey := rgb(0x7d7a82)
				if j < 6 {
					grey = rgb(0x9a979e)
				} else if j > 11 || t.noise(i, j)%11 == 0 {
					grey = rgb(0x5f5c66)
				}
				t.set(i, j, grey)
			}
		}
	}
}

func (t tile) tree() {
	for j := range data.TileSize {
		for i := range data.TileSize {
			dx, dy := 2*i-15, 2*j-12
			switch {
			case j >= 11 && i >= 6 && i <= 9:
				t.set(i, j, rgb(0x6b4a2d))
			case dx*dx+dy*dy < 175:
				leaf := rgb(0x3f7a3d)
				switch n := t.noise(i, j) % 7; {
				case dx+dy < -10 && n < 5:
					leaf = rgb(0x5a9c4c)
				case dx+dy > 10 || n == 0:
					leaf = rgb(0x2f5f33)
				}
				t.set(i, j, leaf)
			case dx*dx+dy*dy < 215:
				t.set(i, j, rgb(0x234527))
			}
		}
	}
}

func (t tile) flowers() {
	petals := []color.RGBA{rgb(0xf2c14e), rgb(0xe07a8f), rgb(0xf4e9cd), rgb(0xa87cd8)}
	for k := range 3 {
		n := t.noise(k, k*5)
		i, j := int(n%12)+2, int(n/16%12)+2
		c := petals[n/256%4]
		for _, d := range [][2]int{{0, -1}, {-1, 0}, {1, 0}, {0, 1}} {
			t.set(i+d[0], j+d[1], c)
		}
		t.set(i, j, rgb(0xd98e2b))
	}
}

func (t tile) fence() {
	for i := range data.TileSize {
		t.set(i, 6, rgb(0x8a6238))
		t.set(i, 10, rgb(0x8a6238))
		t.set(i, 11, rgb(0x5d442f))
	}
	for _, i := range []int{3, 4, 11, 12} {
		for j := 3; j < 14; j++ {
			t.set(i, j, rgb(0x9c7142))
		}
	}
}
