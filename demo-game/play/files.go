package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/ui"
)

// Files is where a game is saved. Read and Write are called from a goroutine,
// unless Now.
type Files interface {
	Read(name string) ([]byte, error)
	Write(name string, data []byte) error
	Path(name string) string // for the file of the memories
	Now() bool               // read and write on the game thread: for tests
}

// The names of the files of a save.
const (
	saveFile     = "save.json"
	memoryFile   = "save.memories"
	settingsFile = "settings.json"

	// maxSave bounds what is read: an hour of talk is a megabyte.
	maxSave = 64 << 20
)

// SaveVersion is the format that Save writes and Load reads.
const SaveVersion = 1

// Folder keeps files in a folder. Each is written whole beside the old one and
// then takes its place, so that a crash leaves one of the two.
type Folder struct {
	Dir    string
	Direct bool
}

// Now implements Files.
func (f Folder) Now() bool { return f.Direct }

// Path implements Files.
func (f Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

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
	t, err := os.CreateTemp(f.Dir, name+".*")
	if err != nil {
		return err
	}
	_, err = t.Write(data)
	err = errors.Join(err, t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), f.Path(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(t.Name()))
	}
	return nil
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

type fileResult struct {
	save bool
	data []byte
	err  error
}

// Save writes the game. A note says when it is done.
func (g *Game) Save() {
	if g.cfg.Files == nil || g.busy {
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
	memories, _ := g.voices.MemoryFiles()
	g.do(func() fileResult {
		err := g.cfg.Files.Write(saveFile, raw)
		if err == nil && memories != nil {
			err = memories(g.cfg.Files.Path(memoryFile))
		}
		return fileResult{save: true, err: err}
	})
}

// Load takes the saved game up.
func (g *Game) Load() {
	if g.cfg.Files == nil || g.busy {
		return
	}
	_, memories := g.voices.MemoryFiles()
	g.do(func() fileResult {
		raw, err := g.cfg.Files.Read(saveFile)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("there is no saved game yet")
		}
		if err == nil && memories != nil {
			_, err = os.Stat(g.cfg.Files.Path(memoryFile))
			switch {
			case err == nil:
				err = memories(g.cfg.Files.Path(memoryFile))
			case errors.Is(err, fs.ErrNotExist): // saved where no memories were open
				err = nil
			}
		}
		return fileResult{data: raw, err: err}
	})
}

// do runs something with files off the game thread, one at a time.
func (g *Game) do(work func() fileResult) {
	g.busy = true
	if g.cfg.Files.Now() {
		g.results <- work()
		return
	}
	go func() { g.results <- work() }()
}

// finishFiles takes what came of it.
func (g *Game) finishFiles() {
	select {
	case r := <-g.results:
		g.busy = false
		switch {
		case r.err != nil && r.save:
			g.fault("note.save_failed", r.err)
		case r.err != nil:
			g.fault("note.load_failed", r.err)
		case r.save:
			g.note(g.text("note.saved"))
		default:
			if err := g.restore(r.data); err != nil {
				g.fault("note.load_failed", err)
			}
		}
	default:
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
	g.world, g.heard, g.bubbles, g.talkTo = w, nil, map[string]bubble{}, ""
	g.tick = max(g.tick, s.Tick)
	g.screen, g.loading = ui.Loading, loadingTicks
	g.note(g.text("note.loaded"))
	return nil
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
