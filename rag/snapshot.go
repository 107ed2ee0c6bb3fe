package rag

import (
	"errors"
	"fmt"
)

// ErrDamaged is wrapped by what is wrong with a snapshot or a save. `lull memory
// repair` keeps what is still readable.
var ErrDamaged = errors.New("rag: damaged")

// maxMemories bounds a store. A story with a hundred characters that each hear
// a line every ten seconds for a day has 860,000.
const maxMemories = 1 << 20

// snapshot is a whole state as it is written: a head, the memories in the order
// of their ids, an end that counts them.
type snapshot struct {
	head  head
	items []*item
}

// write puts a snapshot at path, in place of what is there.
func (s snapshot) write(d disk, path string) (size int64, err error) {
	return replace(d, path, func(w *frameWriter) error {
		e := newEncoder()
		s.head.version, s.head.count = formatVersion, len(s.items)
		if err := w.frame(e.head(s.head)); err != nil {
			return err
		}
		for _, it := range s.items {
			if err := w.frame(e.kept(it)); err != nil {
				return err
			}
		}
		return w.frame(e.end(len(s.items)))
	})
}

// parseSnapshot reads a snapshot strictly: it was put in place at once, so
// damage is the disk's. With salvage it takes what is readable and says what is
// not; only a missing head is then an error.
func parseSnapshot(data []byte, salvage bool) (s snapshot, notes []string, err error) {
	damage := func(format string, args ...any) {
		notes = append(notes, fmt.Sprintf(format, args...))
	}
	sc := newScanner(data)
	payload, _, ok := sc.next()
	if ok {
		s.head, err = decodeHead(payload)
	} else {
		err = fmt.Errorf("nothing readable in %d bytes", len(data))
	}
	lost := err != nil
	if lost {
		if !salvage {
			return s, nil, fmt.Errorf("%w: its beginning: %w", ErrDamaged, err)
		}
		damage("its beginning: %v", err)
		s.head = head{version: formatVersion, branch: 1, position: maxSeq}
		sc = newScanner(data)
	}
	ended := false
	last := ID(0)
	for {
		payload, at, ok := sc.next()
		if !ok {
			break
		}
		if count, err := decodeEnd(payload); err == nil {
			if ended = true; count != len(s.items) {
				damage("%d memories, but it ends after %d", len(s.items), count)
			}
			continue
		}
		it, err := decodeKept(payload)
		switch {
		case err != nil:
			damage("byte %d: %v", at, err)
		case ended || it.m.ID <= last || uint64(it.m.ID) > s.head.position:
			damage("byte %d: memory %d is out of its order", at, it.m.ID)
		case len(s.items) == maxMemories:
			damage("byte %d: more than %d memories", at, maxMemories)
		case !it.fits(s.head.identity):
			damage("memory %d: its vector has another dimension", it.m.ID)
			it.vectors = nil
			fallthrough
		default:
			last = it.m.ID
			s.items = append(s.items, it)
		}
	}
	for _, g := range sc.gaps {
		damage("%v are unreadable", g)
	}
	if sc.tail.from < sc.tail.to {
		damage("%v at its end are unreadable", sc.tail)
	}
	if !ended {
		damage("its end is missing")
	}
	if lost {
		s.head.position = uint64(last)
		s.head.next = uint64(last) + 1
	}
	if s.head.next <= s.head.position {
		damage("it would give the position %d again", s.head.next)
		s.head.next = s.head.position + 1
	}
	if len(notes) > 0 && !salvage {
		return s, notes, fmt.Errorf("%w: %s (%d findings)", ErrDamaged, notes[0], len(notes))
	}
	return s, notes, nil
}

// fits reports whether an item's vectors are of an identity.
func (it *item) fits(i Identity) bool {
	for _, v := range it.vectors {
		if len(v.q) != i.Dimension {
			return false
		}
	}
	return true
}
