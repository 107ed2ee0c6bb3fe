package llm

import (
	"sync"
	"time"
)

// processStart is the zero of every clock that NewClock returns, so that the
// instants of one are instants of all in this process.
var processStart = time.Now()

// NewClock returns the computer's monotonic clock. Its zero is the start of the
// process. A wait may end up to about a millisecond late, which is how coarse
// Go's timers are on some systems; a wake ends it at once. Waiting until Forever
// without a wake channel never returns. Safe for concurrent use.
func NewClock() Clock { return &realClock{} }

// realClock keeps its timers: a gate waits sixty times a second for hours.
type realClock struct{ timers sync.Pool }

func (*realClock) Now() int64 { return int64(time.Since(processStart)) }

func (c *realClock) WaitUntil(t int64, wake <-chan struct{}) {
	if t == Forever {
		<-wake
		return
	}
	rest := time.Duration(t - c.Now())
	if rest <= 0 {
		return
	}
	timer, _ := c.timers.Get().(*time.Timer)
	if timer == nil {
		timer = time.NewTimer(rest)
	} else {
		timer.Reset(rest)
	}
	select {
	case <-timer.C:
	case <-wake:
		timer.Stop()
	}
	c.timers.Put(timer)
}
