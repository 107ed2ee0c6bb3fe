package load

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// streamBytes is the memory that the streaming worker walks through: beyond the
// last-level cache of what players own (96 MB at most), so that it comes from
// DRAM. Server processors share larger caches; there the rate is that of the
// cache, and says so by being too good.
const streamBytes = 128 << 20

// pageWords is the smallest page of memory, in words. A page that was never
// written shares its zeros with all others, in the cache.
const pageWords = 4096 / 8

// streamStep is how much is read between two looks at the clock or the budget:
// about 30 µs at 8 GB/s.
const streamStep = 256 << 10

// Done is what a job did.
type Done struct {
	CPU      time.Duration // CPU time burnt by all workers
	Streamed int64         // bytes read
	GPU      time.Duration // of waiting for the GPU after the workers had ended
}

// Team is the threads of a game: workers that burn, and one that streams.
// Call from one goroutine at a time.
type Team struct {
	timer   *Timer
	workers []*worker
	stream  *worker
	window  *window // nil: nothing is drawn
	failed  error   // of the window
	pending atomic.Int32
	done    signal
	closing atomic.Bool
	ended   sync.WaitGroup
}

// worker is one thread. Its fields are written by the game thread before it
// wakes the worker, and by the worker before it says that it is done.
type worker struct {
	start signal
	cpu   time.Duration
	bytes int64
	burnt time.Duration
	read  int64

	buffer []uint64
	at     int
	sum    uint64 // keeps the compiler from dropping the reads
}

// NewTeam starts the threads. Close ends them.
func NewTeam(n Needs, timer *Timer) (*Team, error) {
	if n.Workers < 0 || n.Workers > MaxWorkers {
		return nil, fmt.Errorf("load: %d workers: want 0…%d", n.Workers, MaxWorkers)
	}
	t := &Team{timer: timer}
	if n.Window {
		var err error
		if t.window, err = openWindow(); err != nil {
			return nil, err
		}
	}
	t.done.init()
	for range n.Workers {
		t.workers = append(t.workers, &worker{})
	}
	all := t.workers
	if n.Stream {
		t.stream = &worker{buffer: make([]uint64, streamBytes/8)}
		for i := 0; i < len(t.stream.buffer); i += pageWords { // touched now, not in the first frames
			t.stream.buffer[i] = uint64(i)
		}
		all = append(all[:len(all):len(all)], t.stream)
	}
	ready := make(chan error, len(all))
	for _, w := range all {
		w.start.init()
		t.ended.Add(1)
		go t.work(w, ready)
	}
	var errs error
	for range all {
		errs = errors.Join(errs, <-ready)
	}
	if errs != nil {
		t.Close()
		return nil, errs
	}
	return t, nil
}

// Run does a job and returns when all of it is done: the workers' and, where
// the job has one, the GPU's, which began at begin.
func (t *Team) Run(j *Job, begin int64) Done {
	v := t.done.load()
	busy := min(j.Workers, len(t.workers))
	streams := t.stream != nil && j.Bytes > 0
	n := int32(busy)
	if streams {
		n++
	}
	t.pending.Store(n)
	for i := range busy {
		t.workers[i].cpu = j.cpu(i)
		t.workers[i].start.wake()
	}
	if streams {
		t.stream.bytes = j.Bytes
		t.stream.start.wake()
	}
	if j.Draw && t.window != nil && t.failed == nil {
		if t.failed = t.window.begin(); t.failed == nil {
			t.failed = t.window.wait()
		}
	}
	if n > 0 {
		t.done.wait(v)
	}
	var d Done
	for i := range busy {
		d.CPU += t.workers[i].burnt
	}
	if streams {
		d.Streamed = t.stream.read
	}
	if j.GPU > 0 {
		now := t.timer.Now()
		if end := begin + int64(j.GPU); end > now {
			t.timer.SleepUntil(end)
			d.GPU = time.Duration(end - now)
		}
	}
	return d
}

// Err is why nothing is drawn any more, or nil.
func (t *Team) Err() error { return t.failed }

// CPU is the CPU time that the window's processes used; 0 without one.
func (t *Team) CPU() time.Duration {
	if t.window == nil {
		return 0
	}
	return t.window.cpu()
}

// Close ends the threads and waits for them.
func (t *Team) Close() {
	if t.closing.Swap(true) {
		return
	}
	for _, w := range t.workers {
		w.start.wake()
	}
	if t.stream != nil {
		t.stream.start.wake()
	}
	t.ended.Wait()
	if t.window != nil {
		t.window.close()
	}
}

// work is the life of a worker. Its thread ends with it: nothing of what was
// set on it comes back to Go.
func (t *Team) work(w *worker, ready chan<- error) {
	runtime.LockOSThread()
	defer t.ended.Done()
	clock, err := newThreadClock()
	ready <- err
	if err != nil {
		return
	}
	seen := uint32(0)
	for {
		seen = w.start.waitPast(seen)
		if t.closing.Load() {
			return
		}
		if w.buffer != nil {
			w.read = w.walk(w.bytes)
		} else {
			w.burnt = burn(clock, w.cpu)
		}
		if t.pending.Add(-1) == 0 {
			t.done.wake()
		}
	}
}

// walk reads n bytes of the buffer, going on where it stopped.
func (w *worker) walk(n int64) int64 {
	read := int64(0)
	for read < n {
		chunk := w.buffer[w.at:min(w.at+streamStep/8, len(w.buffer))]
		w.sum += add(chunk)
		read += int64(len(chunk)) * 8
		if w.at += len(chunk); w.at == len(w.buffer) {
			w.at = 0
		}
	}
	return read
}

// add reads eight words at a time, which keeps several cache lines on their
// way: one core of a desktop then reads about 10 GB/s.
func add(x []uint64) uint64 {
	var a, b, c, d uint64
	for len(x) >= 8 {
		a += x[0] + x[4]
		b += x[1] + x[5]
		c += x[2] + x[6]
		d += x[3] + x[7]
		x = x[8:]
	}
	return a + b + c + d
}

// burnStep is the arithmetic between two looks at the thread's clock: about
// 5 µs, so that a burn overshoots by that at most and spends under a tenth of
// its time reading the clock.
const burnStep = 4000

// burn spends CPU time of this thread and returns how much.
func burn(clock threadClock, d time.Duration) time.Duration {
	begin := clock.now()
	if d <= 0 {
		return 0
	}
	x := uint64(begin)
	for {
		for range burnStep {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		if spent := clock.now() - begin; spent >= d {
			burnt.Store(x)
			return spent
		}
	}
}

// burnt takes the result of the arithmetic, so that it can't be left out.
var burnt atomic.Uint64

// Processors is how many processors Go should have (runtime.GOMAXPROCS) beside
// a team: one for each thread that is awake by its own will, the game thread
// and the model's included, so that a thread that the system wakes never waits
// for a processor of Go's, which is what a game in C++ would see.
func Processors(n Needs) int {
	const others = 6 // game thread, model's worker, streaming worker, runtime, command, spare
	return runtime.NumCPU() + n.Workers + others
}
