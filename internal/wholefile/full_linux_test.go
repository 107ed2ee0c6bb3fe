package wholefile

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNoRoom: where a file can't grow to its end, the old one stays, and nothing
// of the new one. The limit of the process stands for a full disk, which only
// root can make.
func TestNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, Write(path, []byte("old"), 0o644))
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64 << 10, Max: before.Max}))
	err := Write(path, bytes.Repeat([]byte("new"), 64<<10), 0o644)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("%v, want %v", err, syscall.EFBIG)
	}
	expect(t, path, "old", 1)
	must(t, Write(path, []byte("new"), 0o644))
	expect(t, path, "new", 1)
}

// TestReadOnlyFolder: a folder in which nothing can be made is told.
func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("who may write everything finds no folder read-only")
	}
	path := filepath.Join(t.TempDir(), "file")
	must(t, Write(path, []byte("old"), 0o644))
	must(t, os.Chmod(filepath.Dir(path), 0o555))
	if err := Write(path, []byte("new"), 0o644); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
	expect(t, path, "old", 1)
}
