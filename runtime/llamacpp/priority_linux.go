package llamacpp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LowerThread puts the calling OS thread, and the threads it will start, into
// SCHED_IDLE: it runs only when no ordinary thread wants the core. It cannot be
// taken back without privilege, so the thread must be locked and end with its
// goroutine. Needs no privilege itself.
func LowerThread() error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("llamacpp: SCHED_IDLE: %w", err)
	}
	return nil
}
