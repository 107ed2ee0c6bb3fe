package scheduler

import "time"

const (
	// probeFrames is how long a probe closes the gate: offSettle frames that
	// count for nothing and offEvidence that do. 133 ms at 60 Hz.
	probeFrames = offSettle + offEvidence

	// closedFrames bounds the time that the gate stays closed because yielding
	// all did not help: 2 s at 60 Hz. It is also a long probe: its frames
	// tell the game's own lateness to 1 %.
	closedFrames = 120

	// closedDebt is how many late frames beyond p* must be owed, at openness 0
	// and with one thread, before the gate closes. One may be chance.
	closedDebt = 2

	// probeRest is the time between two probes, at first; it doubles with every
	// probe that says the same as the last, up to probeRestMax.
	probeRest    = 2 * time.Second
	probeRestMax = 30 * time.Second
)

// pauser closes the gate for a bounded number of frames.
type pauser struct {
	why   Reason // ReasonProbe or ReasonClosed while left > 0
	left  int    // frames still to come, ≥ 0
	rest  time.Duration
	until Instant // no probe before
	own   bool    // the last verdict
}

func (p *pauser) begin(why Reason, frames int) { p.why, p.left = why, frames }

// abort ends a pause without a verdict.
func (p *pauser) abort() { p.left = 0 }

// next takes one frame and reports whether a pause ended with it.
func (p *pauser) next() (ended bool) {
	if p.left == 0 {
		return false
	}
	p.left--
	return p.left == 0
}

// verdict sets when the next probe may come.
func (p *pauser) verdict(own bool, now Instant) {
	if own == p.own && p.rest > 0 {
		p.rest = min(2*p.rest, probeRestMax)
	} else {
		p.rest = probeRest
	}
	p.own, p.until = own, now.Add(p.rest)
}

// mayProbe reports whether a probe may begin.
func (p *pauser) mayProbe(now Instant) bool { return p.left == 0 && now >= p.until }

// forget lets the next probe come at once: the scene has changed.
func (p *pauser) forget() { p.rest, p.until = 0, 0 }
