package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/internal/wholefile"
)

// Files is where a game is saved. Read and Write are called from a goroutine,
// unless Now.
type Files interface {
	Read(name string) ([]byte, error)
	Write(name string, data []byte) error
	Path(name string) string // for the file of the memories
	Newest(names ...string) string
	Now() bool // read and write on the game thread: for tests
}

// slot names the files of a save: the game, and what people remember.
type slot struct{ game, memories string }

// The slots. What the player saved stays until the player saves again; the game
// writes its own where an area is entered, when a talk is over, after a fight and
// at the end.
var (
	byHand   = slot{"save.json", "save.memories"}
	byItself = slot{"auto.json", "auto.memories"}
)

const (
	settingsFile = "settings.json"

	// maxSave bounds what is read: an hour of talk is a megabyte.
	maxSave = 64 << 20
)

// SaveVersion is the format that Save writes and Load reads.
const SaveVersion = 1

// Folder keeps files in a folder. Each is written as a whole, so that a crash
// leaves the old one or the new one.
type Folder struct {
	Dir    string
	Direct bool
}

// Now implements Files.
func (f Folder) Now() bool { return f.Direct }

// Path implements Files.
func (f Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Newest implements Files: the one that was written last, "" where there is none.
func (f Folder) Newest(names ...string) (newest string) {
	var last time.Time
	for _, name := range names {
		if info, err := os.Stat(f.Path(name)); err == nil && info.ModTime().After(last) {
			newest, last = name, info.ModTime()
		}
	}
	return newest
}

// Read implements Files.
func (f Folder) Read(name string) ([]byte, error) {
	info, err := os.Stat(f.Path(name))
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSave {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", f.Path(name), info.Size(), maxSave)
	}
	return os.ReadFile(f.Path(name))
}

// Write implements Files.
func (f Folder) Write(name string, data []byte) error {
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return err
	}
	return wholefile.Write(f.Path(name), data, 0o600)
}

// saved is a game in a file. Keys may be added, never renamed.
type saved struct {
	Version int             `json:"lull_demo"`
	World   rules.World     `json:"world"`
	Tick    int64           `json:"tick"`
	Voices  json.RawMessage `json:"voices"`
}

// settings are what is not of one game.
type settings struct {
	Lang string          `json:"lang"`
	Raw  json.RawMessage `json:"keys"`
}

// fileKind says what was done with files.
type fileKind uint8

const (
	wrote fileKind = iota
	read
	recalled // the memories of a save, or of none
)

type fileResult struct {
	kind fileKind
	slot slot
	data []byte
	err  error
}

// Save writes the game. A note says when it is done.
func (g *Game) Save() { g.save(byHand) }

// Autosave writes the game into the slot that is the game's own, where there is
// a game, and tells only what goes wrong.
func (g *Game) Autosave() {
	if g.cfg.Auto && g.screen != ui.Title {
		g.save(byItself)
	}
}

// save writes a slot, now or when the files are free.
func (g *Game) save(to slot) {
	if g.cfg.Files == nil {
		return
	}
	if g.busy {
		if g.next == nil || to == byHand { // what the player asks for goes first
			g.next = func() { g.save(to) }
		}
		return
	}
	voices, err := g.voices.Save()
	if err != nil {
		g.fault("note.save_failed", err)
		return
	}
	raw, err := json.Marshal(saved{SaveVersion, g.world.Save(), g.tick, voices})
	if err != nil {
		g.fault("note.save_failed", err)
		return
	}
	memories := g.voices.KeepMemories()
	g.do(func() fileResult {
		err := g.cfg.Files.Write(to.game, raw)
		if err == nil && memories != nil {
			err = memories(g.cfg.Files.Path(to.memories))
		}
		return fileResult{kind: wrote, slot: to, err: err}
	})
}

// Load takes up the game that the player saved.
func (g *Game) Load() { g.resume(byHand) }

// Continue takes up what was saved last, by the player or by the game itself.
func (g *Game) Continue() {
	from := byHand
	if g.cfg.Files != nil && g.cfg.Files.Newest(byItself.game, byHand.game) == byItself.game {
		from = byItself
	}
	g.resume(from)
}

func (g *Game) resume(from slot) {
	if g.cfg.Files == nil {
		return
	}
	if g.busy {
		g.next = func() { g.resume(from) }
		return
	}
	g.do(func() fileResult {
		raw, err := g.cfg.Files.Read(from.game)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("there is no saved game yet")
		}
		return fileResult{kind: read, slot: from, data: raw, err: err}
	})
}

// recall goes back to the memories of a save; "" is none.
func (g *Game) recall(file string) {
	if work := g.voices.Recall(file); work != nil {
		g.do(func() fileResult { return fileResult{kind: recalled, err: work()} })
	}
}

// do runs something with files off the game thread, one at a time.
func (g *Game) do(work func() fileResult) {
	g.busy = true
	if g.cfg.Files == nil || g.cfg.Files.Now() {
		g.results <- work()
		return
	}
	go func() { g.results <- work() }()
}

// Files takes what came of a save or a load; Tick does it as well.
func (g *Game) Files() {
	select {
	case r := <-g.results:
		g.busy = false
		g.finish(&r)
		if next := g.next; next != nil && !g.busy {
			g.next = nil
			next()
		}
	default:
	}
}

func (g *Game) finish(r *fileResult) {
	if r.kind == read && r.err == nil {
		r.err = g.restore(r.data)
	}
	switch {
	case r.kind == wrote && r.err == nil:
		g.unsaved = false
		if r.slot == byHand {
			g.note(g.text("note.saved"))
		}
	case r.kind == wrote && r.slot == byItself && g.unsaved: // it was told once
	case r.kind == wrote:
		g.unsaved = g.unsaved || r.slot == byItself
		g.fault("note.save_failed", r.err)
	case r.kind == recalled && r.err != nil:
		g.fault("note.recall_failed", r.err)
	case r.err != nil:
		g.fault("note.load_failed", r.err)
	case r.kind == read:
		g.recall(g.cfg.Files.Path(r.slot.memories))
	}
}

// restore makes a game of a save. On error nothing has changed.
func (g *Game) restore(raw []byte) error {
	var s saved
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("the save is damaged: %w", err)
	}
	if s.Version != SaveVersion {
		return fmt.Errorf("the save has format %d, this game reads %d", s.Version, SaveVersion)
	}
	w, err := rules.Restore(g.data, s.World)
	if err != nil {
		return err
	}
	if err := g.voices.Load(s.Voices); err != nil {
		return err
	}
	g.enterGame(w)
	g.tick = max(g.tick, s.Tick)
	g.note(g.text("note.loaded"))
	return nil
}

// enterGame shows the loading screen of a game, where nothing was said yet.
func (g *Game) enterGame(w *rules.World) {
	g.world, g.heard, g.bubbles, g.talkTo, g.told = w, nil, map[string]bubble{}, "", false
	g.thinks, g.reply = map[string]bool{}, map[string]string{}
	g.load()
}

// saveSettings keeps keys and language, which no game depends on: a failure is
// told and nothing more.
func (g *Game) saveSettings() {
	if g.cfg.Files == nil {
		return
	}
	keys, err := json.Marshal(g.keys)
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(settings{Lang: g.lang, Raw: keys}); err == nil {
			err = g.cfg.Files.Write(settingsFile, raw)
		}
	}
	if err != nil {
		g.fault("note.save_failed", err)
	}
}

// ReadSettings reads keys and language; where there are none yet, the default
// ones. A damaged file gives an error and the default ones.
func ReadSettings(f Files) (lang string, keys *input.Bindings, err error) {
	raw, err := f.Read(settingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", input.Default(), nil
	}
	var s settings
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err == nil {
		keys, err = input.ParseBindings(s.Raw)
	}
	if err != nil {
		return "", input.Default(), fmt.Errorf("play: %s: %w", f.Path(settingsFile), err)
	}
	return s.Lang, keys, nil
}
