package scheduler

import "time"

const (
	// freeAbove is the openness from which the gate is free, stayFree the one
	// below which it is no longer.
	freeAbove, stayFree = 0.95, 0.9

	// windowShare is the part of the axis on which only the margin moves; above
	// it, layers begin before the game's work is done.
	windowShare = 0.5

	// pauseMax is the rest between two groups of layers at openness 0, where
	// windows can't be published. With groups of 1 ms it leaves 2 % of the time.
	pauseMax = 50 * time.Millisecond

	// threadsLow and threadsHigh are the openness at which threads are halved
	// (if late frames are owed) and doubled.
	threadsLow, threadsHigh = 0.05, 0.25

	// threadsDwell is how many dwells pass before threads are doubled: fewer
	// threads are what made room, so trying again is expensive.
	threadsDwell = 8

	// chunkUnknown is the prefill chunk as long as its cost is unknown, and
	// chunkMin the least: below it the weights are read for too few tokens.
	chunkUnknown, chunkMin = 32, 8

	// chunkIdle is the share of a frame's idle time that a layer of a prompt's chunk
	// may take: the weights are read once for all of its tokens. Beside cpu-bound-60
	// half of it gave 1.8 to 5.1 tokens/s more than the quantum alone, in each of
	// four pairs, and as many late frames within the noise.
	chunkIdle = 0.5

	// freeQuanta is by how much longer a group of layers may run where the gate
	// is free in play: it still has to notice when the gate closes.
	freeQuanta = 4

	// windowQuanta is by how much longer a group may run in the idle time only:
	// the gate takes no more into it than the window has room for, and each halt
	// wakes the pool's threads anew.
	windowQuanta = 2

	// indexFree is what memory work may use between two decisions where nobody
	// looks at frames, indexSlice in calm play at full openness: an eighth of a
	// 60 Hz frame, or one embedding of a short memory in 3 … 5 frames.
	indexFree  = 100 * time.Millisecond
	indexSlice = 2 * time.Millisecond

	// memoryTight is the share of time that tasks wait for memory above which
	// memory work would only add to it.
	memoryTight = 0.1

	// hotHeadroom is where heat begins to decide (severe throttling is at 1),
	// coolHeadroom where it no longer does: skin sensors lag by seconds.
	hotHeadroom, coolHeadroom = 0.95, 0.85
)

// held is an actuator that gives way at once and takes more only after a dwell.
type held struct {
	value   int
	changed Instant
	moved   bool
}

func (h *held) to(want int, now Instant, dwell time.Duration) int {
	if want < h.value || want > h.value && (!h.moved || now.Sub(h.changed) >= dwell) {
		h.value, h.changed, h.moved = want, now, true
	}
	return h.value
}

// actuators turns openness into a Decision.
type actuators struct {
	free, threads, layers, chunk held

	low      bool // openness is at the low end …
	lowSince Instant

	prefillCost float64 // ns per token and layer; falls at once, rises slowly; 0: unknown
	decodeCost  float64 // ns per layer, likewise
	stage       Stage   // of the last work
}

// rebase begins every dwell anew.
func (a *actuators) rebase(now Instant) {
	for _, h := range [...]*held{&a.free, &a.threads, &a.layers, &a.chunk} {
		h.changed = now
	}
	a.lowSince = now
}

// observe learns what layers cost. The least is nearer to the truth than the
// mean: a preempted thread measures the game, not the model.
func (a *actuators) observe(cfg *Config, w *Work) {
	layers := cfg.Layers
	run := w.End.Sub(w.Start) - max(w.Waited, 0)
	if layers == 0 || w.Stopped || run <= 0 || w.Tokens <= 0 || w.End.Sub(w.Start) > absurdSpan {
		return
	}
	switch w.Stage {
	case StagePrefill:
		if w.Tokens >= cfg.leastChunk()/2 {
			track(&a.prefillCost, float64(run)/(float64(w.Tokens)*float64(layers)))
		}
	case StageDecode, StageVerify: // a draft's layers are another model's: groups sized by them miss every window
		track(&a.decodeCost, float64(run)/float64(layers))
	default:
		return
	}
	a.stage = w.Stage
}

func track(estimate *float64, x float64) {
	if *estimate == 0 || x < *estimate {
		*estimate = x
		return
	}
	*estimate += float64((x - *estimate) / 8)
}

// full is everything, for frames that are nobody's concern.
func (a *actuators) full(cfg *Config, d *Decision) {
	d.Gate, d.Openness, d.Margin, d.OpenAfter, d.Pause = GateFree, 1, 0, 0, 0
	d.Threads, d.LayersPerStop, d.PrefillChunk, d.IndexTime = cfg.MaxThreads, 0, cfg.MaxPrefillChunk, indexFree
}

// aim fills in the gate and what goes with it. work is how long the game's own
// work is expected to take, windows whether they can be published.
func (a *actuators) aim(cfg *Config, d *Decision, openness float64, s *FrameSample, work time.Duration, windows bool) {
	d.Openness, d.Margin, d.OpenAfter, d.Pause = openness, 0, AtFrameEnd, 0
	wantFree := openness >= freeAbove || a.free.value == 1 && openness >= stayFree
	switch {
	case a.free.to(bit(wantFree), s.End, cfg.Dwell) == 1:
		d.Gate, d.OpenAfter = GateFree, 0
	case windows:
		d.Gate = GateWindow
		if openness <= windowShare {
			d.Margin = time.Duration(cfg.MarginMax * float64(s.Target) * (1 - openness/windowShare))
		} else {
			d.OpenAfter = time.Duration(float64(work) * (1 - (openness-windowShare)/(1-windowShare)))
		}
	default:
		d.Gate, d.Pause, d.OpenAfter = GatePaced, pauseMax, 0
		if openness > 0 {
			d.Pause = min(pauseMax, time.Duration(float64(cfg.StopQuantum)*(1-openness)/openness))
		}
	}
	a.rest(cfg, d, s.Target, work)
	a.sizes(cfg, d, s.End, s.Target-work-d.Margin)
}

// rest puts the contention loop's sleep into what stands at the gate. A window
// has no pauses: it is made shorter by the share of time that they would take.
func (a *actuators) rest(cfg *Config, d *Decision, target, work time.Duration) {
	switch {
	case d.Sleep <= 0:
	case d.Gate == GateFree:
		d.Gate, d.Pause = GatePaced, d.Sleep
	case d.Gate == GatePaced:
		d.Pause = max(d.Pause, d.Sleep)
	case d.Gate == GateWindow:
		open := max(0, target-min(work, d.OpenAfter)-d.Margin)
		d.Margin += time.Duration(float64(open) * float64(d.Sleep) / float64(cfg.StopQuantum+d.Sleep))
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sizes chooses how much runs between two looks at the gate: a chunk whose
// layer fits into the quantum or into a share of the idle time, and as many layers
// as fit into the quantum; both by doubling.
func (a *actuators) sizes(cfg *Config, d *Decision, now Instant, idle time.Duration) {
	quantum := float64(cfg.StopQuantum)
	if d.Gate == GateFree {
		quantum *= freeQuanta
	}
	chunk := chunkUnknown
	if a.prefillCost > 0 {
		chunk = cfg.leastChunk()
		room := quantum
		if d.Gate == GateWindow {
			room = max(room, chunkIdle*float64(idle))
		}
		for chunk < cfg.MaxPrefillChunk && fits(2*chunk, a.chunk.value, room/a.prefillCost) {
			chunk *= 2
		}
	}
	d.PrefillChunk = a.chunk.to(min(chunk, cfg.MaxPrefillChunk), now, cfg.Dwell)

	layer := a.decodeCost
	if a.stage == StagePrefill {
		layer = a.prefillCost * float64(d.PrefillChunk)
	}
	if d.Gate == GateWindow && d.OpenAfter == AtFrameEnd {
		quantum *= windowQuanta
	}
	layers := 1
	for layer > 0 && layers < cfg.Layers && fits(2*layers, a.layers.value, quantum/layer) {
		layers = min(2*layers, cfg.Layers)
	}
	d.LayersPerStop = a.layers.to(layers, now, cfg.Dwell)
}

// fits reports whether n of something fit, of which room do. More than are
// taken now must fit with a quarter to spare, so that noise in the cost doesn't
// move them to and fro.
func fits(n, now int, room float64) bool {
	need := float64(n)
	if n > now {
		need *= 1.25
	}
	return need <= room
}

// watch follows for how long openness has been at its low end.
func (a *actuators) watch(openness float64, now Instant) {
	low := openness <= threadsLow
	if low && !a.low {
		a.lowSince = now
	}
	a.low = low
}

// yieldedAll reports whether openness has been at its low end for a dwell:
// then the axis alone does not help.
func (a *actuators) yieldedAll(cfg *Config, now Instant) bool {
	return a.low && now.Sub(a.lowSince) >= cfg.Dwell
}

// limitThreads moves the number of threads, the slowest actuator.
func (a *actuators) limitThreads(cfg *Config, openness float64, owed, hot bool, now Instant) int {
	if !cfg.Features.Has(FeatureThreads) {
		return cfg.MaxThreads
	}
	h := &a.threads
	most := cfg.MaxThreads
	if hot {
		most = max(1, most/2)
		h.to(min(h.value, most), now, 0)
	}
	switch settled := now.Sub(h.changed) >= cfg.Dwell; {
	case a.yieldedAll(cfg, now) && owed && settled && h.value > 1:
		h.to(h.value/2, now, 0)
	case openness >= threadsHigh && h.value < most:
		h.to(min(2*h.value, most), now, threadsDwell*cfg.Dwell)
	}
	return h.value
}
