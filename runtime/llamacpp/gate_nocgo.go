//go:build !cgo

package llamacpp

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/lull-npc/lull/runtime/llm"
)

// GateKind says which of the two gates this build has. This one enters Go at
// every node of a graph: 1-2 µs each, 900 nodes a token.
const GateKind = "purego"

// gate fans windows out to the soft gates of its hooks, so that each model can
// be stopped for itself.
type gate struct {
	clock llm.Clock
	admit llm.AdmitFunc
	mu    sync.Mutex // adding hooks
	hooks atomic.Pointer[[]*hook]
}

func newGate(clock llm.Clock, admit llm.AdmitFunc) (*gate, error) {
	g := &gate{clock: clock, admit: admit}
	g.hooks.Store(&[]*hook{})
	return g, nil
}

// Publish implements llm.Gate.
func (g *gate) Publish(w llm.Window) {
	for _, h := range *g.hooks.Load() {
		h.soft.Publish(w)
		if w.Shut() && h.guessing.Load() { // as lull_hook_abort
			atomic.StoreUint32(&abortWords[h.slot], 1)
		}
	}
}

// Activity implements llm.Gate.
func (g *gate) Activity() (running bool, groups uint64) {
	for _, h := range *g.hooks.Load() {
		r, n := h.soft.Activity()
		running, groups = running || r, groups+n
	}
	return running, groups
}

// add gives a new hook the newest window.
func (g *gate) add(h *hook) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := *g.hooks.Load()
	if len(old) > 0 {
		h.soft.Publish(old[0].soft.Window())
	}
	list := append(append([]*hook(nil), old...), h)
	g.hooks.Store(&list)
}

// maxHooks: contexts that may be made in one process without cgo. Callbacks
// find their hook by a small number; slots are used again after Close.
const maxHooks = 256

var (
	hookSlots  [maxHooks]atomic.Pointer[hook]
	abortWords [maxHooks]uint32 // what strlen reads: "" goes on, "\x01" stops; little endian
	callbacks  struct {
		sync.Once
		eval, abort, log, progress uintptr
		err                        error
	}
)

// makeCallbacks makes the four callbacks of this process: they are never freed.
func makeCallbacks() error {
	callbacks.Do(func() {
		callbacks.eval = purego.NewCallback(evalHook)
		callbacks.log = purego.NewCallback(logLine)
		callbacks.progress = purego.NewCallback(loadProgress)
		callbacks.abort, callbacks.err = findStrlen()
	})
	return callbacks.err
}

// hook is one context's side of the gate. See gate.h, whose logic it repeats.
type hook struct {
	soft   *llm.SoftGate
	clock  llm.Clock
	admit  llm.AdmitFunc
	slot   int
	layers int
	table  []int64 // predictions, a row for each width and number of threads: layers, then a slice of the head
	row    []int64

	width, threads      int
	tentative, drop     bool
	node, nodes         int
	byName              bool
	halt, layer, done   int
	groupStart, lastEnd int64
	switches            int64
	cold                bool // the group began after a shut window, on the caches that the game left
	waited              time.Duration
	stops               int
	samples             []llm.LayerSample
	head                headHook

	guessing atomic.Bool // a tentative batch runs
}

func newHook(g *gate, layers int) (*hook, error) {
	if err := makeCallbacks(); err != nil {
		return nil, err
	}
	h := &hook{
		soft:    llm.NewGate(g.clock, g.admit),
		clock:   g.clock,
		admit:   g.admit,
		layers:  layers,
		table:   make([]int64, widthRows*maxThreads*(layers+1)),
		samples: make([]llm.LayerSample, 0, layers+maxSlices),
	}
	for i := range hookSlots {
		if hookSlots[i].CompareAndSwap(nil, h) {
			h.slot = i
			atomic.StoreUint32(&abortWords[i], 0)
			g.add(h)
			return h, nil
		}
	}
	return nil, fmt.Errorf("llamacpp: %d contexts are open: %w", maxHooks, llm.ErrNoSequence)
}

func (h *hook) callbacks() (eval, abort, abortData, evalData uintptr) {
	return callbacks.eval, callbacks.abort, uintptr(unsafe.Pointer(&abortWords[h.slot])), uintptr(h.slot)
}

// release gives the slot back, after the context is gone.
func (h *hook) release() { hookSlots[h.slot].CompareAndSwap(h, nil) }

func (h *hook) stop(on bool) {
	if on {
		atomic.StoreUint32(&abortWords[h.slot], 1)
		h.soft.Stop()
		return
	}
	h.soft.Resume()
	atomic.StoreUint32(&abortWords[h.slot], 0)
}

func (h *hook) stopped() bool { return h.soft.Stopped() }

func (h *hook) enter(width, threads int, tentative bool) bool {
	at := predictRow(width, threads) * (h.layers + 1)
	h.row = h.table[at : at+h.layers+1]
	if (h.drop || h.tentative) && !h.soft.Stopped() { // what dropped the batch before does not drop this one
		atomic.StoreUint32(&abortWords[h.slot], 0)
	}
	h.width, h.threads, h.tentative = width, threads, tentative
	h.guessing.Store(tentative)
	h.drop, h.node, h.done, h.waited, h.stops = false, 0, -1, 0, 0
	h.samples = h.samples[:0]
	h.head.norm, h.head.whole = nil, nil
	return h.pass()
}

func (h *hook) leave(complete bool, w *llm.Work) {
	h.unmute()
	h.guessing.Store(false)
	if complete {
		if h.done < h.layers {
			h.finish(h.layers)
		}
		h.nodes = h.node
	}
	h.lastEnd = h.clock.Now()
	h.soft.Leave()
	w.Waited += h.waited
	w.Stops += h.stops
	w.Samples = h.samples
}

func (h *hook) stride(layersPerStop int) int {
	if layersPerStop < 1 || layersPerStop > h.layers {
		return h.layers
	}
	return layersPerStop
}

// expected is the predicted time of a layer, or of a slice of the head.
func (h *hook) expected(layer int) time.Duration { return time.Duration(h.row[min(layer, h.layers)]) }

// coldWait tells a wait at the gate from the time that asking takes.
const coldWait = 50 * time.Microsecond

func (h *hook) pass() bool {
	h.stops++
	first := h.done + 1
	limit, next := h.layers, h.expected(first)
	switch {
	case h.head.slicing:
		first = h.layers + h.head.slice
		limit = h.layers + h.head.count
	case first >= h.layers:
		next *= time.Duration(h.headParts())
	}
	waited, ok := h.soft.Pass(h.lastEnd, next, h.tentative)
	h.waited += waited
	h.cold = waited > coldWait && h.soft.Window().Mode != llm.GatePaced
	h.switches = involuntarySwitches()
	h.groupStart = h.clock.Now()
	if !ok {
		h.drop = true
		atomic.StoreUint32(&abortWords[h.slot], 1)
	} else if first < limit {
		h.halt = h.groupEnd(first, limit)
	}
	return ok
}

// groupEnd is the last layer of the group that begins at first: as many as the
// window allows and its stride says, since each halt wakes the pool anew; in a
// window as many as half of what is left allows. As admit_group in gate_c.c.
func (h *hook) groupEnd(first, limit int) int {
	w := h.soft.Window()
	halving := w.Mode == llm.GateWindow && w.LayersPerStop != 1 && h.groupStart < w.Close
	last, end := first, min(first+h.stride(w.LayersPerStop), limit)-1
	if halving {
		end = limit - 1
	}
	for sum := h.expected(first); last < end; last++ {
		sum += h.expected(last + 1)
		if halving && int64(sum) > (w.Close-h.groupStart)/2 {
			break
		}
		if v, _ := h.admit(h.groupStart, h.lastEnd, w, sum, h.tentative); v != llm.Go {
			break
		}
	}
	return last
}

func (h *hook) finish(last int) {
	now := h.clock.Now()
	d := time.Duration(now - h.groupStart)
	switched := involuntarySwitches() != h.switches
	first := min(h.done+1, last)
	h.sample(first, last, d, switched || h.cold)
	units := last - first + 1
	if last == h.layers {
		units += h.headParts() - 1
	}
	if !switched {
		h.learn(first, last, int64(d)/int64(units))
	}
	h.done, h.lastEnd = last, now
}

func (h *hook) sample(first, last int, d time.Duration, switched bool) {
	if len(h.samples) < cap(h.samples) {
		h.samples = append(h.samples, llm.LayerSample{
			First: int16(first), Last: int16(last), Width: int16(h.width), Threads: int16(h.threads), Duration: d,
			Switched: switched,
		})
	}
}

func (h *hook) learn(first, last int, each int64) {
	if first == 0 && last == h.layers && h.row[0] != 0 {
		return
	}
	for i := first; i <= last; i++ {
		switch p := &h.row[i]; {
		case *p == 0:
			*p = each
		case each < *p:
			*p += (each - *p) / 32
		default:
			*p += (min(each, 2**p) - *p) / 4
		}
	}
}

// unasked is lull_hook_unasked.
func (h *hook) unasked() bool {
	w := h.soft.Window()
	return w.Mode == llm.GateFree && h.stride(w.LayersPerStop) >= h.layers
}

// wantsStop is wants_stop of gate_c.c.
func (h *hook) wantsStop(layer int) bool {
	if layer == h.layers-1 {
		return !h.head.normSeen && !h.unasked()
	}
	return layer >= h.halt && !h.unasked()
}

// evalHook is llama.cpp's cb_eval. It never returns 0 after a layer: that is
// no abort.
func evalHook(node unsafe.Pointer, ask, slot uintptr) uintptr {
	h, t := hookSlots[slot].Load(), (*tensor)(node)
	switch {
	case h == nil:
		return 0
	case ask&0xff != 0:
		if h.asked(t) {
			return 1
		}
		return 0
	case t == h.head.norm: // what comes next is known when it is asked about
	case t == h.head.muted:
		h.unmute()
	default:
		h.finish(h.layer)
		h.pass()
	}
	return 1
}

func (h *hook) asked(t *tensor) bool {
	h.node++
	if h.head.norm != nil && h.afterNorm(t) {
		return true
	}
	if h.head.op != 0 && t.name == normName {
		return h.haltAtNorm(t)
	}
	layer := h.layerAt(&t.name)
	if layer < 0 {
		return false
	}
	if layer <= h.done {
		h.done, h.halt = -1, 0
	}
	if !h.wantsStop(layer) {
		return false
	}
	h.layer = layer
	return true
}

func (h *hook) layerAt(name *[64]byte) int {
	if n := layerOf(name); n >= 0 {
		h.byName = true
		if n < h.layers {
			return n
		}
		return -1
	}
	if h.byName || h.nodes < h.layers {
		return -1
	}
	each := h.nodes / (h.layers + 1)
	if each == 0 || h.node%each != 0 || h.node/each > h.layers {
		return -1
	}
	return h.node/each - 1
}

// layerOf reads N from a name l_out-N, or returns -1.
func layerOf(name *[64]byte) int {
	const prefix = "l_out-"
	if string(name[:len(prefix)]) != prefix || name[len(prefix)] == 0 {
		return -1
	}
	n := 0
	for _, c := range name[len(prefix):] {
		if c == 0 {
			return n
		}
		if c < '0' || c > '9' || n > 9999 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return -1
}

// loading is the shared state of one model load. Loads are numbered, since a
// callback can only be told a number.
type loading struct {
	id       uintptr
	perMille atomic.Int32
	stopped  atomic.Bool
}

var (
	loads    sync.Map // id → *loading
	nextLoad atomic.Uintptr
)

func newLoading() *loading {
	l := &loading{id: nextLoad.Add(1)}
	loads.Store(l.id, l)
	return l
}

func (l *loading) callback() (fn, data uintptr) {
	if makeCallbacks() != nil {
		return 0, 0
	}
	return callbacks.progress, l.id
}

func (l *loading) done() float64 { return float64(l.perMille.Load()) / 1000 }
func (l *loading) cancel()       { l.stopped.Store(true) }
func (l *loading) free()         { loads.Delete(l.id) }

func loadProgress(done float32, id uintptr) uintptr {
	v, ok := loads.Load(id)
	if !ok {
		return 1
	}
	l := v.(*loading)
	l.perMille.Store(int32(done * 1000))
	if l.stopped.Load() {
		return 0
	}
	return 1
}

var log struct {
	sync.Mutex
	text  strings.Builder
	level int32
}

const (
	logBytes = 4096
	logWarn  = 3 // ggml_log_level
	logError = 4
	logCont  = 5
)

func logLine(level int32, text unsafe.Pointer, _ uintptr) uintptr {
	log.Lock()
	defer log.Unlock()
	if level != logCont {
		log.level = level
	}
	if log.level != logWarn && log.level != logError {
		return 0
	}
	n := 0
	for n < logBytes/2 && *(*byte)(unsafe.Add(text, n)) != 0 {
		n++
	}
	if log.text.Len()+n > logBytes {
		log.text.Reset() // the newest lines name the cause
	}
	log.text.Write(unsafe.Slice((*byte)(text), n))
	return 0
}

func logCallback() uintptr {
	if makeCallbacks() != nil {
		return 0
	}
	return callbacks.log
}

func takeLog() string {
	log.Lock()
	defer log.Unlock()
	s := log.text.String()
	log.text.Reset()
	return s
}
