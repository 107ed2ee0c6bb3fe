package llm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

const (
	// defaultMaxQueue is 64 requests: more characters than a scene has talk at
	// once, and by the 64th reply of 3 s the first would be three minutes old.
	defaultMaxQueue = 64

	// maxMaxQueue bounds what Submit, Cancel and Step look through each time.
	maxMaxQueue = 4096

	// defaultTogether is 4 requests in one batch. On a CPU four rows cost about
	// twice one row, so all four read faster than a player does; with more,
	// each single reply gets slow and every one holds a sequence.
	defaultTogether = 4

	// defaultMaxTokens is a long paragraph: more than a character should say
	// in one breath, little enough that a model that rambles ends in seconds.
	defaultMaxTokens = 256

	// maxStops and maxStopBytes bound what each byte of a reply is compared
	// with, and what may be held back from the player.
	maxStops     = 16
	maxStopBytes = 256
)

// EngineConfig sets an Engine up. The zero value is right for a game.
type EngineConfig struct {
	// MaxQueue is how many requests there may be at one time, from Submit until
	// Poll gave out their last event; 0 means 64, 4096 is the most. Beyond it
	// Submit returns ErrQueueFull.
	MaxQueue int

	// Together is how many requests of the same priority advance together,
	// sharing their batches; 0 means 4. With 1 the earlier one is finished
	// before the next begins.
	Together int

	// Clock is the time of Request.Deadline and Usage; nil means NewClock().
	Clock Clock

	// Speculator guesses tokens ahead while one reply is decoded; nil decodes
	// one at a time. It stays the caller's, and serves one engine.
	Speculator Speculator

	// Heads keeps the states of Request.Head between runs of the game; nil
	// keeps none.
	Heads HeadStore
}

// Engine turns requests into events. The game thread submits, cancels and
// polls, and never waits for the goroutine that steps, which may be asleep in
// the middle of anything: it runs at the lowest priority.
//
// The highest Priority goes first, then the earliest Deadline, then the oldest.
// A reply that is overtaken is paused and goes on later: it keeps its sequence,
// or, where the better one needs that, computes it again. Requests of one owner
// are answered one after the other; one that waits lends its rank to the one in
// its way.
type Engine struct {
	model    Model
	spec     Speculator // nil: none
	heads    HeadStore  // nil: none
	info     Info
	clock    Clock
	together int

	table  []entry
	lastID atomic.Uint64
	wake   chan struct{} // capacity 1
	out    outbox

	claimed atomic.Bool // events are somebody's
	closed  atomic.Bool
	halted  atomic.Bool // a worker is ending: Step returns before it decodes

	runs      atomic.Int64 // priority of the requests whose batch runs; noBatch: none does
	overtaken atomic.Bool  // that batch was stopped for a request of higher priority

	slots   []slot // one for each sequence that the model can open
	working atomic.Bool

	stepMu sync.Mutex // held in Step and Close: one goroutine uses the model
	step   stepState
}

// NewEngine returns an engine for m, which stays the caller's to close, after
// the engine.
func NewEngine(m Model, cfg EngineConfig) (*Engine, error) {
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = defaultMaxQueue
	}
	if cfg.Together == 0 {
		cfg.Together = defaultTogether
	}
	if cfg.Clock == nil {
		cfg.Clock = NewClock()
	}
	if cfg.MaxQueue < 1 || cfg.MaxQueue > maxMaxQueue {
		return nil, fmt.Errorf("llm: EngineConfig.MaxQueue %d: want 1…%d, or 0 for %d",
			cfg.MaxQueue, maxMaxQueue, defaultMaxQueue)
	}
	if cfg.Together < 1 {
		return nil, fmt.Errorf("llm: EngineConfig.Together %d: want 1 or more, or 0 for %d",
			cfg.Together, defaultTogether)
	}
	info := m.Info()
	if min(info.Vocab, info.Context, info.MaxBatch, info.MaxSequences) < 1 {
		return nil, fmt.Errorf("llm: model %q: vocabulary %d, context %d, batch %d, sequences %d: want each 1 or more",
			info.Name, info.Vocab, info.Context, info.MaxBatch, info.MaxSequences)
	}
	e := &Engine{
		model: m, spec: cfg.Speculator, heads: cfg.Heads, info: info, clock: cfg.Clock, together: cfg.Together,
		table: make([]entry, cfg.MaxQueue),
		slots: make([]slot, info.MaxSequences),
		wake:  make(chan struct{}, 1),
	}
	e.out.ring = make([]outEvent, eventsEach*cfg.MaxQueue+1) // 1: what belongs to no request
	e.step.chunkLimit = info.MaxBatch
	e.runs.Store(noBatch)
	return e, nil
}

// Claim makes the caller the one who polls, and reports whether nobody else is it:
// two who poll would each take what is the other's. Safe for concurrent use.
func (e *Engine) Claim() bool { return e.claimed.CompareAndSwap(false, true) }

// Release ends a Claim. Safe for concurrent use.
func (e *Engine) Release() { e.claimed.Store(false) }

// noBatch is beyond every priority.
const noBatch = math.MaxInt64

// Submit queues a request. A batch of requests of lower priority that runs now
// is stopped, and done again later: a player does not wait for eight others'
// words. The engine keeps nothing of r that the caller may change. It returns
// ErrQueueFull, ErrClosed, or an error that wraps ErrRequest and says what is
// wrong. Safe for concurrent use.
func (e *Engine) Submit(r Request) (RequestID, error) {
	if e.closed.Load() {
		return 0, fmt.Errorf("llm: submit: %w", ErrClosed)
	}
	if err := e.validate(&r); err != nil {
		return 0, err
	}
	var free *entry
	for i := range e.table {
		if e.table[i].word.CompareAndSwap(uint64(vacant), uint64(filling)) {
			free = &e.table[i]
			break
		}
	}
	if free == nil {
		return 0, fmt.Errorf("%w: %d requests wait, run, or have events that were not polled",
			ErrQueueFull, len(e.table))
	}
	id := RequestID(e.lastID.Add(1))
	r.Prompt = slices.Clone(r.Prompt)
	r.Cuts = slices.Clone(r.Cuts)
	r.Stop = slices.Clone(r.Stop)
	free.req.Store(&request{Request: r, id: id, entry: free, submitted: e.clock.Now()})
	free.set(id, queued)
	// Close may have gone through the table before this one stood in it.
	if e.closed.Load() && free.move(id, queued, filling) {
		free.release()
		return 0, fmt.Errorf("llm: submit: %w", ErrClosed)
	}
	if int64(r.Priority) > e.runs.Load() {
		e.overtaken.Store(true)
		e.stopModels()
	}
	e.rouse()
	return id, nil
}

func (e *Engine) validate(r *Request) error {
	if len(r.Prompt) == 0 {
		return fmt.Errorf("%w: Prompt is empty", ErrRequest)
	}
	if i := badToken(r.Prompt, e.info.Vocab); i >= 0 {
		return fmt.Errorf("%w: Prompt[%d] is %d: want a token in [0, %d)", ErrRequest, i, r.Prompt[i], e.info.Vocab)
	}
	if r.Keep < 0 || r.Keep > len(r.Prompt) {
		return fmt.Errorf("%w: Keep %d: want 0…%d, the length of Prompt", ErrRequest, r.Keep, len(r.Prompt))
	}
	for i, least := 0, r.Keep; i < len(r.Cuts); i++ {
		if c := r.Cuts[i]; c < least || c > len(r.Prompt) {
			return fmt.Errorf("%w: Cuts[%d] is %d: want %d…%d, rising from Keep to the length of Prompt",
				ErrRequest, i, c, least, len(r.Prompt))
		}
		least = r.Cuts[i] + 1
	}
	if r.Head < 0 || r.Head > len(r.Prompt) {
		return fmt.Errorf("%w: Head %d: want 0…%d, the length of Prompt", ErrRequest, r.Head, len(r.Prompt))
	}
	if len(r.Cuts) > 0 && r.Head > r.Cuts[0] {
		return fmt.Errorf("%w: Head %d: want 0…%d, where what may be dropped begins", ErrRequest, r.Head, r.Cuts[0])
	}
	if r.MaxTokens < 0 {
		return fmt.Errorf("%w: MaxTokens %d: want 1 or more, or 0 for %d", ErrRequest, r.MaxTokens, defaultMaxTokens)
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = defaultMaxTokens
	}
	if len(r.Stop) > maxStops {
		return fmt.Errorf("%w: %d stop strings: want %d at most", ErrRequest, len(r.Stop), maxStops)
	}
	for i, s := range r.Stop {
		if s == "" || len(s) > maxStopBytes || !utf8.ValidString(s) {
			return fmt.Errorf("%w: Stop[%d] is %q: want 1…%d bytes of UTF-8", ErrRequest, i, s, maxStopBytes)
		}
	}
	return r.Sampling.Validate()
}

func badToken(tokens []Token, vocab int) int {
	return slices.IndexFunc(tokens, func(t Token) bool { return t < 0 || int(t) >= vocab })
}

// Cancel ends a request and reports whether it was there to be cancelled; if
// so, EventCancelled follows and EventDone does not. A running batch stops
// within one node of the graph. Safe for concurrent use.
func (e *Engine) Cancel(id RequestID) bool {
	for i := range e.table {
		t := &e.table[i]
		if t.move(id, queued, dropped) {
			return true // Poll tells: the worker never sees it
		}
		if t.move(id, active, cancelling) {
			// The worker sets running, then looks at the state, then decodes;
			// this changed the state, then looks at running. Whichever came
			// first, one of the two sees the other.
			if t.running.Load() {
				e.stopModels()
			}
			e.rouse()
			return true
		}
	}
	return false
}

// Promote gives a request another priority, from the next step on, and reports
// whether it was there. Safe for concurrent use.
func (e *Engine) Promote(id RequestID, priority int) bool {
	for i := range e.table {
		r, st := e.table[i].look()
		if r == nil || r.id != id {
			continue
		}
		if st == queued || st == active {
			r.promoted.Store(&priority)
			return true
		}
	}
	return false
}

// Forget drops the sequence kept for owner, at once or when the request that
// uses it ends. Safe for concurrent use.
func (e *Engine) Forget(owner string) {
	for i := range e.slots {
		s := &e.slots[i]
		if o := s.owner.Load(); o != nil && *o == owner {
			// The worker may give the slot to another owner just now; then
			// that one computes a prompt once more, which does no harm.
			s.forget.Store(true)
			e.rouse()
		}
	}
}

// HasWork reports whether Step has something to do. Safe for concurrent use.
func (e *Engine) HasWork() bool {
	if e.closed.Load() {
		return false
	}
	for i := range e.table {
		switch e.table[i].state() {
		case queued, active, cancelling, ending:
			return true
		}
	}
	for i := range e.slots {
		if e.slots[i].forget.Load() {
			return true
		}
	}
	return false
}

// Wake delivers when there may be work after there was none. Safe for
// concurrent use, for one receiver.
func (e *Engine) Wake() <-chan struct{} { return e.wake }

func (e *Engine) rouse() {
	select {
	case e.wake <- struct{}{}:
	default: // one is pending
	}
}

// Close stops a running Step, cancels every request, closes the sequences and
// waits for that. Events can still be polled. The model is left open and
// resumed. A second Close does nothing. Safe for concurrent use.
func (e *Engine) Close() {
	e.closed.Store(true)
	e.stopModels() // Step resumes first and then looks at closed: never lost
	e.stepMu.Lock()
	defer e.stepMu.Unlock()
	for i := range e.table {
		t := &e.table[i]
		if r, st := t.look(); st == active || st == cancelling {
			e.finish(r, Event{Kind: EventCancelled})
		} else if st == queued {
			t.move(r.id, queued, dropped)
		}
	}
	for i := range e.slots {
		e.slots[i].close()
	}
	e.resumeModels()
	e.rouse()
}

// entry is a place for a request. Its word joins the id and the state, so that
// a late Cancel can never hit the next request in the same place.
type entry struct {
	word    atomic.Uint64
	running atomic.Bool // the request is in the batch that is being decoded
	req     atomic.Pointer[request]
}

type state uint64

const (
	vacant     state = iota // with id 0
	filling                 // Submit or Poll is at it
	queued                  // the worker has not taken it
	active                  // the worker has it
	cancelling              // the worker has it and is to end it
	ending                  // the worker is making its last event
	ended                   // its last event waits in the outbox
	dropped                 // cancelled while queued; Poll makes the event

	stateBits = 4
	stateMask = 1<<stateBits - 1
)

func join(id RequestID, s state) uint64 { return uint64(id)<<stateBits | uint64(s) }

func (t *entry) state() state { return state(t.word.Load() & stateMask) }

// look returns the request and its state, vacant where there is none or it is
// just changing hands.
func (t *entry) look() (*request, state) {
	r, word := t.req.Load(), t.word.Load()
	if r == nil || word>>stateBits != uint64(r.id) {
		return nil, vacant
	}
	return r, state(word & stateMask)
}

func (t *entry) set(id RequestID, s state) { t.word.Store(join(id, s)) }

func (t *entry) move(id RequestID, from, to state) bool {
	return t.word.CompareAndSwap(join(id, from), join(id, to))
}

func (t *entry) release() {
	t.req.Store(nil)
	t.word.Store(uint64(vacant))
}

// request is a Request and where it stands. All after submitted is the
// worker's.
type request struct {
	Request
	id        RequestID
	entry     *entry
	submitted int64
	promoted  atomic.Pointer[int] // the priority it has now; nil: that of Request

	started bool
	keeping bool // the state of the head is to be kept when it is computed
	over    bool
	parked  bool // waits for another request to end: there is no room beside it
	slot    *slot

	all     []Token // prompt and the tokens chosen; the ledger is a prefix
	prompt  int     // tokens of all that are prompt
	primed  int     // tokens of the prompt that were in the cache at some time
	sampler Sampler
	grammar *gbnf.State // where the reply stands in Sampling.Grammar; nil: none
	usage   Usage

	text  *Text
	reply strings.Builder // all text given out; events hold slices of it
	ends  []int           // for each chosen token: Text.Produced after it, -1 within a character
	event uint64          // 1 + position in the outbox of the newest text event
	from  int             // where in reply that event's text begins
}

// before orders requests by who goes first.
func before(a, b *request) int {
	late := func(r *request) int64 {
		if r.Deadline == 0 {
			return Forever
		}
		return r.Deadline
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(late(a), late(b)), cmp.Compare(a.id, b.id))
}
