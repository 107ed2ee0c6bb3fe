//go:build !linux && !windows

package harness

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the CPU time that all threads of this process used.
func processCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readMachine knows nothing here: other load is then not reported.
func readMachine() machineTime { return machineTime{} }

// CPUName is what the processor calls itself.
func CPUName() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}
