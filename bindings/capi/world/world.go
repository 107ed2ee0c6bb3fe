package world

import (
	"context"
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

// Clock is the clock of every world of the process.
var Clock = llm.NewClock()

// State is where a world is in its life, with lull.h's numbers.
type State int32

// States.
const (
	Loading State = iota + 1
	Ready
	Failed
)

// World is a runtime with its NPCs, behind one lock. Every method is called
// between Enter and Leave.
type World struct {
	generation uint32
	index1     uint16
	def        Def

	// The host's side, under the lock.
	mu       sync.Mutex
	closed   bool
	state    State // as Collect last told it
	lastErr  string
	talk     *npc.World // nil until ready
	npcs     []*NPC     // by index; nil is free
	free     []int      // indices that are free again
	byName   map[npc.AgentID]*NPC
	actions  map[npc.TurnID]npc.Action // that the game did not answer yet
	asked    *ask                      // the sentence that the game is to judge; nil: none
	sentence uint64                    // the number of the last one
	heard    []npc.Event               // memory of Poll
	recalled []rag.Event               // likewise
	out      []Event                   // to be polled; out[:given] were
	given    int
	totals   Totals
	heap     [3]metrics.Sample // memory of Statistics
	frames   uint64
	phase    scheduler.Phase       // as the host last said it, for a runtime that comes later
	host     scheduler.HostSignals // likewise

	// Between the host and our goroutines.
	loaded   atomic.Pointer[local.Runtime] // nil until ready
	memory   *memory                       // set before loading is closed
	progress atomic.Uint64                 // of loading: a float64's bits
	warm     chan npc.AgentSpec            // to be warmed up
	asks     chan *ask                     // sentences to be judged, one at a time
	log      lineRing
	work     workTotals

	// The end.
	cancel  context.CancelFunc // of loading
	quit    chan struct{}      // closed: heat ends
	loading chan struct{}      // closed when the loader has ended; then loadErr is fixed
	loadErr error
	heating chan struct{} // closed when heat has ended
	ended   chan struct{} // closed when everything has
}

func open(def Def, index1 uint16) *World {
	ctx, cancel := context.WithCancel(context.Background())
	w := &World{
		generation: generation(), index1: index1, def: def, state: Loading,
		byName: map[npc.AgentID]*NPC{}, actions: map[npc.TurnID]npc.Action{}, heap: heapSamples(),
		log: lineRing{notes: make(chan string, maxNotes)}, warm: make(chan npc.AgentSpec, maxWarm),
		asks: make(chan *ask, 1), cancel: cancel, quit: make(chan struct{}), loading: make(chan struct{}),
		heating: make(chan struct{}), ended: make(chan struct{}),
	}
	go w.load(ctx)
	go w.heat()
	return w
}

func (w *World) id() ID { return ID{uint32(w.index1), w.generation} }

// load opens the runtime. It runs in a goroutine of its own and always ends by
// closing loading.
func (w *World) load(ctx context.Context) {
	defer close(w.loading)
	defer func() {
		if p := recover(); p != nil {
			w.loadErr = Errorf(Internal, "loading panicked: %v\n%s", p, debug.Stack())
			w.log.add(LogError, w.loadErr.Error())
		}
	}()
	r, err := local.Open(ctx, w.def.config(w))
	if err == nil && ctx.Err() != nil {
		r.Close() // cancelled in the last moment
		err = ctx.Err()
	}
	if err != nil {
		w.loadErr = Errorf(loadCode(err), "%s", loadText(err))
		w.log.add(LogError, w.loadErr.Error())
		return
	}
	if err := rehearse(r.Model); err != nil { // a reply will say why it can't be
		w.log.add(LogWarning, err.Error())
	}
	w.progressed("ready", 1)
	info := r.Model.Info()
	if w.def.MemoryMode != MemoryNone {
		if w.memory, w.loadErr = openMemory(ctx, r, w.def); w.loadErr != nil {
			w.loaded.Store(r) // end closes it
			return
		}
	}
	w.log.add(LogInfo, fmt.Sprintf("%s on %s, %s, %d layers, %d tokens of context",
		info.Name, info.Device, info.Library, info.Layers, info.Context))
	w.loaded.Store(r)
}

// Settled, if set, is called when llama.cpp has made something that is destroyed
// at exit(): the worlds must end before. Set it before the first Create.
var Settled func()

func settle() {
	if Settled != nil {
		Settled()
	}
}

// rehearse does once what makes llama.cpp create its tables: otherwise the
// first reply would, while the game may be about to exit.
func rehearse(m llm.Model) error {
	turns := []llm.Turn{{Role: llm.System, Text: "Ægir's 3rd test, 試験."}, {Role: llm.User, Text: "Go on!\n"}}
	segments, err := m.RenderChat(turns, true)
	if err != nil {
		return err
	}
	if _, _, err := llm.TokenizeChat(m, segments); err != nil {
		return err
	}
	settle()
	return nil
}

// modelShare is the part of loading that is reading the model; the rest is
// finding the files and loading the library.
const modelShare = 0.95

// progressed is told by the loader how far a stage is.
func (w *World) progressed(stage string, done float64) {
	switch stage {
	case "library":
		settle()
		done *= 1 - modelShare
	case "model":
		done = 1 - modelShare + modelShare*done
	}
	w.progress.Store(toBits(done))
}

// end closes everything, in the order in which one uses another. It runs in a
// goroutine of its own.
func (w *World) end() {
	w.mu.Lock() // waits for a call of the host that is inside
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	close(w.quit)
	<-w.loading
	<-w.heating
	if w.talk != nil {
		w.talk.Close()
	}
	if r := w.loaded.Load(); r != nil {
		r.Close() // and the memories; where the disk fails nothing more can be done in time
	}
	close(w.ended)
}

// Runtime is the loaded runtime, or nil.
func (w *World) Runtime() *local.Runtime { return w.loaded.Load() }

// Status says where the world is.
type Status struct {
	State    State
	Result   Code
	Progress float64
	NPCs     int
	Requests int
}

// Status says where the world is.
func (w *World) Status() Status {
	s := Status{State: Loading, Progress: fromBits(w.progress.Load()), NPCs: len(w.byName)}
	for _, n := range w.byName {
		s.Requests += len(n.busy)
	}
	select {
	case <-w.loading:
		s.State = Ready
		if w.loadErr != nil {
			s.State, s.Result = Failed, CodeOf(w.loadErr)
		}
	default:
	}
	return s
}

// CancelLoad gives loading up.
func (w *World) CancelLoad() error {
	select {
	case <-w.loading:
		return Errorf(Nothing, "nothing is loading")
	default:
		w.cancel()
		return nil
	}
}

// LastError is the text of the last failure of a call, or of loading.
func (w *World) LastError() string { return w.lastErr }

// Note keeps the text of a failure for LastError.
func (w *World) Note(err error) { w.lastErr = err.Error() }

// PollLog takes the oldest line of the log if keep does not want it to stay.
func (w *World) PollLog(keep func(LogLevel, string) bool) bool { return w.log.take(keep) }
