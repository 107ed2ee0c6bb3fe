//go:build cgo

package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processAge is how long ago the system started this process: before Go, and
// before the libraries of the window were loaded. /proc counts in hundredths.
func processAge() time.Duration {
	raw, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return time.Since(started)
	}
	_, after, _ := strings.Cut(string(raw), ") ") // the name before may hold anything
	const startTime = 19                          // field 22, of which three are cut
	fields := strings.Fields(after)
	var now unix.Timespec
	if len(fields) <= startTime || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Since(started)
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	if err != nil {
		return time.Since(started)
	}
	return time.Duration(now.Nano()) - time.Duration(ticks)*time.Second/100
}
