package rag

import (
	"errors"
	"fmt"
	"time"
)

const (
	// batchMost is how many changes one write takes: about 64 kB. What comes while
	// it is flushed shares the next flush.
	batchMost = 256
	// retryAfter is how long the writer waits after a failure before it tries
	// again by itself: a full disk is emptied by a person.
	retryAfter = time.Second
	// maxSaves is how many saves may be under way.
	maxSaves = 8
)

// writeLoop is the writer: it makes what was remembered durable, in order.
func (s *Store) writeLoop() {
	defer close(s.stopped)
	retry := time.NewTimer(retryAfter)
	defer retry.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-retry.C:
		}
		if s.writeAll() != nil || s.shorten() != nil {
			retry.Reset(retryAfter)
		}
	}
}

// writeAll writes until nothing waits.
func (s *Store) writeAll() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	return s.writeAllLocked()
}

func (s *Store) writeAllLocked() error {
	for {
		if n, err := s.writeBatch(batchMost); n == 0 || err != nil {
			return err
		}
	}
}

// shorten compacts a journal that has grown to hardLimit times its snapshot
// although nobody granted time for it: it would make loading slow. Work does it
// at a quarter of that.
func (s *Store) shorten() error {
	const hardLimit = 16
	s.writeMu.Lock()
	long := s.journal != nil && s.journal.overgrown(hardLimit)
	s.writeMu.Unlock()
	if !long {
		return nil
	}
	return s.Compact()
}

// writeSome writes a small slice for whoever can't wait for the writer.
func (s *Store) writeSome(most int) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	_, err := s.writeBatch(most)
	return err
}

// writeBatch writes the oldest changes, and reports how many went. The caller
// holds writeMu.
func (s *Store) writeBatch(most int) (int, error) {
	s.mu.Lock()
	if s.cfg.Dir == "" {
		s.applyAll()
		s.mu.Unlock()
		return 0, nil
	}
	s.applyAll()
	batch := s.waiting[:min(most, len(s.waiting))]
	s.mu.Unlock()
	if len(batch) == 0 {
		return 0, nil
	}
	if s.journal == nil {
		return 0, ErrClosed
	}
	n, err := s.writeOps(batch)
	s.mu.Lock()
	s.waiting = s.waiting[n:]
	if len(s.waiting) == 0 {
		s.waiting = nil // lets the changes go
	}
	s.mu.Unlock()
	s.done(batch[:n])
	s.report(err)
	return n, err
}

// writeOps writes changes up to the first save, or that save.
func (s *Store) writeOps(batch []*op) (int, error) {
	if s.journal.broken {
		if err := s.rotate(s.journal.generation); err != nil {
			return 0, err
		}
	}
	n := 0
	for n < len(batch) && batch[n].kind != kindSave {
		n++
	}
	if n == 0 {
		s.finishSave(batch[0].save)
		return 1, nil
	}
	if err := s.journal.append(batch[:n], s.cfg.Sync == SyncBatch); err != nil {
		return 0, err
	}
	return n, nil
}

// report tells of failures and recoveries once each.
func (s *Store) report(err error) {
	before := s.failure.Load()
	switch {
	case err != nil:
		err = fmt.Errorf("rag: writing memories to %s: %w; they are kept in memory and tried again", s.cfg.Dir, err)
		s.failure.Store(&err)
		s.failSaves(err)
		if before == nil {
			s.outbox.writer(Event{Kind: Failed, Err: err})
		}
	case before != nil:
		s.failure.Store(nil)
		s.outbox.writer(Event{Kind: Recovered})
	}
}

// Flush writes all that was remembered before the call, for a pause or an end.
func (s *Store) Flush() error {
	s.front.mu.Lock()
	err := s.front.refuse
	s.front.mu.Unlock()
	if err != nil {
		return err
	}
	return s.writeAll()
}

// Compact writes the state as one snapshot and begins a new journal.
func (s *Store) Compact() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.cfg.Dir == "" {
		return nil
	}
	if s.journal == nil {
		return ErrClosed
	}
	if err := s.writeAllLocked(); err != nil {
		return err
	}
	if err := s.rotate(s.journal.generation); err != nil {
		return fmt.Errorf("rag: compacting %s: %w", s.cfg.Dir, err)
	}
	return nil
}

// Close writes what waits and gives the store free. On error some of it could
// not be written, and Close may be called again once there is room; Abandon
// gives it up.
func (s *Store) Close() error {
	s.front.mu.Lock()
	s.front.refuse = ErrClosed
	s.front.mu.Unlock()
	if s.cfg.Dir == "" {
		return nil
	}
	if err := s.writeAll(); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return s.Abandon()
}

// Abandon gives the store free without writing what waits.
func (s *Store) Abandon() error {
	s.front.mu.Lock()
	s.front.refuse = ErrClosed
	s.front.mu.Unlock()
	if s.cfg.Dir == "" {
		return nil
	}
	s.once.Do(func() { close(s.stop) })
	<-s.stopped
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.journal == nil {
		return nil
	}
	err := errors.Join(s.journal.f.Close(), s.lock.release())
	s.journal = nil
	return err
}
