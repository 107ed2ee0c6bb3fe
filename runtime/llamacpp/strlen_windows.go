//go:build !cgo

package llamacpp

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// findStrlen returns the C runtime's strlen: as an abort callback over two
// bytes of memory it stops a graph without entering Go.
func findStrlen() (uintptr, error) {
	proc := windows.NewLazySystemDLL("msvcrt.dll").NewProc("strlen")
	if err := proc.Find(); err != nil {
		return 0, fmt.Errorf("llamacpp: strlen for the abort callback: %w", err)
	}
	return proc.Addr(), nil
}
