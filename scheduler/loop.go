package scheduler

import "math"

const (
	// nearYield is the openness given up when the game's work fills its whole
	// reference. Half the axis: from always open to the idle time only.
	nearYield = 0.5

	// roomShare is the share of the reference below which the game's work
	// leaves so much room that openness returns quickly. A group of layers in
	// the way of such a frame cannot make it late.
	roomShare = 0.5

	// quickReturn is how much openness returns per frame where there is room:
	// the whole axis in 30 frames, half a second at 60 Hz.
	quickReturn = 1.0 / 30

	// nearFade is the share of a yield to nearness that is given back per frame.
	// Nearness is measured with the LLM's own slowing in it: given back at once,
	// it would come and go every third frame. 32 frames are half a second.
	nearFade = 1.0 / 32

	// bankedReturn is by how much faster openness creeps back while a whole late
	// frame is banked, that is, while lateness stays below p*. A late frame
	// spends it, so the bound on the mean rate holds; a game without late
	// frames gets its LLM to full speed in 3 s rather than 8.
	bankedReturn = 4

	// unwind is the share of a saturated output's excess that the integral
	// loses per frame. An integral that wound up comes back in about 4 frames.
	unwind = 0.25
)

// pi is a proportional-integral controller whose output lies in [0,1]. There
// is no derivative term: frame times jitter, and it would amplify that.
type pi struct {
	gain     float64 // output per unit of the proportional error
	integral float64
}

// next takes the proportional error and the step of the integral, which the
// caller has scaled. Where the output saturates, the integral is led back, so
// that a long spell at the bound is not remembered. If the arithmetic has left
// the finite numbers, next starts anew at full output, the careful end, and
// says so by ok = false.
func (c *pi) next(proportional, step float64) (out float64, ok bool) {
	c.integral += step
	raw := float64(c.gain*proportional) + c.integral
	if math.IsNaN(raw) || math.IsInf(raw, 0) {
		c.integral = 1
		return 1, false
	}
	out = min(max(raw, 0), 1)
	c.integral += float64(unwind * (out - raw))
	return out, true
}

// frameLoop moves openness.
//
//	input:    late frames while the LLM ran, and how near the game's work is to its reference
//	setpoint: p* late frames; (1 - headroom) of the reference
//	output:   yield = 1 - openness
//
// Each late frame moves the integral by stepBack·(1-p*), each punctual one by
// -stepBack·p*. Whatever the game does, the mean rate of late frames over n
// frames therefore exceeds p* by at most 1/(stepBack·n), as long as yielding
// all prevents lateness; no model of the game is needed, nor of the machine.
type frameLoop struct {
	pi       pi
	stepBack float64
	headroom float64
	openness float64 // 1 - output
	lastNear float64 // proportional error of the frame before, unclipped
	held     float64 // proportional error that is yielded to: rises at once, fades
}

func newFrameLoop(cfg *Config) frameLoop {
	l := frameLoop{stepBack: cfg.StepBack, headroom: cfg.Headroom}
	if cfg.Headroom > 0 {
		l.pi.gain = nearYield / cfg.Headroom
	}
	l.set(cfg.StartOpenness)
	return l
}

// set puts openness to a value, whatever led elsewhere.
func (l *frameLoop) set(openness float64) {
	l.openness = openness
	l.pi.integral, l.held, l.lastNear = 1-openness, 0, 0
}

// frameError is what one frame says to the loop.
type frameError struct {
	on      bool    // the LLM could run in the frame
	late    bool    // and the frame was late
	busy    float64 // the game's work, share of the reference; 0: unknown
	allowed float64 // p*
	debt    float64 // late frames beyond p* that are not paid back yet; negative: banked
	windows bool    // at windowShare and below, layers only run in the idle time
	apart   bool    // with windows: above it layers would cost frames, whatever the loop finds
}

// next moves openness by one frame and returns the rule that moved it.
func (l *frameLoop) next(e frameError) Reason {
	near := e.busy - (1 - l.headroom)
	if !(e.busy > 0) { // also NaN
		near = 0
	}
	// One long frame is not a trend: the nearer of two in a row is ignored.
	l.held = max(l.clip(min(near, l.lastNear)), l.held-float64(nearFade*l.held))
	if l.held < 1e-3 {
		l.held = 0
	}
	l.lastNear = near

	step, why := 0.0, ReasonHold
	switch {
	case e.on && e.late:
		step, why = float64(l.stepBack*(1-e.allowed)), ReasonLate
	case e.busy > 0 && e.busy <= roomShare && e.debt <= 0:
		step, why = -quickReturn, ReasonHeadroom
	case e.on && e.debt <= -debtBanked:
		step, why = -float64(bankedReturn*l.stepBack*e.allowed), ReasonReturn
	case e.on:
		step, why = -float64(l.stepBack*e.allowed), ReasonReturn
	}
	yield, _ := l.pi.next(l.held, step)
	l.openness = 1 - yield
	if e.windows {
		// Nearness is a reason to leave the game's work alone, not its idle time.
		l.openness = max(l.openness, min(windowShare, 1-min(max(l.pi.integral, 0), 1)))
	}
	most := 1.0
	if e.apart {
		most = windowShare
	}
	if l.openness > most {
		l.openness = most
		l.pi.integral = max(l.pi.integral, 1-most) // or the next late frames would not be felt
	}
	switch {
	case why == ReasonLate:
	case l.held > 0:
		why = ReasonNear
	case l.openness >= most && why != ReasonHold:
		why = ReasonFull
	}
	return why
}

// clip bounds the proportional error: room is no reason to take more (that is
// the integral's to find out), and beyond twice the headroom all is yielded.
func (l *frameLoop) clip(e float64) float64 { return min(max(e, 0), 2*l.headroom) }

// backOff halves openness.
func (l *frameLoop) backOff() {
	l.pi.integral += float64(l.openness / 2)
	l.openness /= 2
}

// yieldTo lowers openness to a bound, if it is above.
func (l *frameLoop) yieldTo(bound float64) {
	if l.openness > bound {
		l.set(bound)
	}
}
