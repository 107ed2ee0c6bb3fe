package llamacpp

import (
	"bytes"
	"runtime"
	"slices"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// Limits of slicing; gate.h has the same.
const (
	maxSlices    = 48
	sliceParts   = 2  // nodes of a slice: it is one question at the gate, and a stop waits for one node at most
	maxHeadWidth = 16 // rows of logits in one graph: more are a benchmark, not speech
)

// headUnit rows fit every interleaving of rows that ggml repacks weights into.
const headUnit = 64

// slicedBuffers are the kinds of memory in which some whole rows of a weight are
// a weight themselves. Others (AMX) lay a weight out as one piece.
var slicedBuffers = []string{"CPU", "CPU_Mapped", "CPU_REPACK"}

// head computes the product with the vocabulary in slices (see head_c.c and
// headSlices). What it needs to know it learns from a head that llama.cpp
// computed whole: the weight, then for each number of rows whether the slices
// give the very same bits. Only then may they stand in for it.
type head struct {
	device llama.GGMLBackendDevice
	cpu    *cpuBackend
	weight *tensor
	count  int   // slices
	rows   int64 // of the weight in each slice but the last
	half   int64 // of them in the first of its parts
	graphs [maxHeadWidth + 1]*headGraph
	tried  [maxHeadWidth + 1]bool
}

// headGraph computes the head for one number of rows.
type headGraph struct {
	ctx, graph uintptr
	input      *tensor   // its data is set to the head's input
	parts      []*tensor // sliceParts of each slice, nil where it has fewer; their data is set into the logits
}

// newHead switches slicing on for a context whose graph halts at a gate.
func (m *Model) newHead(device Device) {
	if m.opt.NoGate || m.opt.NoPool || m.opt.WholeHead || device.Kind != CPU || m.info.Layers == 0 {
		return
	}
	m.head = &head{device: device.handle}
	m.hook.setHeadOp(mulMatOp)
}

// dropHead leaves the head whole from now on.
func (m *Model) dropHead() {
	m.hook.setHeadOp(0)
	m.head.free()
	m.head = nil
}

// learnHead looks at the head that the last decode computed whole, if it did.
// llama.cpp's tensors are as that graph left them until the next decode.
func (m *Model) learnHead() {
	if m.head == nil {
		return
	}
	t := m.hook.wholeHead()
	if t == nil {
		return
	}
	width := t.ne[1]
	if width < 1 || width > maxHeadWidth || m.head.tried[width] {
		return
	}
	h := m.head
	if h.weight == nil && !m.learnWeight(t) {
		m.dropHead()
		return
	}
	if tensorAt(t.src[0]) != h.weight {
		return
	}
	g := h.build(t)
	if g == nil {
		m.dropHead()
		return
	}
	same, stopped := h.verify(g, t)
	if h.tried[width] = !stopped; same {
		h.graphs[width] = g
		m.hook.setHeadGraph(int(width), g)
		return
	}
	ggml.free(g.ctx)
}

// learnWeight decides on the slices. False: this head can't be sliced.
func (m *Model) learnWeight(t *tensor) bool {
	h, w, input := m.head, tensorAt(t.src[0]), tensorAt(t.src[1])
	const f32 = 0
	plain := t.kind == f32 && input.kind == f32 && t.viewSrc == 0 && w.buffer != 0 && w.ne[2]*w.ne[3] == 1 &&
		t.ne[2]*t.ne[3] == 1 && t.ne[0] == w.ne[1] && t.nb[0] == 4 && t.nb[1] == 4*uintptr(t.ne[0])
	if !plain || !slices.Contains(slicedBuffers, ggml.bufferName(w.buffer)) {
		return false
	}
	model, tied := llama.ModelNParams(m.handle), tensorName(w) == "token_embd.weight"
	h.count, h.rows = headSlices(w.ne[1], uint64(w.ne[0]*w.ne[1]), model, m.info.Layers, tied)
	if h.count < 2 {
		return false
	}
	h.half = min(h.rows, (h.rows/sliceParts+headUnit-1)/headUnit*headUnit)
	_, abort, data, _ := m.hook.callbacks()
	var err error
	if h.cpu, err = newCPUBackend(h.device, abort, data); err != nil {
		return false
	}
	h.cpu.setPool(h.cpu.handle, uintptr(m.pool.handle))
	h.cpu.setThreads(h.cpu.handle, int32(m.threads))
	h.weight = w
	m.hook.setHead(h)
	return true
}

// headSlices says into how many slices of how many rows a head is cut: as many
// as it has times the weights of a layer, so that a slice takes about as long as
// a layer does. (Weights, not bytes: a head of 8 bits beside layers of 4 has 15
// times a layer's bytes in SmolLM2 and 8 times its weights, and takes 8 to 9
// times as long.) A head of its own has an embedding table of about its size
// beside it, a tied one is that table. A slice has a multiple of headUnit rows.
func headSlices(rows int64, head, model uint64, layers int, tied bool) (count int, each int64) {
	tables := head
	if !tied {
		tables = 2 * head
	}
	if head == 0 || model <= tables || layers < 1 {
		return 1, rows
	}
	layer := (model - tables) / uint64(layers)
	if layer == 0 {
		return 1, rows
	}
	want := int64(min((head+layer-1)/layer, maxSlices))
	each = ((rows+want-1)/want + headUnit - 1) / headUnit * headUnit
	return int((rows + each - 1) / each), each
}

func tensorName(t *tensor) string {
	name, _, _ := bytes.Cut(t.name[:], []byte{0})
	return string(name)
}

// build makes the products for as many rows as t has, nil if there is no memory.
func (h *head) build(t *tensor) *headGraph {
	input := tensorAt(t.src[1])
	nodes := uintptr(2*sliceParts*h.count + 2)
	g := &headGraph{}
	g.ctx = newContext(ggml.tensorOverhead()*nodes+ggml.graphOverhead(nodes, false), true)
	if g.ctx == 0 {
		return nil
	}
	g.graph = ggml.newGraph(g.ctx, nodes, false)
	g.input = ggml.newTensor(g.ctx, input.kind, input.ne[0], input.ne[1])
	for i := range sliceParts * h.count {
		from, rows := h.part(i)
		if rows <= 0 {
			g.parts = append(g.parts, nil)
			continue
		}
		view := ggml.view(g.ctx, h.weight, h.weight.ne[0], rows, h.weight.nb[1], uintptr(from)*h.weight.nb[1])
		// The buffer decides anew how the view's rows are laid out; that must be as the weight's are.
		if ggml.viewInit(view) != 0 || view.extra != h.weight.extra {
			ggml.free(g.ctx)
			return nil
		}
		product := ggml.mulMat(g.ctx, view, g.input)
		product.nb = t.nb // rows of logits lie as far apart as the vocabulary is long
		ggml.expand(g.graph, product)
		g.parts = append(g.parts, product)
	}
	return g
}

// part is from which row of the weight on the i-th part goes, and how many it has.
func (h *head) part(i int) (from, rows int64) {
	begin := int64(i/sliceParts) * h.rows
	end := min(begin+h.rows, h.weight.ne[1])
	if i%sliceParts == 0 {
		return begin, min(h.half, end-begin)
	}
	return begin + h.half, end - begin - h.half
}

// verify computes the slices beside the head that is there, and compares.
func (h *head) verify(g *headGraph, t *tensor) (same, stopped bool) {
	scratch := make([]float32, t.ne[0]*t.ne[1])
	g.input.data = tensorAt(t.src[1]).data
	ggml.graphClear(g.graph)
	for i, p := range g.parts {
		if p != nil {
			from, _ := h.part(i)
			p.data = uintptr(unsafe.Pointer(&scratch[from]))
			ggml.graphAdd(g.graph, p)
		}
	}
	status := ggml.graphCompute(h.cpu.handle, g.graph)
	mine := unsafe.Slice((*byte)(unsafe.Pointer(&scratch[0])), 4*len(scratch))
	same = status == 0 && bytes.Equal(mine, unsafe.Slice(*(**byte)(unsafe.Pointer(&t.data)), len(mine)))
	runtime.KeepAlive(scratch)
	return same, status == statusAborted
}

const statusAborted = 1 // ggml_status

// setThreads follows the context.
func (h *head) setThreads(n int) {
	if h != nil && h.cpu != nil {
		h.cpu.setThreads(h.cpu.handle, int32(n))
	}
}

// free gives everything back, after the context is gone and before its pool.
func (h *head) free() {
	if h == nil {
		return
	}
	for _, g := range h.graphs {
		if g != nil {
			ggml.free(g.ctx)
		}
	}
	if h.cpu != nil {
		ggml.backendFree(h.cpu.handle)
	}
}
