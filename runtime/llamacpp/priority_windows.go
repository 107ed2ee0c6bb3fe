package llamacpp

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// The thread calls below are not in x/sys. Values are those of winbase.h and
// processthreadsapi.h.
var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	setThreadPriority    = kernel32.NewProc("SetThreadPriority")
	setThreadInformation = kernel32.NewProc("SetThreadInformation")
)

const (
	threadPriorityLowest   = -2
	threadPowerThrottling  = 3
	throttlingVersion      = 1
	throttleExecutionSpeed = 1
)

type powerThrottling struct{ Version, ControlMask, StateMask uint32 }

// LowerThread gives the calling OS thread the lowest ordinary priority and
// EcoQoS. Background mode is not used: it caps the working set at 32 MiB, and
// the weights would be paged. Built, not tried on hardware.
func LowerThread() error {
	self := uintptr(windows.CurrentThread())
	low := int32(threadPriorityLowest)
	if ok, _, err := setThreadPriority.Call(self, uintptr(uint32(low))); ok == 0 {
		return fmt.Errorf("llamacpp: SetThreadPriority: %w", err)
	}
	if setThreadInformation.Find() != nil {
		return nil // before Windows 8: priority alone
	}
	eco := powerThrottling{throttlingVersion, throttleExecutionSpeed, throttleExecutionSpeed}
	ok, _, err := setThreadInformation.Call(self, threadPowerThrottling, uintptr(unsafe.Pointer(&eco)),
		unsafe.Sizeof(eco))
	if ok == 0 {
		return fmt.Errorf("llamacpp: SetThreadInformation: %w", err)
	}
	return nil
}
