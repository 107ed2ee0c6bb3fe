package input

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScript(t *testing.T) {
	s, err := ParseScript("t", "# a comment\n"+
		"10 press act\n+10 hold right 3\n30 say Hello there\n30 caption tour.talk\n40 end\n")
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Act, Right, RightDown bool
		Said                  string
		Ended                 bool
	}
	for tick, want := range map[int64]seen{
		9: {}, 10: {Act: true}, 11: {}, 20: {Right: true, RightDown: true}, 22: {Right: true}, 23: {},
		30: {Said: "Hello there"}, 40: {Ended: true}, 99: {Ended: true},
	} {
		f := s.At(tick)
		got := seen{f.Held(Act), f.Held(Right), f.Pressed(Right), f.Said, f.Ended}
		if got != want {
			t.Errorf("tick %d: %+v, want %+v", tick, got, want)
		}
	}
	tour, err := Named("tour")
	if err != nil {
		t.Fatal(err)
	}
	measured, err := tour.Measured()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range measured.steps {
		if st.action == Policy || st.action == Load {
			t.Errorf("a measured tour presses %s at tick %d", st.action, st.from)
		}
	}
	if measured.Length() >= tour.Length() {
		t.Errorf("measured %d ticks, watched %d: want fewer", measured.Length(), tour.Length())
	}
}

// What is wrong with a script is told with its line.
func TestScriptRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"x press act\n9 end":           "s:1",
		"9 press act\n5 end":           "s:2",
		"1 dance":                      "want press, hold",
		"1 press jump":                 "is no action",
		"1 hold up\n":                  "ticks",
		"1 hold up 0":                  "ticks",
		"1 say\n2 end":                 "say what?",
		"1 press act":                  "has no line",
		"1 press act 4":                "besides",
		"99999999999999999999 end":     "tick",
		strings.Repeat("#", 2_000_000): "bytes",
	} {
		if _, err := ParseScript("s", text); !errors.Is(err, ErrScript) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want something with %q", text, err, want)
		}
	}
	if _, err := Named("../x"); !errors.Is(err, ErrScript) {
		t.Errorf("a script that is not there: %v", err)
	}
}

func FuzzScript(f *testing.F) {
	f.Add("1 press act\n2 hold left 5\n+3 say x\n9 end")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScript("f", text)
		if err != nil {
			return
		}
		for tick := int64(0); tick < 20; tick++ {
			s.At(tick)
		}
	})
}

func TestRebind(t *testing.T) {
	b := Default()
	if err := b.Rebind(Act, "Space"); err != nil || b.Key(Act) != "Space" {
		t.Errorf("%v, key %q", err, b.Key(Act))
	}
	if err := b.Rebind(Menu, "Space"); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "act") {
		t.Errorf("a key that is taken: %v", err)
	}
	if err := b.Rebind(Act, "Enter"); err != nil || b.Key(Act) != "Enter" { // it was its own, second
		t.Errorf("%v, key %q", err, b.Key(Act))
	}
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseBindings(raw)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.keys, again.keys); d != "" {
		t.Errorf("written and read (-want +got):\n%s", d)
	}
	for _, bad := range []string{`{"act":[]}`, `{"jump":["J"]}`, `{"act":["Tab"]}`, `[`, `{"act":[""]}`} {
		if _, err := ParseBindings([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestTracker(t *testing.T) {
	var k Tracker
	b := Default()
	f := k.Next(b, []string{"ArrowRight", "Enter"})
	if !f.Pressed(Right) || !f.Pressed(Act) || !f.Enter {
		t.Errorf("two keys go down: %+v", f)
	}
	if a := f.Again(); !a.Held(Right) || a.Pressed(Right) || a.Enter {
		t.Errorf("a tick in which nothing changed: %+v", a)
	}
	f = k.Next(b, []string{"ArrowRight"})
	if f.Pressed(Right) || !f.Held(Right) || f.Held(Act) || f.RawKey != "" {
		t.Errorf("one is held: %+v", f)
	}
}

// Each button of a gamepad does one thing, and ends a line of text like a
// keyboard does.
func TestGamepad(t *testing.T) {
	buttons := map[string]Action{"PadUp": Up, "PadDown": Down, "PadLeft": Left, "PadRight": Right, "PadA": Act,
		"PadB": Back, "PadStart": Menu, "PadY": Say, "PadL1": Order1, "PadR1": Order2, "PadX": Order3,
		"PadL2": Order4, "PadR2": Order5, "PadBack": Pause}
	for button, want := range buttons {
		var k Tracker
		f := k.Next(Default(), []string{button})
		for a := range Actions {
			if f.Pressed(a) != (a == want) {
				t.Errorf("%s: %s is pressed: %t", button, a, f.Pressed(a))
			}
		}
		if l := f.Letters(); l.Enter != (want == Act) || l.Escape != (want == Back) || l.Pressed(want) {
			t.Errorf("%s while letters are written: Enter %t, Escape %t, %s %t", button, l.Enter, l.Escape, want,
				l.Pressed(want))
		}
	}
	var k Tracker
	if l := k.Next(Default(), []string{"E"}); l.Enter {
		t.Error("the letter E ends a line")
	}
}
