package rag

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

const lockName = "store.lock"

// storeLock keeps a second program away. The system gives it up when the process
// ends, however it ends.
type storeLock struct{ f *flock.Flock }

// lockStore makes the folder and locks it. Here an unwritable folder is found.
func lockStore(dir string) (*storeLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, unwritable(dir, err)
	}
	f := flock.New(filepath.Join(dir, lockName))
	got, err := f.TryLock()
	if err != nil {
		return nil, unwritable(dir, errors.Join(err, f.Close()))
	}
	if !got {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %s; close the other program first", ErrLocked, dir)
	}
	return &storeLock{f}, nil
}

func unwritable(dir string, err error) error {
	return fmt.Errorf("rag: memories can't be written to %s: %w; choose another folder", dir, err)
}

func (l *storeLock) release() error { return l.f.Close() }
