package assets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// makesGGUF makes a model of anything.
func makesGGUF(calls *int) Quantizer {
	return func(_ context.Context, _, dst, _ string, _ func(float64)) error {
		*calls++
		return os.WriteFile(dst, []byte("GGUF made"), 0o644)
	}
}

// What lies beside the file that a model is made from may go into the result
// too, as an embedder's vocabulary does.
func TestDeriveChecksTheWholeSource(t *testing.T) {
	b := newBench(t, "python3")
	const weights, vocabulary = "weights", "one two three"
	b.add(Asset{Name: "source", Kind: KindEmbedder, Client: ClientPip, Version: "1.0", Path: "d/w",
		Packages: []Package{b.serve("source", wheel(t, entry{name: "p/d/w", text: weights},
			entry{name: "p/v.txt", text: vocabulary}), "p/", pin("d/w", weights), pin("v.txt", vocabulary))}})
	b.add(Asset{Name: "made", Kind: KindEmbedder, Version: "1.0", Path: "m.gguf",
		Derived: &Derived{From: "source", Format: "Q4_0"}})
	s := b.store()
	_, err := s.Fetch(t.Context(), []string{"source"}, false)
	must(t, err)
	beside := filepath.Join(b.cache, "source-1.0", "v.txt")
	must(t, os.WriteFile(beside, []byte(strings.ToUpper(vocabulary)), 0o644))
	calls := 0
	d := Derivation{Quantize: makesGGUF(&calls)}
	if _, err = s.EnsureDerived(t.Context(), "made", d); !errors.Is(err, ErrMismatch) || calls != 0 ||
		!strings.Contains(err.Error(), "v.txt") {
		t.Errorf("changed vocabulary: error %v after %d quantisations, want %v that names it", err, calls, ErrMismatch)
	}
	must(t, os.WriteFile(beside, []byte(vocabulary), 0o644))
	if _, err = s.EnsureDerived(t.Context(), "made", d); err != nil || calls != 1 {
		t.Errorf("whole source: error %v after %d quantisations", err, calls)
	}
}
