package llm_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

var errBroken = errors.New("broken on purpose")

// promised is what the engine owes for each accepted request.
type promised struct {
	say       string
	cancelled bool
	text      string
	ended     bool
}

type ledger map[llm.RequestID]*promised

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// take checks events against what was promised.
func (l ledger) take(t failer, events []llm.Event, mayFail bool) {
	t.Helper()
	for _, ev := range events {
		p := l[ev.Request]
		if p == nil || p.ended {
			t.Fatalf("%s for request %d, which is unknown or has ended", ev.Kind, ev.Request)
		}
		p.text += ev.Text
		p.ended = ev.Kind >= llm.EventDone
		switch {
		case !strings.HasPrefix(p.say, p.text):
			t.Fatalf("request %d said %q, want the beginning of %q", ev.Request, p.text, p.say)
		case ev.Kind == llm.EventDone && (p.text != p.say || p.cancelled):
			t.Fatalf("request %d done with %q, cancelled %v; want %q", ev.Request, p.text, p.cancelled, p.say)
		case ev.Kind == llm.EventCancelled && !p.cancelled:
			t.Fatalf("request %d was never cancelled", ev.Request)
		case ev.Kind == llm.EventFailed && !(mayFail && errors.Is(ev.Err, errBroken)):
			t.Fatalf("request %d failed: %v", ev.Request, ev.Err)
		}
	}
}

func (l ledger) allEnded(t failer) {
	t.Helper()
	for id, p := range l {
		if !p.ended {
			t.Fatalf("request %d never ended", id)
		}
	}
}

// game is an engine and what a drawn game did with it.
type game struct {
	m    *scripted.Model
	e    *llm.Engine
	owed ledger
	ids  []llm.RequestID

	faults int // one decode in so many fails; 0 none
	queue  int
}

var owners = rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"})

func drawGame(t *rapid.T) *game {
	g := &game{owed: ledger{}}
	g.faults = rapid.SampledFrom([]int{0, 0, 4, 20}).Draw(t, "one decode in … fails")
	g.queue = rapid.IntRange(1, 8).Draw(t, "MaxQueue")
	var err error
	g.m, err = scripted.New(scripted.Config{
		Script: scripted.Echo, Context: 256, Clock: scripted.NewClock(0),
		MaxBatch:     rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "MaxBatch"),
		MaxSequences: rapid.IntRange(1, 4).Draw(t, "MaxSequences"),
		CacheTokens:  rapid.SampledFrom([]int{256, 300, 1024}).Draw(t, "CacheTokens"),
		NoTruncate:   rapid.Bool().Draw(t, "NoTruncate"),
		Fault: func(n int, _ *llm.Batch) error {
			if g.faults > 0 && n%g.faults == 0 {
				return errBroken
			}
			if n%5 == 0 {
				g.m.Stop() // somebody else's: the batch is tried again
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	together := rapid.IntRange(1, 4).Draw(t, "Together")
	if g.e, err = llm.NewEngine(g.m, llm.EngineConfig{MaxQueue: g.queue, Together: together}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *game) submit(t *rapid.T) {
	say := rapid.SampledFrom([]string{"", "hi", "déjà vu 😀", strings.Repeat("the old road ", 6)}).Draw(t, "say")
	segments, _ := g.m.RenderChat([]llm.Turn{{Role: llm.User, Text: say}}, true)
	p, _, _ := llm.TokenizeChat(g.m, segments)
	id, err := g.e.Submit(llm.Request{
		Owner: owners.Draw(t, "owner"), Prompt: p, MaxTokens: 100,
		Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
		Deadline: rapid.Int64Range(0, 2).Draw(t, "deadline"),
	})
	if err == nil {
		g.owed[id] = &promised{say: say}
		g.ids = append(g.ids, id)
	} else if !errors.Is(err, llm.ErrQueueFull) {
		t.Fatalf("submit: %v", err)
	}
}

func (g *game) cancel(t *rapid.T) {
	if len(g.ids) == 0 {
		return
	}
	if id := rapid.SampledFrom(g.ids).Draw(t, "id"); g.e.Cancel(id) {
		g.owed[id].cancelled = true
	}
}

func (g *game) poll(t *rapid.T) { g.owed.take(t, g.e.Poll(nil), g.faults > 0) }

func (g *game) step(t *rapid.T) {
	if _, err := g.e.Step(llm.Grant{PrefillChunk: 16}); err != nil && !errors.Is(err, errBroken) {
		t.Fatalf("step: %v", err)
	}
}

// end lets everything end, and looks for what was lost on the way.
func (g *game) end(t *rapid.T) {
	for range 20_000 {
		if !g.e.HasWork() {
			break
		}
		g.step(t)
	}
	if g.e.HasWork() {
		t.Fatalf("no end in sight")
	}
	g.poll(t)
	g.owed.allEnded(t)
	for range g.queue {
		if _, err := g.e.Submit(llm.Request{Prompt: []llm.Token{1}}); err != nil {
			t.Fatalf("a place in the queue is lost: %v", err)
		}
	}
	g.e.Close()
	for range g.m.Info().MaxSequences {
		if _, err := g.m.NewSequence(); err != nil {
			t.Fatalf("a sequence is lost: %v", err)
		}
	}
}

// TestAnything draws models, engines and what a game does with them. Whatever
// happens, each request ends once, with the text that it was promised, and
// nothing is lost on the way: no place in the queue, no sequence.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGame(t)
		t.Repeat(map[string]func(*rapid.T){
			"submit": g.submit,
			"cancel": g.cancel,
			"forget": func(t *rapid.T) { g.e.Forget(owners.Draw(t, "owner")) },
			"poll":   g.poll,
			"step":   g.step,
			"steps": func(t *rapid.T) {
				for range 20 {
					g.step(t)
				}
			},
		})
		g.end(t)
	})
}

// crowd is an engine that everybody uses at once.
type crowd struct {
	*testing.T
	m      *scripted.Model
	e      *llm.Engine
	mu     sync.Mutex // so that no event comes before its request is known
	owed   ledger
	events []llm.Event
}

const crowdSays = "hello there 😀"

func (c *crowd) submits(owner string, p []llm.Token) {
	for i := range 60 {
		c.submitOne(owner, p, i)
		c.e.Forget(owner)
	}
}

func (c *crowd) submitOne(owner string, p []llm.Token, i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.e.Submit(llm.Request{Owner: owner, Prompt: p, Priority: i % 3})
	if err != nil {
		return // the queue is full
	}
	c.owed[id] = &promised{say: crowdSays}
	if i%3 == 0 && c.e.Cancel(id) {
		c.owed[id].cancelled = true
	}
}

func (c *crowd) publishes() {
	for i := range 2000 {
		c.m.Gate().Publish(llm.Window{Mode: llm.GateMode(i % 2 * 3), LayersPerStop: 1 + i%4})
	}
	c.m.Gate().Publish(llm.Window{})
}

func (c *crowd) changesWorkers() {
	for range 20 {
		w, err := llm.StartWorker(c.e, llm.WorkerConfig{Report: func(llm.Work) {}})
		if err != nil {
			c.Error(err)
			return
		}
		runtime.Gosched()
		w.Stop()
	}
}

func (c *crowd) poll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = c.e.Poll(c.events[:0])
	c.owed.take(c, c.events, false)
}

// TestEverybodyAtOnce is for the race detector: submits, cancels, forgets,
// windows and workers that come and go, while a game polls.
func TestEverybodyAtOnce(t *testing.T) {
	m := newModel(t, scripted.Config{Script: scripted.Echo, MaxSequences: 2})
	e, err := llm.NewEngine(m, llm.EngineConfig{MaxQueue: 8})
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{T: t, m: m, e: e, owed: ledger{}}
	p := prompt(t, m, crowdSays)
	var busy atomic.Int32
	start := func(f func()) {
		busy.Add(1)
		go func() { defer busy.Add(-1); f() }()
	}
	for _, owner := range []string{"a", "b", ""} {
		start(func() { c.submits(owner, p) })
	}
	start(c.publishes)
	start(c.changesWorkers)
	for busy.Load() > 0 {
		c.poll()
	}
	w, err := llm.StartWorker(e, llm.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for e.HasWork() {
		c.poll()
	}
	w.Stop()
	c.poll()
	c.owed.allEnded(t)
	e.Close()
	if e.HasWork() || e.Cancel(1) {
		t.Error("a closed engine has work or something to cancel")
	}
}
