package scripted

import (
	"container/heap"
	"sync"

	"github.com/lull-npc/lull/runtime/llm"
)

// Clock is virtual time, an llm.Clock. Waiting takes no real time: it runs what
// is due until then, in order, on the goroutine that waits, and sets the hands.
// A whole game can so be played in the waits of its model. Safe for concurrent
// use; deterministic where one goroutine waits.
type Clock struct {
	mu    sync.Mutex
	now   int64
	count uint64
	due   agenda
	added chan struct{} // capacity 1: At was called
}

var _ llm.Clock = (*Clock)(nil)

// NewClock returns a clock that shows now, in nanoseconds.
func NewClock(now int64) *Clock { return &Clock{now: now, added: make(chan struct{}, 1)} }

// Now implements llm.Clock.
func (c *Clock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// At has f run when the clock shows t, or at the next wait if that is past. Of
// several at one instant the first one added runs first. f may call anything of
// the clock but WaitUntil.
func (c *Clock) At(t int64, f func()) {
	c.mu.Lock()
	c.count++
	heap.Push(&c.due, appointment{t, c.count, f})
	c.mu.Unlock()
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// WaitUntil implements llm.Clock. When nothing is due before Forever it really
// waits, for a wake or for At in another goroutine.
func (c *Clock) WaitUntil(t int64, wake <-chan struct{}) {
	for {
		select {
		case <-wake:
			return
		default:
		}
		f, more := c.advance(t)
		switch {
		case f != nil:
			f()
		case more:
			select {
			case <-wake:
				return
			case <-c.added:
			}
		default:
			return
		}
	}
}

// advance sets the hands to the next appointment until t and returns it, or to
// t. It reports true when only another goroutine can make time pass.
func (c *Clock) advance(t int64) (f func(), more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) > 0 && c.due[0].at <= max(t, c.now) {
		a := heap.Pop(&c.due).(appointment)
		c.now = max(c.now, a.at)
		return a.f, false
	}
	if t == llm.Forever {
		return nil, true
	}
	c.now = max(c.now, t)
	return nil, false
}

type appointment struct {
	at    int64
	count uint64
	f     func()
}

// agenda is a heap: the earliest first, and of those the first added.
type agenda []appointment

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].count < a[j].count
}

func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

func (a *agenda) Push(x any) { *a = append(*a, x.(appointment)) }

func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = appointment{}
	*a = (*a)[:last]
	return x
}
