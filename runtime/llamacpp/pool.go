package llamacpp

import (
	"fmt"
	"runtime"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// maxThreads: a pool has at most that many threads. More than 16 cores never
// pay for one small model, and the table of predictions grows with it.
const maxThreads = 16

// pool is a persistent set of ggml threads. Without one llama.cpp makes and
// ends threads for every group of layers (measured: 1.46 s a token instead of
// 30 ms on a busy machine).
//
// The pool's threads take the scheduling class of the thread that makes it, so
// it is made by the first Decode: that is the worker's own low-priority thread.
// Poll is 0 unless Options say else, since a polling pool spins before a closed
// gate.
type pool struct {
	handle  llama.Threadpool
	threads int
}

func newPool(threads, poll int) (*pool, error) {
	p := llama.ThreadpoolParamsDefault(int32(threads))
	p.Poll = uint32(poll)
	p.Prio = llama.SchedPriorityNormal // keeps what the threads inherited
	h, err := llama.ThreadpoolNew(&p)
	runtime.KeepAlive(&p)
	if err != nil {
		return nil, fmt.Errorf("llamacpp: thread pool of %d: %w", threads, err)
	}
	return &pool{h, threads}, nil
}

func (p *pool) free() {
	if p != nil && p.handle != 0 {
		llama.ThreadpoolFree(p.handle)
		p.handle = 0
	}
}

// DefaultThreads is how many threads a pool gets when nobody says: all cores,
// up to the limit. The scheduler chooses fewer per step.
func DefaultThreads() int { return min(runtime.NumCPU(), maxThreads) }

// widthRows is how many widths of a batch have predictions of their own: 1…16
// each, then steps of 32 up to 1040, since the cost a token hardly changes there.
const widthRows = 48

// predictRow is the index of the row of predictions for a batch.
func predictRow(width, threads int) int {
	row := width - 1
	if width > 16 {
		row = min(16+(width-17)/32, widthRows-1)
	}
	return (min(max(threads, 1), maxThreads)-1)*widthRows + max(row, 0)
}
