package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lull-npc/lull/rag"
)

// On a full disk an import tells how much of it is there, and goes on later.
func TestMemoryImportOnFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=200k"); err != nil {
		t.Skip("a file system of its own needs root and the right to mount:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "{\"owner\":\"Mara\",\"text\":\"line %d %s\"}\n", i, strings.Repeat("and so on ", 40))
	}
	c, store := newConsole(t), filepath.Join(disk, "store")
	code := c.feed(lines.String(), "memory", "import", store, "-")
	r, err := rag.Verify(store)
	said := c.err.String()
	if err != nil || code != exitFailed || r.Memories == 0 ||
		!strings.Contains(said, fmt.Sprintf("%d memories added, then the store could not be written", r.Memories)) ||
		!strings.Contains(said, "make room on the disk and import the same file again") {
		t.Errorf("%d, %+v, %v: %s", code, r, err, said)
	}
	must(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=4m"))
	c = newConsole(t)
	if code := c.feed(lines.String(), "memory", "import", store, "-", "--json"); code != exitDone ||
		c.object()["known"] != float64(r.Memories) {
		t.Errorf("again: %d, %s%s", code, &c.out, &c.err)
	}
}
