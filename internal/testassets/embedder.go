package testassets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lull-npc/lull/runtime/assets"
)

// Embedder returns the folder of llama.cpp's libraries, the folder in which the
// makers of the sentence embedder publish it, and the file made from it here.
func Embedder(t testing.TB) (library, source, model string) {
	t.Helper()
	const made = "all-minilm-l6-v2-q8_0"
	library, _ = Locate(t)
	store, err := assets.Open(assets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, name := range []string{"all-minilm-l6-v2", made} {
		s, err := store.Status(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.State != assets.Present && os.Getenv("LULL_REQUIRE_ASSETS") != "" {
			t.Fatalf("the embedder is wanted here, %s is %s: run `lull assets fetch %s`", name, s.State, made)
		}
		if s.State != assets.Present {
			t.Skipf("%s is %s: run `lull assets fetch %s`", name, s.State, made)
		}
		paths = append(paths, s.Path)
	}
	return library, filepath.Dir(paths[0]), paths[1]
}
