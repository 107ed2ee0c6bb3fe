package wholefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect checks what a file holds, and that the folder holds want files in all:
// nothing that was begun is left.
func expect(t rapid.TB, path, content string, want int) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		t.Errorf("%s: %.40q %v, want %.40q", path, got, err, content)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != want {
		t.Errorf("%v %v: want %d files", all, err, want)
	}
}

func expectMode(t rapid.TB, path string, want fs.FileMode) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return // has no other modes than read-only
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
		t.Errorf("%s: mode %v %v, want %v", path, info.Mode(), err, want)
	}
}

// TestModel writes some files and changes their modes, and compares with a map
// from names to contents.
func TestModel(t *testing.T) {
	names := []string{"a", "b", strings.Repeat("long", 60)}
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		must(t, err)
		content, mode := map[string]string{}, map[string]fs.FileMode{}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			perm := rapid.SampledFrom([]fs.FileMode{0o600, 0o644, 0o640, 0o755}).Draw(t, "mode")
			_, there := content[name]
			if there && rapid.Bool().Draw(t, "chmod") {
				must(t, os.Chmod(filepath.Join(dir, name), perm))
				mode[name] = perm
				continue
			}
			data := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "data")
			must(t, Write(filepath.Join(dir, name), data, perm))
			content[name] = string(data)
			if !there {
				mode[name] = perm
			}
		}
		for name, want := range content {
			expect(t, filepath.Join(dir, name), want, len(content))
			expectMode(t, filepath.Join(dir, name), mode[name])
		}
	})
}

// TestRefused: what can't be replaced is named and left as it is.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(path("folder"), 0o755))
	must(t, os.WriteFile(path("read-only"), []byte("old"), 0o444))
	for _, c := range []struct {
		name string
		want error
	}{
		{"folder", ErrFolder}, {".", ErrFolder}, {"read-only", ErrReadOnly},
		{"missing/file", fs.ErrNotExist}, {strings.Repeat("x", 5000), nil},
	} {
		if err := Write(path(c.name), []byte("new"), 0o644); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%.40s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := Write("", []byte("new"), 0o644); err == nil {
		t.Error("a file without a name was written")
	}
	if info, err := os.Stat(os.DevNull); err == nil && runtime.GOOS != "windows" {
		if err := Write(os.DevNull, []byte("new"), 0o644); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", os.DevNull, err)
		}
		if now, err := os.Stat(os.DevNull); err != nil || now.Mode() != info.Mode() {
			t.Errorf("%s is now %v %v", os.DevNull, now.Mode(), err)
		}
	}
	expect(t, path("read-only"), "old", 2)
	expectMode(t, path("read-only"), 0o444)
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(path("saves"), 0o755))
	must(t, os.WriteFile(path("saves/one"), []byte("old"), 0o640))
	if err := os.Symlink(filepath.Join("saves", "one"), path("link")); err != nil {
		t.Skip("no links here:", err)
	}
	must(t, os.Symlink("link", path("second")))
	must(t, os.Symlink("saves", path("folder")))
	must(t, Write(path("second"), []byte("new"), 0o600))
	expect(t, path("saves/one"), "new", 1)
	expectMode(t, path("saves/one"), 0o640)
	for _, name := range []string{"link", "second"} {
		if _, err := os.Readlink(path(name)); err != nil {
			t.Errorf("it is a link no longer: %v", err)
		}
	}
	if err := Write(path("folder"), nil, 0o644); !errors.Is(err, ErrFolder) {
		t.Errorf("a link to a folder: %v", err)
	}
	must(t, Write(path("folder/two"), []byte("through a folder"), 0o644))
	expect(t, path("saves/two"), "through a folder", 2)
	for name, to := range map[string]string{"nowhere": "gone/file", "loop": "loop"} {
		must(t, os.Symlink(to, path(name)))
		must(t, Write(path(name), []byte("a file"), 0o644))
		if info, err := os.Lstat(path(name)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v %v, want a file", name, info, err)
		}
	}
	expect(t, path("nowhere"), "a file", 6)
}

// TestConcurrent: whoever reads while several write sees the whole of one.
func TestConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	whole := func(b byte) []byte { return bytes.Repeat([]byte{b}, 20_000+int(b)) }
	must(t, Write(path, whole('a'), 0o644))
	var writers sync.WaitGroup
	for _, b := range []byte("bcd") {
		writers.Go(func() {
			for range 20 {
				if err := Write(path, whole(b), 0o644); err != nil && runtime.GOOS != "windows" {
					t.Error(err) // Windows lets nobody replace what is being read
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { writers.Wait(); close(over) }()
	for more := true; more; {
		select {
		case <-over:
			more = false
		default:
		}
		got, err := os.ReadFile(path)
		if err != nil && runtime.GOOS == "windows" {
			continue // it is being replaced
		}
		if err != nil || len(got) == 0 || !bytes.Equal(got, whole(got[0])) {
			t.Errorf("%d bytes of %.1q, %v", len(got), got, err)
		}
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("%v %v: want one file", all, err)
	}
}
