package world

import (
	"math"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
)

// LogLevel is how grave a line is, with lull.h's numbers.
type LogLevel int32

// Levels.
const (
	LogInfo LogLevel = iota + 1
	LogWarning
	LogError
)

// maxLines of the log are kept; then the oldest go. A world writes a few lines
// when it loads and one for each failure.
const maxLines = 256

// maxNotes is for the notes of one load.
const maxNotes = 16

type logLine struct {
	level LogLevel
	text  string
}

// lineRing is the log of a world.
type lineRing struct {
	mu    sync.Mutex
	lines []logLine
	notes chan string // of the model's threads, which take no lock that a game waits for
}

// note is add for the threads of the model. A note that finds no place is lost.
func (r *lineRing) note(text string) {
	select {
	case r.notes <- text:
	default:
	}
}

func (r *lineRing) add(level LogLevel, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == maxLines {
		r.lines = append(r.lines[:0], r.lines[1:]...)
	}
	r.lines = append(r.lines, logLine{level, llm.ValidText(text)})
}

// take shows the oldest line and drops it unless keep says true. It reports
// whether there was one.
func (r *lineRing) take(keep func(LogLevel, string) bool) bool {
	for range len(r.notes) {
		r.add(LogWarning, <-r.notes)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return false
	}
	if !keep(r.lines[0].level, r.lines[0].text) {
		r.lines = append(r.lines[:0], r.lines[1:]...)
	}
	return true
}

// Totals are what came of the replies so far.
type Totals struct {
	Replies, Broken              uint64
	Generated, Prefilled, Reused uint64
	LastFirst, LastTotal         time.Duration
}

// workTotals are counted on the model's threads.
type workTotals struct{ computing, waiting atomic.Int64 }

// observe counts what a step of the engine took. Called on the model's thread.
func (w *World) observe(k llm.Work) {
	w.work.waiting.Add(int64(k.Waited))
	w.work.computing.Add(max(0, k.End-k.Start-int64(k.Waited)))
}

// Statistics is what a world did so far.
type Statistics struct {
	Totals
	Info               llm.Info // zero before the model is loaded
	Frames             uint64
	Computing, Waiting time.Duration
	Memories           int
	HeapBytes          uint64 // of the process
	HeapAllocations    uint64 // of the process, so far
}

// heapSamples are what is read of Go's heap. Reading them stops no thread. Small
// objects without pointers are counted apart.
func heapSamples() [3]metrics.Sample {
	return [...]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"}}
}

// Statistics says what the world did so far.
func (w *World) Statistics() Statistics {
	s := Statistics{Totals: w.totals, Frames: w.frames,
		Computing: time.Duration(w.work.computing.Load()), Waiting: time.Duration(w.work.waiting.Load())}
	if r := w.Runtime(); r != nil {
		s.Info = r.Model.Info()
	}
	if w.state == Ready && w.memory != nil {
		s.Memories = w.memory.store.Stats().Memories
	}
	metrics.Read(w.heap[:])
	s.HeapBytes = w.heap[0].Value.Uint64()
	s.HeapAllocations = w.heap[1].Value.Uint64() + w.heap[2].Value.Uint64()
	return s
}

func toBits(f float64) uint64   { return math.Float64bits(f) }
func fromBits(b uint64) float64 { return math.Float64frombits(b) }
