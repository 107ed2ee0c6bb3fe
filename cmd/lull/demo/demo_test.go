package demo

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/scheduler"
)

var update = flag.Bool("update", false, "write the golden files anew")

// played makes n frames of a mode from start on; late ones end half a period
// after their deadline.
func played(t testing.TB, start time.Duration, n int, mode Mode, late func(i int) bool) []Frame {
	t.Helper()
	period := DefaultSetting().Period()
	grid, err := metrics.NewGrid(start, period, period)
	if err != nil {
		t.Fatal(err)
	}
	frames := make([]Frame, 0, n)
	for i := range n {
		work := 11*time.Millisecond + time.Duration(i%4)*time.Millisecond
		if late(i) {
			work = period + period/2
		}
		f := Frame{Mode: mode, Frame: grid.Finish(grid.Start()+work, "explore")}
		if mode == Lull {
			f.Decision = scheduler.Decision{Gate: scheduler.GateWindow, Openness: 0.25, Threads: 2,
				Margin: 1700 * time.Microsecond, OpenAfter: scheduler.AtFrameEnd, Reason: scheduler.ReasonReturn}
		}
		frames = append(frames, f)
	}
	return frames
}

func never(int) bool { return false }

func TestMeterCounts(t *testing.T) {
	var m Meter
	m.Add(played(t, 0, 600, Off, never), [Modes]int64{})
	start := m.last + DefaultSetting().Period()
	// Late in the first second only: that is settling, and not the mode's fault.
	frames := played(t, start, 300, Plain, func(i int) bool { return i < 10 })
	m.Add(frames[:100], [Modes]int64{Plain: 1000}) // it ends when the mode has settled
	m.Add(frames[100:], [Modes]int64{Plain: 60})
	m.Reply(Plain, 300*time.Millisecond)
	m.Reply(Plain, 100*time.Millisecond)
	m.Reply(Plain, 200*time.Millisecond)
	m.Refresh()
	off, plain := m.Total(Off), m.Total(Plain)
	if off.LateShare != 0 || off.Frames != 539 || off.TTFTMs != 0 {
		t.Errorf("off: %+v, want 539 punctual frames: the period is a little under 1/60 s", off)
	}
	if plain.LateShare != 0 || plain.TTFTMs != 200 || plain.Replies != 3 || plain.Tokens != 1060 {
		t.Errorf("plain: %+v", plain)
	}
	if r := m.Recent(); r.Late != 0 && r.Frames > 301 {
		t.Errorf("recent: %+v, want the last 5 s", r)
	}
}

// Each load has its own table, which waits while another is played.
func TestMeterLoads(t *testing.T) {
	var m Meter
	m.Under(5 * time.Millisecond)
	m.Under(4 * time.Millisecond) // before a frame: nothing to keep
	m.Add(played(t, 0, 300, Plain, never), [Modes]int64{Plain: 100})
	m.Refresh()
	first := m.Total(Plain)
	m.Under(6 * time.Millisecond)
	if m.Total(Plain) != (Total{}) || !m.Settling() {
		t.Errorf("another load: %+v", m.Total(Plain))
	}
	start := m.last + DefaultSetting().Period()
	m.Add(played(t, start, 200, Plain, never), [Modes]int64{})
	m.Under(4 * time.Millisecond)
	if m.Total(Plain) != first {
		t.Errorf("back again: %+v, want %+v", m.Total(Plain), first)
	}
	start = m.last + DefaultSetting().Period()
	m.Add(played(t, start, 300, Plain, never), [Modes]int64{Plain: 7})
	m.Refresh()
	if x := m.Total(Plain); x.Frames <= first.Frames || x.Tokens != 107 || x.LateShare != 0 {
		t.Errorf("it does not go on: %+v after %+v", x, first)
	}
	if x := m.At(6e6); x.Total(Plain).Frames < 100 || x.Settling() {
		t.Errorf("the other load: %+v", x.Total(Plain))
	}
	if got := m.Loads(); !slices.Equal(got, []time.Duration{4e6, 6e6}) {
		t.Errorf("loads %v", got)
	}
}

func TestMeterRecent(t *testing.T) {
	var m Meter
	m.Add(played(t, 0, 1000, Off, func(i int) bool { return i%100 == 99 }), [Modes]int64{})
	r := m.Recent()
	// 5 s less the lines that late frames skipped.
	if r.Late != 3 || r.Frames < 295 || r.Frames > 301 {
		t.Errorf("%+v, want 3 late of about 298", r)
	}
	// Three times half a period in 5 s.
	if want := 3 * 1000.0 / 60 / 2 / 5; r.HitchMsPerS < 0.95*want || r.HitchMsPerS > 1.05*want {
		t.Errorf("hitch %v ms/s, want about %v", r.HitchMsPerS, want)
	}
}

func TestMeterTakesAnyFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			var frames []Frame
			for range rapid.IntRange(0, 40).Draw(t, "n") {
				d := func(name string) time.Duration {
					return time.Duration(rapid.Int64Range(-1e10, 1e11).Draw(t, name))
				}
				f := Frame{Mode: Mode(rapid.IntRange(0, Modes-1).Draw(t, "mode"))}
				f.Start, f.Interval, f.Work, f.Overrun = d("start"), d("interval"), d("work"), d("overrun")
				f.Target = DefaultSetting().Period()
				frames = append(frames, f)
			}
			m.Add(frames, [Modes]int64{})
			m.Refresh()
			m.Recent()
			if n := rapid.IntRange(0, 200).Draw(t, "columns"); len(m.bars(n)) > n {
				t.Fatalf("more than %d bars", n)
			}
		}
	})
}

func TestBars(t *testing.T) {
	var m Meter
	m.Add(played(t, 0, 300, Off, func(i int) bool { return i == 290 }), [Modes]int64{})
	for _, n := range []int{1, 10, 75, 300, 600} {
		list := m.bars(n)
		late := 0
		for i, b := range list {
			late += b.late
			if i > n/10+1 && !b.any {
				t.Errorf("%d columns: column %d is empty", n, i)
			}
		}
		if len(list) != n || late != 1 {
			t.Errorf("%d columns: %d bars with %d late frames, want one", n, len(list), late)
		}
	}
}

func TestBarCell(t *testing.T) {
	period := 16 * time.Millisecond
	for _, c := range []struct {
		work time.Duration
		want string // from the lowest row up
	}{
		{0, "▁   "}, {4 * time.Millisecond, "▄   "}, {8 * time.Millisecond, "█   "}, {period, "██  "},
		{24 * time.Millisecond, "███ "}, {time.Hour, "████"},
	} {
		got := ""
		for row := range 4 {
			got += string(bar{work: c.work, any: true}.cell(row, 4, period))
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.work, got, c.want)
		}
	}
}

// shown is a screen after 8 s of each mode.
func shown(t testing.TB) *Screen {
	s := &Screen{Setting: DefaultSetting(), Model: "scripted on CPU", style: newStyles(false)}
	s.Setting.Workers = 2
	start := time.Duration(0)
	for m := Off; m < Modes; m++ {
		frames := played(t, start, 480, m, func(i int) bool { return m == Plain && i%3 == 0 || i == 400 })
		s.Meter.Add(frames[:240], [Modes]int64{Plain: 200, Lull: 150})
		s.Meter.Add(frames[240:], [Modes]int64{Plain: 200, Lull: 150})
		start = frames[479].Start + frames[479].Interval
	}
	s.Meter.Reply(Plain, 80*time.Millisecond)
	s.Meter.Reply(Lull, 120*time.Millisecond)
	s.Meter.Refresh()
	s.Mode = Lull
	s.Said = []Said{
		{Plain, "Odo", "Hello! Who are you?", "I'm Odo, and this is the Crooked Lantern!", "switched"},
		{Lull, "Odo", "Any news?", "News! 世界 \x1b[2J The guest in the attic has not come down for six days. Six! " +
			"And down in the cellar something knocks back", ""},
	}
	return s
}

func TestScreenGolden(t *testing.T) {
	for name, c := range map[string]struct {
		width, height int
		change        func(*Screen)
	}{
		"60x20":   {60, 20, func(*Screen) {}},
		"100x34":  {100, 34, func(*Screen) {}},
		"tiny":    {24, 3, func(*Screen) {}},
		"typing":  {80, 24, func(s *Screen) { s.Input = "you> What is" }},
		"failure": {80, 24, func(s *Screen) { s.Err = errors.New("the worker\nbroke") }},
		"start": {80, 24, func(s *Screen) {
			*s = Screen{Setting: s.Setting, Model: s.Model, style: s.style}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := shown(t)
			c.change(s)
			got := s.View(c.width, c.height) + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got (go test ./cmd/lull/demo -update writes it anew):\n%s", diff)
			}
		})
	}
}

// Whatever the terminal's size, nothing is drawn beside it, and no character's
// words move the cursor.
func TestScreenFitsAnyTerminal(t *testing.T) {
	plain, colour := shown(t), shown(t)
	colour.style = newStyles(true)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "width"), rapid.IntRange(-1, 120).Draw(t, "height")
		for _, s := range []*Screen{plain, colour} {
			view := s.View(w, h)
			lines := strings.Split(view, "\n")
			if len(lines) > max(h, 1) {
				t.Fatalf("%d×%d: %d lines", w, h, len(lines))
			}
			for _, l := range lines {
				if lipgloss.Width(l) > max(w, 0) {
					t.Fatalf("%d×%d: %q is wider", w, h, l)
				}
			}
			if strings.Contains(view, "\x1b[2J") || s == plain && strings.Contains(view, "\x1b") {
				t.Fatalf("%d×%d: an escape that nobody wanted: %q", w, h, view)
			}
		}
	})
	if !strings.Contains(colour.View(100, 30), "\x1b[") {
		t.Error("colour was wanted, and there is none")
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key    string
		typing bool
		want   Action
	}{
		{"1", false, ChooseOff}, {"2", false, ChoosePlain}, {"3", false, ChooseLull}, {"4", false, None},
		{"+", false, MoreLoad}, {"=", false, MoreLoad}, {"-", false, LessLoad}, {"t", false, Type},
		{"q", false, Quit}, {"esc", false, None}, {"ctrl+c", false, Interrupt}, {"enter", false, None},
		{"1", true, None}, {"q", true, None}, {"t", true, None}, {"enter", true, Send}, {"esc", true, Leave},
		{"ctrl+c", true, Interrupt}, {"", false, None},
	} {
		if got := keyAction(c.key, c.typing); got != c.want {
			t.Errorf("%q, typing %t: %d, want %d", c.key, c.typing, got, c.want)
		}
	}
}

func TestSettingValidate(t *testing.T) {
	if err := DefaultSetting().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := Headless(DefaultSetting(), time.Millisecond); err == nil {
		t.Error("a run of a millisecond is taken")
	}
	for _, change := range []func(*Setting){
		func(s *Setting) { s.Hz = 1e9 }, func(s *Setting) { s.Load = -1 }, func(s *Setting) { s.Load = time.Hour },
		func(s *Setting) { s.Workers = 0 },
	} {
		s := DefaultSetting()
		change(&s)
		if s.Validate() == nil {
			t.Errorf("%+v is taken", s)
		}
		if _, err := Headless(s, time.Second); err == nil {
			t.Errorf("%+v is taken headless", s)
		}
	}
}
