package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lull-npc/lull/demo-game/data"
)

const (
	// TicksPerSecond is how often Step is called in a second of play.
	TicksPerSecond = 60

	// MaxHP is what the player and the companion can have; a wolf bites for 2.
	MaxHP = 20

	// startGold buys a potion and the hook, and not the sword.
	startGold = 18

	walk       = 2  // pixels a tick
	reach      = 28 // pixels within which one speaks, digs, strikes
	halfBody   = 5  // half of the box that collides
	biteEvery  = 50 // ticks between two bites of a wolf
	strikeRest = 18 // ticks between two strokes
	lootGold   = 4
)

// Point is a place in pixels of an area.
type Point struct{ X, Y int }

// Foe is a wolf.
type Foe struct {
	ID, HP int
	At     Point
	Rest   int // ticks until it can bite again
	Hurt   int // ticks for which it shows
	Down   bool
	Loot   bool // silver lies where it fell
}

// Order is what the companion was told.
type Order string

// The orders; Follow is what it does untold.
const (
	Follow Order = "follow"
	Guard  Order = "guard"
	Heal   Order = "heal"
	Fetch  Order = "fetch"
	Flee   Order = "flee"
)

// Orders lists them in the order of their keys.
var Orders = []Order{Follow, Guard, Heal, Fetch, Flee}

// QuestState is where the one quest stands.
type QuestState string

// The states, in order.
const (
	QuestNone   QuestState = "none"   // nobody asked
	QuestActive QuestState = "active" // promised
	QuestTool   QuestState = "tool"   // the hook is forged
	QuestPrize  QuestState = "prize"  // the clapper is in the pack
	QuestDone   QuestState = "done"
)

// Ally is the companion.
type Ally struct {
	At    Point
	HP    int
	Order Order
	Rest  int
}

// Rumour is news on their way.
type Rumour struct {
	ID    int
	Text  string           // in English, for voices
	Heard map[string]int64 // who heard it, and at which tick
}

// World is the state of a game. Its fields are what a save holds.
type World struct {
	Tick    int64
	Area    string
	Player  Point
	Face    Point // unit step of the last move
	HP      int
	Gold    int
	Name    int // good name, 0 … 5
	Pack    map[string]int
	Quest   QuestState
	Ally    Ally
	Foes    []Foe
	Wave    int  // 0: none is on; else its number
	Beaten  bool // all waves were
	Rest    int  // ticks until the player can strike again
	Swing   int  // ticks for which a stroke shows
	Hurt    int
	Rumours []Rumour
	NextFoe int

	game *data.Game
}

// New begins a game.
func New(g *data.Game) *World {
	w := &World{game: g, Area: g.Start.Area, Player: center(g.Start.X, g.Start.Y), Face: Point{0, 1}, HP: MaxHP,
		Gold: startGold, Pack: map[string]int{}, Quest: QuestNone}
	c := g.Person(g.Companion)
	w.Ally = Ally{At: center(c.X, c.Y), HP: MaxHP, Order: Follow}
	return w
}

// center is the middle of a tile.
func center(x, y int) Point {
	return Point{x*data.TileSize + data.TileSize/2, y*data.TileSize + data.TileSize/2}
}

// Game is what the world is made of.
func (w *World) Game() *data.Game { return w.game }

// Input is what the player wants in a tick.
type Input struct {
	DX, DY int // -1, 0, 1
	Act    bool
}

// EventKind says what an Event is.
type EventKind uint8

// The kinds of events.
const (
	Entered EventKind = iota // Who is the area
	Met                      // Who is ready to talk: the player pressed act beside
	Dug                      // ore
	Waved                    // N is the wave that begins
	Won                      // all waves are beaten
	Struck                   // a foe was hit
	Bitten                   // the player was
	Fell                     // the player lost and wakes up in the village
	Looted                   // the companion brought N silver
	Healed                   // the companion healed N
	Reached                  // the prize is in the pack
	Told                     // From told Who the rumour Text
	Idle                     // Who may say something of its own accord
)

// Event is something that happened in a tick.
type Event struct {
	Kind      EventKind
	Who, From string
	N         int
	Text      string
}

// Step moves the world on by one tick and appends what happened to dst.
func (w *World) Step(in Input, dst []Event) []Event {
	w.Tick++
	w.Rest, w.Swing, w.Hurt = max(0, w.Rest-1), max(0, w.Swing-1), max(0, w.Hurt-1)
	if in.DX != 0 || in.DY != 0 {
		w.Face = Point{sign(in.DX), sign(in.DY)}
		w.Player = w.slide(w.Player, walk*sign(in.DX), walk*sign(in.DY))
	}
	dst = w.leave(dst)
	if in.Act {
		dst = w.act(dst)
	}
	dst = w.stepWaves(dst)
	dst = w.stepFoes(dst)
	dst = w.stepAlly(dst)
	return w.stepRumours(dst)
}

func sign(n int) int { return min(max(n, -1), 1) }

// slide moves something as far as walls let it, along each axis by itself.
func (w *World) slide(p Point, dx, dy int) Point {
	a := w.game.Area(w.Area)
	if q := (Point{p.X + dx, p.Y}); free(a, q) {
		p = q
	}
	if q := (Point{p.X, p.Y + dy}); free(a, q) {
		p = q
	}
	return p
}

func free(a *data.Area, p Point) bool {
	for _, d := range []Point{{-halfBody, 0}, {halfBody, 0}, {-halfBody, halfBody}, {halfBody, halfBody}} {
		x, y := p.X+d.X, p.Y+d.Y
		if x < 0 || y < 0 || a.Solid(x/data.TileSize, y/data.TileSize) {
			return false
		}
	}
	return true
}

// leave takes the player through an exit.
func (w *World) leave(dst []Event) []Event {
	x, y := w.Player.X/data.TileSize, w.Player.Y/data.TileSize
	for _, e := range w.game.Area(w.Area).Exits {
		if e.X == x && e.Y == y {
			w.enter(e.To, center(e.AtX, e.AtY))
			return append(dst, Event{Kind: Entered, Who: e.To})
		}
	}
	return dst
}

func (w *World) enter(area string, at Point) {
	w.Area, w.Player, w.Ally.At = area, at, at
	w.Foes, w.Wave = nil, 0
	if w.Ally.Order != Guard {
		w.Ally.Order = Follow
	}
}

// act does what stands nearest: it strikes in a fight, talks, digs or reaches.
func (w *World) act(dst []Event) []Event {
	if w.Fighting() {
		return w.strike(dst)
	}
	switch who := w.Near(); {
	case who != "":
		return append(dst, Event{Kind: Met, Who: who})
	case w.NearOre():
		w.Pack[w.game.Quest.Ore]++
		return append(dst, Event{Kind: Dug})
	case w.NearDen():
		w.Quest = QuestPrize
		delete(w.Pack, w.game.Quest.Tool)
		w.Pack[w.game.Quest.Prize] = 1
		return append(dst, Event{Kind: Reached})
	}
	return dst
}

// Near is who stands within reach, the nearest; "" is nobody. The companion, who
// is always near, counts where there is nobody and nothing else.
func (w *World) Near() string {
	best, who := reach*reach+1, ""
	for i := range w.game.People {
		id := w.game.People[i].ID
		at, here := w.Where(id)
		if d := distance2(at, w.Player); here && d < best && id != w.game.Companion {
			best, who = d, id
		}
	}
	if who == "" && !w.NearOre() && !w.NearDen() && distance2(w.Ally.At, w.Player) <= 2*reach*reach {
		return w.game.Companion
	}
	return who
}

// Where is somebody, and whether in the player's area.
func (w *World) Where(id string) (Point, bool) {
	if id == w.game.Companion {
		return w.Ally.At, true
	}
	p := w.game.Person(id)
	if p == nil {
		return Point{}, false
	}
	return center(p.X, p.Y), p.Area == w.Area
}

// Distance is how far somebody is from the player, in tiles; far away where it
// is in another area.
func (w *World) Distance(id string) float64 {
	at, here := w.Where(id)
	if !here {
		return data.Columns * 2
	}
	d := 0
	for d*d < distance2(at, w.Player) {
		d++
	}
	return float64(d) / data.TileSize
}

func distance2(a, b Point) int { return (a.X-b.X)*(a.X-b.X) + (a.Y-b.Y)*(a.Y-b.Y) }

// NearOre reports whether ore can be dug here and is wanted.
func (w *World) NearOre() bool {
	a := w.game.Area(w.Area)
	q := w.game.Quest
	wanted := w.Quest == QuestNone || w.Quest == QuestActive
	return a.Ore != nil && wanted && w.Pack[q.Ore] == 0 && distance2(center(a.Ore.X, a.Ore.Y), w.Player) <= reach*reach
}

// NearDen reports whether the prize can be reached here and now.
func (w *World) NearDen() bool {
	a := w.game.Area(w.Area)
	if a.Waves == nil || !w.Beaten || w.Quest != QuestTool {
		return false
	}
	return w.Player.X >= (a.Waves.AtX+6)*data.TileSize
}

// Save is a copy that shares nothing with the world.
func (w *World) Save() World {
	s := *w
	s.Pack, s.Foes = maps.Clone(w.Pack), slices.Clone(w.Foes)
	s.Rumours = slices.Clone(w.Rumours)
	for i := range s.Rumours {
		s.Rumours[i].Heard = maps.Clone(s.Rumours[i].Heard)
	}
	s.game = nil
	return s
}

// Restore makes a world of a save, or says what is wrong with it.
func Restore(g *data.Game, s World) (*World, error) {
	w := s.Save()
	w.game = g
	if w.Pack == nil {
		w.Pack = map[string]int{}
	}
	switch {
	case g.Area(w.Area) == nil:
		return nil, fmt.Errorf("rules: the save is in area %q, which this game has not", w.Area)
	case !free(g.Area(w.Area), w.Player) || !free(g.Area(w.Area), w.Ally.At):
		return nil, fmt.Errorf("rules: the save has somebody in a wall at %v or %v", w.Player, w.Ally.At)
	case w.HP < 1 || w.HP > MaxHP || w.Gold < 0 || w.Tick < 0 || w.Ally.HP < 0 || w.Ally.HP > MaxHP:
		return nil, fmt.Errorf("rules: the save has HP %d, companion %d, silver %d, tick %d",
			w.HP, w.Ally.HP, w.Gold, w.Tick)
	case !slices.Contains([]QuestState{QuestNone, QuestActive, QuestTool, QuestPrize, QuestDone}, w.Quest):
		return nil, fmt.Errorf("rules: the save has a quest in state %q", w.Quest)
	case !slices.Contains(Orders, w.Ally.Order):
		return nil, fmt.Errorf("rules: the save has an order %q", w.Ally.Order)
	case len(w.Foes) > maxFoes || len(w.Rumours) > maxRumours || w.Wave < 0 || w.Wave > maxFoes:
		return nil, fmt.Errorf("rules: the save has %d foes, wave %d, %d rumours", len(w.Foes), w.Wave, len(w.Rumours))
	}
	for i := range w.Rumours {
		if w.Rumours[i].Heard == nil {
			w.Rumours[i].Heard = map[string]int64{}
		}
	}
	return &w, nil
}
