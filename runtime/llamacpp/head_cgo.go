//go:build cgo

package llamacpp

/*
#include "gate.h"

static void set_functions(lull_head *h, uintptr_t clear, uintptr_t add, uintptr_t compute, uintptr_t backend,
                          uintptr_t weight) {
    h->clear = (void (*)(void *))clear;
    h->add = (void (*)(void *, lull_tensor *))add;
    h->compute = (int32_t (*)(void *, void *))compute;
    h->backend = (void *)backend;
    h->weight = (lull_tensor *)weight;
}

static void set_graph(lull_head *h, int width, uintptr_t graph, uintptr_t input) {
    h->widths[width].graph = (void *)graph;
    h->widths[width].input = (lull_tensor *)input;
}

static void set_part(lull_head *h, int width, int i, uintptr_t product) {
    h->widths[width].parts[i] = (lull_tensor *)product;
}

static uintptr_t whole_head(lull_hook *h) { return (uintptr_t)h->whole; }
*/
import "C"

import "unsafe"

// setHeadOp tells the hook which operation a head is; 0 leaves heads whole.
func (h *hook) setHeadOp(op int32) {
	h.c.head.op, h.c.norm_seen = C.int32_t(op), 0
	if op == 0 {
		h.c.head.count = 0
	}
}

// setHead tells the hook of the slices. What was learned of a whole head is
// shared out among them.
func (h *hook) setHead(d *head) {
	c := &h.c.head
	C.set_functions(c, C.uintptr_t(ggml.clear), C.uintptr_t(ggml.add), C.uintptr_t(ggml.comp),
		C.uintptr_t(d.cpu.handle), C.uintptr_t(d.weight.address()))
	c.count, c.rows, c.half = C.int32_t(d.count), C.int64_t(d.rows), C.int64_t(d.half)
	table := unsafe.Slice(h.table, widthRows*maxThreads*(h.layers+1))
	for i := h.layers; i < len(table); i += h.layers + 1 {
		table[i] /= C.int64_t(d.count)
	}
}

func (h *hook) setHeadGraph(width int, g *headGraph) {
	for i, p := range g.parts {
		if p != nil {
			C.set_part(&h.c.head, C.int(width), C.int(i), C.uintptr_t(p.address()))
		}
	}
	C.set_graph(&h.c.head, C.int(width), C.uintptr_t(g.graph), C.uintptr_t(g.input.address()))
}

// wholeHead is the head that the last decode computed whole, or nil.
func (h *hook) wholeHead() *tensor { return tensorAt(uintptr(C.whole_head(h.c))) }

// dropped says that the last decode was given up at the gate or between slices.
func (h *hook) dropped() bool { return h.c.drop != 0 }
