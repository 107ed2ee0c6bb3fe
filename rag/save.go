package rag

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// ErrBusy: as many saves as may be are under way.
var ErrBusy = fmt.Errorf("rag: %d saves are under way, wait for their events", maxSaves)

// saveJob is a save on its way through the queue: it is made of what was
// remembered before it and nothing after.
type saveJob struct {
	path string
	snap snapshot
	done chan error // takes one result; nil if an event tells
}

// Save begins to write a save to path: one file that holds all memories as they
// are at this call, with their vectors, and names the branch and the position.
// It returns at once; an event Saved or NotSaved follows. The game copies the
// file with its own save.
func (s *Store) Save(path string) error {
	return s.queueSave(&saveJob{path: path})
}

// SaveNow writes a save and waits for it. Not for the game thread.
func (s *Store) SaveNow(path string) error {
	job := &saveJob{path: path, done: make(chan error, 1)}
	if err := s.queueSave(job); err != nil {
		return err
	}
	if s.cfg.Dir != "" {
		if err := s.writeAll(); err != nil {
			return err // failSaves took the job out
		}
	}
	return <-job.done
}

func (s *Store) queueSave(job *saveJob) error {
	abs, err := filepath.Abs(job.path)
	if err != nil || job.path == "" {
		return fmt.Errorf("rag: a save at %q: want a file's path", job.path)
	}
	job.path = abs
	s.front.mu.Lock()
	if err := s.front.refuse; err != nil && !errors.Is(err, ErrReadOnly) {
		s.front.mu.Unlock()
		return err
	}
	if s.front.saves >= maxSaves {
		s.front.mu.Unlock()
		return ErrBusy
	}
	s.front.saves++
	s.push(&op{kind: kindSave, save: job})
	s.front.mu.Unlock()
	if s.cfg.Dir == "" {
		s.mu.Lock()
		s.applyAll()
		s.mu.Unlock()
		s.finishSave(job)
	}
	s.signal()
	return nil
}

// finishSave writes the file and tells.
func (s *Store) finishSave(job *saveJob) {
	_, err := job.snap.write(s.cfg.disk, job.path)
	if errors.Is(err, errPlaced) {
		err = nil // complete, as far as this system can tell
	}
	if err != nil {
		err = fmt.Errorf("rag: saving to %s: %w; the save that was there before is untouched", job.path, err)
	}
	s.tell(job, err)
}

func (s *Store) tell(job *saveJob, err error) {
	job.snap = snapshot{}
	s.front.mu.Lock()
	s.front.saves--
	s.front.mu.Unlock()
	if job.done != nil {
		job.done <- err
		return
	}
	if err != nil {
		s.outbox.saved(Event{Kind: NotSaved, Path: job.path, Err: err})
		return
	}
	s.outbox.saved(Event{Kind: Saved, Path: job.path})
}

// failSaves takes saves out of the queue when the journal can't be written: who
// waits for one should know, and a later one holds more.
func (s *Store) failSaves(err error) {
	s.mu.Lock()
	var failed []*op
	s.waiting = slices.DeleteFunc(slices.Clone(s.waiting), func(o *op) bool {
		if o.kind == kindSave {
			failed = append(failed, o)
		}
		return o.kind == kindSave
	})
	s.mu.Unlock()
	s.front.mu.Lock()
	s.front.backlog -= len(failed)
	s.front.mu.Unlock()
	for _, o := range failed {
		s.tell(o.save, err)
	}
}

// Load goes back to a save: a new branch begins at the save's position. All that
// was remembered since is of another future and is gone, with the embeddings
// that were under way for it; what should stay is saved before. Ids are not
// given again. Who calls Remember meanwhile waits, so load on a loading screen. On
// error nothing has changed.
func (s *Store) Load(path string) error {
	snap, err := readSave(path)
	if err != nil {
		return err
	}
	return s.goTo(snap, "loading "+path)
}

// Clear forgets everything, as a new game does: a new branch begins that forked
// from none. Embeddings under way are dropped, ids are not given again, and saves
// stay as they are, so what should stay is saved before. When it returns, the
// files of the store hold none of it, as far as the system can tell; after a crash
// before that it holds all or nothing. On error nothing has changed. Who calls
// Remember meanwhile waits, so clear on a loading screen. Safe for concurrent use.
func (s *Store) Clear() error {
	return s.goTo(snapshot{}, "clearing "+s.cfg.Dir)
}

// goTo begins a new branch with what a snapshot holds; doing is for an error.
func (s *Store) goTo(snap snapshot, doing string) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.cfg.Dir != "" && s.journal == nil {
		return ErrClosed
	}
	// Saves that wait were asked for before this.
	if err := s.writeAllLocked(); err != nil {
		return err
	}
	st := restore(&s.cfg, snap, s.cfg.Clock())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	if s.front.refuse != nil {
		return s.front.refuse
	}
	next := max(s.front.next, snap.head.next)
	fork := lineage{branch: max(s.branch.branch, snap.head.branch) + 1, parent: snap.head.branch,
		fork: snap.head.position}
	if s.cfg.Dir != "" {
		snap.head.branch, snap.head.parent, snap.head.fork = fork.branch, fork.parent, fork.fork
		// Positions up to next belong to the old future: none of its changes may
		// count as new in this one.
		snap.head.position, snap.head.next = next, next+1
		if err := s.rotateTo(snap, s.journal.generation); err != nil && !errors.Is(err, errPlaced) {
			return fmt.Errorf("rag: %s: %w", doing, err)
		}
	}
	st.position = next
	s.embed.epoch.Add(1)
	s.waiting = nil
	s.branch = fork
	s.install(st, next+1)
	s.written.Store(next)
	s.adoptEmbedder()
	s.signal()
	return nil
}

// readSave reads a save as strictly as it was written.
func readSave(path string) (snapshot, error) {
	data, err := readFile(path)
	if err != nil {
		return snapshot{}, fmt.Errorf("rag: no save: %w", err)
	}
	snap, _, err := parseSnapshot(data, false)
	if err != nil {
		return snapshot{}, fmt.Errorf("rag: save %s: %w", path, err)
	}
	return snap, nil
}

// Branch says which future this is, from which it forked, and at which position.
// 0 is none: the first one and each that Clear began.
func (s *Store) Branch() (branch, parent, position uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.branch.branch, s.branch.parent, s.branch.fork
}
