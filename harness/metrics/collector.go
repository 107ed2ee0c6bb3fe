package metrics

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Loading is the phase whose frames stay out of the run's numbers.
const Loading = "loading"

const (
	// defaultExact: 4 Mi frames are 19 hours at 60 Hz and need 100 MiB.
	defaultExact = 4 << 20
	// clockGap: the game's loop waits for a frame at most between two frames, so
	// a second in which no frame ran was a machine asleep or a clock set.
	clockGap = time.Second
	// maxPhases bounds the phases of a run; lull has seven. Frames of further
	// ones count as "other".
	maxPhases = 64
	otherName = "other"
)

// Frame is one frame of a game.
type Frame struct {
	Start    time.Duration // when it began, since any origin
	Interval time.Duration // from the image before to this one
	Work     time.Duration // from its start to the end of its work
	Overrun  time.Duration // end of its work minus its deadline
	Target   time.Duration // period wanted for this frame
	Phase    string        // of the game; empty is gameplay without a name
	NoClock  bool          // Start is unknown: jumps of the clock can't be seen
}

// FromCapture makes a frame of a capture, which knows frame times only: the
// deadline is one target after the frame before.
func FromCapture(start, frameTime, target time.Duration) Frame {
	return Frame{Start: start, Interval: frameTime, Work: frameTime, Overrun: frameTime - target, Target: target}
}

// Outcome says what became of a frame.
type Outcome uint8

const (
	Used           Outcome = iota
	Negative               // an interval or work of less than zero
	Zero                   // an interval of zero: two frames in one image
	ClockBackwards         // it starts before the frame before it
	ClockGap               // it starts more than a second after the frame before it was over
	NoTarget               // without a target there is no deadline
	numOutcomes
)

func (o Outcome) String() string {
	return [...]string{"used", "negative", "zero", "clock-backwards", "clock-gap", "no-target"}[o]
}

// Config says how to count.
type Config struct {
	// JankMultiplier scales the time that a frame has: 1 is the deadline, 2 a
	// whole target later. 0 makes every frame janky, which shows that the
	// instruments work.
	JankMultiplier float64
	// ExactFrames is how many frames are kept for percentiles; 0 means 4 Mi.
	// Beyond it, a uniform sample of that size stands for all, and Result says
	// so. Counts, sums and rates stay exact.
	ExactFrames int
	// Seed chooses the sample.
	Seed uint64
}

// DefaultConfig counts a frame as janky when it misses its deadline.
func DefaultConfig() Config { return Config{JankMultiplier: 1, ExactFrames: defaultExact} }

// Validate says what is wrong with c.
func (c Config) Validate() error {
	if !(c.JankMultiplier >= 0 && c.JankMultiplier <= 1000) {
		return fmt.Errorf("metrics: JankMultiplier %v: want 0…1000", c.JankMultiplier)
	}
	if c.ExactFrames < 0 {
		return fmt.Errorf("metrics: ExactFrames %d: want 0 (for %d) or more", c.ExactFrames, defaultExact)
	}
	return nil
}

// sample is a frame kept for percentiles.
type sample struct {
	interval, work, overrun time.Duration
	phase                   uint8
}

// Collector counts the frames of one run. Call from one goroutine at a time.
type Collector struct {
	config   Config
	kept     []sample
	used     int64 // frames of all phases
	random   *rand.Rand
	play     series
	phases   []phase
	outcomes [numOutcomes]int64

	started bool
	last    time.Duration // start of the frame before
	over    time.Duration // when it was over: shown, or its work done
}

type phase struct {
	name string
	series
}

// New returns an empty collector.
func New(c Config) (*Collector, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.ExactFrames == 0 {
		c.ExactFrames = defaultExact
	}
	return &Collector{config: c, random: rand.New(rand.NewPCG(c.Seed, 0x6c756c6c))}, nil
}

// Restart says that the next frame does not follow the last one: another
// segment of a capture, a pause. Nothing is then said of the time between.
func (c *Collector) Restart() {
	c.started = false
	c.play.restart()
	for i := range c.phases {
		c.phases[i].restart()
	}
}

// Add counts one frame and says what became of it.
func (c *Collector) Add(f Frame) Outcome {
	o := c.judge(&f)
	c.outcomes[o]++
	if o != Used {
		return o
	}
	p := c.phase(f.Phase)
	janky := c.janky(&f)
	c.phases[p].add(&f, janky)
	if f.Phase == Loading {
		c.play.restart()
	} else {
		c.play.add(&f, janky)
	}
	c.keep(sample{f.Interval, f.Work, f.Overrun, uint8(p)})
	return Used
}

func (c *Collector) janky(f *Frame) bool {
	m := c.config.JankMultiplier
	if m == 0 {
		return true
	}
	return float64(f.Overrun) > (m-1)*float64(f.Target)
}

// judge also follows the clock: after a jump, the time goes on from there.
func (c *Collector) judge(f *Frame) Outcome {
	switch {
	case f.Target <= 0:
		return NoTarget
	case f.Interval < 0 || f.Work < 0:
		return Negative
	case f.Interval == 0:
		return Zero
	case f.NoClock:
		c.started = false
		return Used
	}
	o := Used
	if c.started && f.Start < c.last {
		o = ClockBackwards
	}
	if c.started && f.Start > c.over+clockGap {
		o = ClockGap
	}
	if o != Used {
		c.play.restart()
		for i := range c.phases {
			c.phases[i].restart()
		}
	}
	c.started, c.last, c.over = true, f.Start, f.Start+max(f.Interval, f.Work)
	return o
}

// phase finds a phase's index, by looking: there are few.
func (c *Collector) phase(name string) int {
	for i := range c.phases {
		if c.phases[i].name == name {
			return i
		}
	}
	if len(c.phases) >= maxPhases && name != otherName {
		return c.phase(otherName)
	}
	c.phases = append(c.phases, phase{name: name})
	return len(c.phases) - 1
}

// keep is Vitter's algorithm R: every frame has the same chance to be in the
// sample.
func (c *Collector) keep(s sample) {
	c.used++
	if len(c.kept) < c.config.ExactFrames {
		c.kept = append(c.kept, s)
		return
	}
	if i := c.random.Int64N(c.used); i < int64(len(c.kept)) {
		c.kept[i] = s
	}
}
