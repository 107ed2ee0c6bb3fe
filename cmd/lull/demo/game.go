package demo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// memoryLimit is where the garbage collector comes back although it is
	// off. The screen allocates about 2 MB a second, so it does every few
	// minutes, and finds little that lives.
	memoryLimit = 512 << 20

	// away is how late a frame begins after which the machine was asleep or the
	// process stopped: the grid then begins anew.
	away = int64(time.Second)
)

// OpenFunc opens the runtime of a mode. observe has to reach local.Config.
type OpenFunc func(ctx context.Context, m Mode, observe func(llm.Work)) (*local.Runtime, error)

// Game is the game loop on a thread of its own, and the runtimes beside it.
type Game struct {
	setting  Setting
	clock    llm.Clock
	runtimes [Modes]*local.Runtime // nil: Off
	restore  func()

	mode   atomic.Uint32
	loadNS atomic.Int64
	stop   atomic.Bool
	tokens [Modes]atomic.Int64

	frames frameRing
	inbox  [Modes]inbox
	ended  chan struct{} // capacity 1: a reply ended
	done   chan struct{} // closed when the thread has ended
	err    error         // why, before done is closed
}

// NewGame opens both runtimes, one after the other. On error nothing is left
// running.
func NewGame(ctx context.Context, s Setting, clock llm.Clock, open OpenFunc) (*Game, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	g := &Game{setting: s, clock: clock, ended: make(chan struct{}, 1), done: make(chan struct{})}
	g.loadNS.Store(int64(s.Load))
	for m := Off; m < Modes; m++ {
		g.inbox[m].events = make([]llm.Event, 0, inboxEvents)
		if m.Spec() == nil {
			continue
		}
		count := &g.tokens[m]
		rt, err := open(ctx, m, func(w llm.Work) { count.Add(int64(w.Generated)) })
		if err != nil {
			return nil, errors.Join(err, g.closeRuntimes())
		}
		g.runtimes[m] = rt
	}
	return g, nil
}

// Start begins to play. Close ends it.
func (g *Game) Start() {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(memoryLimit)
	needs := load.Needs{Workers: g.setting.Workers}
	processors := runtime.GOMAXPROCS(max(load.Processors(needs), runtime.GOMAXPROCS(0)))
	g.restore = func() {
		runtime.GOMAXPROCS(processors)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
	go g.thread()
}

// Done is closed when the game has ended, by Close or by a fault; Err then says
// which. Safe for concurrent use.
func (g *Game) Done() <-chan struct{} { return g.done }

// Err is the fault that ended the game. Call after Done.
func (g *Game) Err() error { return g.err }

// Ended delivers when a reply ended. For one receiver.
func (g *Game) Ended() <-chan struct{} { return g.ended }

// Runtime is the mode's; nil for Off. Safe for concurrent use.
func (g *Game) Runtime(m Mode) *local.Runtime { return g.runtimes[m] }

// SetMode chooses what runs beside the game from the next frame on, and
// collects garbage. Safe for concurrent use.
func (g *Game) SetMode(m Mode) {
	g.mode.Store(uint32(m))
	runtime.GC()
}

// SetLoad chooses the CPU time of each worker from the next frame on. Safe for
// concurrent use.
func (g *Game) SetLoad(d time.Duration) { g.loadNS.Store(int64(min(max(d, 0), MaxLoad))) }

// Frames appends the frames since the last call. For one receiver.
func (g *Game) Frames(dst []Frame) []Frame { return g.frames.take(dst) }

// Events appends what happened in a mode's engine since the last call. For one
// receiver.
func (g *Game) Events(m Mode, dst []llm.Event) []llm.Event { return g.inbox[m].take(dst) }

// Tokens is how many each mode's engine has generated. Safe for concurrent use.
func (g *Game) Tokens() (n [Modes]int64) {
	for m := range n {
		n[m] = g.tokens[m].Load()
	}
	return n
}

// Close ends the game and the runtimes, and waits for that. Call once, after
// Start.
func (g *Game) Close() error {
	g.stop.Store(true)
	<-g.done
	g.restore()
	return g.closeRuntimes()
}

func (g *Game) closeRuntimes() error {
	var err error
	for _, rt := range g.runtimes {
		if rt != nil {
			err = errors.Join(err, rt.Close())
		}
	}
	return err
}

// thread is the life of the game thread. A panic is our bug; it must still give
// the terminal back.
func (g *Game) thread() {
	runtime.LockOSThread() // and never unlock: its timers were changed
	defer close(g.done)
	defer func() {
		if p := recover(); p != nil {
			g.err = fmt.Errorf("demo: the game loop panicked: %v\n%s", p, debug.Stack())
		}
	}()
	g.err = g.play()
}

func (g *Game) play() error {
	timer, err := load.NewTimer(g.clock)
	if err != nil {
		return err
	}
	defer timer.Close()
	team, err := load.NewTeam(load.Needs{Workers: g.setting.Workers}, timer)
	if err != nil {
		return err
	}
	defer team.Close()
	period := g.setting.Period()
	grid, err := metrics.NewGrid(time.Duration(timer.Now()), period, period)
	if err != nil {
		return err
	}
	game := load.Synthetic{Workers: g.setting.Workers}
	var job load.Job
	for id := uint64(1); !g.stop.Load(); id++ {
		timer.SleepUntil(int64(grid.Start()))
		begin := timer.Now()
		if begin > int64(grid.Start())+away {
			if grid, err = metrics.NewGrid(time.Duration(begin), period, period); err != nil {
				return err
			}
		}
		game.CPU = time.Duration(g.loadNS.Load())
		game.Job(id, 0, &job)
		f := Frame{Mode: Mode(g.mode.Load())}
		rt := g.runtimes[f.Mode]
		if rt != nil {
			rt.FrameBegin(id, period, begin)
		}
		team.Run(&job, begin)
		if rt != nil {
			f.Decision = rt.FrameEnd(id, int64(grid.Deadline()), timer.Now())
		}
		g.poll()
		f.Frame = grid.Finish(time.Duration(timer.Now()), scheduler.PhaseExplore.String())
		g.frames.put(&f)
	}
	return nil
}

// poll takes what came from every engine: the last words of a cancelled reply
// come after the switch.
func (g *Game) poll() {
	for m, rt := range g.runtimes {
		if rt != nil && g.inbox[m].poll(rt.Engine) {
			select {
			case g.ended <- struct{}{}:
			default:
			}
		}
	}
}
