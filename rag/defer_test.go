package rag

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// While the disk and the embedder stand still, the game thread goes on and finds
// what it remembered.
func TestRememberWaitsForNobody(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(dir)
	d := &faulty{disk: system{}}
	e := newEmbedder()
	cfg.disk, cfg.Embedder = d, e
	s := openStore(t, cfg)
	remember(t, s, own("before the hang"))
	must(t, s.Flush())
	release := make(chan struct{})
	hang := func() (hung chan struct{}, wait func()) {
		hung = make(chan struct{})
		var once sync.Once
		return hung, func() { once.Do(func() { close(hung) }); <-release }
	}
	diskHung, waitDisk := hang()
	embedderHung, waitEmbedder := hang()
	d.set(func(string, string) error { waitDisk(); return nil })
	e.fail = func(string) error { waitEmbedder(); return nil }
	worked := make(chan Done)
	go func() { worked <- s.Work(time.Hour) }()
	remember(t, s, own("line 0"))
	<-diskHung
	<-embedderHung
	for i := range 200 {
		id := remember(t, s, own(fmt.Sprintf("line %d of the ballad", i+1)))
		found := recall(t, s, Query{Knower: mara, Text: fmt.Sprint(i + 1), LexicalOnly: true})
		if !has(found, id) {
			t.Fatalf("line %d is not found while the disk hangs", i+1)
		}
		if uint64(id) <= s.written.Load() {
			t.Fatal("acknowledged while the disk hangs")
		}
	}
	close(release)
	if done := <-worked; done.Err != nil {
		t.Error(done.Err)
	}
	must(t, s.Close())
	if r, err := Verify(dir); err != nil || !r.OK || r.Memories != 202 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A long journal is compacted in granted time, and not in a slice that is too
// short for it.
func TestWorkCompactsALongJournal(t *testing.T) {
	cfg := DefaultConfig(t.TempDir())
	s := openStore(t, cfg)
	for i := range 30 {
		remember(t, s, own(fmt.Sprint(i, strings.Repeat(" and the tale goes on", 3000))))
	}
	must(t, s.Flush())
	if d := s.Work(time.Millisecond); d.Err != nil || s.Stats().Snapshot != 0 {
		t.Errorf("a slice of a millisecond: %+v", d)
	}
	if d := s.Work(time.Minute); d.Err != nil || s.Stats().Snapshot < 1<<20 || s.Stats().Journal > 1<<10 {
		t.Errorf("a slice of a minute: %+v, %+v", d, s.Stats())
	}
	must(t, s.Close())
	logs, err := filepath.Glob(filepath.Join(cfg.Dir, "*.log"))
	if err != nil || len(logs) != 1 || filepath.Base(logs[0]) != journalName(1) {
		t.Errorf("journals %v, %v", logs, err)
	}
	if n := openStore(t, cfg).Stats().Memories; n != 30 {
		t.Errorf("%d memories", n)
	}
}

// Between the new journal and the new snapshot there are two journals and one
// snapshot; after it one too many. Either opens.
func TestLeftOverJournalsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, DefaultConfig(dir))
	remember(t, s, own("kept"))
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, journalName(1)), []byte("half a head"), 0o600))
	s = openStore(t, DefaultConfig(dir))
	must(t, s.Compact())
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, journalName(0)), nil, 0o600))
	s = openStore(t, DefaultConfig(dir))
	if n := s.Stats().Memories; n != 1 {
		t.Errorf("%d memories", n)
	}
	if _, err := os.Stat(filepath.Join(dir, journalName(0))); !os.IsNotExist(err) {
		t.Errorf("the left-over journal: %v", err)
	}
	must(t, s.Close())
	must(t, os.Remove(filepath.Join(dir, snapshotName)))
	if _, err := Open(DefaultConfig(dir)); err == nil || !strings.Contains(err.Error(), snapshotName) {
		t.Errorf("without its snapshot: %v", err)
	}
}
