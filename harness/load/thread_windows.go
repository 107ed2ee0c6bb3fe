package load

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32         = windows.NewLazySystemDLL("kernel32.dll")
	queryThreadCycle = kernel32.NewProc("QueryThreadCycleTime")
	createTimer      = kernel32.NewProc("CreateWaitableTimerExW")
	setTimer         = kernel32.NewProc("SetWaitableTimer")
)

// threadClock counts the cycles of the thread that reads it: GetThreadTimes
// moves in steps of 15.6 ms, longer than a frame. Windows counts cycles of a
// constant rate (the time stamp counter), which is measured once.
type threadClock struct {
	thread windows.Handle
	nsEach float64 // nanoseconds of a cycle
}

// calibration is how long cycles are compared with the clock: at 5 ms, a
// preemption of 0.05 ms makes an error of 1 %.
const calibration = 5 * time.Millisecond

// calibrations: the fastest of several was preempted least.
const calibrations = 5

func newThreadClock() (threadClock, error) {
	c := threadClock{thread: windows.CurrentThread()}
	for range calibrations {
		begin, cycles := time.Now(), c.cycles()
		for time.Since(begin) < calibration {
		}
		n := c.cycles() - cycles
		if n == 0 {
			return c, fmt.Errorf("load: QueryThreadCycleTime counts nothing on this system")
		}
		if each := float64(time.Since(begin)) / float64(n); c.nsEach == 0 || each < c.nsEach {
			c.nsEach = each
		}
	}
	return c, nil
}

func (c threadClock) cycles() uint64 {
	var n uint64
	_, _, _ = queryThreadCycle.Call(uintptr(c.thread), uintptr(unsafe.Pointer(&n)))
	return n
}

func (c threadClock) now() time.Duration { return time.Duration(float64(c.cycles()) * c.nsEach) }

// processStart is the zero of the sleeper's clock.
var processStart = time.Now()

// sleeper waits for a high-resolution timer: Go's own sleeps may end 1 ms and
// more late here.
type sleeper struct{ timer windows.Handle }

const (
	highResolution = 2        // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, Windows 10 1803 and newer
	allAccess      = 0x1f0003 // TIMER_ALL_ACCESS
)

func (s *sleeper) open() error {
	h, _, err := createTimer.Call(0, 0, highResolution, allAccess)
	if h == 0 {
		return fmt.Errorf("CreateWaitableTimerEx: %w", err)
	}
	s.timer = windows.Handle(h)
	return nil
}

func (*sleeper) now() int64   { return int64(time.Since(processStart)) }
func (*sleeper) check() int64 { return time.Now().Round(0).UnixNano() }

func (s *sleeper) sleepUntil(at int64) {
	rest := at - s.now()
	if rest <= 0 {
		return
	}
	due := -(rest + 99) / 100 // negative: from now, in units of 100 ns
	if ok, _, _ := setTimer.Call(uintptr(s.timer), uintptr(unsafe.Pointer(&due)), 0, 0, 0, 0); ok == 0 {
		time.Sleep(time.Duration(rest))
		return
	}
	_, _ = windows.WaitForSingleObject(s.timer, windows.INFINITE)
}

func (s *sleeper) close() { _ = windows.CloseHandle(s.timer) }
