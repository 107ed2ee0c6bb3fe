// Package testassets finds the real llama.cpp and the real model for tests.
// `make test` fetches them first and sets LULL_REQUIRE_ASSETS, so that there a
// missing one fails; elsewhere such a test is skipped and says what to run.
package testassets

import (
	"os"
	"testing"

	"github.com/lull-npc/lull/runtime/assets"
)

// Locate returns the folder of llama.cpp's libraries and a model file.
func Locate(t testing.TB) (library, model string) {
	t.Helper()
	found, err := assets.Locate(assets.Options{})
	if err == nil {
		return found.Library.Path, found.Model.Path
	}
	if os.Getenv("LULL_REQUIRE_ASSETS") != "" {
		t.Fatalf("the real model is wanted here: %v", err)
	}
	t.Skipf("no real model: %v", err)
	return "", ""
}
