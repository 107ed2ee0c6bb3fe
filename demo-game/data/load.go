package data

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/lull-npc/lull/npc"
)

// ErrData is wrapped by everything that is wrong with the files.
var ErrData = errors.New("data: bad file")

// The size of an area in tiles of TileSize pixels: one screen of 640×360.
const (
	TileSize = 16
	Columns  = 40
	Rows     = 23
)

//go:embed files
var files embed.FS

// Place is a tile of an area.
type Place struct {
	Area string `yaml:"area"`
	X    int    `yaml:"x"`
	Y    int    `yaml:"y"`
}

// Exit leads from a tile to a tile of another area.
type Exit struct {
	X   int    `yaml:"x"`
	Y   int    `yaml:"y"`
	To  string `yaml:"to"`
	AtX int    `yaml:"at_x"`
	AtY int    `yaml:"at_y"`
}

// Waves says where foes are met and how many come in each wave.
type Waves struct {
	AtX  int   `yaml:"at_x"`
	AtY  int   `yaml:"at_y"`
	Foes []int `yaml:"foes"`
}

// Area is one screen of the world.
type Area struct {
	ID    string   `yaml:"id"`
	Rows  []string `yaml:"rows"`
	Exits []Exit   `yaml:"exits"`
	Waves *Waves   `yaml:"waves"`
	Ore   *Place   `yaml:"ore"`
}

// Person is somebody who can be spoken to.
type Person struct {
	ID      string      `yaml:"id"`
	File    string      `yaml:"persona"`
	Look    string      `yaml:"look"`
	Area    string      `yaml:"area"`
	X       int         `yaml:"x"`
	Y       int         `yaml:"y"`
	Persona npc.Persona `yaml:"-"`
	Topics  []Topic     `yaml:"-"`
}

// Good is something for sale.
type Good struct {
	ID     string `yaml:"id"`
	Price  int    `yaml:"price"`
	Heals  int    `yaml:"heals"`
	Damage int    `yaml:"damage"`
	Needs  int    `yaml:"needs"`
}

// Quest is the one task of the game.
type Quest struct {
	ID      string `yaml:"id"`
	Giver   string `yaml:"giver"`
	Helper  string `yaml:"helper"`
	Text    string `yaml:"text"`
	Ore     string `yaml:"ore"`
	Tool    string `yaml:"tool"`
	Prize   string `yaml:"prize"`
	Reward  int    `yaml:"reward"`
	Forging int    `yaml:"forging"`
}

// Rumour is a way that news take: who tells whom, after so many seconds.
type Rumour struct {
	From  string `yaml:"from"`
	To    string `yaml:"to"`
	After int    `yaml:"after"`
}

// Topic is something to say with one key.
type Topic struct {
	Text string `yaml:"text"`
	Line string `yaml:"line"`
	Does string `yaml:"does"`
}

// Game is all of it. Nobody may change it. Safe for concurrent use.
type Game struct {
	Version    int      `yaml:"lull_demo"`
	Start      Place    `yaml:"start"`
	Areas      []Area   `yaml:"areas"`
	People     []Person `yaml:"people"`
	Companion  string   `yaml:"companion"`
	Shopkeeper string   `yaml:"shopkeeper"`
	Goods      []Good   `yaml:"goods"`
	Quest      Quest    `yaml:"quest"`
	Rumours    []Rumour `yaml:"rumours"`

	Lines Lines            `yaml:"-"`
	Texts map[string]Texts `yaml:"-"` // by language
}

// Lines is what is said, in English.
type Lines struct {
	Topics            map[string][]Topic  `yaml:"topics"`
	Orders            map[string]string   `yaml:"orders"`
	Words             map[string][]string `yaml:"words"`
	Correction        string              `yaml:"correction"`
	CorrectionReward  string              `yaml:"correction_reward"`
	CorrectionForging string              `yaml:"correction_forging"`
}

// Languages are those of the screen, the first being the default.
var Languages = []string{"en", "ko"}

// Load reads the game that is built in.
func Load() (*Game, error) {
	g := &Game{Texts: map[string]Texts{}}
	if err := read("world.yaml", g); err != nil {
		return nil, err
	}
	if err := read("lines.yaml", &g.Lines); err != nil {
		return nil, err
	}
	for _, lang := range Languages {
		t := Texts{}
		if err := read(lang+".yaml", &t); err != nil {
			return nil, err
		}
		g.Texts[lang] = t
	}
	for i := range g.People {
		p := &g.People[i]
		name := "personas/" + p.File + ".yaml"
		raw, err := files.ReadFile("files/" + name)
		if err != nil {
			return nil, fmt.Errorf("%w: world.yaml: %s: there is no %s", ErrData, p.ID, name)
		}
		if p.Persona, err = npc.ParsePersona(name, raw); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrData, err)
		}
		p.Topics = g.Lines.Topics[p.ID]
	}
	return g, g.check()
}

func read(name string, into any) error {
	raw, err := files.ReadFile("files/" + name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if err := yaml.UnmarshalWithOptions(raw, into, yaml.Strict()); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrData, name, err)
	}
	return nil
}

// check says which parts do not fit together.
func (g *Game) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: world.yaml: "+format, append([]any{ErrData}, args...)...)
	}
	for i := range g.Areas {
		a := &g.Areas[i]
		if len(a.Rows) != Rows {
			return bad("%s has %d rows, want %d", a.ID, len(a.Rows), Rows)
		}
		for y, r := range a.Rows {
			if len(r) != Columns || strings.Trim(r, tileSigns) != "" {
				return bad("%s, row %d: %q: want %d of the signs %s", a.ID, y, r, Columns, tileSigns)
			}
		}
		for _, e := range a.Exits {
			if to := g.Area(e.To); to == nil || to.Solid(e.AtX, e.AtY) {
				return bad("%s: the exit at %d,%d leads nowhere", a.ID, e.X, e.Y)
			}
		}
	}
	for i := range g.People {
		p := &g.People[i]
		if a := g.Area(p.Area); a == nil || a.Solid(p.X, p.Y) {
			return bad("%s stands in a wall at %d,%d of %q", p.ID, p.X, p.Y, p.Area)
		}
	}
	for _, id := range []string{g.Companion, g.Shopkeeper, g.Quest.Giver, g.Quest.Helper} {
		if g.Person(id) == nil {
			return bad("there is no person %q", id)
		}
	}
	for _, r := range g.Rumours {
		if g.Person(r.From) == nil || g.Person(r.To) == nil || r.After < 0 {
			return bad("a rumour goes from %q to %q after %d s", r.From, r.To, r.After)
		}
	}
	if start := g.Area(g.Start.Area); start == nil || start.Solid(g.Start.X, g.Start.Y) {
		return bad("the start %+v is no free tile", g.Start)
	}
	return g.checkTexts()
}

// checkTexts wants each key in each language: a missing one would show as a key.
func (g *Game) checkTexts() error {
	first := g.Texts[Languages[0]]
	for _, lang := range Languages[1:] {
		for key := range first {
			if g.Texts[lang][key] == "" {
				return fmt.Errorf("%w: %s.yaml has no %s", ErrData, lang, key)
			}
		}
		if extra := len(g.Texts[lang]) - len(first); extra != 0 {
			return fmt.Errorf("%w: %s.yaml has %d keys more than %s.yaml", ErrData, lang, extra, Languages[0])
		}
	}
	for id, topics := range g.Lines.Topics {
		if g.Person(id) == nil {
			return fmt.Errorf("%w: lines.yaml: topics of %q, whom nobody knows", ErrData, id)
		}
		for _, t := range topics {
			if first[t.Text] == "" || t.Line == "" {
				return fmt.Errorf("%w: lines.yaml: topic %q of %s has no text or no line", ErrData, t.Text, id)
			}
		}
	}
	return nil
}

// Area finds an area, or nil.
func (g *Game) Area(id string) *Area {
	if i := slices.IndexFunc(g.Areas, func(a Area) bool { return a.ID == id }); i >= 0 {
		return &g.Areas[i]
	}
	return nil
}

// Person finds somebody, or nil.
func (g *Game) Person(id string) *Person {
	if i := slices.IndexFunc(g.People, func(p Person) bool { return p.ID == id }); i >= 0 {
		return &g.People[i]
	}
	return nil
}

// Good finds something for sale, or nil.
func (g *Game) Good(id string) *Good {
	if i := slices.IndexFunc(g.Goods, func(x Good) bool { return x.ID == id }); i >= 0 {
		return &g.Goods[i]
	}
	return nil
}

const (
	tileSigns  = ".*:~TRWOD#SMI"
	solidSigns = "~TRWOD#SMI"
)

// Tile is the sign of a tile; outside it is a tree.
func (a *Area) Tile(x, y int) byte {
	if x < 0 || y < 0 || x >= Columns || y >= Rows {
		return 'T'
	}
	return a.Rows[y][x]
}

// Solid reports whether nobody can stand on a tile.
func (a *Area) Solid(x, y int) bool { return strings.IndexByte(solidSigns, a.Tile(x, y)) >= 0 }
