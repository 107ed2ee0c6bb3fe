//go:build !cgo

package llamacpp

import "golang.org/x/sys/unix"

// involuntarySwitches says how often this thread was preempted.
func involuntarySwitches() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return u.Nivcsw
}
