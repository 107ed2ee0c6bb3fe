package rag

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Nothing of what was cleared is there, nor comes back: by an embedding that was
// under way, by opening the store again, or by an id that is given twice.
func TestClear(t *testing.T) {
	for _, in := range []string{"a folder", "memory"} {
		t.Run(in, func(t *testing.T) {
			dir := ""
			if in == "a folder" {
				dir = filepath.Join(t.TempDir(), "store")
			}
			cfg := DefaultConfig(dir)
			e := newEmbedder()
			cfg.Embedder, cfg.Clock = e, e.clock.read
			s := openStore(t, cfg)
			remember(t, s, own("The king lives."))
			s.Work(time.Hour)
			slot := filepath.Join(t.TempDir(), "slot")
			must(t, s.SaveNow(slot))
			branch, _, _ := s.Branch()
			long, partial := halfEmbedded(t, s)
			must(t, s.Clear())
			s.finish(&partial) // as if the embedder came back just now
			if got := dump(t, s); got != "" || s.Stats().Vectors != 0 || s.Stats().Pending != 0 {
				t.Errorf("it holds %+v\n%s", s.Stats(), got)
			}
			if b, parent, at := s.Branch(); b <= branch || parent != 0 || at != 0 {
				t.Errorf("branch %d of %d at %d, before %d", b, parent, at, branch)
			}
			if _, err := s.Supersede(long, own("The king married.")); !errors.Is(err, ErrUnknown) {
				t.Errorf("a memory that is gone was superseded: %v", err)
			}
			next := remember(t, s, own("The king lives."))
			s.Work(time.Hour)
			found := recall(t, s, Query{Knower: mara, Text: "king"})
			if len(found) != 1 || found[0].ID != next || next <= long || found[0].DenseRank != 1 {
				t.Errorf("id %d after %d:\n%s", next, long, texts(found))
			}
			want := dump(t, s)
			if dir != "" {
				must(t, s.Close())
				s = openStore(t, cfg)
				if got := dump(t, s); got != want || len(s.Notes()) > 0 {
					t.Errorf("opened again, with notes %q:\n%s\nwant\n%s", s.Notes(), got, want)
				}
			}
			must(t, s.Load(slot)) // a save of before is untouched
			if got := dump(t, s); strings.Contains(got, "dead") || !strings.Contains(got, "lives") {
				t.Errorf("the save holds\n%s", got)
			}
		})
	}
}

func TestClearRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(dir))
	remember(t, s, own("The king lives."))
	must(t, s.Close())
	if err := s.Clear(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	v, err := View(DefaultConfig(""), dir)
	must(t, err)
	if err := v.Clear(); !errors.Is(err, ErrReadOnly) || v.Stats().Memories != 1 {
		t.Errorf("for reading: %v", err)
	}
}

// The plug is pulled before each step that clearing makes on the disk: what is
// left holds all or nothing, and all if Clear gave an error.
func TestClearCutAnywhere(t *testing.T) {
	failed, n := 0, 0
	for cut := true; cut; n++ {
		dir := t.TempDir()
		cfg := DefaultConfig(filepath.Join(dir, "store"))
		d := &faulty{disk: system{}}
		cfg.disk = d
		s := openStore(t, cfg)
		for _, text := range []string{"one", "two", "three"} {
			remember(t, s, own(text))
		}
		must(t, s.Flush())
		before, steps := dump(t, s), 0
		cut = false
		d.set(func(string, string) error {
			if steps++; steps > n {
				cut = true
				return errDiskFull
			}
			return nil
		})
		err := s.Clear()
		if d.set(nil); err != nil {
			failed++
			if !errors.Is(err, errDiskFull) || !strings.Contains(err.Error(), "clearing "+cfg.Dir) {
				t.Errorf("step %d: %v", n, err)
			}
		}
		want := ""
		if err != nil {
			want = before
		}
		if got := dump(t, s); got != want {
			t.Errorf("step %d, %v: it holds\n%s\nwant\n%s", n, err, got, want)
		}
		must(t, s.Abandon())
		s = openStore(t, DefaultConfig(cfg.Dir))
		if got := dump(t, s); got != want {
			t.Errorf("step %d, %v: opened again it holds\n%s\nwant\n%s", n, err, got, want)
		}
		must(t, s.Clear()) // once there is room
		remember(t, s, own("four"))
		must(t, s.Close())
		if r, err := Verify(cfg.Dir); err != nil || !r.OK || r.Memories != 1 {
			t.Errorf("step %d: %+v, %v", n, r, err)
		}
	}
	if failed < 6 || failed == n {
		t.Errorf("%d of %d runs failed: too few steps, or none came to the end", failed, n)
	}
}

// halfEmbedded remembers a text of which Work has embedded only some pieces, and
// returns what Work then holds of it.
func halfEmbedded(t *testing.T, s *Store) (ID, partial) {
	t.Helper()
	id := remember(t, s, own("The king is dead. "+strings.Repeat("Long live the king. ", 100)))
	if d := s.Work(150 * time.Millisecond); d.Embedded == 0 || d.Indexed != 0 {
		t.Fatalf("the long text should be half embedded: %+v", d)
	}
	s.embed.mu.Lock()
	defer s.embed.mu.Unlock()
	return id, s.embed.partial
}
