//go:build windows || (cgo && !linux)

package main

// watchDisplay does nothing: here the display is a part of the system.
func watchDisplay(func()) {}
