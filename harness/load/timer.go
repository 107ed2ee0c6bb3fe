package load

import (
	"fmt"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
)

// Timer is the clock of a game thread: the model's clock, with a sleep that
// ends at an instant of it. Call from the thread that made it.
type Timer struct {
	clock  llm.Clock
	cpu    threadClock
	offset int64 // system's clock minus clock
	sys    sleeper
}

// NewTimer makes a timer for the calling thread, which should be locked. It
// asks the system to end this thread's sleeps as exactly as it can.
func NewTimer(clock llm.Clock) (*Timer, error) {
	t := &Timer{clock: clock}
	var err error
	if t.cpu, err = newThreadClock(); err != nil {
		return nil, err
	}
	if err := t.sys.open(); err != nil {
		return nil, fmt.Errorf("load: make a timer: %w", err)
	}
	t.align()
	return t, nil
}

// alignTries brackets a reading of the system's clock between two of ours; the
// narrowest of 16 brackets is under a microsecond even on a busy machine.
const alignTries = 16

func (t *Timer) align() {
	best := int64(1 << 62)
	for range alignTries {
		a := t.clock.Now()
		sys := t.sys.now()
		b := t.clock.Now()
		if b-a >= 0 && b-a < best {
			best, t.offset = b-a, sys-(a+(b-a)/2)
		}
	}
}

// Now is the model's clock.
func (t *Timer) Now() int64 { return t.clock.Now() }

// SleepUntil returns at the instant, or at once when that is past. It never
// spins: a game that did would take the core that it measures.
func (t *Timer) SleepUntil(at int64) {
	if at > t.clock.Now() {
		t.sys.sleepUntil(at + t.offset)
	}
}

// Check is another clock, to notice when the first one jumps; only differences
// mean something. On Linux it goes on while the machine sleeps.
func (t *Timer) Check() int64 { return t.sys.check() }

// CPU is the CPU time that this thread has used.
func (t *Timer) CPU() time.Duration { return t.cpu.now() }

// Close gives back what the system lent.
func (t *Timer) Close() { t.sys.close() }
