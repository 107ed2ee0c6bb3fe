package rag

import (
	"errors"
	"sync"
	"syscall"
)

// faulty is a disk on which a test makes steps fail. Step is asked before each
// step with its name; an error it returns is what the step gives. A write can be
// cut: bytes is how many of it still reach the file.
type faulty struct {
	disk
	mu   sync.Mutex
	step func(name, path string) error
	cut  func(path string, size int) (bytes int, err error)
}

func (d *faulty) ask(name, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.step == nil {
		return nil
	}
	return d.step(name, path)
}

func (d *faulty) set(step func(name, path string) error) {
	d.mu.Lock()
	d.step = step
	d.mu.Unlock()
}

func (d *faulty) create(path string) (file, error) {
	if err := d.ask("create", path); err != nil {
		return nil, err
	}
	f, err := d.disk.create(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d, path}, nil
}

func (d *faulty) edit(path string) (file, error) {
	if err := d.ask("edit", path); err != nil {
		return nil, err
	}
	f, err := d.disk.edit(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d, path}, nil
}

func (d *faulty) rename(from, to string) error {
	if err := d.ask("rename", to); err != nil {
		return err
	}
	return d.disk.rename(from, to)
}

func (d *faulty) remove(path string) error {
	if err := d.ask("remove", path); err != nil {
		return err
	}
	return d.disk.remove(path)
}

func (d *faulty) syncDir(dir string) error {
	if err := d.ask("syncdir", dir); err != nil {
		return err
	}
	return d.disk.syncDir(dir)
}

type faultyFile struct {
	file
	d    *faulty
	path string
}

func (f *faultyFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.d.ask("write", f.path); err != nil {
		return 0, err
	}
	if f.d.cut != nil {
		if n, err := f.d.cut(f.path, len(p)); err != nil {
			n, _ = f.file.WriteAt(p[:n], at)
			return n, err
		}
	}
	return f.file.WriteAt(p, at)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.d.ask("truncate", f.path); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if err := f.d.ask("sync", f.path); err != nil {
		return err
	}
	return f.file.Sync()
}

var errDiskFull = syscall.ENOSPC

// failing makes one kind of step fail.
func failing(name string) func(string, string) error {
	return func(step, _ string) error {
		if step == name {
			return errDiskFull
		}
		return nil
	}
}

var errBoom = errors.New("boom")
