//go:build !windows

package llamacpp

import "github.com/ebitengine/purego"

// openLibrary returns a handle of a library of this process.
func openLibrary(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func findSymbol(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }
