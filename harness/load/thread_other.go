//go:build !linux && !windows

package load

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// threadClock is the CPU time of the thread that reads it.
type threadClock struct{}

func newThreadClock() (threadClock, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return threadClock{}, fmt.Errorf("load: this system has no CPU clock of a thread: %w", err)
	}
	return threadClock{}, nil
}

func (threadClock) now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// processStart is the zero of the sleeper's clock.
var processStart = time.Now()

// sleeper uses Go's timers: these systems have no sleep until an instant. How
// late they are is reported as the wake-up error.
type sleeper struct{}

func (*sleeper) open() error  { return nil }
func (*sleeper) now() int64   { return int64(time.Since(processStart)) }
func (*sleeper) check() int64 { return time.Now().Round(0).UnixNano() }
func (*sleeper) close()       {}

func (s *sleeper) sleepUntil(at int64) { time.Sleep(time.Duration(at - s.now())) }
