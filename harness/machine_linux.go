package harness

import (
	"bytes"
	"os"
	"strconv"
	"strings"
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

// ticksPerSecond is the unit of /proc/stat: USER_HZ, 100 on every Linux that Go
// runs on.
const ticksPerSecond = 100

// readMachine reads how busy the whole machine has been.
func readMachine() machineTime {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machineTime{}
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return machineTime{}
	}
	var m machineTime
	for i, f := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return machineTime{}
		}
		d := time.Duration(n) * time.Second / ticksPerSecond
		switch i {
		case 3, 4:
			m.idle += d
		default:
			m.busy += d
		}
	}
	m.known = true
	return m
}

// CPUName is what the processor calls itself.
func CPUName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name", "Model", "Hardware":
			if ok {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}
