package headless

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/meter"
	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
)

const (
	// envSoakDir names the folder of the child's saves, envSoakLast how many
	// minutes the one plays that nobody kills; 0: until it is killed.
	envSoakDir  = "LULL_SOAK_DIR"
	envSoakLast = "LULL_SOAK_LAST"

	// envMinutes shortens the soak.
	envMinutes = "LULL_SOAK_MINUTES"

	soakMinutes = 30
	soakKills   = 10
	soakSaves   = 100

	// stuckAfter is how long no layer of the model runs while somebody is awaited,
	// even on a machine that does ten other things. How long a reply takes says less:
	// there, three minutes.
	stuckAfter = 2 * time.Minute
)

// soaker plays one game with the real model, again and again.
type soaker struct {
	t      *testing.T
	x      *run
	script *input.Script
	saves  int
	since  time.Time // the model did nothing though somebody is awaited; zero: nobody
	groups uint64    // of layers that ran until then
}

func newSoaker(t *testing.T, dir string) *soaker {
	t.Helper()
	g, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	tour, err := input.Named("tour")
	if err == nil {
		tour, err = tour.Measured()
	}
	if err != nil {
		t.Fatal(err)
	}
	note := func(text string) { fmt.Println("note", text) }
	x := &run{o: &Options{Script: tour}, g: g, policy: "lull", repeat: 1}
	if x.meter, err = meter.New(Period); err != nil {
		t.Fatal(err)
	}
	x.voices, err = talk.New(talk.Config{Game: g, Observe: x.meter.Observe,
		Open: talk.Real(g, assets.Options{Offline: true}, filepath.Join(dir, "memories"), note)})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.clocks(); err != nil {
		t.Fatal(err)
	}
	x.game = play.New(play.Config{Game: g, Voices: x.voices, Files: play.Folder{Dir: dir}})
	if err := x.wake(context.Background()); err != nil {
		t.Fatal(err)
	}
	return &soaker{t: t, x: x, script: tour}
}

// frame plays one tick, and fails where a reply is stuck or the player saw an
// error.
func (s *soaker) frame(in input.Frame) {
	in.Ended = false
	s.x.frame(&in, "")
	groups := s.x.voices.Stats(false).Groups
	switch {
	case s.x.game.Awaited() == 0:
		s.since = time.Time{}
	case s.since.IsZero() || groups != s.groups:
		s.since, s.groups = time.Now(), groups
	case time.Since(s.since) > stuckAfter:
		s.t.Fatalf("a reply is awaited, and no layer has run for %v", time.Since(s.since))
	}
	if faults := s.x.game.Faults(); len(faults) > 0 {
		s.t.Fatal(faults)
	}
}

func (s *soaker) press(a input.Action, ticks int) {
	var in input.Frame
	in.Press(a)
	s.frame(in)
	for range ticks {
		s.frame(input.Frame{})
	}
}

// settle waits for all answers, and for files.
func (s *soaker) settle() {
	for s.x.game.Awaited() > 0 || s.x.game.Busy() {
		s.frame(input.Frame{})
	}
}

// save saves and says what was saved, load the same of what came back.
func (s *soaker) save() (silver, memories int) {
	s.settle()
	silver, memories = s.x.game.World().Gold, s.x.voices.Memories()
	s.x.game.Save()
	s.settle()
	s.saves++
	fmt.Printf("saved %d %d\n", silver, memories)
	return silver, memories
}

func (s *soaker) load() (silver, memories int) {
	s.x.game.Load()
	s.settle()
	s.frame(input.Frame{})
	silver, memories = s.x.game.World().Gold, s.x.voices.Memories()
	fmt.Printf("loaded %d %d\n", silver, memories)
	for s.x.game.Phase().String() == "loading" {
		s.frame(input.Frame{})
	}
	return silver, memories
}

// title goes there from wherever nobody speaks.
func (s *soaker) title() {
	s.press(input.Menu, 1)
	for range 5 {
		s.press(input.Down, 1)
	}
	s.press(input.Act, 1)
}

// tour plays the tour from the title, and goes back there.
func (s *soaker) tour() {
	for tick := range s.script.Length() {
		s.frame(s.script.At(tick))
	}
	s.settle()
	for s.x.game.Phase().String() == "dialogue" {
		s.press(input.Back, 1)
	}
	s.title()
}

// TestSoakChild plays until it is killed, or for LULL_SOAK_LAST minutes; on its
// own it does nothing.
func TestSoakChild(t *testing.T) {
	dir := os.Getenv(envSoakDir)
	if dir == "" {
		t.Skip("the child of TestSoak")
	}
	minutes, err := strconv.ParseFloat(os.Getenv(envSoakLast), 64)
	if err != nil {
		t.Fatal(err)
	}
	s := newSoaker(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "save.json")); err == nil {
		s.load()
	} else {
		s.press(input.Act, 60)
	}
	for i := 0; minutes == 0; i++ {
		s.frame(input.Frame{Said: fmt.Sprintf("Remember the number %d.", os.Getpid()+i)})
		s.save()
	}
	end := time.Now().Add(time.Duration(minutes * float64(time.Minute)))
	s.title()
	each := soakSaves // after each tour: all where there is time for one
	if fit := int(minutes * 60 * rules.TicksPerSecond / float64(s.script.Length())); fit > 1 {
		each = soakSaves/fit + 1
	}
	for tours := 0; time.Now().Before(end) || s.saves < soakSaves; tours++ {
		s.tour()
		for range each {
			silver, memories := s.save()
			if a, b := s.load(); a != silver || b != memories {
				t.Fatalf("saved %d silver and %d memories, loaded %d and %d", silver, memories, a, b)
			}
			s.title()
		}
		debug.FreeOSMemory()
		fmt.Printf("resident %d after tour %d\n", resident(t), tours)
	}
	if err := s.x.voices.Close(); err != nil {
		t.Error(err)
	}
}

// resident is the memory of this process, in kB.
func resident(t *testing.T) (kb int) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc here")
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kb
}

// child starts the game and tells each line of what it says; false ends it.
func child(t *testing.T, dir string, minutes float64, line func(string) bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestSoakChild$", "-test.v", "-test.timeout=3h")
	cmd.Env = append(os.Environ(), envSoakDir+"="+dir, fmt.Sprintf("%s=%g", envSoakLast, minutes))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []string
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all = append(all, lines.Text())
		if !killed && !line(lines.Text()) {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil && !killed {
		t.Fatalf("%v\n%s", err, strings.Join(all[max(0, len(all)-40):], "\n"))
	}
}

// The tour with the real model, for half an hour: killed ten times it goes on
// where it was saved, and then memory stays flat, nothing that was remembered is
// lost over a hundred saves, and no reply is stuck.
func TestSoak(t *testing.T) {
	if os.Getenv("LULL_SOAK") == "" {
		t.Skip("LULL_SOAK=1 runs it")
	}
	testassets.Locate(t)
	minutes := float64(soakMinutes)
	if s := os.Getenv(envMinutes); s != "" {
		var err error
		if minutes, err = strconv.ParseFloat(s, 64); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	silver, memories := 0, 0
	kept := func(l string) {
		var a, b int
		if n, _ := fmt.Sscanf(l, "loaded %d %d", &a, &b); n == 2 && (a < silver || b < memories) {
			t.Errorf("%d silver and %d memories after a kill, saved were %d and %d", a, b, silver, memories)
		}
		if n, _ := fmt.Sscanf(l, "saved %d %d", &a, &b); n == 2 {
			silver, memories = a, b
		}
	}
	for i := range soakKills {
		saves := 0
		child(t, dir, 0, func(l string) bool {
			kept(l)
			if strings.HasPrefix(l, "saved ") {
				saves++
			}
			return saves <= i%3
		})
		t.Logf("killed %d times, %d memories", i+1, memories)
	}
	var sizes []int
	saves := 0
	child(t, dir, minutes, func(l string) bool {
		if saves == 0 {
			kept(l)
		}
		var kb, tour int
		if n, _ := fmt.Sscanf(l, "resident %d after tour %d", &kb, &tour); n == 2 {
			sizes = append(sizes, kb)
			t.Log(l)
		}
		if strings.HasPrefix(l, "saved ") {
			saves++
		}
		return true
	})
	flat(t, sizes)
	if saves < soakSaves {
		t.Errorf("%d saves, want %d", saves, soakSaves)
	}
}

// flat compares the medians of the second and the last quarter: the first warms
// up.
func flat(t *testing.T, sizes []int) {
	t.Helper()
	if len(sizes) < 8 {
		t.Logf("%d tours: too few to say whether memory is flat", len(sizes))
		return
	}
	median := func(xs []int) int { return slices.Sorted(slices.Values(xs))[len(xs)/2] }
	q := len(sizes) / 4
	before, after := median(sizes[q:2*q]), median(sizes[len(sizes)-q:])
	t.Logf("%d kB after the warm-up, %d kB at the end", before, after)
	if after > before+before/50 {
		t.Errorf("memory grew from %d to %d kB, more than 2 %%", before, after)
	}
}
