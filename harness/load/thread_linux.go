package load

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadClock is the CPU time of the thread that reads it.
type threadClock struct{}

func newThreadClock() (threadClock, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return threadClock{}, errors.New("load: this system has no CPU clock of a thread: " + err.Error())
	}
	return threadClock{}, nil
}

func (threadClock) now() time.Duration { return time.Duration(read(unix.CLOCK_THREAD_CPUTIME_ID)) }

// read is a system call that never blocks, so Go need not know of it.
func read(clock int32) int64 {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// sleeper ends a sleep at an instant of CLOCK_MONOTONIC.
type sleeper struct{}

// timerSlack is the least that the kernel takes. Its default of 50 µs would be
// added to the start of every frame.
const timerSlack = 1

func (*sleeper) open() error {
	// Where it is forbidden the sleeps are a little late, which is reported as
	// the wake-up error.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0)
	return nil
}

func (*sleeper) now() int64   { return read(unix.CLOCK_MONOTONIC) }
func (*sleeper) check() int64 { return read(unix.CLOCK_BOOTTIME) }
func (*sleeper) close()       {}

func (*sleeper) sleepUntil(at int64) {
	ts := unix.NsecToTimespec(at)
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil), unix.EINTR) {
	}
}
