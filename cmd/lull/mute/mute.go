// Package mute keeps a library from talking to the terminal before main does.
//
// Bubble Tea v1 asks the terminal for its background colour when its package is
// initialised: in every command of a program that imports it, `lull --version`
// included, and where nothing answers (a pseudo-terminal of a test or of a build
// server) it waits for five seconds. It does not ask a dumb terminal, so $TERM
// says dumb until Restore.
//
// Go initialises packages in the order of their import paths, as far as their
// imports allow. This one needs only os, without which Bubble Tea's terminal
// library is not ready either, and its path comes before that one's: it is
// always first. A test in cmd/lull watches a pseudo-terminal to see that.
//
// Out of scope: commands that are started meanwhile; there are none.
package mute

import "os"

const name = "TERM"

var value, known = os.LookupEnv(name)

func init() {
	if known {
		_ = os.Setenv(name, "dumb")
	}
}

// Restore gives $TERM back. Call from an init of package main, which is the
// last to be initialised.
func Restore() {
	if known {
		_ = os.Setenv(name, value)
	}
}
