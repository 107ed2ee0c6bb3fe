// Package wholefile writes files as a whole: who reads one, and who finds it
// after a crash or on a full disk, sees what was there or what is new, never a
// part of it.
//
// The new file is made beside the old one, flushed, and renamed to its name. So
// it takes the room of both for a moment, and a name that is no regular file
// can't be replaced in this way: Write refuses it and leaves it as it is.
//
// Example: a save that only its player may read, with whatever mode the player
// gives it later.
//
//	err := wholefile.Write("save.json", data, 0o600)
//
// Out of scope: folders are not made, and not flushed, so after a power cut the
// old file may be back; package rag, which acknowledges what is durable, has a
// writer of its own.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

var (
	// ErrFolder: there is a folder of that name.
	ErrFolder = errors.New("it is a folder, want a file")
	// ErrNotRegular: there is something of that name that is neither file nor
	// folder, such as a device or a pipe.
	ErrNotRegular = errors.New("it is there and no regular file")
	// ErrReadOnly: there is a file of that name that its owner may not write. (A
	// rename would replace it all the same, on most systems.)
	ErrReadOnly = errors.New("it is read-only")
)

// Write makes data the content of the file at path. A file that is there keeps
// its mode, a new one gets perm, whatever the umask. A link stays one, and what
// it leads to is replaced; one that leads nowhere is replaced itself. On error
// the file is what it was. Safe for concurrent use: of writes of one file the
// last to be renamed stays.
func Write(path string, data []byte, perm fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		perm = info.Mode().Perm()
		switch {
		case info.IsDir():
			return ErrFolder
		case !info.Mode().IsRegular():
			return ErrNotRegular
		case perm&0o200 == 0:
			return ErrReadOnly
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	// The name is short whatever path is, since a file system may take no longer one.
	f, err := os.CreateTemp(filepath.Dir(path), ".lull-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	_ = f.Chmod(perm) // a file system without modes refuses, and needs none
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
