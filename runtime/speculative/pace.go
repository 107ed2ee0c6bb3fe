package speculative

import (
	"cmp"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// paceMemory is how many steps the times of tokens and of verify batches are
	// averaged over, about.
	paceMemory = 32

	// paceLeast and paceMost bound what a batch may be told to take, as a multiple of
	// what was measured: a thread that lost its core in one is no reason.
	paceLeast, paceMost = 0.5, 4

	// paceForget is how fast a pace that is not confirmed goes back to 1, each plain
	// token: half of it in 700.
	paceForget = 0.001
)

// pace says how much dearer verify batches are here and now than their Costs, which
// were measured alone: beside a game, or with two threads of the lowest class that
// wait for each other, what pays on paper may lose. It is of one number of threads.
type pace struct {
	token float64 // ns of plain decoding; 0: unknown
	batch float64 // times Row.Ratio; 0: unknown, which is 1
}

// observe takes a step of one reply.
func (p *pace) observe(w *llm.Work, drafts int, row Row) {
	took := float64(busy(*w))
	if took <= 0 || w.Stopped {
		return
	}
	if drafts == 0 {
		toward(&p.token, min(took, 2*cmp.Or(p.token, took)))
		if p.batch > 0 {
			p.batch += paceForget * (1 - p.batch)
		}
		return
	}
	if p.token > 0 {
		times := took / p.token / row.Ratio(drafts+1)
		toward(&p.batch, min(max(times, paceLeast), paceMost))
	}
}

// times is what Row.Ratio is to be multiplied by.
func (p *pace) times() float64 { return cmp.Or(p.batch, 1) }

func toward(mean *float64, x float64) {
	if *mean == 0 {
		*mean = x
		return
	}
	*mean += (x - *mean) / paceMemory
}
