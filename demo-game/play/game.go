package play

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/scheduler"
)

const (
	tickNs       = 1_000_000_000 / rules.TicksPerSecond
	loadingTicks = 50  // an area streams in; a picture is made meanwhile
	noteTicks    = 200 // a note stays for three seconds and a bit
	bubbleTicks  = 240
	maxNotes     = 4
	maxHeard     = 40 // lines of a conversation that are kept for the screen
	idleEvery    = 14 * rules.TicksPerSecond
	reveal       = 2 // letters of a reply that appear in a tick
)

// Sound is something to be heard.
type Sound uint8

// The sounds.
const (
	Blip  Sound = iota // a choice moves
	Pick               // something is chosen
	Voice              // a letter appears
	Hit
	Ouch
	Chime // something good
	Step
)

// Strain is what F3 puts on the machine.
type Strain uint8

// The strains.
const (
	NoStrain Strain = iota
	CPU
	GPU
	Memory
	Strains // how many
)

func (s Strain) String() string { return [...]string{"none", "cpu", "gpu", "memory"}[s] }

// Config says what is played.
type Config struct {
	Game   *data.Game
	Voices *talk.Voices
	Files  Files // nil: nothing can be saved
	Auto   bool  // the game saves by itself
	Lang   string
	Keys   *input.Bindings // nil: the default ones
	Policy string          // at first; "" is lull
}

// Spoken is a line of the transcript.
type Spoken struct {
	Seconds float64 `json:"t_s"`
	NPC     string  `json:"npc"`
	Text    string  `json:"text"`
	Kind    string  `json:"kind"` // reply, bark, action
}

// bubble is what is said over a head.
type bubble struct {
	text  string
	until int64
}

// Game is one game. Call from the game thread.
type Game struct {
	cfg    Config
	data   *data.Game
	voices *talk.Voices
	keys   *input.Bindings
	lang   string
	world  *rules.World

	screen  ui.Screen
	back    ui.Screen // where a menu goes back to
	tick    int64
	paused  bool
	hud     bool
	strain  Strain
	quit    bool
	ended   bool // a script is over
	loading int  // ticks left
	chosen  int
	caption string

	notes   []bubble
	bubbles map[string]bubble
	talkTo  string
	heard   []heardLine
	typing  bool
	input   []rune
	thinks  map[string]bool
	reply   map[string]string // of who speaks, whole so far
	asking  int               // the key that is being changed, from 1
	keyNote string

	results chan fileResult
	busy    bool   // a file is being written or read
	next    func() // what is done with files then; nil: nothing
	unsaved bool   // the game could not save by itself, and told so
	told    bool   // the player said something since the last save
	events  []rules.Event
	heardIn []talk.Heard
	sounds  []Sound
	said    []Spoken
	ttft    []float64 // ms, of all replies
	replies int
	failed  int
	moved   bool
	faults  []error
	first   struct{ asked, barked, spoke bool }
}

// heardLine is a line of the conversation on the screen.
type heardLine struct {
	ui.Line
	shown int // letters
}

// New begins at the title, and opens the voices behind it.
func New(cfg Config) *Game {
	g := &Game{cfg: cfg, data: cfg.Game, voices: cfg.Voices, keys: cfg.Keys, lang: cfg.Lang,
		bubbles: map[string]bubble{}, thinks: map[string]bool{}, reply: map[string]string{},
		results: make(chan fileResult, 1)}
	if g.keys == nil {
		g.keys = input.Default()
	}
	if g.data.Texts[g.lang] == nil {
		g.lang = data.Languages[0]
	}
	g.world = rules.New(g.data)
	policy := cfg.Policy
	if policy == "" {
		policy = harness.PolicyLull
	}
	g.voices.Switch(policy)
	return g
}

// Now is the game's time in ns. It stands still in a pause.
func (g *Game) Now() int64 { return g.tick * tickNs }

// Ticks is how many ticks were played.
func (g *Game) Ticks() int64 { return g.tick }

// World is the state of the rules. Nobody may change it.
func (g *Game) World() *rules.World { return g.world }

// Screen is what is shown.
func (g *Game) Screen() ui.Screen { return g.screen }

// Keys are the keys as they are now.
func (g *Game) Keys() *input.Bindings { return g.keys }

// Lang is the language of the screen.
func (g *Game) Lang() string { return g.lang }

// Quit reports whether the player left; Ended whether a script is over.
func (g *Game) Quit() bool { return g.quit }

// Ended reports whether a script is over.
func (g *Game) Ended() bool { return g.ended }

// HUD reports whether F1 is on.
func (g *Game) HUD() bool { return g.hud }

// ShowHUD switches it.
func (g *Game) ShowHUD(on bool) { g.hud = on }

// Strain is what F3 asked for.
func (g *Game) Strain() Strain { return g.strain }

// Typing reports whether keys are letters now.
func (g *Game) Typing() bool { return g.typing || g.asking > 0 }

// Sounds takes what is to be heard since the last call.
func (g *Game) Sounds() []Sound {
	s := g.sounds
	g.sounds = nil
	return s
}

// Transcript is all that was said.
func (g *Game) Transcript() []Spoken { return g.said }

// Replies is how many replies were complete, how many failed, and what each
// first token took, in ms.
func (g *Game) Replies() (done, failed int, ttftMs []float64) { return g.replies, g.failed, g.ttft }

// Awaited is how many people are still to answer.
func (g *Game) Awaited() (n int) {
	for _, thinks := range g.thinks {
		if thinks {
			n++
		}
	}
	return n
}

// Busy reports whether a save is being written or read.
func (g *Game) Busy() bool { return g.busy }

// FirstSaid reports whether the player said something, and whether a bark and a
// reply began after that.
func (g *Game) FirstSaid() (asked, barked, spoke bool) {
	return g.first.asked, g.first.barked, g.first.spoke
}

// Faults are errors that the player saw as notes.
func (g *Game) Faults() []error { return g.faults }

// Phase is the screen's phase for the scheduler.
func (g *Game) Phase() scheduler.Phase {
	switch g.screen {
	case ui.Title, ui.Menu, ui.Keys, ui.Shop:
		return scheduler.PhaseMenu
	case ui.Loading:
		return scheduler.PhaseLoading
	case ui.Dialogue:
		return scheduler.PhaseDialogue
	case ui.Combat:
		return scheduler.PhaseCombat
	}
	if g.paused {
		return scheduler.PhaseMenu
	}
	return scheduler.PhaseExplore
}

// text is a text in the language of the screen.
func (g *Game) text(key string, pairs ...string) string {
	return g.data.Texts[g.lang].Say(key, pairs...)
}

// called is somebody's name on the screen.
func (g *Game) called(who string) string { return g.text("name." + who) }

// name is somebody's name as the model knows it.
func (g *Game) name(who string) string {
	if p := g.data.Person(who); p != nil {
		return p.Persona.Name
	}
	return who
}

// Tick plays one tick.
func (g *Game) Tick(in *input.Frame) {
	if !g.paused {
		g.tick++
	}
	if in.Caption != "" {
		g.caption = in.Caption
	}
	g.ended = g.ended || in.Ended
	g.Files()
	g.global(in)
	if !g.paused {
		g.play(in)
	}
	g.voices.SetPhase(g.Phase())
	g.listen()
	g.fade()
}

// global is what works on each screen.
func (g *Game) global(in *input.Frame) {
	if g.Typing() {
		return
	}
	switch {
	case in.Pressed(input.HUD):
		g.hud = !g.hud
	case in.Pressed(input.Policy):
		g.nextPolicy()
	case in.Pressed(input.Load):
		g.strain = (g.strain + 1) % Strains
		g.note(g.text("note.load", "name", g.text("load."+g.strain.String())))
	case in.Pressed(input.Pause) && g.screen != ui.Title && g.screen != ui.Loading,
		in.Pressed(input.Back) && g.paused:
		g.paused = !g.paused
		in.Release(input.Back) // it ended the pause and nothing else
	}
}

func (g *Game) nextPolicy() {
	_, wanted := g.voices.Policy()
	next := talk.Policies[0]
	for i, p := range talk.Policies {
		if p == wanted {
			next = talk.Policies[(i+1)%len(talk.Policies)]
		}
	}
	g.voices.Switch(next)
	g.thinks, g.reply = map[string]bool{}, map[string]string{}
	for i := range g.heard {
		g.heard[i].Open = false
	}
	g.note(g.text("note.policy", "name", next))
}

func (g *Game) play(in *input.Frame) {
	switch g.screen {
	case ui.Title:
		g.playTitle(in)
	case ui.Loading:
		if g.loading--; g.loading <= 0 {
			g.screen = ui.Explore
			g.learn()
			g.voices.Cue(g.data.Companion, "You have come to "+g.english("area."+g.world.Area)+" with the player",
				g.Now())
		}
	case ui.Explore, ui.Combat:
		g.playWorld(in)
	case ui.Dialogue:
		g.playDialogue(in)
	case ui.Shop:
		g.playShop(in)
	case ui.Menu:
		g.playMenu(in)
	case ui.Keys:
		g.playKeys(in)
	}
}

// english is a text that a model reads.
func (g *Game) english(key string) string { return g.data.Texts[data.Languages[0]].Say(key) }

// learn tells the voices what changed.
func (g *Game) learn() { g.voices.Learn(g.world) }

func (g *Game) sound(s Sound) {
	if len(g.sounds) < 8 {
		g.sounds = append(g.sounds, s)
	}
}

func (g *Game) note(text string) {
	if len(g.notes) >= maxNotes {
		g.notes = g.notes[1:]
	}
	g.notes = append(g.notes, bubble{text, g.tick + noteTicks})
}

// fault is an error that the player is told in words.
func (g *Game) fault(key string, err error) {
	if len(g.faults) < 100 {
		g.faults = append(g.faults, fmt.Errorf("%s%w", strings.TrimSuffix(g.english(key), "{what}"), err))
	}
	g.note(g.text(key, "what", err.Error()))
}

// fade takes away what was shown long enough.
func (g *Game) fade() {
	kept := g.notes[:0]
	for _, n := range g.notes {
		if n.until > g.tick {
			kept = append(kept, n)
		}
	}
	g.notes = kept
	for who, b := range g.bubbles {
		if b.until <= g.tick {
			delete(g.bubbles, who)
		}
	}
	for i := range g.heard {
		l := &g.heard[i]
		if n := len([]rune(l.Text)); l.shown < n {
			l.shown = min(l.shown+reveal, n)
			if g.tick%6 == 0 && g.screen == ui.Dialogue {
				g.sound(Voice)
			}
		}
	}
}

// choose moves in a list of n and reports whether something was chosen. The
// mouse chooses the row it clicks.
func (g *Game) choose(in *input.Frame, n int, row func(i int) (x0, y0, x1, y1 int)) bool {
	if n == 0 {
		return false
	}
	g.chosen = min(max(g.chosen, 0), n-1)
	switch {
	case in.Pressed(input.Up):
		g.chosen = (g.chosen + n - 1) % n
		g.sound(Blip)
	case in.Pressed(input.Down):
		g.chosen = (g.chosen + 1) % n
		g.sound(Blip)
	case in.Pressed(input.Act):
		g.sound(Pick)
		return true
	case in.Click:
		for i := range n {
			x0, y0, x1, y1 := row(i)
			if in.MouseX >= x0 && in.MouseX < x1 && in.MouseY >= y0 && in.MouseY < y1 {
				g.chosen = i
				g.sound(Pick)
				return true
			}
		}
	}
	return false
}

func itoa(n int) string { return strconv.Itoa(n) }
