package play

import (
	"errors"
	"strings"
	"testing"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/ui"
)

// selfSaving is a game at its title that saves by itself.
func selfSaving(t *testing.T, files Files) hands {
	g := newGame(t, t.TempDir(), "en")
	g.cfg.Auto, g.cfg.Files = true, files
	return hands{t, g}
}

// talked plays from the title until a talk is over.
func (h hands) talked(line string) {
	h.press(input.Act)
	h.wait(loadingTicks + 1)
	h.say(line)
	h.press(input.Back)
	h.wait(3)
	h.want(ui.Explore)
}

// A game that was not saved goes on where its last talk was over; what the player
// saved is still there.
func TestSavesByItself(t *testing.T) {
	files := Folder{Dir: t.TempDir(), Direct: true}
	h := selfSaving(t, files)
	h.talked("Who are you?")
	h.g.world.Gold = 50
	h.g.Save()
	h.wait(2)
	h.g.world.Gold = 60
	h.say("What of the wolves?")
	h.press(input.Back)
	h.wait(2)
	if n := h.g.View().Notes; len(n) != 1 || n[0] != "Saved" {
		t.Errorf("notes %q, want one of the save that was asked for", n)
	}

	other := selfSaving(t, files)
	other.press(input.Down, input.Act)
	other.wait(2)
	if other.want(ui.Loading); other.g.world.Gold != 60 {
		t.Errorf("Continue takes up %d silver, want 60", other.g.world.Gold)
	}
	if raw, err := other.g.voices.Save(); err != nil || !strings.Contains(string(raw), "What of the wolves?") {
		t.Errorf("the last talk is forgotten: %v", err)
	}
	other.g.Load()
	other.wait(2)
	if other.g.world.Gold != 50 {
		t.Errorf("Load takes up %d silver, want 50", other.g.world.Gold)
	}
}

// In a new game nobody knows of the one before.
func TestNewGameIsNew(t *testing.T) {
	files := Folder{Dir: t.TempDir(), Direct: true}
	h := selfSaving(t, files)
	h.talked("Remember the number 4711.")
	h.g.voices.Tell("pip", "wren", "The wolves are gone.", 0)
	if h.g.voices.Memories() == 0 {
		t.Fatal("nothing is remembered")
	}
	h.g.Autosave()
	h.wait(2)
	h.g.screen, h.g.chosen = ui.Title, 0
	h.press(input.Act)
	h.wait(loadingTicks + 2)
	raw, err := h.g.voices.Save()
	if err != nil || strings.Contains(string(raw), "4711") || strings.Contains(string(raw), "wolves are gone") {
		t.Errorf("%v: the voices know %s", err, raw)
	}
	if n := h.g.voices.Memories(); n > 0 {
		t.Errorf("%d memories of the game before", n)
	}
	if !strings.Contains(string(raw), "silver") {
		t.Errorf("nobody knows the prices: %s", raw)
	}
	h.g.Continue() // nothing was said in the new game: the old one is what was kept
	h.wait(3)
	if n := h.g.voices.Memories(); n == 0 {
		t.Error("the memories of the game before did not come back")
	}
}

// full is a disk on which nothing can be written.
type full struct{ Folder }

var errFull = errors.New("no space left on device")

func (full) Write(string, []byte) error { return errFull }

// Where nothing can be written, the game says so once by itself, and whenever the
// player saves.
func TestFullDisk(t *testing.T) {
	h := selfSaving(t, full{Folder{Dir: t.TempDir(), Direct: true}})
	h.talked("Who are you?")
	for range 3 {
		h.g.Autosave()
		h.wait(2)
	}
	if n := len(h.g.Faults()); n != 1 {
		t.Errorf("%d faults after four tries, want one", n)
	}
	h.g.Save()
	h.wait(2)
	n := h.g.View().Notes
	if len(h.g.Faults()) != 2 || len(n) == 0 || !strings.Contains(n[len(n)-1], errFull.Error()) {
		t.Errorf("faults %v, notes %q", h.g.Faults(), n)
	}
	h.want(ui.Explore)
}
