//go:build !cgo

package llamacpp

import (
	"sync/atomic"
	"time"

	"github.com/ebitengine/purego"
)

// headHook is the hook's side of the head. See head_c.c, whose logic it repeats.
type headHook struct {
	op     int32
	count  int   // slices
	plan   *head // says where the parts of slices lie
	weight *tensor
	cpu    *cpuBackend
	graphs [maxHeadWidth + 1]*headGraph

	norm, whole, muted *tensor
	mutedOp            int32
	halted, normSeen   bool
	slicing            bool
	slice              int
}

// normName is the name of the head's input, as a whole field: names are
// compared at each node.
var normName = [64]byte{'r', 'e', 's', 'u', 'l', 't', '_', 'n', 'o', 'r', 'm'}

func (h *hook) setHeadOp(op int32) {
	h.head.op, h.head.normSeen = op, false
	if op == 0 {
		h.head.count = 0
	}
}

// setHead tells the hook of the slices. What was learned of a whole head is
// shared out among them.
func (h *hook) setHead(d *head) {
	h.head.cpu, h.head.weight, h.head.count, h.head.plan = d.cpu, d.weight, d.count, d
	for i := h.layers; i < len(h.table); i += h.layers + 1 {
		h.table[i] /= int64(d.count)
	}
}

func (h *hook) setHeadGraph(width int, g *headGraph) { h.head.graphs[width] = g }

// wholeHead is the head that the last decode computed whole, or nil.
func (h *hook) wholeHead() *tensor { return h.head.whole }

// dropped says that the last decode was given up at the gate or between slices.
func (h *hook) dropped() bool { return h.drop }

// headParts is how many predictions of a slice make a whole head.
func (h *hook) headParts() int { return max(h.head.count, 1) }

func (h *hook) graphFor(norm *tensor) *headGraph {
	rows := norm.ne[1]
	if rows < 1 || rows > maxHeadWidth || h.head.count < 2 {
		return nil
	}
	g := h.head.graphs[rows]
	if g == nil || norm.ne != g.input.ne || norm.nb != g.input.nb || norm.kind != g.input.kind {
		return nil
	}
	return g
}

func (h *hook) haltAtNorm(norm *tensor) bool {
	d := &h.head
	d.norm, d.whole, d.normSeen = norm, nil, true
	d.halted = h.graphFor(norm) != nil || !h.unasked()
	return d.halted
}

func (h *hook) fits(t *tensor, g *headGraph) bool {
	s, w := g.parts[0], h.head.weight
	return t.src[0] == w.address() && t.ne[0] == w.ne[1] && [3]int64(t.ne[1:]) == [3]int64(s.ne[1:]) &&
		t.nb == s.nb && t.kind == s.kind
}

func (h *hook) runSlices(g *headGraph, norm, t *tensor) bool {
	d := &h.head
	g.input.data = norm.data
	for i, p := range g.parts {
		if p != nil {
			from, _ := d.plan.part(i)
			p.data = t.data + uintptr(from)*4
		}
	}
	counted := !h.unasked() || h.done >= 0
	if counted && h.done < h.layers-1 {
		h.finish(h.layers - 1)
	}
	status, last := int32(0), d.count-1
	d.slicing = true
	for d.slice = 0; d.slice < d.count; d.slice = last + 1 {
		if counted {
			if !h.pass() {
				break
			}
			last = h.halt - h.layers
		}
		if status = h.compute(g, d.slice, last); status != 0 {
			break
		}
		if counted {
			h.finishSlices(last - d.slice + 1)
		}
	}
	d.slicing = false
	if status == statusAborted {
		h.drop = true
		atomic.StoreUint32(&abortWords[h.slot], 1)
	} else if status != 0 {
		d.op = 0
		return false
	}
	if !h.drop && counted {
		h.done = h.layers
	}
	return true
}

// compute goes around purego's typed functions, which allocate.
func (h *hook) compute(g *headGraph, first, last int) int32 {
	purego.SyscallN(ggml.clear, g.graph)
	for _, p := range g.parts[first*sliceParts : (last+1)*sliceParts] {
		if p != nil {
			purego.SyscallN(ggml.add, g.graph, p.address())
		}
	}
	status, _, _ := purego.SyscallN(ggml.comp, h.head.cpu.handle, g.graph)
	return int32(status)
}

func (h *hook) finishSlices(count int) {
	now := h.clock.Now()
	each := (now - h.groupStart) / int64(count)
	switched := involuntarySwitches() != h.switches
	for range count {
		h.sample(h.layers, h.layers, time.Duration(each), switched)
	}
	if !switched {
		h.learn(h.layers, h.layers, each)
	}
	h.lastEnd, h.groupStart = now, now
}

func (h *hook) afterNorm(t *tensor) bool {
	d := &h.head
	norm := d.norm
	d.norm = nil
	product := t.op == d.op && t.src[1] == norm.address()
	if product && d.halted {
		if g := h.graphFor(norm); g != nil && h.fits(t, g) && h.runSlices(g, norm, t) {
			d.muted, d.mutedOp = t, t.op
			t.op = 0
			return true
		}
	}
	if product && norm.ne[1] > 0 {
		d.whole = t
	}
	if !d.halted {
		return false
	}
	if h.done < h.layers-1 {
		h.finish(h.layers - 1)
	}
	if norm.ne[1] == 0 {
		h.done = h.layers
	} else {
		h.pass()
	}
	return false
}

func (h *hook) unmute() {
	if h.head.muted != nil {
		h.head.muted.op = h.head.mutedOp
	}
	h.head.muted = nil
}
