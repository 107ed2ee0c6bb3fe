//go:build !windows && !darwin

package display

import (
	"os"
	"syscall"
)

// Reachable reports whether a window can be opened. A display of another machine
// is believed.
func Reachable() bool {
	name := os.Getenv("DISPLAY")
	if name == "" || name[0] != ':' {
		return name != ""
	}
	number := name[1:]
	for i := range number {
		if number[i] == '.' {
			number = number[:i]
			break
		}
	}
	if os.Getenv("TMPDIR") != "" { // X keeps to the system's own folder, which is not known then
		return true
	}
	socket := os.TempDir() + "/.X11-unix/X" + number
	return connects(socket) || connects("@"+socket)
}

func connects(socket string) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }() // it was there, or not
	return syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}) == nil
}
