package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/speculative"
)

func TestCostsAreKept(t *testing.T) {
	p := profile{key: speculative.Key{Model: "m", Draft: "d", Library: "v1", CPU: "zen4"}, threads: []int{1}}
	p.file = p.path(t.TempDir())
	if _, err := p.read(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before the first: %v", err)
	}
	for range 2 { // the second replaces the first
		if err := p.write(cheap); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(cheap, got); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	entries, err := os.ReadDir(filepath.Dir(p.file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v: want the file alone", entries, err)
	}
}

// What is of no use says why, in words that a player can do something with.
func TestCostsOfNoUse(t *testing.T) {
	key := speculative.Key{Model: "m", Library: "v1", CPU: "zen4"}
	good := profile{key: key, threads: []int{1}}
	good.file = good.path(t.TempDir())
	if err := good.write(cheap); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*profile)
		data   []byte
		says   string
	}{
		"another library":   {change: func(p *profile) { p.key.Library = "v2" }, says: "another library"},
		"another processor": {change: func(p *profile) { p.key.CPU = "haswell" }, says: "another processor"},
		"more threads":      {change: func(p *profile) { p.threads = []int{1, 4} }, says: "not of 4 threads"},
		"cut":               {data: whole[:len(whole)/2], says: "EOF"},
		"empty":             {data: []byte{}, says: "EOF"},
		"text":              {data: []byte("not a profile"), says: "not usable"},
	} {
		p := good
		if c.change != nil {
			c.change(&p)
		}
		if c.data != nil {
			if err := os.WriteFile(p.file, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := p.read()
		if !errors.Is(err, speculative.ErrProfile) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), p.file) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err := good.write(cheap); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCostsOfOtherModelsStandApart(t *testing.T) {
	root := t.TempDir()
	a := profile{key: speculative.Key{Model: "m"}}
	b := profile{key: speculative.Key{Model: "m", Draft: "d"}}
	if low := (profile{key: a.key, low: true}); a.path(root) == b.path(root) || a.path(root) == low.path(root) {
		t.Error("with and without a draft model they share a file")
	}
	if c := (profile{key: speculative.Key{Model: "m", Library: "v2"}}); c.path(root) != a.path(root) {
		t.Error("another library has a file of its own: the old one would stay for ever")
	}
}

func TestMeasuredThreads(t *testing.T) {
	for pool, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 3}, 8: {1, 4, 8}} {
		if d := cmp.Diff(want, measuredThreads(pool)); d != "" {
			t.Errorf("pool of %d: %s", pool, d)
		}
	}
}
