package metrics

import (
	"fmt"
	"time"
)

// Grid is where deadlines lie: start + k·line. Call from one goroutine at a
// time.
type Grid struct {
	line     time.Duration
	target   time.Duration
	start    time.Duration // of the frame that runs now
	deadline time.Duration
	shown    time.Duration // when the last frame was shown
}

// Period limits: 1 ms is 1000 Hz, beyond any screen; 10 s is no animation.
const (
	minPeriod = time.Millisecond
	maxPeriod = 10 * time.Second
)

// NewGrid lays a grid. Line is the period of the screen, target that of the
// game: a 30 Hz cap on a 60 Hz screen has twice the line. A target between two
// lines is rounded up, as a frame can only be shown on a line.
func NewGrid(start, line, target time.Duration) (*Grid, error) {
	if line < minPeriod || line > maxPeriod || target < minPeriod || target > maxPeriod {
		return nil, fmt.Errorf("metrics: grid of %v for a target of %v: want both %v…%v",
			line, target, minPeriod, maxPeriod)
	}
	lines := time.Duration(max(1, periods(target, line)))
	g := &Grid{line: line, target: lines * line, start: start, shown: start}
	g.deadline = start + g.target
	return g, nil
}

// Start is when the next frame starts, and Deadline when its work should end.
func (g *Grid) Start() time.Duration    { return g.start }
func (g *Grid) Deadline() time.Duration { return g.deadline }

// Target is the period of the game in whole lines.
func (g *Grid) Target() time.Duration { return g.target }

// Finish ends the frame whose work ended at end, and returns it as the
// collector wants it. The next frame starts at the line that this one took.
func (g *Grid) Finish(end time.Duration, phase string) Frame {
	f := Frame{
		Start: g.start, Work: end - g.start, Overrun: end - g.deadline, Target: g.target, Phase: phase,
	}
	took := g.deadline
	if late := end - g.deadline; late > 0 {
		took += (late + g.line - 1) / g.line * g.line
	}
	f.Interval = took - g.shown
	g.shown, g.start, g.deadline = took, took, took+g.target
	return f
}
