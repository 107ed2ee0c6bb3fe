package rag

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of its own, where the test may do that.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("a file system of its own needs root and the right to mount:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, options))
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "200k")
	cfg := DefaultConfig(filepath.Join(dir, "store"))
	s := openStore(t, cfg)
	slot := filepath.Join(dir, "slot")
	remember(t, s, own("the first line"))
	must(t, s.SaveNow(slot))
	accepted := 1
	for i := 0; s.Stats().Err == nil; i++ {
		remember(t, s, own(fmt.Sprintf("line %d %s", i, strings.Repeat("and so on ", 100))))
		accepted++
		_ = s.Flush()
	}
	if e := await(t, s, Failed); !errors.Is(e.Err, syscall.ENOSPC) {
		t.Errorf("event %+v", e)
	}
	remember(t, s, own("said while the disk was full"))
	accepted++
	for name, err := range map[string]error{"Flush": s.Flush(), "SaveNow": s.SaveNow(slot), "Compact": s.Compact(),
		"Close": s.Close()} {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v, err := View(DefaultConfig(""), slot); err != nil || v.Stats().Memories != 1 {
		t.Errorf("the save of before: %v", err)
	}
	// A crash now loses only what was never acknowledged.
	r, err := Verify(cfg.Dir)
	if err != nil || !r.OK || r.Memories != accepted-2 && r.Memories != accepted-1 {
		t.Errorf("on the full disk: %+v, %v, %d were accepted", r, err, accepted)
	}
	remount(t, dir, 0, "size=8m")
	await(t, s, Recovered)
	must(t, s.Close())
	s = openStore(t, cfg)
	if n := s.Stats().Memories; n != accepted {
		t.Errorf("%d of %d memories are there", n, accepted)
	}
}

func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	cfg := DefaultConfig(filepath.Join(dir, "store"))
	s := openStore(t, cfg)
	remember(t, s, own("written once"))
	must(t, s.Close())
	remount(t, dir, syscall.MS_RDONLY, "size=4m")
	for _, path := range []string{cfg.Dir, filepath.Join(dir, "other")} {
		_, err := Open(DefaultConfig(path))
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "choose") {
			t.Errorf("%s: %v", path, err)
		}
	}
	v, err := View(DefaultConfig(""), cfg.Dir)
	if err != nil || v.Stats().Memories != 1 {
		t.Errorf("for reading: %v", err)
	}
	remount(t, dir, 0, "size=4m")
	openStore(t, cfg)
}

func TestReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write to any folder; TestReadOnlyDisk covers it")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o555))
	_, err := Open(DefaultConfig(dir))
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "choose") {
		t.Errorf("%v", err)
	}
}
