package harness

import (
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// processCPU is the CPU time that all threads of this process used.
func processCPU() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ns := func(f windows.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
	}
	return ns(kernel) + ns(user)
}

// readMachine knows nothing here: other load is then not reported.
func readMachine() machineTime { return machineTime{} }

// CPUName is what the processor calls itself.
func CPUName() string { return os.Getenv("PROCESSOR_IDENTIFIER") }
