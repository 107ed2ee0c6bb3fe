package scheduler

import "time"

const (
	// priorLate and priorFrames are what is believed of a game before it was
	// seen without the LLM: 0.5 % of its frames are late by themselves, held as
	// firmly as 100 frames seen. Measured: 0.3 … 1 % on a quiet 2-core machine.
	// Believing 1 % would give away the allowance of a game that has none.
	// A firmer belief would make a game that janks by itself starve the LLM, a
	// weaker one would take two unlucky frames of a probe for its nature.
	priorLate   = 0.005
	priorFrames = 100.0

	// ownMemory bounds the frames that the estimate of the game's own lateness
	// stands on; beyond it old ones fade. 30 s at 60 Hz: about a scene.
	ownMemory = 1800.0

	// offSettle is how many frames after the gate closed, or the engine fell
	// idle, still count for nothing: a group of layers may end in the first,
	// its cache lines are won back in the second.
	offSettle = 2

	// offEvidence is how many frames without the LLM it takes to say that the
	// game misses its target by itself, if overShare of them are late. A game
	// that is late in a third of its frames shows that in 1 of 55 probes; it is
	// not over budget, but has a high p₀. It is within budget again when fewer
	// than half are late.
	offEvidence = 6
	overShare   = 5.0 / 6

	// guiltShare is the share of late frames without the LLM from which the
	// LLM is not to blame for a streak.
	guiltShare = 1.0 / 3

	// debtBanked is how many late frames a punctual past can bank. One: a good
	// minute is no licence for a bad second.
	debtBanked = 1.0

	// referenceLife is how many frames a reference above the target lives
	// without new evidence: 15 s at 60 Hz. Then lateness counts again, and the
	// next streak probes again: 8 closed frames in 900 cost 1 %.
	referenceLife = 900

	// streakMin and streakMax bound how many late frames in a row make a
	// streak. Between them it is the number that the game itself produces in
	// less than one of a hundred places.
	streakMin, streakMax = 3, 16
	streakChance         = 0.01
)

// lateness tells the LLM's late frames from the game's own.
//
// Frames are on (the LLM could run), off (it certainly did not) or neither.
// Off frames estimate the game's own rate p₀ of late frames; on frames are
// charged against p* = p₀ + allowance. Where nearly all off frames are late, the
// game misses its target by itself: then a frame is late only if it is
// longer than the reference, which is the game's own frame time plus twice its
// mean deviation.
type lateness struct {
	offLate, offFrames float64 // late and all off frames, without the prior; 0 ≤ offLate ≤ offFrames ≤ ownMemory

	run, runLate int // off frames in the present run of them, and the late ones

	own, deviation float64 // of off frames: mean length and mean distance from it, ns
	overBudget     bool    // the game misses its target by itself
	age            int     // frames since the last off frame

	debt   float64 // on frames late beyond p*, ≥ -debtBanked; negative: so many may still be late
	streak int     // on frames late in a row
}

// ownRate is p₀.
func (l *lateness) ownRate() float64 {
	return (l.offLate + priorLate*priorFrames) / (l.offFrames + priorFrames)
}

// streakLength is the n for which p₀ⁿ falls below streakChance, within bounds.
func (l *lateness) streakLength() int {
	p := l.ownRate()
	n, all := 1, p
	for all > streakChance && n < streakMax {
		all *= p
		n++
	}
	return max(n, streakMin)
}

// reference is what a frame is measured by.
func (l *lateness) reference(target time.Duration) time.Duration {
	if !l.overBudget {
		return target
	}
	return max(target, time.Duration(l.own+float64(2*l.deviation)))
}

// overrun is by how much the frame missed its deadline; it is late if > 0.
func overrun(s *FrameSample) time.Duration {
	if s.Deadline != 0 {
		return s.End.Sub(s.Deadline)
	}
	// Without a deadline the sample is a frame interval, which jitters with
	// the display even where nothing is late.
	return s.End.Sub(s.Start) - time.Duration(onTarget*float64(s.Target))
}

// late reports whether the frame was late by the measure that holds now.
func (l *lateness) late(s *FrameSample) bool {
	if overrun(s) <= 0 {
		return false
	}
	return !l.overBudget || float64(s.End.Sub(s.Start)) > onTarget*float64(l.reference(s.Target))
}

// on takes a frame in which the LLM could run.
func (l *lateness) on(late bool, allowed float64) {
	l.ageBy1()
	l.run, l.runLate = 0, 0
	if late {
		l.debt += 1
		l.streak++
	} else {
		l.streak = 0
	}
	l.debt = max(-debtBanked, l.debt-allowed)
}

// neither takes a frame of which nobody can say.
func (l *lateness) neither() {
	l.ageBy1()
	l.run, l.runLate, l.streak = 0, 0, 0
}

func (l *lateness) ageBy1() {
	if l.age++; l.age > referenceLife {
		l.overBudget, l.age = false, 0
	}
}

// off takes a frame in which the LLM certainly did not run. It returns true
// when it now turns out that the game misses its target by itself.
func (l *lateness) off(s *FrameSample) (found bool) {
	l.age, l.streak = 0, 0
	l.length(float64(s.End.Sub(s.Start)))
	l.run++
	if overrun(s) > 0 {
		l.runLate++
	}
	if l.offFrames++; l.late(s) {
		l.offLate++
	}
	if l.offFrames > ownMemory {
		l.offFrames, l.offLate = l.offFrames/2, l.offLate/2
	}
	if l.run < offEvidence {
		return false
	}
	over := l.runShare() >= overShare || l.overBudget && l.runShare() >= 0.5
	if l.run >= 4*offEvidence { // a long run must be able to change its mind
		l.run, l.runLate = l.run/2, l.runLate/2
	}
	if over == l.overBudget {
		return false
	}
	// "Late" means something else from here on, so what was counted is void.
	l.overBudget, l.offFrames, l.offLate, l.debt = over, 0, 0, 0
	return over
}

// quiet takes a frame in which the LLM could run and did not, beside the game's
// work. It counts for the game's own rate, and pays debt back like a punctual
// one. It returns what off returns.
func (l *lateness) quiet(s *FrameSample, allowed float64) (found bool) {
	found = l.off(s)
	l.debt = max(-debtBanked, l.debt-allowed)
	return found
}

// forgive pays debt back in a frame of an idle engine: players see the share of
// all frames. It banks nothing, or a silent minute would be a licence.
func (l *lateness) forgive(allowed float64) { l.debt = max(min(l.debt, 0), l.debt-allowed) }

// runShare is the share of late frames in the present run of off frames.
func (l *lateness) runShare() float64 {
	if l.run == 0 {
		return 0
	}
	return float64(l.runLate) / float64(l.run)
}

// length follows the length of off frames. The first of a run replaces an
// estimate that has outlived its scene.
func (l *lateness) length(x float64) {
	if l.run == 0 && !l.overBudget {
		l.own, l.deviation = x, 0
		return
	}
	off := x - l.own
	l.own += float64(off / 8)
	l.deviation += float64((max(off, -off) - l.deviation) / 8)
}
