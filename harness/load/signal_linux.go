package load

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2) on memory of this process only.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// signal wakes one thread that waits for it. A wake before the wait is not
// lost: the waiter names the count that it has seen.
type signal struct{ count atomic.Uint32 }

func (s *signal) init() {}

func (s *signal) load() uint32 { return s.count.Load() }

func (s *signal) wake() {
	s.count.Add(1)
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.count)), futexWake, 1)
}

// wait returns when the count is no longer seen. An interrupted wait, or one
// that found the count changed, looks again.
func (s *signal) wait(seen uint32) {
	for s.count.Load() == seen {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.count)), futexWait, uintptr(seen), 0, 0, 0)
	}
}

// waitPast waits and returns the count found.
func (s *signal) waitPast(seen uint32) uint32 {
	s.wait(seen)
	return s.count.Load()
}
