// Package headless plays the game without a window: an input script gives the
// keys by tick, the screen is laid out and not drawn, and the result is a run
// object as package harness reports it, with all that was said.
//
// With the scripted model time is virtual: each frame takes its period, the model
// computes on the game thread, and two plays are equal to the last letter. With a
// real model frames lie on a real grid of deadlines, and the policies take turns
// (A B C A B C), each with a worker of its own.
//
// Example: the tour of 60 s under native, vanilla and lull, once each, takes three
// minutes; a late frame is one whose layout and ticks ended after its line.
//
// Out of scope: rendering; bin/lull-demo measures that the same way (--measure).
package headless
