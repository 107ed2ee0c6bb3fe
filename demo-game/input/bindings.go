package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Action is something that a player wants.
type Action uint8

// The actions.
const (
	Up Action = iota
	Down
	Left
	Right
	Act
	Back
	Menu
	Say
	Order1
	Order2
	Order3
	Order4
	Order5
	Pause
	HUD
	Policy
	Load
	Actions // how many there are
)

var names = [Actions]string{"up", "down", "left", "right", "act", "back", "menu", "say", "order1", "order2", "order3",
	"order4", "order5", "pause", "hud", "policy", "load"}

func (a Action) String() string {
	if a < Actions {
		return names[a]
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// ParseAction reads what String writes.
func ParseAction(name string) (Action, bool) {
	i := slices.Index(names[:], name)
	return Action(max(i, 0)), i >= 0
}

// ErrTaken is wrapped where a key has another use.
var ErrTaken = errors.New("input: the key is taken")

// Bindings say which keys do what; the first of each action can be changed. A
// key is named as Ebitengine names it, a button of a gamepad "Pad…".
type Bindings struct{ keys [Actions][]string }

// Default is how keys are at first.
func Default() *Bindings {
	return &Bindings{keys: [Actions][]string{
		Up: {"ArrowUp", "W", "PadUp"}, Down: {"ArrowDown", "S", "PadDown"},
		Left: {"ArrowLeft", "A", "PadLeft"}, Right: {"ArrowRight", "D", "PadRight"},
		Act: {"E", "Enter", "PadA"}, Back: {"Escape", "PadB"}, Menu: {"Tab", "PadStart"}, Say: {"T", "PadY"},
		Order1: {"Digit1", "PadL1"}, Order2: {"Digit2", "PadR1"}, Order3: {"Digit3", "PadX"},
		Order4: {"Digit4", "PadL2"}, Order5: {"Digit5", "PadR2"}, Pause: {"P", "PadBack"},
		HUD: {"F1"}, Policy: {"F2"}, Load: {"F3"},
	}}
}

// Keys lists what does an action. Nobody may change it.
func (b *Bindings) Keys(a Action) []string { return b.keys[a] }

// Key is the name of the key that is shown for an action.
func (b *Bindings) Key(a Action) string { return Label(b.keys[a][0]) }

// labels are keys whose names are too long for a hint.
var labels = map[string]string{"ArrowUp": "Up", "ArrowDown": "Down", "ArrowLeft": "Left", "ArrowRight": "Right",
	"Escape": "Esc", "Digit1": "1", "Digit2": "2", "Digit3": "3", "Digit4": "4", "Digit5": "5"}

// Label is how a key is called on the screen.
func Label(key string) string {
	if l, ok := labels[key]; ok {
		return l
	}
	return key
}

// Rebind gives an action another key in the place of its first. A key that does
// something else stays where it is: the error wraps ErrTaken, and Taker says of
// whom.
func (b *Bindings) Rebind(a Action, key string) error {
	if a >= Actions || key == "" || len(key) > maxKeyName {
		return fmt.Errorf("input: %s to key %.40q: want an action and a key's name", a, key)
	}
	if other, ok := b.Taker(key); ok && other != a {
		return fmt.Errorf("%w: %s does %s", ErrTaken, key, other)
	}
	keys := slices.DeleteFunc(slices.Clone(b.keys[a]), func(k string) bool { return k == key })
	if len(keys) == len(b.keys[a]) { // it was none of them: it takes the first's place
		keys = keys[1:]
	}
	b.keys[a] = slices.Insert(keys, 0, key)
	return nil
}

// maxKeyName bounds a name from a file.
const maxKeyName = 32

// Taker is what a key does.
func (b *Bindings) Taker(key string) (Action, bool) {
	for a, keys := range b.keys {
		if slices.Contains(keys, key) {
			return Action(a), true
		}
	}
	return 0, false
}

// MarshalJSON writes the keys by action's name.
func (b *Bindings) MarshalJSON() ([]byte, error) {
	out := map[string][]string{}
	for a, keys := range b.keys {
		out[Action(a).String()] = keys
	}
	return json.Marshal(out)
}

// ParseBindings reads what MarshalJSON wrote. What a file leaves out stays as it
// is by default.
func ParseBindings(raw []byte) (*Bindings, error) {
	var in map[string][]string
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("input: keys: %w", err)
	}
	b := Default()
	for name, keys := range in {
		a, ok := ParseAction(name)
		if !ok || len(keys) == 0 || len(keys) > 8 {
			return nil, fmt.Errorf("input: keys: %q has %d keys: want a known action with 1 … 8", name, len(keys))
		}
		b.keys[a] = keys
	}
	seen := map[string]Action{}
	for a, keys := range b.keys {
		for _, k := range keys {
			if other, twice := seen[k]; twice || k == "" || len(k) > maxKeyName {
				return nil, fmt.Errorf("%w: %.40q does %s and %s", ErrTaken, k, other, Action(a))
			}
			seen[k] = Action(a)
		}
	}
	return b, nil
}
