package scheduler

import (
	"fmt"
	"math"
	"time"
)

const (
	// absurdSpan is the length beyond which a duration is a broken clock or a
	// debugger, not a frame.
	absurdSpan = 10 * time.Second

	// targetMin and targetMax bound what counts as a frame period: 1000 Hz
	// and 1 Hz.
	targetMin, targetMax = time.Millisecond, time.Second

	// resumeGap is the time without frames after which the game was away: no
	// frame of a running game takes that long twice.
	resumeGap = time.Second

	// resumeFrames is how many frames after a gap teach nothing: caches are
	// cold and clocks low, and that's not the LLM's doing.
	resumeFrames = 10

	// lostAfter is how many unusable samples in a row make the sensor count as
	// lost: half a second at 60 Hz.
	lostAfter = 30

	// carefulOpenness is where the axis is held while there's reason for care.
	carefulOpenness, lostOpenness = 0.5, 0.25

	// bucketStep bounds the time that one frame takes from the floor: what
	// happened while the game was away is not the LLM's loss.
	bucketStep = 250 * time.Millisecond

	// allowedMax bounds p*: above it the law would hardly ever step back.
	allowedMax = 0.9

	// tightFrames is how many frames must lack room, if none has it, before layers beside
	// the game's work are taken back: half a second at 60 Hz. A frame with room takes back
	// half of what one without adds, so that it takes a second of them to allow such
	// layers, and a game that lacks room in more than a third of its frames lacks it.
	tightFrames = 30

	// memoryDoubt is how long a verdict against the LLM counts as evidence of
	// a memory bottleneck, if CPU and GPU had room.
	memoryDoubt = 10 * time.Second
)

// Controller decides what the LLM may do, once a frame. It knows time only
// from its arguments. Call from one goroutine at a time.
type Controller struct {
	cfg  Config
	last Decision

	lateness lateness
	loop     frameLoop
	band     bandwidthLoop
	pauser   pauser
	bucket   bucket
	act      actuators
	bound    classifier
	place    *Placer // nil: there is nothing to choose

	prev       FrameSample
	seen       bool // prev is a sample
	bad        int  // unusable samples in a row
	resting    int  // frames that still teach nothing
	work       float64
	lateFacts  int     // frames for which late facts are still expected to follow
	tight      int     // frames without room for layers beside the game's work count 2, those with it -1
	noRoom     bool    // tight has reached 2·tightFrames, and not 0 since
	busyGPU    float64 // share of the frame, of the last late facts
	memoryTill Instant // until when the verdict against the LLM counts

	score      Score   // the last that was reported
	onMemory   bool    // the contention loop's actuators move
	lateHere   bool    // the frame was late while the LLM could run
	scoredTill Instant // until when scores and late frames together count as evidence of a memory bottleneck

	hot         bool    // heat decides now
	pending     bool    // the engine has something to do
	lastWorkEnd Instant // end of the last work reported
	closedFor   int     // frames in a row whose gate was closed
	idleFor     int     // frames in a row without work or demand
	streakFrom  float64 // openness before the present streak of late frames
}

// New returns a controller that begins at now. The error wraps ErrConfig.
func New(cfg Config, now Instant) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Devices.Default == "" {
		return nil, fmt.Errorf("%w: Devices.Default is empty: name the device that runs the model", ErrConfig)
	}
	if !cfg.Features.Has(FeatureLowPrio) {
		cfg.LowPriorityBase = false
	}
	if !cfg.LowPriorityBase && cfg.Features.Has(FeatureFeedback) {
		// Without the base, layers beside the game's work take its core half of
		// the time: begin inside the idle time and let evidence lead out of it.
		cfg.StartOpenness = min(cfg.StartOpenness, windowShare)
	}
	c := &Controller{cfg: cfg, loop: newFrameLoop(&cfg), band: newBandwidthLoop(&cfg), lastWorkEnd: math.MinInt64}
	if cfg.StartOpenness <= windowShare { // or evidence has to lead out of there
		c.tight, c.noRoom = tightFrames, true
	}
	c.bucket = newBucket(cfg.FloorTokensPerSecond, cfg.FloorSpan)
	c.act.threads = held{value: cfg.MaxThreads, changed: now}
	c.bound.changed = now
	if err := c.newPlace(now); err != nil {
		return nil, err
	}
	d := &c.last
	d.Prefill, d.Decode = cfg.Devices.place()
	d.Threads, d.Gate, d.Openness, d.Pause = cfg.MaxThreads, GatePaced, cfg.StartOpenness, pauseMax
	d.OpenAfter, d.LayersPerStop, d.PrefillChunk = AtFrameEnd, 1, min(chunkUnknown, cfg.MaxPrefillChunk)
	c.band.aim(&c.cfg, d, now, false)
	d.Reason = ReasonStart
	return c, nil
}

// Decision returns the last decision.
func (c *Controller) Decision() Decision { return c.last }

// Report takes what the engine did, or that its demand changed. Absurd numbers
// count as nothing done.
func (c *Controller) Report(w Work) {
	c.pending = w.Pending > 0
	if w.Contention != (Score{}) {
		c.score = w.Contention
	}
	if w.Stage == StageIdle || w.End < w.Start {
		return
	}
	c.lastWorkEnd = max(c.lastWorkEnd, w.End)
	progress := float64(min(max(w.Generated, 0), 1<<20))
	if w.Stage == StagePrefill && !w.Stopped {
		progress += float64(prefillProgress * float64(min(max(w.Tokens, 0), 1<<20)))
	}
	c.bucket.credit(progress)
	c.act.observe(&c.cfg, &w)
}

// Late takes a frame that Step has seen, completed by facts that came later,
// such as GPU time. It only informs the classifier.
func (c *Controller) Late(s FrameSample) {
	if c.unusable(&s) != ReasonStart {
		return
	}
	c.lateFacts = 2 * markRing
	c.busyGPU = 0
	if s.GPUBusy > 0 && s.Target > 0 {
		c.busyGPU = min(float64(s.GPUBusy)/float64(s.Target), 2)
	}
	c.bound.observe(&s, c.prev.End, c.cfg.Dwell)
}

// Step takes one frame and decides about the next. It neither allocates nor
// waits. The order of its rules:
//
//  1. An unusable sample changes nothing, until too many come in a row.
//  2. Where nobody looks at frames, the LLM has everything.
//  3. An empty floor opens the gate, whatever the frames say.
//  4. Critical heat closes it; a pause (probe, closed) does so for its frames.
//  5. Otherwise openness decides: the frame loop's, raised by a low floor,
//     lowered by heat.
//
// The contention loop takes its turn after the frame loop: it moves Draft,
// VerifyWidth and Pause, which nothing else does.
func (c *Controller) Step(s FrameSample) Decision {
	if why := c.unusable(&s); why != ReasonStart {
		return c.skip(why)
	}
	c.clean(&s)
	c.bad, c.lateHere = 0, false
	resumed := c.seen && s.Start.Sub(c.prev.End) > resumeGap
	if resumed {
		c.resume()
	}
	if s.Phase != c.prev.Phase || resumed {
		c.lateness.streak = 0
		c.pauser.forget()
	}
	why := c.learn(&s)
	if c.cfg.Features.Has(FeatureBucket) && c.seen {
		c.bucket.advance(min(max(s.End.Sub(c.prev.End), 0), bucketStep), c.pending)
	}
	c.decide(&s, why)
	c.prev, c.seen = s, true
	return c.last
}

// unusable says why a sample can't be used, or ReasonStart.
func (c *Controller) unusable(s *FrameSample) Reason {
	switch span := s.End.Sub(s.Start); {
	case s.Target < targetMin || s.Target > targetMax:
		return ReasonNoTarget
	case span < 0 || span > absurdSpan:
		return ReasonBadTimes
	}
	return ReasonStart
}

// skip holds the last decision. A pause ends: its verdict would rest on
// frames that nobody saw.
func (c *Controller) skip(why Reason) Decision {
	c.pauser.abort()
	d := &c.last
	if c.bad++; c.bad >= lostAfter {
		c.careful(lostOpenness)
		why = ReasonSensorLost
		d.Openness, d.IndexTime = min(d.Openness, lostOpenness), 0
	}
	if c.bad >= lostAfter || d.Gate == GateClosed {
		// Marks can't be trusted any more, or the pause is over: pace.
		d.Gate, d.OpenAfter = GatePaced, 0
		d.Pause = time.Duration(float64(c.cfg.StopQuantum) * (1 - lostOpenness) / lostOpenness)
	}
	d.Reason = why
	return *d
}

// clean replaces what can't be by "not measured".
func (c *Controller) clean(s *FrameSample) {
	for _, busy := range [...]*time.Duration{&s.MainBusy, &s.RenderBusy, &s.GPUBusy} {
		if *busy < 0 || *busy > absurdSpan {
			*busy = 0
		}
	}
	if s.PresentWait < 0 || s.PresentWait > s.End.Sub(s.Start) && !s.Marked || s.PresentWait > absurdSpan {
		s.PresentWait, s.PresentWaitKnown = 0, false
	}
	if d := s.Deadline.Sub(s.Start); s.Deadline != 0 && (d > absurdSpan || d < -absurdSpan) {
		s.Deadline = 0
	}
	h := &s.Host
	if !(h.ThermalHeadroom > 0 && h.ThermalHeadroom < 10) {
		h.ThermalHeadroom = 0
	}
	if !(h.MemoryPressure > 0 && h.MemoryPressure <= 1) {
		h.MemoryPressure = 0
	}
}

// resume starts anew after the game was away; what was learned of it stays.
func (c *Controller) resume() {
	c.pauser.abort()
	c.lateness.neither()
	c.loop.lastNear = 0
	c.careful(carefulOpenness)
	c.resting = resumeFrames
}

// careful lowers openness, if feedback can raise it again.
func (c *Controller) careful(bound float64) {
	if c.cfg.Features.Has(FeatureFeedback) {
		c.loop.yieldTo(bound)
	}
}

// rebase goes on in the time of a clock that went back. Instants of the old
// time would lie in the future, where no dwell and no rest ever ends.
func (c *Controller) rebase(s *FrameSample) {
	c.pauser.abort()
	c.pauser.forget()
	c.lateness.neither()
	c.act.rebase(s.End)
	c.band.rebase(s.End)
	c.scoredTill = s.Start
	c.bound.changed = s.End
	if c.place != nil {
		c.place.rebase(s.End)
	}
	c.lastWorkEnd, c.memoryTill = s.Start, s.Start
}

// learn takes the frame into every estimate and moves openness. It returns the
// rule that moved it.
func (c *Controller) learn(s *FrameSample) Reason {
	if c.lateFacts > 0 {
		c.lateFacts--
	} else {
		c.busyGPU = 0
		c.bound.observe(s, s.End, c.cfg.Dwell)
	}
	c.work += float64((float64(s.End.Sub(s.Start)) - c.work) / 8)
	if !c.seen {
		c.work = float64(s.End.Sub(s.Start))
	}
	c.count(s)
	switch {
	case c.seen && s.Start < c.prev.Start:
		c.rebase(s)
		return ReasonClockBack
	case s.Phase.free() || c.prev.Phase.free() && c.seen:
		c.pauser.abort()
		c.lateness.neither()
		return ReasonHold
	case c.resting > 0:
		c.resting--
		c.lateness.neither()
		return ReasonResume
	}
	return c.attribute(s)
}

// count follows for how long the LLM certainly did not run.
func (c *Controller) count(s *FrameSample) {
	if c.last.Gate == GateClosed {
		c.closedFor++
	} else {
		c.closedFor = 0
	}
	if c.lastWorkEnd.Sub(s.End) > absurdSpan { // no engine ends its work then: a broken clock said so
		c.lastWorkEnd = s.End
	}
	if c.pending || c.lastWorkEnd >= s.Start {
		c.idleFor = 0
	} else {
		c.idleFor++
	}
}

// attribute charges the frame to the LLM, to the game or to nobody, and moves
// openness.
func (c *Controller) attribute(s *FrameSample) Reason {
	l := &c.lateness
	allowed := min(allowedMax, l.ownRate()+c.allowance())
	late := l.late(s)
	e := frameError{late: late, busy: c.busy(s), allowed: allowed, debt: l.debt, windows: c.windows(s)}
	e.apart = c.lacksRoom(s) && e.windows
	found := false
	switch {
	case c.closedFor > offSettle || c.idleFor > offSettle:
		found = l.off(s)
		if c.idleFor > offSettle {
			l.forgive(c.allowance())
		}
	case c.closedFor > 0 || c.idleFor > 0:
		l.neither()
	case s.Quiet:
		// The LLM ran beside other frames, not this one: its lateness tells the
		// game's own rate, and its part in lateness was none.
		found = l.quiet(s, c.allowance())
		e.on, e.late, e.allowed, e.debt, late = true, false, c.allowance(), l.debt, false
	default:
		if late && l.streak == 0 {
			c.streakFrom = c.loop.openness
		}
		l.on(late, allowed)
		e.on, e.debt = true, l.debt
		c.lateHere = late
	}
	c.selectLoop(s)
	if found && c.pauser.left > 0 && c.pauser.why == ReasonProbe {
		c.loop.set(max(c.loop.openness, c.streakFrom)) // the steps back were for nothing
	}
	ended := c.pauser.next()
	if !c.cfg.Features.Has(FeatureFeedback) {
		return ReasonOpenLoop
	}
	if ended {
		return c.afterPause(s)
	}
	if c.pauser.left > 0 {
		return c.pauser.why
	}
	why := c.move(e)
	if e.on && late && l.streak >= l.streakLength() {
		return c.onStreak(s.End)
	}
	return why
}

// selectLoop decides whose actuators move. Those of the contention loop do where
// memory is what frames wait for: neither CPU nor GPU is, several scores in a
// row were above their target, and frames were late meanwhile. Scores alone
// would slow the LLM where nobody is harmed, late frames alone would not say by
// what. Without the frame loop the contention loop has nobody to share with.
func (c *Controller) selectLoop(s *FrameSample) {
	switch {
	case !c.cfg.Features.Has(FeatureContention):
		c.onMemory = false
	case !c.cfg.Features.Has(FeatureFeedback):
		c.onMemory = true
	case c.apart():
		c.onMemory, c.scoredTill = false, s.End
	case c.elsewhere() || c.score.judge(s.End) != ReasonStart:
		c.onMemory = false
	default:
		if c.band.over >= preemptAfter && c.harmed() {
			c.scoredTill = s.End.Add(memoryDoubt)
		}
		c.onMemory = s.End < c.scoredTill
	}
}

// elsewhere reports whether frames wait for CPU or GPU by themselves. A thread
// that waits for memory counts as busy, so where the game's own work is known
// to leave room without the LLM, a full CPU says nothing against memory.
func (c *Controller) elsewhere() bool {
	own := c.lateness.own
	return c.bound.current == BoundGPU ||
		c.bound.current == BoundCPU && !(own > 0 && own < stayShare*float64(c.prev.Target))
}

// apart reports whether layers run only where the game's own work does not, so
// that they can't slow it. A layer that begins on cold caches after each wait
// scores high there, and would narrow the windows for nothing.
func (c *Controller) apart() bool {
	return c.last.Gate == GateWindow && c.last.OpenAfter == AtFrameEnd
}

// windows reports whether windows can be published.
func (c *Controller) windows(s *FrameSample) bool {
	return s.Marked && c.cfg.Features.Has(FeatureWindow)
}

// lacksRoom takes a frame and reports whether low-priority layers beside the game's
// work would cost frames: where the room in a frame is less than the system may take
// to give a core back. The game's own work counts, where it is known, not what the LLM adds
// to it. A single long frame takes nothing away and a short one gives nothing: once
// layers run beside the game's work, its own is seen no more, and one lucky frame
// would stand for all. A game that misses its target by itself has no other time to
// give.
func (c *Controller) lacksRoom(s *FrameSample) bool {
	work := c.work
	if own := c.lateness.own; own > 0 {
		work = min(work, own)
	}
	if s.Target-time.Duration(work) >= c.cfg.TakeBack {
		c.tight = max(c.tight-1, 0)
	} else {
		c.tight = min(c.tight+2, 2*tightFrames)
	}
	c.noRoom = c.tight == 2*tightFrames || c.noRoom && c.tight > 0
	return c.noRoom && c.cfg.LowPriorityBase && !c.lateness.overBudget
}

// harmed reports whether frames are late beyond what is allowed, or nobody
// looks.
func (c *Controller) harmed() bool {
	return c.lateHere || c.lateness.debt > 0 || !c.cfg.Features.Has(FeatureFeedback)
}

// move moves openness, unless memory is what frames wait for and the contention
// loop still has something to give.
func (c *Controller) move(e frameError) Reason {
	switch {
	case !c.onMemory || c.band.exhausted() || c.band.over == 0 && c.band.pressure == 0:
		return c.loop.next(e)
	case e.on && e.late:
		return ReasonMemoryFirst
	}
	return ReasonMemoryHold
}

// contend lets the contention loop take its turn.
func (c *Controller) contend(s *FrameSample, off bool, why Reason) Reason {
	d := &c.last
	f := c.cfg.Features
	if !f.Has(FeatureContention) {
		c.band.aim(&c.cfg, d, s.End, false)
		d.Memory = ReasonMemoryOff
		return why
	}
	relax := c.relax()
	d.Memory = c.band.next(&bandwidthIn{score: c.score, now: s.End, off: off,
		target: c.cfg.ContentionTarget * (1 + float64(3*relax)), relaxed: relax > 0, selected: c.onMemory,
		elsewhere: c.elsewhere(), apart: c.apart(), harmed: c.harmed(), late: c.lateHere}, c.cfg.Dwell)
	conflict := c.band.aim(&c.cfg, d, s.End, c.elsewhere() && f.Has(FeatureFeedback))
	d.Contention = 0
	if c.band.bad == 0 && !off {
		d.Contention = c.score.Value
	}
	switch ordinary := why == ReasonReturn || why == ReasonHeadroom || why == ReasonFull; {
	case why == ReasonOpenLoop:
		return d.Memory
	case conflict && ordinary:
		return ReasonNarrow
	case d.Memory == ReasonFrameFirst && ordinary && c.band.over >= preemptAfter:
		return ReasonFrameFirst
	}
	return why
}

// allowance is the share of frames that the LLM may make late.
func (c *Controller) allowance() float64 {
	return float64(c.cfg.LateAllowance * (1 + float64(3*c.relax()))) // up to four times, before control goes off
}

// busy is the game's work as a share of its target; 0: unknown.
func (c *Controller) busy(s *FrameSample) float64 {
	if c.lateness.overBudget {
		return 0 // always at its reference: nearness says nothing
	}
	busy := max(s.MainBusy, s.RenderBusy)
	if span := s.End.Sub(s.Start); busy == 0 && s.Marked {
		busy = span
	} else if busy == 0 && s.PresentWaitKnown {
		busy = span - s.PresentWait
	}
	busy = max(busy, s.GPUBusy, time.Duration(c.busyGPU*float64(s.Target)))
	return float64(busy) / float64(s.Target)
}

// onStreak answers several late frames in a row: first by asking whose they
// are, which also yields everything for that time; then by backing off.
func (c *Controller) onStreak(now Instant) Reason {
	c.lateness.streak = 0
	if c.cfg.Features.Has(FeatureProbe) && c.pauser.mayProbe(now) && !c.bucket.off {
		c.pauser.begin(ReasonProbe, probeFrames)
		return ReasonProbe
	}
	c.loop.backOff()
	return ReasonBackOff
}

// afterPause draws the conclusion of a probe or of a closed time.
func (c *Controller) afterPause(s *FrameSample) Reason {
	own := c.lateness.overBudget || c.lateness.runShare() >= guiltShare
	c.pauser.verdict(own, s.End)
	c.lateness.debt = 0
	if own {
		return ReasonProbeOwn
	}
	if c.pauser.why == ReasonProbe {
		c.loop.backOff()
	}
	if c.bound.current != BoundCPU && c.bound.current != BoundGPU {
		c.memoryTill = s.End.Add(memoryDoubt)
	}
	return ReasonProbeGuilty
}

// decide turns what was learned into the decision, by the order at Step.
func (c *Controller) decide(s *FrameSample, why Reason) {
	d := &c.last
	d.Reference = c.lateness.reference(s.Target)
	openness := c.loop.openness
	hot, critical := c.heat(&s.Host)
	d.Bottleneck, d.Confidence = c.bottleneck(s, hot)
	c.choosePlace(s)

	owed := c.lateness.debt > 0
	c.act.watch(openness, s.End)
	d.Threads = c.act.limitThreads(&c.cfg, openness, owed, hot, s.End)
	if s.Phase.free() && !critical {
		c.act.full(&c.cfg, d)
		c.uncontended(s)
		d.Reason = ReasonPhaseFree
		if s.Host.MemoryPressure > memoryTight {
			d.IndexTime = 0
		}
		return
	}
	if why != ReasonHold && why != ReasonOpenLoop && c.mustClose(s.End) {
		c.pauser.begin(ReasonClosed, closedFrames)
		why = ReasonClosed
	}
	off := c.bucket.off && c.cfg.Features.Has(FeatureBucket)
	if relax := c.relax(); relax > 0 {
		c.abortClosed()
		if relax > openness {
			openness, why = relax, ReasonFloorRelax
		}
	}
	if hot {
		openness, why = min(openness, carefulOpenness), ReasonThermal
	}
	if off {
		openness = 1
	}
	why = c.contend(s, off, why)
	c.act.aim(&c.cfg, d, openness, s, time.Duration(c.work), c.windows(s))
	d.IndexTime = c.indexTime(s, openness, owed || hot)
	switch {
	case off:
		c.pauser.abort()
		d.Gate, d.Margin, d.OpenAfter, d.Pause = GateFree, 0, 0, 0
		d.IndexTime, why = 0, ReasonFloorOff
	case critical:
		d.Gate, d.IndexTime, why = GateClosed, 0, ReasonThermalStop
	case c.pauser.left > 0:
		d.Gate, d.IndexTime, why = GateClosed, 0, c.pauser.why
	}
	d.Reason = why
}

// mustClose reports whether yielding all did not help. A reply that is behind
// its floor keeps the gate open.
func (c *Controller) mustClose(now Instant) bool {
	return c.act.yieldedAll(&c.cfg, now) && c.lateness.debt >= closedDebt && c.idleFor == 0 && c.onFloor() &&
		(c.act.threads.value == 1 || !c.cfg.Features.Has(FeatureThreads)) && c.pauser.mayProbe(now)
}

// onFloor reports whether the reply keeps its floor with something to spare.
func (c *Controller) onFloor() bool {
	return !c.cfg.Features.Has(FeatureBucket) || c.bucket.level >= c.bucket.capacity*0.9
}

// relax is how much of the target the floor takes back, from 0 to 1.
func (c *Controller) relax() float64 {
	if !c.cfg.Features.Has(FeatureBucket) {
		return 0
	}
	return c.bucket.relax()
}

// abortClosed ends a closed time, but not a probe: that is over soon, and its
// verdict may be what frees the LLM.
func (c *Controller) abortClosed() {
	if c.pauser.why == ReasonClosed {
		c.pauser.abort()
	}
}

// heat says whether the device is hot, and whether critically.
func (c *Controller) heat(h *HostSignals) (hot, critical bool) {
	limit := hotHeadroom
	if c.hot {
		limit = coolHeadroom
	}
	critical = h.Thermal == ThermalCritical || h.Thermal == ThermalShutdown
	c.hot = critical || h.Thermal == ThermalSevere || h.ThermalHeadroom >= limit
	return c.hot, critical
}

// bottleneck adds to the classifier what it can't see: heat, and the verdict
// of a probe while CPU and GPU had room.
func (c *Controller) bottleneck(s *FrameSample, hot bool) (Bottleneck, float64) {
	switch b := c.bound.current; {
	case hot:
		return BoundThermal, 1
	case c.onMemory && c.band.over+c.band.bad > 0 && c.cfg.Features.Has(FeatureFeedback):
		return BoundMemory, min(1, c.score.Confidence)
	case b != BoundCPU && b != BoundGPU && s.End < c.memoryTill && !c.calmMemory(s.End):
		return BoundMemory, 0.5 // it may also have been the cores: a guess where layers are not timed
	default:
		return b, c.bound.confidence()
	}
}

// calmMemory reports whether layer times say that memory is not contended.
func (c *Controller) calmMemory(now Instant) bool {
	return c.score.judge(now) == ReasonStart && c.score.Value <= calmShare*c.cfg.ContentionTarget
}

// uncontended is for frames that are nobody's concern: everything, and where the
// game is calm and the sensor asks for it, layers one by one.
func (c *Controller) uncontended(s *FrameSample) {
	d := &c.last
	c.band.next(&bandwidthIn{off: true, now: s.End}, c.cfg.Dwell)
	c.band.over, c.band.pi.integral = 0, 0
	d.Draft, d.VerifyWidth, d.Sleep, d.Pressure = c.cfg.drafts(false), c.cfg.MaxVerifyWidth, 0, 0
	d.Preempted = false
	d.Contention, d.Memory = 0, ReasonPhaseFree
	if d.Draft == DraftOff {
		d.VerifyWidth = 1
	}
	if c.score.Learn && s.Phase.Calm() && c.cfg.Features.Has(FeatureContention) {
		d.LayersPerStop = 1
	}
}

// indexTime is what memory work may use in play: nothing where frames count or
// something speaks against it.
func (c *Controller) indexTime(s *FrameSample, openness float64, against bool) time.Duration {
	calm := s.Phase == PhaseExplore || s.Phase == PhaseDialogue
	if !calm || against || openness < windowShare || s.Host.MemoryPressure > memoryTight {
		return 0
	}
	return time.Duration(float64(indexSlice) * openness)
}
