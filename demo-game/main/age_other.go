//go:build windows || (!linux && cgo)

package main

import "time"

// processAge is how long ago this process began, nearly.
func processAge() time.Duration { return time.Since(started) }
