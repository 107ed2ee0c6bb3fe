package soc

import (
	"github.com/lull-npc/lull/runtime/llm"
)

// mul is a·b, rounded. Go may fuse a·b + c into one operation on some
// processors and not on others; the conversion forbids it, so that the same
// seed gives the same bytes everywhere. Products that are added to anything go
// through here.
func mul(a, b float64) float64 { return float64(a * b) }

const (
	// mostLoad is the load of the memory at which the latency stops growing:
	// queues are finite.
	mostLoad = 0.92
	// mostHigh is the share of the memory that high-priority traffic may take:
	// arbiters leave the rest something, or nothing would move.
	mostHigh = 0.9
	// mostLatency is the growth of latency beyond which a model of queues says
	// nothing.
	mostLatency = 12.0
	// heatTick is how often heat is computed: a thousandth of its time constants.
	heatTick = int64(100e6)
	// streamHides is the share of grown latency that streaming readers feel: they
	// fetch ahead.
	streamHides = 0.25
	// governorUp and governorDown are the loads above and below which the clock of
	// the memory moves, governorStep how far down it goes at once.
	governorUp, governorDown, governorStep = 0.6, 0.35, 0.85
	never                                  = int64(1<<63 - 1)
)

// task is work of the game on the CPU or the GPU, or an embedding.
type task struct {
	active  bool
	left    float64 // ns of undisturbed work
	speed   float64 // of that per ns now
	stall   float64 // share of it that waits for memory, undisturbed
	rate    float64 // GB/s of traffic while it works
	worked  float64 // ns of undisturbed work done so far
	busy    float64 // ns that it took
	waiting float64 // ∫ growth of its waits for memory, ns
}

// job is a group of layers.
type job struct {
	active    bool
	device    place
	left      float64 // share that is left
	takes     float64 // ns that all of it takes at the speed of now
	bytes     float64
	read      float64 // ns of reading alone
	compute   float64 // ns of computing alone
	extra     float64 // ns beside both
	traffic   float64 // GB/s now
	threads   float64 // on the CPU
	threading float64 // share of the speed that its threads get now
}

// place says where the model runs.
type place uint8

const (
	onNPU place = iota
	onCPU
	onLittle
)

// timers are the instants at which something happens by itself.
type timers struct{ governor, heat int64 }

// world is the chip and what runs on it, in virtual time. It is an llm.Clock:
// whoever waits lets everything else happen. For one goroutine.
type world struct {
	now   int64
	chip  *Chip
	timer timers

	cpu, gpu, index task
	job             job
	lowPriority     bool // the model's CPU threads run only where nobody else wants the core
	appThreads      float64

	high, low, load float64 // of the memory, shares of its bandwidth
	latency         float64 // growth of low-priority latency, 1 is none
	memClock        float64 // share of the peak
	served          float64 // GB since the governor last chose
	voted           bool    // the NPU ran since then: its driver asks for the top clock

	celsius, clock  float64
	joules          float64 // of everything since the last tick of heat
	spent           float64 // of everything before
	limit           float64 // share of its clock that the NPU may use
	modelJoules     float64 // of the model: its device, and the energy of its traffic
	gigabytes       float64
	hottest         float64
	throttled       float64 // ns
	computed        float64 // ns in which the model did
	governorChanges int

	next  func() int64 // when the game's next event is due
	fire  func()       // what happens then
	watch func()       // after each event; nil: nobody
}

var _ llm.Clock = (*world)(nil)

func newWorld(c *Chip) *world {
	w := &world{chip: c, memClock: c.DRAM.LowClock.Value, clock: 1, latency: 1, limit: 1}
	w.celsius = c.Thermal.Ambient.Value + mul(c.Thermal.Idle.Value, c.Thermal.Resistance.Value)
	w.hottest = w.celsius
	w.timer = timers{w.governorPeriod(), heatTick}
	w.next, w.fire = func() int64 { return never }, func() {}
	w.rates()
	return w
}

func (w *world) governorPeriod() int64 { return int64(w.chip.DRAM.Governor.Value * 1e6) }

// Now implements llm.Clock.
func (w *world) Now() int64 { return w.now }

// WaitUntil implements llm.Clock. Everything due until then happens meanwhile.
func (w *world) WaitUntil(t int64, wake <-chan struct{}) {
	for {
		select {
		case <-wake:
			return
		default:
		}
		if !w.step(t) {
			return
		}
	}
}

// step goes to the next event, or to limit if that is earlier, and reports
// whether it met an event.
func (w *world) step(limit int64) bool {
	at := min(w.timer.governor, w.timer.heat, w.next(), w.cpu.ends(w.now), w.gpu.ends(w.now), w.index.ends(w.now),
		w.job.ends(w.now))
	if at > limit {
		w.pass(limit - w.now)
		return false
	}
	w.pass(at - w.now)
	switch {
	case w.timer.governor <= w.now:
		w.govern()
	case w.timer.heat <= w.now:
		w.warm()
	}
	if w.job.active && w.job.left <= 0 {
		w.job.active = false
	}
	w.fire()
	w.rates()
	if w.watch != nil {
		w.watch()
	}
	return true
}

func (t *task) ends(now int64) int64 {
	if !t.active {
		return never
	}
	return now + ceil(t.left/t.speed)
}

func (j *job) ends(now int64) int64 {
	if !j.active {
		return never
	}
	return now + ceil(mul(j.left, j.takes))
}

// ceil is the next whole number of ns, at least 0; an hour at most.
func ceil(x float64) int64 {
	if !(x > 0) {
		return 0
	}
	return int64(min(x, 3600e9)) + 1
}

// pass lets time go by, in which nothing changes.
func (w *world) pass(ns int64) {
	if ns <= 0 {
		return
	}
	w.now += ns
	dt := float64(ns)
	for _, t := range [...]*task{&w.cpu, &w.gpu, &w.index} {
		if t.active {
			done := mul(dt, t.speed)
			t.left -= done
			t.worked += done
			t.busy += dt
			t.waiting += mul(dt, w.latency)
			if t.left < 0.5 { // half a ns: what rounding leaves
				t.left = 0
			}
		}
	}
	w.spend(dt)
	if w.job.active {
		w.computed += dt
		w.job.left -= dt / w.job.takes
		if w.job.left < 1e-9 {
			w.job.left = 0
		}
	}
	if w.clock < 1 {
		w.throttled += dt
	}
}

// spend adds up energy and traffic.
func (w *world) spend(dt float64) {
	c := w.chip
	watts := c.Thermal.Idle.Value
	if w.cpu.active {
		watts += mul(mul(c.CPU.Power.Value, w.clock), w.appThreads)
	}
	if w.index.active {
		watts += c.CPU.Power.Value
	}
	if w.gpu.active {
		watts += mul(c.GPU.Power.Value, w.clock)
	}
	perGB := c.DRAM.Energy.Value * 1e-3 // pJ/byte · GB/s = mW
	own := 0.0
	if w.job.active {
		own = mul(w.device().Power.Value, w.clock) + mul(w.job.traffic, perGB)
	}
	gbs := mul(w.load, w.bandwidth())
	watts += mul(gbs-min(gbs, w.job.traffic), perGB) + own
	seconds := dt * 1e-9
	w.joules += mul(watts, seconds)
	w.modelJoules += mul(own, seconds)
	moved := mul(gbs, seconds)
	w.gigabytes += moved
	w.served += moved
}

func (w *world) device() *Device {
	switch w.job.device {
	case onCPU:
		return &w.chip.CPUModel
	case onLittle:
		return &w.chip.Little
	}
	return &w.chip.NPU
}

// bandwidth is what the memory can give now, GB/s.
func (w *world) bandwidth() float64 {
	d := &w.chip.DRAM
	return mul(mul(d.Peak.Value, d.Efficiency.Value), w.memClock)
}

// govern chooses the clock of the memory by the load of the period that ended:
// the top at once, and down by steps.
func (w *world) govern() {
	seconds := w.chip.DRAM.Governor.Value * 1e-3
	load := w.served / mul(w.bandwidth(), seconds)
	was := w.memClock
	switch {
	case load > governorUp || w.voted:
		w.memClock = 1
	case load < governorDown:
		w.memClock = max(w.chip.DRAM.LowClock.Value, mul(w.memClock, governorStep))
	}
	if w.memClock != was {
		w.governorChanges++
	}
	w.served, w.voted = 0, w.job.active && w.job.device == onNPU
	w.timer.governor += w.governorPeriod()
}

// warm moves the temperature by the power since the last tick: a resistance and
// a capacity.
func (w *world) warm() {
	t := &w.chip.Thermal
	watts := w.joules / (float64(heatTick) * 1e-9)
	w.heatBy(watts, float64(heatTick)*1e-9)
	w.hottest = max(w.hottest, w.celsius)
	over := (w.celsius - t.Throttle.Value) / (t.Severe.Value - t.Throttle.Value)
	w.clock = 1 - mul(min(1, max(0, over)), 1-t.LowClock.Value)
	w.spent += w.joules
	w.joules = 0
	w.timer.heat += heatTick
}

func (w *world) heatBy(watts, seconds float64) {
	t := &w.chip.Thermal
	rest := t.Ambient.Value + mul(watts, t.Resistance.Value)
	w.celsius += mul(rest-w.celsius, seconds/t.Constant.Value)
}

// headroom is 0 cold and 1 where throttling is severe, as Android says it.
func (w *world) headroom() float64 {
	t := &w.chip.Thermal
	return max(0, (w.celsius-t.Ambient.Value)/(t.Severe.Value-t.Ambient.Value))
}

// start begins a task of ns of undisturbed work.
func (t *task) start(ns, stall, rate float64) {
	t.active, t.left, t.stall, t.rate = true, max(ns, 1), stall, rate
}

// rates computes how fast everything goes now.
func (w *world) rates() {
	all := w.bandwidth()
	wish := w.chip.DRAM.Base.Value
	for _, t := range [...]*task{&w.cpu, &w.gpu, &w.index} {
		if t.active {
			wish += t.rate
		}
	}
	w.high = 0
	if w.job.active && w.job.device == onNPU {
		w.memClock, w.voted = 1, true
		all = w.bandwidth()
		w.high = w.highJob(wish/all, all) / all
	} else if w.job.active {
		wish += w.job.bytes / max(1, max(w.job.read, w.job.compute)+w.job.extra)
	}
	rest := max(all-mul(w.high, all), mul(1-mostHigh, all))
	share := min(1, rest/wish)
	w.low = min(wish, rest) / all
	w.load = min(1, w.high+w.low)
	busy := min(w.load, mostLoad)
	queue := mul(w.chip.DRAM.Queue.Value, busy) / mul(1-min(w.high, mostHigh), 1-busy)
	w.latency = min(mostLatency, max(1+queue, 1/share))
	w.cores()
	for _, t := range [...]*task{&w.cpu, &w.gpu, &w.index} {
		t.speed = mul(t.speed, 1/((1-t.stall)/w.clock+mul(t.stall, w.latency)))
	}
	if w.job.active && w.job.device != onNPU {
		w.lowJob(share)
	}
}

// highJob is the traffic of the NPU. It goes first, so it loses nothing until its
// own wish and the row conflicts and turns of the bus that others' traffic costs
// fill the memory: decoding lost 1.64 % beside 25 apps (SERENO's abstract).
func (w *world) highJob(others, all float64) float64 {
	j, d := &w.job, &w.chip.DRAM
	conflict := mul(d.Coupling.Value, min(others, 1))
	slower := 1.0
	if j.read > 0 {
		own := j.bytes / j.read / all
		slower = max(1, mul(own, w.limit)+conflict, own/mostHigh)
	}
	felt := 1 + mul(conflict, d.ComputeIs.Value)
	clock := mul(w.clock, w.limit)
	j.takes = max(mul(j.read, slower)/w.limit, mul(j.compute, felt)/clock) + mul(j.extra, felt)/clock
	j.takes = max(j.takes, 1)
	j.traffic = j.bytes / j.takes
	return j.traffic
}

// lowJob is a model on the CPU, whose traffic waits like everybody's.
func (w *world) lowJob(share float64) {
	j := &w.job
	slower := max(1+mul(w.latency-1, streamHides), 1/share)
	j.takes = (max(mul(j.read, slower), j.compute/w.clock) + j.extra/w.clock) / j.threading
	j.takes = max(j.takes, 1)
	j.traffic = j.bytes / j.takes
}

// cores shares the CPU's fast cores between the game, embeddings and the model.
func (w *world) cores() {
	w.cpu.speed, w.gpu.speed, w.index.speed = 1, 1, 1
	j := &w.job
	j.threading = 1
	if !j.active || j.device != onCPU {
		return
	}
	cores, game := w.chip.CPU.Cores.Value, 0.0
	if w.cpu.active {
		game = w.appThreads
	}
	if game+j.threads <= cores {
		return
	}
	if w.lowPriority {
		j.threading = max(0.02, (cores-game)/j.threads)
		return
	}
	j.threading = cores / (game + j.threads)
	w.cpu.speed = j.threading
}
