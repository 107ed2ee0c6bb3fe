package scheduler

import "time"

const (
	// preemptAfter is how many scores in a row must exceed the target before
	// the draft is dropped. Three tokens: one odd score, or two, are chance.
	preemptAfter = 3

	// resumeAfter is how many in a row must lie in the calm half of the target
	// before it comes back: four times as many, since a draft that comes back
	// too soon is the most memory-hungry work there is.
	resumeAfter = 12

	// calmShare is the share of the target below which a score is calm; between
	// it and the target nothing is counted, so noise does not flap.
	calmShare = 0.5

	// bandwidthGain is pressure per unit of the error at once, pressUp and
	// pressDown what one score adds to the integral for each unit above and
	// below the target. A score 0.15 above it reaches full pressure in 12
	// scores, some 0.3 s; undisturbed, the way back takes five times as long.
	bandwidthGain      = 1.0
	pressUp, pressDown = 0.5, 0.1

	// errorMost bounds the error. A score of 1 and one of 3 say the same.
	errorMost = 1.0

	// pressLate is the pressure that a late frame adds where memory is what
	// frames wait for: after four of them the loop has given all it has.
	pressLate = 0.25

	// pressFade is the pressure lost per frame while nothing is known or
	// nothing is to be done: all of it in 2 s at 60 Hz.
	pressFade = 1.0 / 120

	// pressCreep is what is given back per score while the score is above its
	// target and frames are punctual: that may be the loop's own merit, so it
	// finds out slowly, in 15 s or so.
	pressCreep = 1.0 / 960

	// pressedAll is the pressure from which this loop has no more to give.
	pressedAll = 0.95

	// sleepMin and sleepMax are the rest between two groups of layers. Below
	// 1 ms timers of common systems don't wake in time, beyond 2 ms a reply is
	// better off with the frame loop's actuators.
	sleepMin, sleepMax = time.Millisecond, 2 * time.Millisecond

	// sleepFrom and sleepStay are the shares of the sleep's part of the pressure
	// from which it begins and below which it ends.
	sleepFrom, sleepStay = 0.1, 0.0

	// calmWidth is the widest verify batch without contention, and half of what
	// the engine has if that is less: on CPUs verifying stays cheap up to 4, on
	// NPUs up to 8.
	calmWidthMost = 8
)

// bandwidthIn is what one frame says to the contention loop.
type bandwidthIn struct {
	score     Score
	now       Instant
	target    float64 // CS that is tolerated, relaxed by the floor
	relaxed   bool    // the floor relaxed it
	off       bool    // the floor is empty
	selected  bool    // memory is what frames wait for, or nobody knows of frames
	elsewhere bool    // frames wait for CPU or GPU
	apart     bool    // layers run only where the game does not
	harmed    bool    // frames are late beyond their allowance, or nobody knows
	late      bool    // this one was late
}

// bandwidthLoop holds the contention of memory at its target.
//
//	input:    score CS of the layers' run times
//	setpoint: target CS of the preset
//	output:   pressure [0,1], spread over the actuators from fast to fine, and the draft's preemption
//
// It is a PI law without a derivative: layer times jitter. It backs off fast
// and returns slowly, and counts each score once, however often frames ask.
type bandwidthLoop struct {
	pi          pi
	pressure    float64
	over, under int  // scores in a row above the target, and calm ones
	model       bool // there is a draft model to preempt
	preempted   bool
	changed     Instant // of preempted
	moved       bool
	seen        Instant // At of the last score that was counted
	any         bool
	off         bool
	bad         int // frames in a row without a usable score
	error       float64
	level       held // widest level less the present one: it gives way by falling
	levels      int
	awake       held   // 0: it sleeps between groups of layers
	why         Reason // of the last score
}

func newBandwidthLoop(cfg *Config) bandwidthLoop {
	b := bandwidthLoop{pi: pi{gain: bandwidthGain}, why: ReasonScoreMissing}
	b.model = cfg.Features.Has(FeaturePreempt) && cfg.drafts(false) != cfg.drafts(true)
	for w := calmWidth(cfg.MaxVerifyWidth); w < cfg.MaxVerifyWidth; w *= 2 {
		b.levels++
	}
	b.level, b.awake = held{value: b.levels}, held{value: 1}
	return b
}

func calmWidth(most int) int { return min(most, max(2, min(calmWidthMost, most/2))) }

// next takes one frame and returns the rule that decided.
func (b *bandwidthLoop) next(in *bandwidthIn, dwell time.Duration) Reason {
	if in.off {
		if !b.off { // afterwards it goes on from half: all of it is what starved the reply
			b.off, b.pi.integral = true, b.pi.integral/2
		}
		b.preempt(false, in.now)
		b.awake.value, b.pressure = 1, 0
		if !b.any {
			return ReasonScoreMissing
		}
		return ReasonFloorOff
	}
	b.off = false
	if why := in.score.judge(in.now); why != ReasonStart {
		return b.without(why)
	}
	b.bad = 0
	fresh := !b.any || in.score.At > b.seen || b.seen.Sub(in.score.At) > scoreOld
	if fresh {
		b.any, b.seen = true, in.score.At
		b.count(in)
	}
	switch {
	case !in.selected:
		b.fade()
		b.why = b.unselected(in)
	case in.late && b.error > 0:
		b.press(max(b.error, 0), pressLate)
		b.why = ReasonContention
	case fresh:
		b.why = b.settle(in)
	}
	b.draft(in, dwell)
	if b.preempted && b.why == ReasonContention {
		return ReasonPreempt
	}
	return b.why
}

// count follows how many scores in a row say the same.
func (b *bandwidthLoop) count(in *bandwidthIn) {
	b.error = min(max(in.score.Value-in.target, -errorMost), errorMost)
	switch {
	case b.error > 0:
		b.over, b.under = b.over+1, 0
	case in.score.Value <= calmShare*in.target:
		b.over, b.under = 0, b.under+1
	default:
		b.over, b.under = 0, 0
	}
}

// settle moves the pressure by one score.
func (b *bandwidthLoop) settle(in *bandwidthIn) Reason {
	switch {
	case b.error > 0 && in.harmed:
		b.press(b.error, float64(pressUp*b.error))
	case b.error > 0:
		b.press(0, -pressCreep) // the frames don't mind
		return ReasonHarmless
	default:
		b.press(0, float64(pressDown*b.error))
		return ReasonContentionLow
	}
	if in.relaxed {
		return ReasonFloorRelax
	}
	return ReasonContention
}

// unselected names why the loop's actuators do not move.
func (b *bandwidthLoop) unselected(in *bandwidthIn) Reason {
	switch {
	case b.error <= 0:
		return ReasonContentionLow
	case in.elsewhere:
		return ReasonFrameFirst
	case in.apart:
		return ReasonMemoryApart
	}
	return ReasonHarmless
}

func (b *bandwidthLoop) press(proportional, step float64) {
	b.pressure, _ = b.pi.next(proportional, step)
}

// fade gives pressure back by the frame.
func (b *bandwidthLoop) fade() { b.press(0, -pressFade) }

// without goes on without a usable score: for half a second what was decided
// stands, then it is given back.
func (b *bandwidthLoop) without(why Reason) Reason {
	if b.bad++; b.bad >= lostAfter {
		b.over, b.error = 0, 0
		b.fade()
		if b.pressure == 0 && b.preempted {
			b.preempted, b.moved = false, false
		}
	}
	return why
}

// draft decides about preemption.
func (b *bandwidthLoop) draft(in *bandwidthIn, dwell time.Duration) {
	switch {
	case b.model && in.selected && in.harmed && b.over >= preemptAfter:
		b.preempt(true, in.now)
	case b.preempted && (b.under >= resumeAfter || !in.selected) && b.pressure <= 1-pressedAll &&
		(!b.moved || in.now.Sub(b.changed) >= dwell):
		b.preempt(false, in.now)
	}
}

func (b *bandwidthLoop) preempt(on bool, now Instant) {
	if b.preempted != on {
		b.preempted, b.changed, b.moved = on, now, true
	}
}

// exhausted reports whether all of this loop's actuators have moved as far as
// they can. Then the frame loop's take over.
func (b *bandwidthLoop) exhausted() bool { return b.pressure >= pressedAll }

// rebase begins every dwell anew.
func (b *bandwidthLoop) rebase(now Instant) {
	b.changed, b.level.changed, b.awake.changed, b.any = now, now, now, false
}

// aim turns pressure into what the decision says of drafts, width and sleep.
// Where the device can batch, the first half of the pressure widens the verify
// batch, and the second sleeps; where it can't, all of it sleeps. narrow is the
// frame loop's wish for short bursts, which wins.
func (b *bandwidthLoop) aim(cfg *Config, d *Decision, now Instant, narrow bool) (conflict bool) {
	d.Draft, d.Preempted, d.Pressure = cfg.drafts(b.preempted), b.preempted, b.pressure
	width, sleep := cfg.MaxVerifyWidth, b.pressure
	if cfg.Features.Has(FeatureBatching|FeatureContention) && d.Draft != DraftOff && b.levels > 0 && b.any {
		want := min(b.levels, int(2*b.pressure*float64(b.levels+1)))
		conflict = narrow && want > 0
		if narrow {
			want = 0
		}
		level := b.levels - b.level.to(b.levels-want, now, cfg.Dwell)
		width = min(cfg.MaxVerifyWidth, calmWidth(cfg.MaxVerifyWidth)<<level)
		sleep = max(0, 2*b.pressure-1)
	}
	if d.Draft == DraftOff {
		width = 1
	}
	d.VerifyWidth, d.Sleep = width, 0
	if !cfg.Features.Has(FeatureSleep) {
		return conflict
	}
	sleeps := sleep >= sleepFrom || b.awake.value == 0 && sleep > sleepStay
	if b.awake.to(1-bit(sleeps), now, cfg.Dwell) == 0 {
		d.Sleep = sleepMin + time.Duration(float64(sleepMax-sleepMin)*sleep)
	}
	return conflict
}

// drafts are the sources that may be used.
func (c *Config) drafts(preempted bool) DraftMode {
	model := c.Draft == DraftModel || c.Draft == DraftModelNGram
	ngram := c.Draft == DraftNGram || c.Draft == DraftModelNGram
	model = model && !(preempted && c.Features.Has(FeaturePreempt))
	ngram = ngram && c.Features.Has(FeatureNGram)
	switch {
	case model && ngram:
		return DraftModelNGram
	case model:
		return DraftModel
	case ngram:
		return DraftNGram
	}
	return DraftOff
}
