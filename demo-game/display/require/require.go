// Package require ends the program with a line that says what to do, where no
// window can be opened. Importing it is enough.
package require

import (
	"os"

	"github.com/lull-npc/lull/demo-game/display"
)

func init() {
	if display.Reachable() {
		return
	}
	what := "DISPLAY is not set"
	if name := os.Getenv("DISPLAY"); name != "" {
		what = "nobody answers at DISPLAY=" + name
	}
	_, _ = os.Stderr.WriteString("lull-demo: there is no display to open a window on: " + what +
		". Start it with `xvfb-run -a`, or play without a window: `lull demo --headless --script tour`\n")
	os.Exit(1)
}
