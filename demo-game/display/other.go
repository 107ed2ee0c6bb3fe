//go:build windows || darwin

package display

// Reachable reports whether a window can be opened: here there always is a
// display.
func Reachable() bool { return true }
