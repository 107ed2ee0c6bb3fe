package play

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/lull-npc/lull/demo-game/ui"
)

// envKilled names the folder in which a child saves until it is killed.
const envKilled = "LULL_DEMO_KILLED"

// kills is how often the game is killed while it saves.
const kills = 10

// TestSavesUntilKilled is the child; on its own it does nothing.
func TestSavesUntilKilled(t *testing.T) {
	dir := os.Getenv(envKilled)
	if dir == "" {
		t.Skip("the child of TestKilled")
	}
	h := hands{t, newGame(t, dir, "en")}
	h.g.Load()
	h.wait(loadingTicks + 2)
	if h.g.Screen() == ui.Title { // there was no save yet
		h = begin(t, dir, "en")
	}
	for i := 0; ; i++ {
		h.g.world.Gold++
		h.g.Save()
		h.wait(1)
		fmt.Fprintf(os.Stdout, "saved %d\n", h.g.world.Gold)
	}
}

// Killed while it saves, again and again, the game goes on where it was saved.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	least := 0
	for range kills {
		cmd := exec.Command(self, "-test.run=^TestSavesUntilKilled$")
		cmd.Env = append(os.Environ(), envKilled+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 5 && lines.Scan(); n++ {
			if _, err := fmt.Sscanf(lines.Text(), "saved %d", &least); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		h := hands{t, newGame(t, dir, "en")}
		h.g.Load()
		h.wait(2)
		h.want(ui.Loading)
		if h.g.world.Gold < least {
			t.Fatalf("%d silver after a kill, %d were saved", h.g.world.Gold, least)
		}
	}
}
