package demo

import "time"

// Action is what a key does.
type Action uint8

const (
	None Action = iota
	ChooseOff
	ChoosePlain
	ChooseLull
	MoreLoad
	LessLoad
	Type
	Send
	Leave
	Quit
	Interrupt
)

// loadStep is what + and - change: at 60 Hz, a sixteenth of a frame.
const loadStep = time.Millisecond

// keyAction says what a key does, by Bubble Tea's name of it. While a line is
// typed, all but three keys are for the line.
func keyAction(key string, typing bool) Action {
	switch {
	case key == "ctrl+c":
		return Interrupt
	case typing && key == "enter":
		return Send
	case typing && key == "esc":
		return Leave
	case typing:
		return None
	}
	switch key {
	case "1":
		return ChooseOff
	case "2":
		return ChoosePlain
	case "3":
		return ChooseLull
	case "+", "=":
		return MoreLoad
	case "-", "_":
		return LessLoad
	case "t":
		return Type
	case "q", "ctrl+d":
		return Quit
	}
	return None
}
