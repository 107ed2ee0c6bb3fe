// Package load makes a machine as busy as a game would: it burns CPU time,
// streams memory and waits for a GPU, frame by frame, so that what a language
// model costs can be measured without a game.
//
// # Terms
//
// A Job is what one frame does. A Source says which job a frame has, as a pure
// function of the frame's number and a seed: the same seed gives the same game,
// whatever runs beside it. A Team is the game's worker threads; it does a job
// and returns when all of it is done. A Timer is the clock of the game thread.
//
// # Work, not time
//
// A worker burns CPU time by the clock of its own thread, which stands still
// while another thread has the core. So contention shows as a frame that ends
// late, never as a frame that does less:
//
//	two workers of 11 ms, alone on two cores:   the frame ends after 11.1 ms
//	beside one thread of equal priority:        two workers and the other share
//	  two cores, each gets 2/3 of one:          11 / (2/3) = 16.5 ms
//
// Memory is streamed by bytes, for the same reason: what was really streamed,
// divided by the time, is the rate that a report may name.
//
// # Captures
//
// A Trace replays a capture: the CPU busy time of each frame is burnt by one
// worker (or by several, each as much), its GPU busy time is waited. A game
// draws frame n on the GPU while the CPU works on n+1; here both begin when the
// frame begins, and it ends when the later one has. Both are scaled by one
// factor, given or chosen so that the CPU's mean fills a share of the period:
// a capture with a mean of 4.0 ms CPU busy, fill 0.6 and a period of 16.67 ms
// has the factor 0.6·16.67/4.0 = 2.5. Where a capture lacks CPU busy, the frame
// time minus the time inside Present stands for it, and where it lacks that
// too, the frame time; the Trace counts how often and says so.
//
// # A real window
//
// A job may Draw: the team then has a process of its own, the demo game
// (lull-demo --serve), show a frame of its village, and the frame ends when that
// is on the display. Where xvfb-run is installed the display is Xvfb, software
// draws, and both count as the game's CPU time (Team.CPU).
//
// # What Go does to it
//
// Workers and game thread are OS threads of their own, of ordinary priority.
// On Linux they wake each other by futex, so that no thread of Go's scheduler
// stands between; elsewhere by channels, one thread more. Go may interrupt a
// worker that burns longer than 10 ms, for some tens of microseconds. The caller
// should give Go more processors than threads (Processors) and keep the garbage
// collector out of the measured time.
//
// Out of scope: when a frame begins and by when it should end (package harness).
package load
