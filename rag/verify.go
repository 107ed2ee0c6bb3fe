package rag

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Report is what Verify or Repair found.
type Report struct {
	OK         bool // nothing is damaged; a torn end is no damage
	Memories   int
	Vectors    int // memories with vectors
	Position   uint64
	Generation uint64
	Branch     uint64
	Notes      []string
}

// Verify reads a store or a save, changes nothing, and says what is wrong with
// it. It is an error if nothing could be read.
func Verify(path string) (Report, error) {
	c, err := readAny(path, true)
	if err != nil {
		return Report{}, err
	}
	return c.report(), nil
}

func readAny(path string, salvage bool) (contents, error) {
	info, err := os.Stat(path)
	if err != nil {
		return contents{}, fmt.Errorf("rag: no store: %w", err)
	}
	if info.IsDir() {
		c, err := readStore(path, salvage)
		if err == nil && !c.found && c.journal == "" {
			err = fmt.Errorf("rag: %s holds no memories", path)
		}
		return c, err
	}
	data, err := readFile(path)
	if err != nil {
		return contents{}, fmt.Errorf("rag: no save: %w", err)
	}
	c := contents{found: true}
	c.snap, c.notes, err = parseSnapshot(data, salvage)
	c.damage = len(c.notes) > 0
	if err == nil && len(c.snap.items) == 0 && c.damage {
		err = fmt.Errorf("rag: %s: %w: %s", path, ErrDamaged, c.notes[0])
	}
	return c, err
}

func (c *contents) report() Report {
	cfg := DefaultConfig("")
	torn := len(c.notes) == 1 && c.torn > 0 && !c.damage
	st := c.state(&cfg)
	return Report{OK: torn || len(c.notes) == 0, Memories: len(st.order), Vectors: st.vectors,
		Position: st.position, Generation: c.snap.head.generation, Branch: c.snap.head.branch, Notes: c.notes}
}

// Repair writes what is readable of a store or a save anew. Damaged files are
// kept beside it, with ".damaged" behind their names. A sound store is left as
// it is; a torn end of it is cut off by the next Open. Where nothing can be read,
// no file is touched.
func Repair(path string) (Report, error) {
	if _, err := readAny(path, true); err != nil {
		return Report{}, err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return repairSave(path)
	}
	lock, err := lockStore(path)
	if err != nil {
		return Report{}, err
	}
	defer lock.release()
	c, err := readAny(path, true)
	if err != nil {
		return Report{}, err
	}
	r := c.report()
	if r.OK {
		return r, nil
	}
	cfg := DefaultConfig(path)
	cfg.disk = system{}
	s := &Store{cfg: cfg, branch: lineage{c.snap.head.branch, c.snap.head.parent, c.snap.head.fork}}
	s.install(c.state(&s.cfg), c.snap.head.next)
	for _, name := range []string{filepath.Join(path, snapshotName), c.journal} {
		if err := keepDamaged(name); err != nil {
			return r, err
		}
	}
	newest := c.snap.head.generation
	if err := s.rotate(newest); err != nil {
		return r, fmt.Errorf("rag: writing what is readable of %s: %w", path, err)
	}
	if c.journal != "" {
		err = cfg.disk.remove(c.journal)
	}
	return r, errors.Join(err, s.journal.f.Close())
}

// keepDamaged copies a file beside itself, so that there is always a whole one.
func keepDamaged(path string) error {
	if path == "" {
		return nil
	}
	data, err := readFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(path+".damaged", data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("rag: keeping a copy of %s: %w", path, err)
	}
	return nil
}

func repairSave(path string) (Report, error) {
	c, err := readAny(path, true)
	if err != nil {
		return Report{}, err
	}
	r := c.report()
	if r.OK {
		return r, nil
	}
	if err := keepDamaged(path); err != nil {
		return r, err
	}
	if _, err := c.snap.write(system{}, path); err != nil {
		return r, fmt.Errorf("rag: writing what is readable of %s: %w", path, err)
	}
	return r, nil
}

// Stats is what a store holds.
type Stats struct {
	Memories   int
	Superseded int
	Derived    int // memories that cite others
	Vectors    int // memories with vectors
	Pending    int // memories without, that will get some
	GivenUp    int // memories that the embedder refused
	Shelves    int // circles of characters that know the same
	Terms      int // different words
	Owners     map[string]int
	Scopes     map[string]int
	Identity   Identity // of the vectors
	Reindex    bool     // the embedder given is another one
	Position   uint64   // of the last change
	Durable    uint64   // position up to which all is on the disk
	Branch     uint64
	Journal    int64 // bytes
	Snapshot   int64 // bytes
	Err        error // why the writer can't write, nil if it can
}

// Stats counts. It takes time with the number of memories; not for each frame.
func (s *Store) Stats() Stats {
	var out Stats
	s.writeMu.Lock()
	if s.journal != nil {
		out.Journal, out.Snapshot = s.journal.size, s.journal.base
	}
	s.writeMu.Unlock()
	s.embed.mu.Lock()
	if p := &s.embed.partial; p.it != nil && p.epoch == s.embed.epoch.Load() {
		out.Pending++
	}
	s.embed.mu.Unlock()
	if err := s.failure.Load(); err != nil {
		out.Err = *err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyAll()
	st := s.state
	out.Memories, out.Vectors, out.GivenUp = len(st.order), st.vectors, st.given
	out.Pending += st.pending.size()
	out.Shelves, out.Terms, out.Identity, out.Position = len(st.shelves), len(st.words), st.identity, st.position
	out.Reindex = s.cfg.Embedder != nil && st.identity != s.cfg.Embedder.Identity()
	out.Durable, out.Branch = s.written.Load(), s.branch.branch
	out.Owners, out.Scopes = map[string]int{}, map[string]int{}
	for _, it := range st.order {
		out.Owners[it.m.Owner]++
		out.Scopes[it.m.Scope.String()]++
		if it.m.Superseded {
			out.Superseded++
		}
		if len(it.m.Sources) > 0 {
			out.Derived++
		}
	}
	return out
}
