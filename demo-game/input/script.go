package input

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrScript is wrapped by what is wrong with a script.
var ErrScript = errors.New("input: bad script")

const (
	maxScript     = 1 << 20 // bytes
	maxScriptTick = 60 * 60 * 60
)

//go:embed scripts/*.txt
var scripts embed.FS

// step is one line of a script.
type step struct {
	from, to int64 // ticks, to is not in it
	action   Action
	say      string
	caption  string
	end      bool
}

// Script plays by tick. Nobody may change it. Safe for concurrent use.
type Script struct {
	steps      []step
	last       int64
	name, text string
}

// Named reads a script that is built in: "tour".
func Named(name string) (*Script, error) {
	raw, err := scripts.ReadFile("scripts/" + name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("%w: there is no script %q: there are %s", ErrScript, name,
			strings.Join(Scripts(), ", "))
	}
	return ParseScript(name, string(raw))
}

// Scripts lists the ones that are built in.
func Scripts() (out []string) {
	entries, err := scripts.ReadDir("scripts")
	if err != nil {
		return nil // the folder is built in
	}
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return out
}

// The lines between which a script plays only for somebody who watches.
const (
	watchBegins = "watch begin"
	watchEnds   = "watch end"
)

// ParseScript reads a script. Errors name the line.
func ParseScript(name, text string) (*Script, error) { return parseScript(name, text, true) }

// Measured is the script without what is only to be watched: one policy and one
// load from its begin to its end.
func (s *Script) Measured() (*Script, error) { return parseScript(s.name, s.text, false) }

func parseScript(name, text string, watched bool) (*Script, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("%w: %s has %d bytes, want at most %d", ErrScript, name, len(text), maxScript)
	}
	s := &Script{name: name, text: text}
	at, skips := int64(0), false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == watchBegins || line == watchEnds {
			skips = line == watchBegins && !watched
			continue
		}
		if line == "" || line[0] == '#' || skips {
			continue
		}
		st, err := parseStep(line, at)
		if err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrScript, name, i+1, err)
		}
		at = st.from
		s.steps = append(s.steps, st)
		s.last = max(s.last, st.to)
	}
	if !slices.ContainsFunc(s.steps, func(st step) bool { return st.end }) {
		return nil, fmt.Errorf("%w: %s has no line \"TICK end\"", ErrScript, name)
	}
	return s, nil
}

func parseStep(line string, before int64) (step, error) {
	when, rest, _ := strings.Cut(line, " ")
	what, arg, _ := strings.Cut(strings.TrimSpace(rest), " ")
	relative := strings.HasPrefix(when, "+")
	tick, err := strconv.ParseInt(strings.TrimPrefix(when, "+"), 10, 64)
	if relative {
		tick += before
	}
	if err != nil || tick < before || tick > maxScriptTick {
		return step{}, fmt.Errorf("tick %q: want a number from %d to %d, or +N after the line before",
			when, before, maxScriptTick)
	}
	st := step{from: tick, to: tick + 1}
	arg = strings.TrimSpace(arg)
	switch what {
	case "say":
		st.say = arg
	case "caption":
		st.caption = arg
	case "end":
		st.end = true
		return st, nil
	case "press", "hold":
		return parseKeys(st, what, arg)
	default:
		return step{}, fmt.Errorf("%q: want press, hold, say, caption, end, %q or %q", what,
			watchBegins, watchEnds)
	}
	if arg == "" {
		return step{}, fmt.Errorf("%s what?", what)
	}
	return st, nil
}

func parseKeys(st step, what, arg string) (step, error) {
	name, ticks, _ := strings.Cut(arg, " ")
	a, ok := ParseAction(name)
	if !ok {
		return step{}, fmt.Errorf("%q is no action: want one of %s", name, strings.Join(names[:], ", "))
	}
	st.action = a
	if what == "press" {
		if ticks != "" {
			return step{}, fmt.Errorf("press takes one action, and got %q besides", ticks)
		}
		return st, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(ticks))
	if err != nil || n < 1 || n > maxScriptTick {
		return step{}, fmt.Errorf("hold %s for %q ticks: want 1 … %d", name, ticks, maxScriptTick)
	}
	st.to = st.from + int64(n)
	return st, nil
}

// Length is the tick after the last.
func (s *Script) Length() int64 { return s.last }

// At is the frame of a tick.
func (s *Script) At(tick int64) Frame {
	var f Frame
	for i := range s.steps {
		st := &s.steps[i]
		if tick < st.from || tick >= st.to && !st.end {
			continue
		}
		switch {
		case st.end:
			f.Ended = true
		case st.say != "":
			f.Said = st.say
		case st.caption != "":
			f.Caption = st.caption
		case tick == st.from:
			f.Press(st.action)
		default:
			f.Hold(st.action)
		}
	}
	return f
}
