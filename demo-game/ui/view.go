package ui

import "github.com/lull-npc/lull/demo-game/data"

// Screen says what is shown.
type Screen uint8

// The screens.
const (
	Title Screen = iota
	Loading
	Explore
	Dialogue
	Shop
	Combat
	Menu
	Keys
)

func (s Screen) String() string {
	return [...]string{"title", "loading", "explore", "dialogue", "shop", "combat", "menu", "keys"}[s]
}

// Actor is somebody or something in an area.
type Actor struct {
	Look  string // a sprite of package art
	Frame int
	X, Y  int // of its feet's middle
	Flip  bool
	Hurt  bool
	HP    int // 0 … Full; shown where Full is not 0
	Full  int
	Says  string // over its head
}

// Choice is a line of a list.
type Choice struct {
	Text string
	Note string // at the right edge
	Off  bool   // not possible now
}

// View is all that is shown. Texts are in the language of the screen already.
type View struct {
	Screen Screen
	T      data.Texts
	Tick   int64
	Area   string
	Actors []Actor

	Status  string // of the player
	Order   string // of the companion
	Hints   []string
	Help    string // at the lower edge while exploring
	Notes   []string
	Caption string // of a tour
	Paused  string // what ends the pause; "": there is none
	Wave    string
	Glow    int // particles, for the load on the GPU

	// Title, Loading.
	Model    string // how far the model is
	Progress float64
	Place    string

	// Lists: title, dialogue's topics, shop, menu, keys.
	Choices []Choice
	Chosen  int
	Head    string

	// Dialogue.
	Speaker  string
	Face     string // a sprite of the speaker
	Heard    []Line // oldest first
	Typing   bool
	Input    string
	Thinking bool

	// Menu.
	Pack    []string
	Quest   string
	Memory  []string
	HUD     *HUD // nil: not shown
	Prompts []string
}

// Line is something said.
type Line struct {
	Who    string
	Text   string
	Player bool
	Bark   bool
	Open   bool // more is coming
}

// Cause says whose doing a late frame is.
type Cause uint8

// The causes.
const (
	Punctual  Cause = iota
	LateGame        // no layer ran: the game's own
	LateModel       // layers ran beside it
	LateOurs        // our own calls took it
	Causes          // how many
)

func (c Cause) String() string { return [...]string{"punctual", "game", "model", "lull"}[c] }

// Bar is a frame in the graph.
type Bar struct {
	Ms    float32
	Cause Cause
}

// HUD is what F1 shows. Its texts are in the language of the screen.
type HUD struct {
	Head     string
	TargetMs float64
	Bars     []Bar          // oldest first
	Late     [Causes]string // how many frames, by cause: the legend of the colours
	Lines    []string
	Past     []Past // of each policy that was on, in the order of F2
}

// Past is what a policy did while it was on.
type Past struct {
	Text string
	On   bool // it is on now
}
