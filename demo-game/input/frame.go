package input

import "strings"

// Frame is what a player does in one tick.
type Frame struct {
	held, pressed [Actions]bool

	Typed     []rune // text, in order
	Backspace bool
	Enter     bool   // ends a line of text
	Escape    bool   // leaves a line of text
	RawKey    string // a key that went down, for rebinding; "" is none

	MouseX, MouseY int  // in pixels of the 640×360 screen
	Click          bool // the left button went down

	Said    string // a script says a whole line at once
	Caption string // a script shows the text of this key
	Ended   bool   // a script is over
}

// Held reports whether an action's key is down.
func (f *Frame) Held(a Action) bool { return f.held[a] }

// Pressed reports whether it went down in this tick.
func (f *Frame) Pressed(a Action) bool { return f.pressed[a] }

// Hold marks an action as held; Press as gone down.
func (f *Frame) Hold(a Action) { f.held[a] = true }

// Press marks an action as gone down in this tick.
func (f *Frame) Press(a Action) { f.held[a], f.pressed[a] = true, true }

// Release takes back that an action went down in this tick.
func (f *Frame) Release(a Action) { f.pressed[a] = false }

// Letters is the frame where keys are letters and do nothing else.
func (f *Frame) Letters() Frame {
	return Frame{Typed: f.Typed, Backspace: f.Backspace, Enter: f.Enter, Escape: f.Escape, RawKey: f.RawKey}
}

// Again is the tick after, where nothing changed: what is held stays held.
func (f *Frame) Again() Frame { return Frame{held: f.held, MouseX: f.MouseX, MouseY: f.MouseY} }

// pad begins the name of each button of a gamepad.
const pad = "Pad"

// Tracker makes frames of the keys that are down, tick by tick. Call from one
// goroutine at a time.
type Tracker struct{ before map[string]bool }

// Next is the frame in which these keys are down.
func (t *Tracker) Next(b *Bindings, down []string) Frame {
	var f Frame
	now := make(map[string]bool, len(down))
	for _, k := range down {
		now[k] = true
		if !t.before[k] {
			f.RawKey = k
			f.Enter = f.Enter || k == "Enter" || k == "NumpadEnter"
			f.Escape = f.Escape || k == "Escape"
		}
	}
	for a := range Actions {
		for _, k := range b.Keys(a) {
			if !now[k] {
				continue
			}
			down := !t.before[k]
			f.held[a] = true
			f.pressed[a] = f.pressed[a] || down
			if down && strings.HasPrefix(k, pad) { // who has no keyboard at hand ends a line of text too
				f.Enter, f.Escape = f.Enter || a == Act, f.Escape || a == Back
			}
		}
	}
	t.before = now
	return f
}
