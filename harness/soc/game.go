package soc

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// sceneMemory is how much of a scene the next frame keeps: at 60 Hz it changes
	// within two seconds. sceneShare is its part of the spread, frameShare the
	// frame's own; their squares add up to 1.
	sceneMemory, sceneStep = 0.99, 0.141
	sceneShare, frameShare = 0.6, 0.8

	// tailMost bounds the heavy tail, in scales: a hitch of a second is no frame.
	tailMost = 20.0

	// embedNS is what embedding one memory takes of a core: 22 million parameters,
	// 40 tokens, at 100 GFLOP/s are 18 ms. It streams its weights meanwhile.
	embedNS, embedStall, embedRate = 18e6, 0.3, 4.0

	// pendingMost is how many memories wait at most; the oldest are then embedded
	// later by the next start of the game, which is not simulated.
	pendingMost = 4096
)

// stage of a frame.
type stage uint8

const (
	waiting stage = iota // for the next line of the grid
	onCPUs
	onGPUs
)

// game is the foreground: frames on a grid, questions, memories.
type game struct {
	world *world
	app   *App
	steer *steerer
	dice  *rand.Rand // of frames: the same for every policy
	life  *rand.Rand // of questions and memories

	origin, period, end int64
	stage               stage
	frame               uint64
	begin, deadline     int64
	shown               int64 // the line on which the last frame was shown
	cpuNS, gpuNS        float64
	cpuEnd              int64
	scene               float64
	part                int
	partEnd             int64

	ask, remember int64 // when; never: not now
	conversation  uint64
	asked         map[llm.RequestID]bool
	events        []llm.Event

	pending int
	budget  time.Duration
	rec     *record
	watch   func(s scheduler.FrameSample, d scheduler.Decision) // nil: nobody
}

func newGame(w *world, app *App, x *steerer, seed uint64, seconds float64) *game {
	g := &game{
		world: w, app: app, steer: x, dice: rand.New(rand.NewPCG(seed, 1)), life: rand.New(rand.NewPCG(seed, 2)),
		origin: w.now, period: int64(1e9 / app.Hz.Value), end: w.now + int64(seconds*1e9), ask: never, remember: never,
		asked: map[llm.RequestID]bool{}, rec: newRecord(),
	}
	g.shown, g.deadline = g.origin, g.origin
	g.enter(0)
	w.appThreads = app.Threads.Value
	if x.engine != nil {
		g.ask = w.now + g.between(app.Pause.Value/2)
	}
	if app.Memory.Value > 0 && x.engine != nil {
		g.remember = w.now + g.between(60/app.Memory.Value)
	}
	w.next, w.fire = g.next, g.fire
	return g
}

// enter begins a part of the app.
func (g *game) enter(part int) {
	g.part = part % len(g.app.Parts)
	g.partEnd = g.world.now + int64(g.app.Parts[g.part].Seconds*1e9)
	phase, err := parsePhase(g.app.Parts[g.part].Phase)
	if err == nil { // Validate saw to it
		g.steer.phase = phase
	}
}

// between is a random time with a mean of some seconds: half of it to one and a
// half.
func (g *game) between(mean float64) int64 {
	return int64(mul(mean*1e9, 0.5+g.life.Float64()))
}

// next is when something of the game is due by itself.
func (g *game) next() int64 {
	at := min(g.ask, g.remember, g.end)
	if g.stage == waiting {
		at = min(at, g.shown)
	}
	return max(at, g.world.now)
}

// fire lets everything happen that is due.
func (g *game) fire() {
	w := g.world
	if w.now >= g.end {
		g.ask, g.remember, g.stage = never, never, onCPUs // no further frame
		w.cpu.active, w.gpu.active, w.index.active = false, false, false
		g.end = never
		if g.steer.target != nil {
			g.steer.target.Stop()
		}
		return
	}
	if w.now >= g.ask {
		g.say()
	}
	if w.now >= g.remember {
		g.remember = w.now + g.between(60/g.app.Memory.Value)
		g.pending = min(g.pending+1, pendingMost)
	}
	if w.index.active && w.index.left <= 0 {
		w.index.active = false
		g.rec.embedded[g.steer.phase.String()]++
	}
	g.frames()
	g.embed() // after a phase may have begun
}

// frames moves the frame on.
func (g *game) frames() {
	w := g.world
	switch {
	case g.stage == waiting && w.now >= g.shown:
		g.frameBegin()
	case g.stage == onCPUs && w.cpu.active && w.cpu.left <= 0:
		w.cpu.active = false
		g.cpuEnd = w.now
		if l := &g.app.Parts[g.part].Load; g.gpuNS > 0 {
			w.gpu.start(g.gpuNS, l.GPUStall.Value, l.GPURate.Value)
			g.stage = onGPUs
			return
		}
		g.frameEnd()
	case g.stage == onGPUs && w.gpu.active && w.gpu.left <= 0:
		w.gpu.active = false
		g.frameEnd()
	}
}

// embed begins to embed a memory, where the policy lets it: at once, or within
// what the scheduler gives.
func (g *game) embed() {
	if g.pending == 0 || g.world.index.active {
		return
	}
	if g.steer.policy.deferred && g.steer.control != nil {
		if g.budget < embedNS {
			return
		}
		g.budget -= embedNS
	}
	g.pending--
	g.rec.begun[g.steer.phase.String()]++
	g.world.index.start(embedNS, embedStall, embedRate)
}

func (g *game) frameBegin() {
	w := g.world
	if w.now >= g.partEnd {
		g.enter(g.part + 1)
		g.budget = 0 // what one phase left is not for the next
	}
	g.frame++
	g.begin, g.deadline = w.now, w.now+g.period
	l := &g.app.Parts[g.part].Load
	g.scene = mul(sceneMemory, g.scene) + mul(sceneStep, g.normal())
	g.cpuNS = mul(l.CPU.Value*1e6, g.vary(l))
	g.gpuNS = mul(l.GPU.Value*1e6, g.vary(l))
	w.cpu.start(g.cpuNS, l.CPUStall.Value, l.CPURate.Value)
	g.stage = onCPUs
	g.steer.frameBegin(g.frame, time.Duration(g.period))
}

// normal is nearly a normal number: the sum of four uniform ones.
func (g *game) normal() float64 {
	sum := g.dice.Float64() + g.dice.Float64() + g.dice.Float64() + g.dice.Float64()
	return (sum - 2) * math.Sqrt(3)
}

// vary is a frame's time as a multiple of the mean.
func (g *game) vary(l *Load) float64 {
	x := 1 + mul(l.Spread.Value, mul(sceneShare, g.scene)+mul(frameShare, g.normal()))
	chance, u := g.dice.Float64(), g.dice.Float64()
	if chance < l.TailShare.Value {
		x += mul(l.TailScale.Value, min(tailMost, 1/math.Sqrt(1-u)-1))
	}
	return max(0.1, x)
}

func (g *game) frameEnd() {
	w := g.world
	phase := g.steer.phase
	over := w.now - g.deadline
	line := g.deadline
	for line < w.now {
		line += g.period
	}
	g.rec.frame(metrics.Frame{
		Start: time.Duration(g.begin), Interval: time.Duration(line - g.shown), Work: time.Duration(w.now - g.begin),
		Overrun: time.Duration(over), Target: time.Duration(g.period), Phase: phase.String(),
	})
	g.shown, g.stage = line, waiting
	t := scheduler.FrameTimings{MainBusy: time.Duration(g.cpuEnd - g.begin), GPUBusy: time.Duration(w.now - g.cpuEnd)}
	if s, ok := g.steer.frameEnd(g.frame, g.deadline, t); ok {
		d := g.steer.decision
		g.rec.reasons[d.Reason]++
		g.rec.controlled++
		g.budget = min(g.budget+d.IndexTime, 10*embedNS)
		if d.IndexTime == 0 {
			g.budget = 0
		}
		if g.watch != nil {
			g.watch(s, d)
		}
	}
	g.poll()
}

// say asks the next question, in a conversation of its own.
func (g *game) say() {
	g.ask = never
	g.conversation++
	s := g.steer.target.streams
	first := llm.Token(1 + g.conversation%(firstWord-2))
	text := s.of(first)
	n := int(g.app.Prompt.Value)
	text.at(n)
	id, err := g.steer.engine.Submit(llm.Request{
		Owner: "npc " + strconv.FormatUint(g.conversation, 10), Prompt: text.text[:n],
		MaxTokens: int(g.app.Reply.Value),
	})
	if err != nil {
		g.rec.failed++
		g.ask = g.world.now + 1e9
		return
	}
	g.asked[id] = true
	g.rec.asked++
}

func (g *game) poll() {
	if g.steer.engine == nil {
		return
	}
	g.events = g.steer.engine.Poll(g.events[:0])
	for i := range g.events {
		e := &g.events[i]
		if e.Kind == llm.EventText || e.Kind == llm.EventOverflow || !g.asked[e.Request] {
			continue
		}
		delete(g.asked, e.Request)
		switch e.Kind {
		case llm.EventDone:
			g.rec.reply(e.Usage)
		case llm.EventFailed:
			g.rec.failed++
		}
		g.steer.engine.Forget(e.Owner)
		g.ask = g.world.now + g.between(g.app.Pause.Value)
	}
}
