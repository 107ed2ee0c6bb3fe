package play

import (
	"strings"
	"testing"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/npc"
)

// fight plays from the title until wolves stand.
func fight(t *testing.T) hands {
	h := begin(t, t.TempDir(), "en")
	h.g.world.Area = "wood"
	h.g.world.Player = rules.Point{X: 24 * 16, Y: 12*16 + 8}
	h.g.world.Ally.At = h.g.world.Player
	h.wait(2)
	h.want(ui.Combat)
	return h
}

// Each order works by its key in the tick in which it is pressed, or says why not.
func TestOrdersByKey(t *testing.T) {
	for i, want := range rules.Orders {
		h := fight(t)
		h.g.world.HP = rules.MaxHP / 2
		h.g.world.Foes[0].Down, h.g.world.Foes[0].Loot = true, true
		h.g.world.Ally.Order = rules.Follow
		if want == rules.Follow {
			h.g.world.Ally.Order = rules.Guard
		}
		var f input.Frame
		f.Press(input.Order1 + input.Action(i))
		h.g.Tick(&f)
		if got := h.g.world.Ally.Order; got != want {
			t.Errorf("key %d: the order is %s, want %s", i+1, got, want)
		}
		if help := h.g.View().Help; !strings.Contains(help, string(want)) {
			t.Errorf("%q does not tell of %s", help, want)
		}
		h.wait(1)
		if h.g.bubbles[h.g.data.Companion].text == "" {
			t.Errorf("%s: Wren says nothing", want)
		}
	}
	h := begin(t, t.TempDir(), "en")
	h.press(input.Order2)
	if n := h.g.View().Notes; len(n) != 1 || h.g.world.Ally.Order != rules.Follow {
		t.Errorf("guard without wolves: notes %q, order %s", n, h.g.world.Ally.Order)
	}
}

// In a pause the world and what is said stand still, until P or Esc.
func TestPause(t *testing.T) {
	for _, end := range []input.Action{input.Pause, input.Back} {
		h := fight(t)
		h.press(input.Pause)
		before, now := h.g.world.Save(), h.g.Now()
		h.wait(100)
		h.press(input.Menu, input.Act, input.Say)
		if h.g.Now() != now || h.g.world.Tick != before.Tick || h.g.View().Paused == "" {
			t.Errorf("time went from %d to %d in a pause", now, h.g.Now())
		}
		h.press(end)
		h.want(ui.Combat)
		if h.g.View().Paused != "" {
			t.Errorf("%s did not end the pause", end)
		}
	}
}

// What the player writes is what can be read of it, bounded; Korean is.
func TestLineOfText(t *testing.T) {
	h := begin(t, t.TempDir(), "ko")
	h.press(input.Say)
	h.want(ui.Dialogue)
	h.g.Tick(&input.Frame{Typed: []rune("안녕\x00\x1b[31m\n하세요\u202e")})
	if got := string(h.g.input); got != "안녕[31m하세요" {
		t.Errorf("the line is %q", got)
	}
	h.g.Tick(&input.Frame{Backspace: true})
	h.g.Tick(&input.Frame{Typed: []rune(strings.Repeat("길", 3000))})
	if n := len(h.g.input); n > npc.MaxLineRunes {
		t.Errorf("%d letters are kept", n)
	}
	var canvas ui.Canvas
	ui.Show(&canvas, h.g.View())
	if bad := canvas.Check(); len(bad) > 0 {
		t.Errorf("a long line: %q", bad)
	}
	h.g.Tick(&input.Frame{Enter: true})
	h.wait(200)
	heard := len(h.g.heard)
	h.say("\x00\x07 \t")
	if h.g.Typing() || heard < 3 || len(h.g.heard) != heard || len(h.g.Faults()) > 0 {
		t.Errorf("typing %t, %d lines, %d after a line of nothing, faults %v", h.g.Typing(), heard, len(h.g.heard),
			h.g.Faults())
	}
}

// The mouse chooses a key of the list, and what the screen says of keys is true
// when they are others.
func TestReboundKeysAreShown(t *testing.T) {
	h := begin(t, t.TempDir(), "en")
	for a, key := range map[input.Action]string{input.Order1: "F6", input.HUD: "F7", input.Back: "Q"} {
		h.g.openKeys()
		h.wait(1)
		for h.g.chosen != int(a) {
			h.press(input.Down)
		}
		row := ui.KeyRow(false, h.g.chosen, int(input.Actions), int(a))
		h.g.Tick(&input.Frame{Click: true, MouseX: row.Min.X + 3, MouseY: row.Min.Y + 3})
		if h.g.asking != int(a)+1 {
			t.Fatalf("a click at %v asks for %d, want %s", row, h.g.asking-1, a)
		}
		h.g.Tick(&input.Frame{RawKey: key})
	}
	if v := h.g.View(); !strings.Contains(v.Head, "Q goes back") {
		t.Errorf("the list says %q", v.Head)
	}
	h.press(input.Back)
	h.g.screen = ui.Explore
	if help := h.g.View().Help; !strings.Contains(help, "F7 why") {
		t.Errorf("while walking: %q", help)
	}
}
