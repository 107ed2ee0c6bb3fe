//go:build !cgo && !windows

package llamacpp

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// findStrlen returns libc's strlen: as an abort callback over two bytes of
// memory it stops a graph without entering Go.
func findStrlen() (uintptr, error) {
	p, err := purego.Dlsym(purego.RTLD_DEFAULT, "strlen")
	if err != nil {
		return 0, fmt.Errorf("llamacpp: strlen for the abort callback: %w", err)
	}
	return p, nil
}
