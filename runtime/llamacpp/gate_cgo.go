//go:build cgo

package llamacpp

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#cgo windows LDFLAGS: -lsynchronization
#include <stdlib.h>
#include "gate.h"
*/
import "C"

import (
	"errors"
	"runtime"
	"time"
	"unsafe"

	"github.com/lull-npc/lull/runtime/llm"
)

// GateKind says which of the two gates this build has.
const GateKind = "C"

// gate is an llm.Gate in C memory. Publish and Woken: one thread at a time.
type gate struct {
	c     *C.lull_gate
	wakes uint64        // that Publish made
	took  time.Duration // by all of them
}

// newGate makes a gate that is free. The rule is in C here; admit is only for
// builds without cgo, and a test holds the two against each other.
func newGate(clock llm.Clock, _ llm.AdmitFunc) (*gate, error) {
	c := (*C.lull_gate)(C.calloc(1, C.sizeof_lull_gate))
	if c == nil {
		return nil, errors.New("llamacpp: no memory for a gate")
	}
	C.lull_gate_init(c, C.int64_t(clock.Now()))
	g := &gate{c: c}
	runtime.AddCleanup(g, func(c *C.lull_gate) { C.free(unsafe.Pointer(c)) }, c)
	return g, nil
}

// Publish implements llm.Gate.
func (g *gate) Publish(w llm.Window) {
	g.publish(w)
	runtime.KeepAlive(g)
}

// Activity implements llm.Gate.
func (g *gate) Activity() (running bool, groups uint64) {
	running, groups = g.activity()
	runtime.KeepAlive(g)
	return running, groups
}

// Woken implements llm.Waker.
func (g *gate) Woken() (calls uint64, took time.Duration) { return g.wakes, g.took }

func cWindow(w llm.Window) C.lull_window {
	spill := C.int32_t(0)
	if w.Spill {
		spill = 1
	}
	return C.lull_window{
		mode:            C.int32_t(w.Mode),
		layers_per_stop: C.int32_t(w.LayersPerStop),
		open_ns:         C.int64_t(w.Open),
		close_ns:        C.int64_t(w.Close),
		pause_ns:        C.int64_t(w.Pause),
		expires_ns:      C.int64_t(w.Expires),
		spill:           spill,
	}
}

// admitC is the rule as C has it, an llm.AdmitFunc for the twin test.
func admitC(now, lastEnd int64, w llm.Window, next time.Duration, tentative bool) (llm.Verdict, int64) {
	var until C.int64_t
	v := C.lull_admit(C.int64_t(now), C.int64_t(lastEnd), cWindow(w), C.int64_t(next), C.bool(tentative), &until)
	return llm.Verdict(v), int64(until)
}

// hook is one context's side of the gate, in C memory for as long as the
// context lives.
type hook struct {
	c       *C.lull_hook
	gate    *gate
	table   *C.int64_t
	layers  int
	samples []llm.LayerSample
}

func newHook(g *gate, layers int) (*hook, error) {
	rows := C.size_t(widthRows * maxThreads * (layers + 1))
	h := &hook{
		c:       (*C.lull_hook)(C.calloc(1, C.sizeof_lull_hook)),
		table:   (*C.int64_t)(C.calloc(rows, C.sizeof_int64_t)),
		gate:    g,
		layers:  layers,
		samples: make([]llm.LayerSample, 0, C.LULL_SAMPLES),
	}
	runtime.AddCleanup(h, func(c *C.lull_hook) { C.free(unsafe.Pointer(c)) }, h.c)
	runtime.AddCleanup(h, func(t *C.int64_t) { C.free(unsafe.Pointer(t)) }, h.table)
	if h.c == nil || h.table == nil {
		return nil, errors.New("llamacpp: no memory for the layer gate")
	}
	h.c.gate = g.c
	h.c.n_layers = C.int32_t(layers)
	return h, nil
}

// callbacks returns the C functions for cb_eval and abort, and their data.
func (h *hook) callbacks() (eval, abort, abortData, evalData uintptr) {
	self := uintptr(unsafe.Pointer(h.c))
	return uintptr(C.lull_hook_eval_ptr()), uintptr(C.lull_hook_abort_ptr()), self, self
}

// release has nothing to give back here: the C memory goes with the hook.
func (h *hook) release() {}

func (h *hook) stop(on bool) { C.lull_hook_stop(h.c, C.bool(on)) }

func (h *hook) stopped() bool { return bool(C.lull_hook_stopped(h.c)) }

// enter waits until the first group may run; false means stopped.
func (h *hook) enter(width, threads int, tentative bool) bool {
	row := unsafe.Add(unsafe.Pointer(h.table), predictRow(width, threads)*(h.layers+1)*C.sizeof_int64_t)
	ok := C.lull_hook_enter(h.c, C.int32_t(width), C.int32_t(threads), C.bool(tentative), (*C.int64_t)(row))
	return bool(ok)
}

// leave ends a decode and copies what was measured into w.
func (h *hook) leave(complete bool, w *llm.Work) {
	C.lull_hook_leave(h.c, C.bool(complete))
	w.Waited += time.Duration(h.c.waited_ns)
	w.Stops += int(h.c.stops)
	h.samples = h.samples[:0]
	for i := range int(h.c.n_samples) {
		s := &h.c.samples[i]
		h.samples = append(h.samples, llm.LayerSample{
			First: int16(s.first), Last: int16(s.last), Width: int16(s.width), Threads: int16(s.threads),
			Duration: time.Duration(s.duration_ns), Switched: s.switched != 0,
		})
	}
	w.Samples = h.samples
}

// loading is the shared state of one model load.
type loading struct{ c *C.lull_loading }

func newLoading() *loading { return &loading{(*C.lull_loading)(C.calloc(1, C.sizeof_lull_loading))} }

func (l *loading) callback() (fn, data uintptr) {
	return uintptr(C.lull_loading_ptr()), uintptr(unsafe.Pointer(l.c))
}

func (l *loading) done() float64 {
	return float64(C.lull_loading_done(l.c)) / 1000
}
func (l *loading) cancel() { C.lull_loading_cancel(l.c) }
func (l *loading) free()   { C.free(unsafe.Pointer(l.c)) }

// logCallback is what llama.cpp logs to.
func logCallback() uintptr { return uintptr(C.lull_log_ptr()) }

// takeLog returns and empties the last warnings and errors.
func takeLog() string {
	buf := (*C.char)(C.malloc(C.LULL_LOG_BYTES))
	defer C.free(unsafe.Pointer(buf))
	n := C.lull_log_take(buf, C.LULL_LOG_BYTES)
	return C.GoStringN(buf, C.int(n))
}
