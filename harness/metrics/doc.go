// Package metrics says how smooth a run of frames was. Each metric has a name,
// a unit, a definition and a source (Definitions), because tools disagree on
// what a jank is.
//
// # Terms
//
// The target is the frame period that is wanted, the deadline is when a frame's
// work should end, and
//
//	overrun = end of work - deadline      janky when > 0
//
// The interval of a frame is the time from the image before it to its own: what
// a player sees. The work of a frame is the time from its start to the end of
// its work. With a Grid, the two differ: work of 11 ms on a grid of 16.67 ms
// has an interval of 16.67 ms. A capture has frame times only, so there work =
// interval = frame time and overrun = frame time - target (FromCapture).
//
// # The grid
//
// Deadlines lie on fixed lines, start + k·line. A frame that is late takes the
// next free line, and the next frame starts there:
//
//	line 16.67 ms, frames of 11, 20 and 11 ms of work, starting at 0
//	frame 0: ends at 11.00, deadline 16.67, overrun -5.67; shown at 16.67
//	frame 1: ends at 36.67, deadline 33.33, overrun +3.33; shown at 50.00
//	frame 2: starts at 50.00, ends at 61.00, deadline 66.67; shown at 66.67
//
// One of three is janky: jank_rate 0.33. Hitch time is 3.33 ms of the 66.67 ms
// that were shown: hitch_ms_per_s 50.
//
// # Phases
//
// Frames of the phase Loading are counted and have numbers of their own, but
// stay out of the run's: a loading screen says nothing of gameplay. Metrics
// that look back at earlier frames start anew after one.
//
// # Unusable
//
// A frame with a negative time, one before its predecessor (the clock went
// back) and one more than a second after everything before it ended (the clock
// jumped, the machine slept) are counted by name and not used.
//
// # Percentiles
//
// Quantiles of frames are gonum's stat.Empirical: the smallest observed value
// with at least that share of frames at or below it. It is always a frame that
// happened. Quartiles over repeats are few values, so they interpolate (see
// Quartiles).
//
// # Out of scope
//
// Reading captures (package frames), deciding whether a run is good enough
// (objectives, package harness).
package metrics
