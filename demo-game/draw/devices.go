//go:build windows || cgo

package draw

import (
	"strings"

	"github.com/hajimehoshi/ebiten/v2"
	"github.com/hajimehoshi/ebiten/v2/inpututil"

	"github.com/lull-npc/lull/demo-game/input"
)

// Devices are keyboard, mouse and gamepads. Call from Ebitengine's Update.
type Devices struct {
	tracker input.Tracker
	keys    []ebiten.Key
	pads    []ebiten.GamepadID
	down    []string
	typed   []rune
}

var padButtons = map[ebiten.StandardGamepadButton]string{
	ebiten.StandardGamepadButtonRightBottom: "PadA", ebiten.StandardGamepadButtonRightRight: "PadB",
	ebiten.StandardGamepadButtonRightLeft: "PadX", ebiten.StandardGamepadButtonRightTop: "PadY",
	ebiten.StandardGamepadButtonFrontTopLeft: "PadL1", ebiten.StandardGamepadButtonFrontTopRight: "PadR1",
	ebiten.StandardGamepadButtonFrontBottomLeft: "PadL2", ebiten.StandardGamepadButtonFrontBottomRight: "PadR2",
	ebiten.StandardGamepadButtonCenterLeft: "PadBack", ebiten.StandardGamepadButtonCenterRight: "PadStart",
	ebiten.StandardGamepadButtonLeftTop: "PadUp", ebiten.StandardGamepadButtonLeftBottom: "PadDown",
	ebiten.StandardGamepadButtonLeftLeft: "PadLeft", ebiten.StandardGamepadButtonLeftRight: "PadRight",
}

// stick is how far a stick has to be moved to count.
const stick = 0.4

// Next is what the player does in this tick. While the player types, keys are
// letters and nothing else.
func (d *Devices) Next(b *input.Bindings, typing bool, w, h int) input.Frame {
	d.down = d.down[:0]
	d.keys = inpututil.AppendPressedKeys(d.keys[:0])
	for _, k := range d.keys {
		d.down = append(d.down, strings.TrimPrefix(k.String(), "Key"))
	}
	d.pads = ebiten.AppendGamepadIDs(d.pads[:0])
	for _, id := range d.pads {
		d.pad(id)
	}
	f := d.tracker.Next(b, d.down)
	d.typed = ebiten.AppendInputChars(d.typed[:0])
	f.Typed = d.typed
	f.Backspace = repeats(ebiten.KeyBackspace)
	x, y := ebiten.CursorPosition()
	factor, x0, y0 := Scale(w, h)
	f.MouseX, f.MouseY = (x-x0)/factor, (y-y0)/factor
	f.Click = inpututil.IsMouseButtonJustPressed(ebiten.MouseButtonLeft)
	if typing {
		return f.Letters()
	}
	return f
}

func (d *Devices) pad(id ebiten.GamepadID) {
	if !ebiten.IsStandardGamepadLayoutAvailable(id) {
		return
	}
	for button, name := range padButtons {
		if ebiten.IsStandardGamepadButtonPressed(id, button) {
			d.down = append(d.down, name)
		}
	}
	for _, s := range []struct {
		axis     ebiten.StandardGamepadAxis
		low, top string
	}{{ebiten.StandardGamepadAxisLeftStickHorizontal, "PadLeft", "PadRight"},
		{ebiten.StandardGamepadAxisLeftStickVertical, "PadUp", "PadDown"}} {
		switch v := ebiten.StandardGamepadAxisValue(id, s.axis); {
		case v < -stick:
			d.down = append(d.down, s.low)
		case v > stick:
			d.down = append(d.down, s.top)
		}
	}
}

// repeats is a key that goes on after half a second.
func repeats(k ebiten.Key) bool {
	n := inpututil.KeyPressDuration(k)
	return n == 1 || n > 30 && n%3 == 0
}
