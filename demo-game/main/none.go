//go:build !windows && !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "lull-demo: built without cgo, so it has no window: build it with CGO_ENABLED=1, "+
		"or play `lull demo --headless --script tour`")
	os.Exit(1)
}
