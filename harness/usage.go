package harness

import (
	"runtime"
	"time"
)

// Usage is how busy the cores were between two moments.
type Usage struct {
	cpu     time.Duration
	machine machineTime
	at      time.Time
}

// WatchUsage begins to count.
func WatchUsage() Usage { return Usage{processCPU(), readMachine(), time.Now()} }

// Shares are what this process and all others took of the cores since; nil: not
// known on this system.
func (u Usage) Shares() (process float64, other *float64) {
	wall := float64(time.Since(u.at)) * float64(runtime.NumCPU())
	if wall <= 0 {
		return 0, nil
	}
	process = float64(processCPU()-u.cpu) / wall
	if m := readMachine().since(u.machine); m.known && m.busy+m.idle > 0 {
		x := max(0, float64(m.busy)/float64(m.busy+m.idle)-process)
		other = &x
	}
	return process, other
}
