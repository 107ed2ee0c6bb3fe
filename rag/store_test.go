package rag

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// await polls until an event of a kind comes.
func await(t testing.TB, s *Store, want EventKind) Event {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		for _, e := range s.Poll(nil) {
			if e.Kind == want {
				return e
			}
		}
		s.signal()
	}
	t.Fatalf("no event %v", want)
	return Event{}
}

// dump is all of a store as text, without what a reload may not know.
func dump(t testing.TB, s *Store) string {
	t.Helper()
	var b strings.Builder
	if _, err := s.Export(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriterAcknowledges(t *testing.T) {
	cfg := DefaultConfig(t.TempDir())
	s := openStore(t, cfg)
	last := ID(0)
	for i := range 100 {
		last = remember(t, s, own(fmt.Sprintf("line %d", i)))
	}
	deadline := time.Now().Add(20 * time.Second)
	acknowledged := uint64(0)
	for acknowledged < uint64(last) && time.Now().Before(deadline) {
		for _, e := range s.Poll(nil) {
			if e.Kind != Durable || e.Position <= acknowledged {
				t.Fatalf("event %+v after %d", e, acknowledged)
			}
			acknowledged = e.Position
		}
	}
	if acknowledged < uint64(last) {
		t.Fatalf("acknowledged %d of %d", acknowledged, last)
	}
	// Without Close, as after a crash.
	v, err := View(DefaultConfig(""), cfg.Dir)
	if err != nil || dump(t, v) != dump(t, s) {
		t.Errorf("a reader sees something else: %v", err)
	}
}

// What a store holds is the same after it is opened again, compacted, saved and
// loaded, and answers are the same to the last bit.
func TestReopenedStoreAnswersTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "rag")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cfg := DefaultConfig(filepath.Join(dir, "store"))
		cfg.Sync = SyncProcess
		cfg.Embedder = newEmbedder()
		cfg.ChromemMost = rapid.SampledFrom([]int{0, 5, 1000}).Draw(t, "chromem")
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Abandon() }()
		liveThrough(t, s)
		answer := answers(t)
		want := answer(s)
		save := filepath.Join(dir, "slot")
		if err := s.SaveNow(save); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(cfg); err != nil {
			t.Fatal(err)
		}
		if got := answer(s); got != want || len(s.Notes()) > 0 {
			t.Fatalf("opened again, with notes %q:\n%s\nwant\n%s", s.Notes(), got, want)
		}
		if _, err := s.Remember(own("of the future")); err != nil {
			t.Fatal(err)
		}
		if err := s.Load(save); err != nil {
			t.Fatal(err)
		}
		if got := answer(s); got != want {
			t.Fatalf("loaded:\n%s\nwant\n%s", got, want)
		}
		v, err := View(cfg, save)
		if err != nil {
			t.Fatal(err)
		}
		if got := answer(v); got != want {
			t.Fatalf("save viewed:\n%s\nwant\n%s", got, want)
		}
	})
}

// liveThrough plays random steps of a game.
func liveThrough(t *rapid.T, s *Store) {
	var ids []ID
	for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
		m := drawMemory(t, fmt.Sprintf("rumour %d of the wolf", rapid.IntRange(0, 20).Draw(t, "rumour")))
		m.Scene, m.At = "talk", GameTime(i)*time.Hour
		id, err := s.Remember(m)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		switch rapid.IntRange(0, 5).Draw(t, "then") {
		case 0:
			s.Work(time.Hour)
		case 1:
			m.Text += " (not so)"
			_, err = s.Supersede(rapid.SampledFrom(ids).Draw(t, "old"), m)
			if errors.Is(err, ErrMemory) { // it says that already
				err = nil
			}
		case 2:
			_, err = s.Recall(t.Context(), Query{Knower: Knower{NPC: m.Owner}, Text: "wolf", Now: m.At})
		case 3:
			err = s.Compact()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// answers gives a function that writes all that a store holds and recalls.
func answers(t *rapid.T) func(*Store) string {
	return func(s *Store) string {
		var b strings.Builder
		_, _ = s.Export(&b)
		for _, npc := range npcs {
			q := Query{Knower: Knower{NPC: npc, Factions: factions}, Text: "the wolf, rumour 7", Now: 40 * time.Hour,
				ReadOnly: true}
			r, err := s.Recall(t.Context(), q)
			fmt.Fprintln(&b, npc, r, err)
		}
		return b.String()
	}
}

// The NPC must not know the future after a save was loaded, and what was under
// way for that future must not come back.
func TestLoadForgetsTheFuture(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(dir)
	e := newEmbedder()
	cfg.Embedder, cfg.Clock = e, e.clock.read
	s := openStore(t, cfg)
	past := remember(t, s, own("The king lives."))
	s.Work(time.Hour)
	slot := filepath.Join(dir, "slot1.memories")
	must(t, s.Save(slot))
	if got := await(t, s, Saved); got.Path != slot {
		t.Errorf("saved %+v", got)
	}
	branch, _, _ := s.Branch()
	dead, partial := halfEmbedded(t, s)
	must(t, s.Load(slot))
	s.finish(&partial) // as if the embedder came back just now
	s.Work(time.Hour)
	if found := recall(t, s, Query{Knower: mara, Text: "king"}); len(found) != 1 || found[0].ID != past ||
		found[0].DenseRank != 1 {
		t.Errorf("after loading:\n%s", texts(found))
	}
	next := remember(t, s, own("The king married."))
	b, parent, at := s.Branch()
	if next <= dead || b == branch || parent != branch || at < uint64(past) || at >= uint64(dead) {
		t.Errorf("id %d after %d; branch %d of %d at %d", next, dead, b, parent, at)
	}
	must(t, s.Close())
	s = openStore(t, cfg)
	if got := dump(t, s); strings.Contains(got, "dead") || !strings.Contains(got, "married") {
		t.Errorf("opened again:\n%s", got)
	}
}

// A save holds what was remembered before the call and nothing after.
func TestSaveIsACut(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(filepath.Join(dir, "store")))
	for i := range 8 {
		remember(t, s, own(fmt.Sprintf("chapter %d", i)))
		path := filepath.Join(dir, fmt.Sprint("slot", i))
		if err := s.Save(path); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	must(t, s.Flush())
	for i := range 8 {
		v, err := View(DefaultConfig(""), filepath.Join(dir, fmt.Sprint("slot", i)))
		if err != nil {
			t.Fatal(err)
		}
		if n := v.Stats().Memories; n != i+1 {
			t.Errorf("slot %d holds %d memories", i, n)
		}
		if _, err := v.Remember(own("x")); !errors.Is(err, ErrReadOnly) {
			t.Errorf("a save was changed: %v", err)
		}
	}
}

func TestFailedSaveLeavesTheOldOne(t *testing.T) {
	for _, step := range []string{"create", "write", "sync", "rename"} {
		dir := t.TempDir()
		cfg := DefaultConfig(filepath.Join(dir, "store"))
		d := &faulty{disk: system{}}
		cfg.disk = d
		s := openStore(t, cfg)
		remember(t, s, own("first"))
		slot := filepath.Join(dir, "slot")
		must(t, s.SaveNow(slot))
		remember(t, s, own("second"))
		must(t, s.Flush())
		d.set(func(name, path string) error {
			if name == step && strings.Contains(path, "slot") {
				return errDiskFull
			}
			return nil
		})
		if err := s.SaveNow(slot); !errors.Is(err, errDiskFull) {
			t.Errorf("%s: %v", step, err)
		}
		v, err := View(DefaultConfig(""), slot)
		if err != nil || v.Stats().Memories != 1 {
			t.Errorf("%s: the old save: %v", step, err)
		}
	}
}

// Whatever step of the disk fails: what was acknowledged stays, what was not is
// kept and written later, and the events say so.
func TestFailingDiskLosesNothing(t *testing.T) {
	for _, step := range []string{"write", "sync", "truncate+write", "everything"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			cfg := DefaultConfig(dir)
			d := &faulty{disk: system{}}
			cfg.disk = d
			s := openStore(t, cfg)
			remember(t, s, own("before"))
			must(t, s.Flush())
			d.set(func(name, path string) error {
				if strings.Contains(step, name) || step == "everything" {
					return errDiskFull
				}
				return nil
			})
			during := remember(t, s, own("during"))
			e := await(t, s, Failed)
			if !errors.Is(e.Err, errDiskFull) || s.Stats().Err == nil || !strings.Contains(e.Err.Error(), dir) {
				t.Errorf("event %+v, stats %v", e, s.Stats().Err)
			}
			if !has(recall(t, s, Query{Knower: mara, Text: "during"}), during) {
				t.Error("what waits is not recalled")
			}
			if s.Stats().Durable >= uint64(during) {
				t.Error("acknowledged what is not on the disk")
			}
			if err := s.Close(); err == nil {
				t.Fatal("Close says that all is well")
			}
			d.set(nil)
			await(t, s, Recovered)
			must(t, s.Close())
			s = openStore(t, DefaultConfig(dir))
			if got := dump(t, s); !strings.Contains(got, "before") || !strings.Contains(got, "during") ||
				strings.Count(got, "\n") != 2 {
				t.Errorf("opened again, notes %q:\n%s", s.Notes(), got)
			}
		})
	}
}

func TestHalfAWriteIsCutOff(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(dir)
	d := &faulty{disk: system{}}
	full := false
	d.cut = func(_ string, size int) (int, error) {
		if full {
			return size / 2, errDiskFull
		}
		return size, nil
	}
	cfg.disk = d
	s := openStore(t, cfg)
	for i := range 50 {
		s.writeMu.Lock() // the writer looks at full
		full = i%2 == 1
		s.writeMu.Unlock()
		remember(t, s, own(fmt.Sprintf("line %d", i)))
		_ = s.Flush()
	}
	s.writeMu.Lock()
	full = false
	s.writeMu.Unlock()
	must(t, s.Close())
	s = openStore(t, DefaultConfig(dir))
	if n := s.Stats().Memories; n != 50 || len(s.Notes()) > 0 {
		t.Errorf("%d memories, notes %q", n, s.Notes())
	}
}

// At the limit Remember writes itself; it refuses only while the disk fails.
func TestBacklogNeverDrops(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(dir)
	cfg.Backlog = 10
	d := &faulty{disk: system{}}
	cfg.disk = d
	s := openStore(t, cfg)
	for i := range 500 {
		remember(t, s, own(fmt.Sprintf("blow %d", i)))
		s.front.mu.Lock()
		if s.front.backlog > cfg.Backlog {
			t.Fatalf("%d changes wait, the limit is %d", s.front.backlog, cfg.Backlog)
		}
		s.front.mu.Unlock()
	}
	must(t, s.Flush())
	d.set(failing("write"))
	accepted := 0
	for i := range 50 {
		_, err := s.Remember(own(fmt.Sprintf("late %d", i)))
		if err == nil {
			accepted++
		} else if !errors.Is(err, ErrBacklog) || !errors.Is(err, errDiskFull) {
			t.Fatal(err)
		}
	}
	d.set(nil)
	must(t, s.Close())
	s = openStore(t, cfg)
	if n := s.Stats().Memories; accepted == 0 || accepted > cfg.Backlog || n != 500+accepted {
		t.Errorf("%d memories, %d were accepted late", n, accepted)
	}
}

func TestOneProgramAtATime(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(dir))
	if _, err := Open(DefaultConfig(dir)); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second Open: %v", err)
	}
	if _, err := Repair(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("Repair of an open store: %v", err)
	}
	must(t, s.Close())
	if _, err := s.Remember(own("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	must(t, s.Close())
	openStore(t, DefaultConfig(dir))
}

func TestTornEndIsCutWithANote(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(dir))
	for i := range 20 {
		remember(t, s, own(fmt.Sprintf("line %d", i)))
	}
	must(t, s.Close())
	path := filepath.Join(dir, journalName(0))
	whole, err := os.ReadFile(path)
	must(t, err)
	ends := []int{}
	for sc := newScanner(whole); ; {
		_, _, ok := sc.next()
		if !ok {
			break
		}
		ends = append(ends, sc.at)
	}
	for cut := range len(whole) {
		must(t, os.WriteFile(path, whole[:cut], 0o600))
		kept := max(0, len(slices.DeleteFunc(slices.Clone(ends), func(e int) bool { return e > cut }))-1)
		r, err := Verify(dir)
		if err != nil || r.Memories != kept || !r.OK {
			t.Fatalf("cut at %d of %d: %+v, %v, want %d memories", cut, len(whole), r, err, kept)
		}
		if cut%97 != 0 {
			continue
		}
		s, err := Open(DefaultConfig(dir))
		if err != nil {
			t.Fatal(err)
		}
		torn := !slices.Contains(ends, cut) && cut > 0
		if n := s.Stats().Memories; n != kept || torn != (len(s.Notes()) == 1) {
			t.Fatalf("cut at %d: %d memories, want %d, notes %q", cut, n, kept, s.Notes())
		}
		remember(t, s, own("after the cut"))
		must(t, s.Close())
		if r, err := Verify(dir); err != nil || !r.OK || len(r.Notes) > 0 || r.Memories != kept+1 {
			t.Fatalf("cut at %d and written on: %+v, %v", cut, r, err)
		}
	}
}

// A damaged byte in the middle costs the record that it is in, not what follows.
func TestDamageWithinTheJournal(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(dir))
	for i := range 20 {
		remember(t, s, own(fmt.Sprintf("line %d", i)))
	}
	must(t, s.Close())
	path := filepath.Join(dir, journalName(0))
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 0x40
	must(t, os.WriteFile(path, data, 0o600))
	if r, err := Verify(dir); err != nil || r.OK || r.Memories != 19 {
		t.Fatalf("%+v, %v", r, err)
	}
	s = openStore(t, DefaultConfig(dir))
	if n := s.Stats().Memories; n != 19 || len(s.Notes()) == 0 {
		t.Errorf("%d memories, notes %q", n, s.Notes())
	}
	if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != string(data) {
		t.Errorf("the damaged journal is not kept: %v", err)
	}
	must(t, s.Close())
	if r, err := Verify(dir); err != nil || !r.OK || r.Memories != 19 {
		t.Errorf("after opening: %+v, %v", r, err)
	}
}

func TestRepair(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(dir))
	for i := range 20 {
		remember(t, s, own(fmt.Sprintf("line %d", i)))
	}
	must(t, s.Compact())
	remember(t, s, own("after the snapshot"))
	must(t, s.Close())
	path := filepath.Join(dir, snapshotName)
	whole, err := os.ReadFile(path)
	must(t, err)
	for _, at := range []int{2, 20, len(whole) / 2, len(whole) - 3} {
		data := slices.Clone(whole)
		data[at] ^= 0x11
		must(t, os.WriteFile(path, data, 0o600))
		if _, err := Open(DefaultConfig(dir)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: opened with %v", at, err)
		}
		if r, err := Verify(dir); err == nil && r.OK {
			t.Fatalf("byte %d: verified as sound", at)
		}
		r, err := Repair(dir)
		if err != nil || r.Memories < 19 {
			t.Fatalf("byte %d: %+v, %v", at, r, err)
		}
		s, err := Open(DefaultConfig(dir))
		if err != nil {
			t.Fatalf("byte %d: repaired, and %v", at, err)
		}
		if n := s.Stats().Memories; n < 19 {
			t.Errorf("byte %d: %d memories are left", at, n)
		}
		must(t, s.Close())
		must(t, os.WriteFile(path, whole, 0o600)) // the next damage is to the first snapshot
		must(t, removeJournals(dir))
	}
}

func removeJournals(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "memory-*.log*"))
	for _, path := range found {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// Bytes that replace a busy file are tried again, and not for ever.
func TestBusyFileIsTriedAgain(t *testing.T) {
	for _, c := range []struct{ fails, want int }{{0, 1}, {3, 4}, {busyTries - 1, busyTries}, {99, busyTries}} {
		tries := 0
		waited := time.Duration(0)
		err := patiently(func() error {
			if tries++; tries <= c.fails {
				return errBoom
			}
			return nil
		}, func(err error) bool { return errors.Is(err, errBoom) }, func(d time.Duration) { waited += d })
		if tries != c.want || (err != nil) != (c.fails >= busyTries) || waited > 3*time.Second {
			t.Errorf("%d failures: %d tries, %v waited, %v", c.fails, tries, waited, err)
		}
	}
}

func TestImport(t *testing.T) {
	s := openStore(t, inMemory(nil))
	old := remember(t, s, Memory{Owner: "Mara", Text: "The gate is open.", At: -90 * time.Minute})
	if _, err := s.Supersede(old, Memory{Owner: "Mara", Text: "The gate is shut.", At: 1234567891}); err != nil {
		t.Fatal(err)
	}
	remember(t, s, Memory{Owner: "Bo", Scope: Faction, Audience: []string{"guild", "watch"}, Text: "a\n\"b\" <c>"})
	a := remember(t, s, own("seen"))
	remember(t, s, Memory{Owner: "Mara", Text: "thought", Sources: []ID{a}, Importance: 9, Scene: "s", Speaker: "x"})
	remember(t, s, own("seen"))
	lines := dump(t, s)
	other := openStore(t, inMemory(nil))
	for i, want := range []Imported{{Added: 5}, {Known: 5}} {
		if got, err := other.Import(strings.NewReader(lines)); err != nil || got != want {
			t.Fatalf("import %d: %+v, %v", i, got, err)
		}
	}
	if got := dump(t, other); got != dump(t, s) && !sameButIDs(got, lines) {
		t.Errorf("imported\n%s\nof\n%s", got, lines)
	}
	for _, bad := range []string{"{", "[]", `{"owner":"a"}`, `{"owner":"a","text":"b","colour":1}`,
		`{"owner":"a","text":"b"} {}`, `{"owner":"a","text":"b","sources":[7]}`, `{"owner":"a","text":"b","at_s":1e99}`,
		`{"owner":"a","text":"b","until_s":1,"superseded_by":9}`, `{"owner":"a","text":"b","scope":"all"}`,
		`{"id":1,"owner":"a","text":"b"}` + "\n" + `{"id":1,"owner":"a","text":"c"}`,
		`{"id":1,"owner":"a","text":"b"}` + "\n" + `{"owner":"b","scope":"world","text":"c","sources":[1]}`} {
		before := other.Stats().Memories
		_, err := other.Import(strings.NewReader(`{"owner":"z","text":"good"}` + "\n" + bad))
		if err == nil || !strings.Contains(err.Error(), "line ") || other.Stats().Memories != before {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

var noDigits = regexp.MustCompile(`[0-9]`)

// sameButIDs compares exports whose ids were given anew.
func sameButIDs(a, b string) bool {
	strip := func(s string) string {
		var out []string
		for line := range strings.Lines(s) {
			_, rest, _ := strings.Cut(line, ",")
			out = append(out, noDigits.ReplaceAllString(rest, ""))
		}
		return strings.Join(out, "")
	}
	return strip(a) == strip(b)
}

// Between any remember, index, recall and save, what was remembered is found.
func TestReadYourWrite(t *testing.T) {
	cases := 3000
	if os.Getenv("LULL_SOAK") != "" {
		cases = 10000
	}
	for seed := range cases {
		interleave(t, rand64(seed))
	}
}

// A save has no position of its own: one that was acknowledged for it must not be
// given to a memory after a crash.
func TestSaveTakesNoPosition(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(filepath.Join(dir, "store")))
	a := remember(t, s, own("before the save"))
	must(t, s.SaveNow(filepath.Join(dir, "slot")))
	if got := s.Stats().Durable; got != uint64(a) {
		t.Errorf("acknowledged %d, the last memory is %d", got, a)
	}
	if b := remember(t, s, own("after the save")); b != a+1 {
		t.Errorf("ids %d and %d", a, b)
	}
}
