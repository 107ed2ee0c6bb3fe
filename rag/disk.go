package rag

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// disk is what a store does to files, so that a test can fill one up or pull the
// plug between any two steps.
type disk interface {
	create(path string) (file, error) // an empty file, for writing
	edit(path string) (file, error)   // an existing file, for writing
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type file interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// system is the operating system's disk.
type system struct{}

func (system) create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// edit does not open for appending: Windows lets no such file be cut.
func (system) edit(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (system) rename(from, to string) error {
	return patiently(func() error { return os.Rename(from, to) }, busy, time.Sleep)
}

func (system) remove(path string) error {
	err := patiently(func() error { return os.Remove(path) }, busy, time.Sleep)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const (
	// busyTries and busyPause: virus scanners and indexers hold a new file for some
	// ten milliseconds. Ten tries with pauses from 2 ms that double wait 2 s in
	// all; what is held longer is held by a program that should be named.
	busyTries = 10
	busyPause = 2 * time.Millisecond
)

// patiently repeats what fails because another program holds the file.
func patiently(do func() error, busy func(error) bool, pause func(time.Duration)) error {
	wait := busyPause
	for try := 1; ; try++ {
		err := do()
		if err == nil || !busy(err) {
			return err
		}
		if try == busyTries {
			return fmt.Errorf("%w (another program held the file through %d tries)", err, busyTries)
		}
		pause(wait)
		wait *= 2
	}
}

// maxFile bounds what is read into memory at once: a million memories with
// vectors are below 1 GB.
const maxFile = 2 << 30

// readFile reads a regular file within maxFile.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes: want %d at most", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// errPlaced is wrapped when a file is in its place, but a power cut may still
// take it back.
var errPlaced = errors.New("the file is in place, its folder could not be flushed")

// replace puts what write makes at path, at once: a reader sees the old file or
// the new one, whatever happens.
func replace(d disk, path string, write func(w *frameWriter) error) (size int64, err error) {
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, "."+filepath.Base(path)+".new")
	f, err := d.create(temp)
	if err != nil {
		return 0, err
	}
	w := &frameWriter{f: f}
	err = write(w)
	err = errors.Join(err, w.flush())
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = d.rename(temp, path)
	}
	if err != nil {
		return 0, errors.Join(err, d.remove(temp))
	}
	if err := d.syncDir(dir); err != nil {
		return w.at, fmt.Errorf("%w: %w", errPlaced, err)
	}
	return w.at, nil
}

// frameWriter gathers frames and writes them in pieces.
type frameWriter struct {
	f   file
	at  int64
	buf []byte
	err error
}

const writePiece = 256 << 10

func (w *frameWriter) frame(payload []byte) error {
	if w.buf = appendFrame(w.buf, payload); len(w.buf) >= writePiece {
		return w.flush()
	}
	return w.err
}

func (w *frameWriter) flush() error {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.f.WriteAt(w.buf, w.at)
		w.at += int64(len(w.buf))
		w.buf = w.buf[:0]
	}
	return w.err
}
