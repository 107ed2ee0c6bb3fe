package harness

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/lull-npc/lull/harness/load"
)

// machineTime is the time of all cores since the machine started.
type machineTime struct {
	known      bool
	busy, idle time.Duration
}

func (m machineTime) since(o machineTime) machineTime {
	return machineTime{m.known && o.known, m.busy - o.busy, m.idle - o.idle}
}

// memoryLimit is where the garbage collector comes back although it is
// switched off: a run keeps far less, and beyond it pauses are better than no
// memory.
const memoryLimit = 2 << 30

// quiet prepares Go for measuring, and returns what takes it back. The
// collector is off in measured time, since its pauses would be counted as the
// game's, and because a pause waits for every thread of Go's, the model's at
// the lowest priority included; it runs between the runs instead. Go gets a
// processor for each thread (load.Processors).
func quiet(n load.Needs) (restore func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(memoryLimit)
	processors := runtime.GOMAXPROCS(max(load.Processors(n), runtime.GOMAXPROCS(0)))
	return func() {
		runtime.GOMAXPROCS(processors)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
