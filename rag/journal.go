package rag

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

const snapshotName = "memory.snap"

func journalName(generation uint64) string { return fmt.Sprintf("memory-%d.log", generation) }

var journalPattern = regexp.MustCompile(`^memory-(\d{1,18})\.log$`)

// journal is the file that changes are appended to. It continues the snapshot of
// the same generation.
type journal struct {
	f          file
	path       string
	generation uint64
	size       int64 // of what is whole
	base       int64 // of the snapshot that it continues
	broken     bool  // what the file holds is not known: a new one is needed
	buf        []byte
	e          *encoder
}

// append writes whole changes behind what is there, or leaves the file as it was.
func (j *journal) append(ops []*op, sync bool) error {
	j.buf = j.buf[:0]
	for _, o := range ops {
		j.buf = appendFrame(j.buf, j.e.op(o))
	}
	if len(j.buf) == 0 {
		return nil
	}
	if _, err := j.f.WriteAt(j.buf, j.size); err != nil {
		if cut := j.f.Truncate(j.size); cut != nil {
			j.broken = true
		}
		return err
	}
	if sync {
		if err := j.f.Sync(); err != nil {
			// What of the file is on the disk can't be known after a failed fsync, and
			// a second one would say nothing.
			j.broken = true
			return err
		}
	}
	j.size += int64(len(j.buf))
	return nil
}

// newJournal makes an empty journal. It is on the disk before anything counts
// on it.
func newJournal(d disk, dir string, h head) (*journal, error) {
	j := &journal{path: filepath.Join(dir, journalName(h.generation)), generation: h.generation, e: newEncoder()}
	var err error
	if j.f, err = d.create(j.path); err != nil {
		return nil, err
	}
	h.version = formatVersion
	first := appendFrame(nil, j.e.head(h))
	_, err = j.f.WriteAt(first, 0)
	if err == nil {
		err = j.f.Sync()
	}
	if err == nil {
		err = d.syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, j.f.Close(), d.remove(j.path))
	}
	j.size = int64(len(first))
	return j, nil
}

// contents is what the files of a store say.
type contents struct {
	snap    snapshot
	found   bool // there is a snapshot
	base    int64
	ops     []op
	journal string // path of the journal, "" if there is none
	whole   int64  // bytes of it up to the torn end
	torn    int64  // bytes behind them
	damage  bool   // unreadable bytes within it, or a record that is none
	old     []string
	notes   []string
}

// readStore reads the files of a store and changes nothing.
func readStore(dir string, salvage bool) (contents, error) {
	var c contents
	c.snap.head = head{version: formatVersion, branch: 1, next: 1}
	path := filepath.Join(dir, snapshotName)
	data, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return c, fmt.Errorf("rag: %w", err)
	default:
		c.found, c.base = true, int64(len(data))
		var notes []string
		if c.snap, notes, err = parseSnapshot(data, salvage); err != nil {
			return c, fmt.Errorf("rag: %s: %w; `lull memory repair` keeps what is readable", path, err)
		}
		for _, n := range notes {
			c.notes = append(c.notes, snapshotName+": "+n)
		}
	}
	if err := c.findJournals(dir); err != nil {
		return c, err
	}
	if c.journal == "" {
		if c.found {
			c.notes = append(c.notes, journalName(c.snap.head.generation)+
				" is missing: what came after the snapshot is lost")
		}
		return c, nil
	}
	return c, c.readJournal()
}

// findJournals names the journal of the snapshot's generation and the left-over
// ones of others.
func (c *contents) findJournals(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("rag: %w", err)
	}
	newest := uint64(0)
	for _, e := range entries {
		m := journalPattern.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		generation, _ := strconv.ParseUint(m[1], 10, 64)
		path := filepath.Join(dir, e.Name())
		if generation == c.snap.head.generation {
			c.journal = path
			continue
		}
		newest = max(newest, generation)
		c.old = append(c.old, path)
	}
	// The journal of the next generation is made before its snapshot, so without
	// a snapshot the first one must be there.
	if !c.found && c.journal == "" && newest > 0 {
		return fmt.Errorf("%w: %s holds %s but no %s; restore it, or load a save", ErrDamaged, dir,
			journalName(newest), snapshotName)
	}
	return nil
}

func (c *contents) readJournal() error {
	data, err := readFile(c.journal)
	if err != nil {
		return fmt.Errorf("rag: %w", err)
	}
	return c.parseJournal(data)
}

// parseJournal takes the changes of a journal in their order.
func (c *contents) parseJournal(data []byte) error {
	name := filepath.Base(c.journal)
	sc := newScanner(data)
	last := c.snap.head.position
	first := true
	for {
		payload, at, ok := sc.next()
		if !ok {
			break
		}
		if h, err := decodeHead(payload); err == nil && first {
			first = false
			if h.generation != c.snap.head.generation {
				return fmt.Errorf("%w: %s says that it is of generation %d", ErrDamaged, c.journal, h.generation)
			}
			c.snap.head.branch, c.snap.head.parent, c.snap.head.fork = h.branch, h.parent, h.fork
			c.snap.head.next = max(c.snap.head.next, h.next)
			continue
		}
		first = false
		o, err := decodeOp(payload)
		switch {
		case err != nil:
			c.damage = true
			c.notes = append(c.notes, fmt.Sprintf("%s: byte %d: %v", name, at, err))
		case o.seq <= last: // a snapshot was made before this was written
		default:
			last = o.seq
			c.ops = append(c.ops, o)
		}
	}
	for _, g := range sc.gaps {
		c.damage = true
		c.notes = append(c.notes, fmt.Sprintf("%s: %v are unreadable and were stepped over", name, g))
	}
	c.whole = int64(sc.tail.from)
	if c.torn = int64(sc.tail.to - sc.tail.from); c.torn > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%s: a torn end of %d bytes is left out", name, c.torn))
	}
	c.snap.head.next = max(c.snap.head.next, last+1)
	return nil
}

// state replays what was read.
func (c *contents) state(cfg *Config) *state {
	st := restore(cfg, c.snap, cfg.Clock())
	for i := range c.ops {
		c.ops[i].stamp = cfg.Clock()
		if len(st.order) == maxMemories && c.ops[i].kind == kindRemember {
			c.notes = append(c.notes, fmt.Sprintf("memories beyond %d were left out", maxMemories))
			c.damage = true
			break
		}
		st.apply(&c.ops[i])
	}
	st.settle()
	return st
}

// load reads the store and makes it ready to be written to.
func (s *Store) load() error {
	c, err := readStore(s.cfg.Dir, false)
	if err != nil {
		return err
	}
	st := c.state(&s.cfg)
	h := c.snap.head
	s.notes = c.notes
	s.branch = lineage{h.branch, h.parent, h.fork}
	s.install(st, h.next)
	s.written.Store(st.position)
	for _, path := range c.old {
		if err := s.cfg.disk.remove(path); err != nil {
			s.notes = append(s.notes, fmt.Sprintf("%s is not needed and can't be removed: %v", path, err))
		}
	}
	if c.damage {
		return s.setAside(c, h)
	}
	return s.openJournal(c, h)
}

// setAside writes all that was readable anew and keeps the damaged journal under
// another name.
func (s *Store) setAside(c contents, h head) error {
	if err := s.rotate(h.generation); err != nil {
		return fmt.Errorf("rag: writing %s anew after damage: %w", s.cfg.Dir, err)
	}
	kept := c.journal + ".damaged"
	if err := s.cfg.disk.rename(c.journal, kept); err != nil {
		s.notes = append(s.notes, fmt.Sprintf("the damaged journal is not kept: %v", err))
		return nil
	}
	s.notes = append(s.notes, "the damaged journal is kept as "+filepath.Base(kept))
	return nil
}

func (s *Store) openJournal(c contents, h head) error {
	if c.journal == "" || c.whole == 0 {
		j, err := newJournal(s.cfg.disk, s.cfg.Dir, h)
		if err != nil {
			return unwritable(s.cfg.Dir, err)
		}
		s.journal = j
		j.base = c.base
		return nil
	}
	f, err := s.cfg.disk.edit(c.journal)
	if err != nil {
		return unwritable(s.cfg.Dir, err)
	}
	if c.torn > 0 {
		if err := errors.Join(f.Truncate(c.whole), f.Sync()); err != nil {
			return fmt.Errorf("rag: cutting the torn end off %s: %w", c.journal, errors.Join(err, f.Close()))
		}
	}
	s.journal = &journal{f: f, path: c.journal, generation: h.generation, size: c.whole, base: c.base, e: newEncoder()}
	return nil
}

// rotate writes the state as a snapshot of the next generation and begins its
// journal: the new journal first, then the snapshot at once, which is the moment
// that counts, then the old journal goes. The caller holds writeMu, or is alone.
func (s *Store) rotate(generation uint64) error {
	s.mu.Lock()
	s.applyAll()
	snap := s.snapshotNow()
	s.mu.Unlock()
	return s.rotateTo(snap, generation)
}

func (s *Store) rotateTo(snap snapshot, generation uint64) error {
	snap.head.generation = generation + 1
	j, err := newJournal(s.cfg.disk, s.cfg.Dir, snap.head)
	if err != nil {
		return err
	}
	size, err := snap.write(s.cfg.disk, filepath.Join(s.cfg.Dir, snapshotName))
	placed := errors.Is(err, errPlaced)
	if err != nil && !placed {
		return errors.Join(err, j.f.Close(), s.cfg.disk.remove(j.path))
	}
	// From here on the new snapshot is what a reader finds, so its journal is the
	// one to write to, even if a power cut may bring the old pair back: that one
	// stays until the folder is flushed.
	j.base, j.broken = size, placed
	old := s.journal
	s.journal = j
	if old != nil {
		_ = old.f.Close()
		if !placed {
			_ = s.cfg.disk.remove(old.path) // Open removes what stays
		}
	}
	return err
}

// snapshotNow is the state under mu.
func (s *Store) snapshotNow() snapshot {
	s.front.mu.Lock()
	next := s.front.next
	s.front.mu.Unlock()
	return snapshot{items: s.state.copied(), head: head{branch: s.branch.branch, parent: s.branch.parent,
		fork: s.branch.fork, position: s.state.position, next: next, identity: s.state.identity}}
}

// overgrown reports whether the journal is worth compacting: larger than its
// snapshot, and than a megabyte, below which reading it takes no time.
func (j *journal) overgrown(times int64) bool {
	return j.size > times*max(j.base, 1<<20)
}
