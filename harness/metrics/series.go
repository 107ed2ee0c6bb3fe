package metrics

import "time"

// Thresholds of the named tools; see Definitions.
const (
	perfDogJank    = 2 * time.Second / 24 // PerfDog measures against cinema
	perfDogBigJank = 3 * time.Second / 24
	perfDogBefore  = 3 // frames whose mean a jank must double
	perfDogFactor  = 2

	unrealHitch    = 60 * time.Millisecond
	unrealDeadTime = 200 * time.Millisecond
	unrealRatio    = 1.5

	androidWarmUp = time.Minute
	android20fps  = 50 * time.Millisecond
	android30fps  = 34 * time.Millisecond
	androidShare  = 0.25

	chromeWindow = 64 // frames

	// jitter: frames locked to a screen vary by some microseconds around its
	// period, half of them above. Adaptive Performance forgives 2 %.
	jitter = 0.02
)

// series is what can be said of frames without keeping them. Call from one
// goroutine at a time.
type series struct {
	frames, janky int64
	clear         int64         // frames late by more than jitter
	interval      time.Duration // sum
	late          time.Duration // sum of the positive overruns
	targets       float64       // sum of interval/target: frames that should have been

	perfdog perfDog
	unreal  unreal
	android android
	chrome  chrome
}

func (s *series) add(f *Frame, janky bool) {
	s.frames++
	s.interval += f.Interval
	s.targets += float64(f.Interval) / float64(f.Target)
	s.late += max(0, f.Overrun)
	if janky {
		s.janky++
	}
	if float64(f.Overrun) > jitter*float64(f.Target) {
		s.clear++
	}
	s.perfdog.add(f.Interval)
	s.unreal.add(f.Interval)
	s.android.add(f.Interval)
	s.chrome.add(f)
}

// restart forgets the frames before, where a metric looks back.
func (s *series) restart() {
	s.perfdog.n = 0
	s.unreal.known = false
	s.chrome.forget()
}

type perfDog struct {
	before    [perfDogBefore]time.Duration
	n         int
	jank, big int64
	stutter   time.Duration
}

func (p *perfDog) add(ft time.Duration) {
	if p.n >= perfDogBefore {
		sum := p.before[0] + p.before[1] + p.before[2]
		if perfDogBefore*ft > perfDogFactor*sum && ft > perfDogJank {
			p.jank++
			p.stutter += ft
			if ft > perfDogBigJank {
				p.big++
			}
		}
	}
	p.before[p.n%perfDogBefore] = ft
	p.n++
	if p.n == 2*perfDogBefore { // so that n never overflows
		p.n = perfDogBefore
	}
}

type unreal struct {
	known     bool
	before    time.Duration
	sinceLast time.Duration // since the last hitch
	had       bool
	hitches   int64
}

func (u *unreal) add(dt time.Duration) {
	u.sinceLast += dt
	if u.known && dt >= unrealHitch && float64(dt) > unrealRatio*float64(u.before) &&
		(!u.had || u.sinceLast >= unrealDeadTime) {
		u.hitches++
		u.had, u.sinceLast = true, 0
	}
	u.before, u.known = dt, true
}

type android struct {
	played         time.Duration
	frames         int64
	slow20, slow30 int64
}

func (a *android) add(ft time.Duration) {
	if a.played < androidWarmUp {
		a.played += ft
		return
	}
	a.frames++
	if ft > android20fps {
		a.slow20++
	}
	if ft > android30fps {
		a.slow30++
	}
}

// periods is how many periods d needs, rounded up. Periods of a screen are no
// whole nanoseconds: 30 Hz is 33 333 333 ns and twice 60 Hz is 33 333 332. So a
// hundredth of a period beyond a line is still on it.
func periods(d, period time.Duration) int64 {
	return int64((d - period/100 + period - 1) / period)
}

// chrome counts full windows only.
type chrome struct {
	n, delayed, missed, most int64 // of the window that runs
	windows                  int64
	delayedAll, delayedWorst int64
	missedAll, missedWorst   int64
	missedMost               int64 // in one frame
}

func (c *chrome) add(f *Frame) {
	c.n++
	if f.Overrun > 0 {
		lines := max(1, periods(f.Overrun, f.Target))
		c.delayed++
		c.missed += lines
		c.most = max(c.most, lines)
	}
	if c.n < chromeWindow {
		return
	}
	c.windows++
	c.delayedAll += c.delayed
	c.delayedWorst = max(c.delayedWorst, c.delayed)
	c.missedAll += c.missed
	c.missedWorst = max(c.missedWorst, c.missed)
	c.missedMost = max(c.missedMost, c.most)
	c.forget()
}

func (c *chrome) forget() { c.n, c.delayed, c.missed, c.most = 0, 0, 0, 0 }
