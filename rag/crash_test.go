package rag

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The test binary can be a game that is killed: it remembers, indexes, compacts
// and saves at random, and tells on standard output what the store acknowledged.
const (
	envCrashDir  = "LULL_RAG_CRASH_DIR"
	envCrashSeed = "LULL_RAG_CRASH_SEED"
	envCrashStep = "LULL_RAG_CRASH_STEP" // it kills itself in this step of the disk; 0 waits to be killed
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envCrashDir); dir != "" {
		seed, _ := strconv.Atoi(os.Getenv(envCrashSeed))
		step, _ := strconv.Atoi(os.Getenv(envCrashStep))
		if err := doomedGame(dir, seed, step); err != nil {
			fmt.Println("E", err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killSelf ends this process as a power button would.
func killSelf() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

func doomedGame(dir string, seed, killAt int) error {
	r := rand64(seed)
	steps := 0
	d := &faulty{disk: system{}}
	d.step = func(string, string) error {
		if steps++; steps == killAt {
			killSelf()
		}
		return nil
	}
	d.cut = func(_ string, size int) (int, error) {
		if killAt > 0 && steps == killAt-1 && seed%2 == 0 {
			return r.IntN(size + 1), errBoom // the step that follows ends it in the middle of a write
		}
		return size, nil
	}
	cfg := DefaultConfig(filepath.Join(dir, "store"))
	cfg.Embedder, cfg.disk = newEmbedder(), d
	s, err := Open(cfg)
	if err != nil {
		return err
	}
	var last ID
	var events []Event
	for i := range 200 {
		m := own(fmt.Sprintf("run %d tells story %d %s", seed, i, strings.Repeat("and on ", r.IntN(60))))
		m.Scene = "talk"
		id, err := s.Remember(m)
		if err != nil {
			return err
		}
		fmt.Printf("R %d %s\n", id, m.Text)
		switch r.IntN(12) {
		case 0, 1:
			s.Work(time.Hour)
		case 2:
			_ = s.Compact()
		case 3:
			path := filepath.Join(dir, fmt.Sprint("slot", r.IntN(3)))
			if s.SaveNow(path) == nil {
				fmt.Printf("S %d %s\n", id, path)
			}
		case 4:
			if last != 0 {
				_, _ = s.Supersede(last, own(fmt.Sprintf("run %d corrects story %d", seed, i)))
			}
		case 5:
			_ = s.Flush()
		case 6:
			if r.IntN(8) > 0 {
				break
			}
			fmt.Printf("B %d\n", id)
			if s.Clear() == nil {
				fmt.Printf("C %d\n", id)
			}
		}
		last = id
		events = s.Poll(events[:0])
		for _, e := range events {
			if e.Kind == Durable {
				fmt.Printf("D %d\n", e.Position)
			}
		}
	}
	fmt.Println("X")
	return s.Close()
}

// acknowledged is what a killed game was told is safe.
type acknowledged struct {
	told    map[ID]string
	durable uint64
	saves   map[string]ID // path → the last id before it
	begun   ID            // up to it all may have been cleared
	cleared ID            // up to it all was cleared
}

// hear reads what a game says, until it is dead or has said enough.
func (a *acknowledged) hear(t *testing.T, out io.Reader, most int) {
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for n := 0; n != most && sc.Scan(); n++ {
		word, rest, _ := strings.Cut(sc.Text(), " ")
		number, text, _ := strings.Cut(rest, " ")
		id, err := strconv.ParseUint(number, 10, 64)
		switch {
		case word == "X":
		case word == "E":
			t.Fatalf("the game failed: %s", rest)
		case err != nil:
			return // the last line may be torn
		case word == "R":
			a.told[ID(id)] = text
		case word == "D":
			a.durable = max(a.durable, id)
		case word == "S":
			a.saves[text] = ID(id)
		case word == "B":
			a.begun = ID(id)
		case word == "C":
			a.cleared = ID(id)
		}
	}
}

func TestKilledGameLosesNothingAcknowledged(t *testing.T) {
	runs := 30
	if os.Getenv("LULL_SOAK") != "" {
		runs = 1200
	}
	self, err := os.Executable()
	must(t, err)
	dir := ""
	var a acknowledged
	ended := map[string]int{}
	for run := range runs {
		if run%15 == 0 { // the same store dies fifteen times
			dir = t.TempDir()
			a = acknowledged{told: map[ID]string{}, saves: map[string]ID{}}
		}
		r := rand64(run + 1000)
		step := 0
		if run%3 > 0 {
			step = 1 + r.IntN(150)
		}
		killed := crash(t, self, dir, run, step, r, &a)
		ended[killed]++
		check(t, filepath.Join(dir, "store"), &a, fmt.Sprintf("run %d, step %d", run, step))
	}
	t.Logf("%d runs: %v", runs, ended)
	if ended["by itself"] < runs/4 || ended["from outside"] < runs/8 {
		t.Errorf("too few games died: %v", ended)
	}
}

// crash lets one game run until it dies.
func crash(t *testing.T, self, dir string, seed, step int, r *rand.Rand, a *acknowledged) string {
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), envCrashDir+"="+dir, fmt.Sprint(envCrashSeed, "=", seed),
		fmt.Sprint(envCrashStep, "=", step), "GORACE=atexit_sleep_ms=0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	if step == 0 { // killed from outside, wherever it is after some lines
		a.hear(t, out, 1+r.IntN(200))
		_ = c.Process.Kill()
	}
	a.hear(t, out, -1)
	if c.Wait() == nil {
		return "not at all"
	}
	if step == 0 {
		return "from outside"
	}
	return "by itself"
}

// settleClear finds out whether a clearing that was begun came about: then nothing
// of before is there, else all of it.
func (a *acknowledged) settleClear(t *testing.T, there map[ID]string, when string) {
	t.Helper()
	kept := false
	for id, text := range there {
		if id <= a.cleared {
			t.Errorf("%s: memory %d, %.40q, is back; up to %d all was cleared", when, id, text, a.cleared)
		}
		kept = kept || id <= a.begun
	}
	if !kept {
		a.cleared = a.begun
	}
	a.begun = a.cleared
}

// check opens what a killed game left.
func check(t *testing.T, dir string, a *acknowledged, when string) {
	t.Helper()
	s, err := Open(DefaultConfig(dir))
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	there, seen := map[ID]string{}, map[string]bool{}
	s.All(func(m Memory) bool {
		if seen[m.Text] {
			t.Errorf("%s: %q is there twice", when, m.Text)
		}
		there[m.ID], seen[m.Text] = m.Text, true
		return true
	})
	a.settleClear(t, there, when)
	for id, text := range a.told {
		got, ok := there[id]
		if ok && got != text || !ok && uint64(id) <= a.durable && id > a.cleared {
			t.Errorf("%s: memory %d is %.40q, want %.40q; %d was acknowledged", when, id, got, text, a.durable)
		}
		if !ok {
			delete(a.told, id) // it was never acknowledged, and its id may be given to another
		}
	}
	must(t, s.Close())
	if r, err := Verify(dir); err != nil || !r.OK {
		t.Errorf("%s: %+v, %v", when, r, err)
	}
	for path, last := range a.saves {
		v, err := View(DefaultConfig(""), path)
		if err != nil {
			t.Fatalf("%s: save: %v", when, err)
		}
		found := false
		v.All(func(m Memory) bool {
			found = found || m.ID >= last
			return true
		})
		if !found {
			t.Errorf("%s: save %s lacks memory %d", when, path, last)
		}
	}
}
