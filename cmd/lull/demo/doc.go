// Package demo shows in the terminal what a language model costs a game: a game
// loop with a CPU load of its own, characters that answer in it, and late
// frames counted as they come.
//
// # Terms
//
// A Mode is what runs beside the game: nothing, llama.cpp as it comes, or lull.
// Both runtimes are loaded from the start, each with its own worker and pool,
// so that a key switches at once; the one that is not asked sleeps.
//
// The game lies on a fixed grid: frame k begins at a line, does its work, and is
// late if the work ends after the next line; it then takes the next free one.
//
//	late %      late frames / frames
//	hitch ms/s  sum of (end of work - deadline) over late frames / time shown
//
// Example at 60 Hz: of 300 frames in 5 s, three end 2 ms after their deadline:
// 1.0 % late, 6 ms / 5 s = 1.2 ms/s.
//
// The table counts each mode under one load of the game, since modes under
// different loads can't be compared; each load that was played has its table,
// and going back to it goes on with it. The first second after a switch is left
// out (settle, shown as …): a prompt is computed anew then, and Go collects its
// garbage.
//
// # Threads
//
// The game loop has an OS thread of its own and never waits for the screen: it
// publishes frames into a ring, and events of the engines into an inbox that it
// skips where the screen holds it. The screen looks ten times a second; the
// garbage collector is off but for switches and a memory limit.
//
// One conversation a character, shared by the modes: on a switch the reply in
// the old engine is cancelled and undone, and the same line is asked in the new
// one, so that each mode answers the same question.
//
// # Parts
//
//	Game    the loop, on its thread
//	Talk    who is asked what, without a thread
//	Meter   frames in, numbers out, pure
//	Screen  what is shown, pure: View(width, height) is text
//	Run     Bubble Tea around it
//
// Out of scope: comparing modes so that it counts. Package harness does that;
// Headless makes its scenario of the same game.
package demo
