// Package harness plays a game beside a language model and says what the model
// cost: late frames, tokens, and our own time on the game thread.
//
// # Terms
//
// A Scenario is a game: its frame rate, phases with a load each, characters
// that are asked at times, and objectives. A Policy is a way to run the model: how the
// engine is built and who steers it; native has none. A Run is one policy
// playing the scenario once. Play interleaves the policies (A B C A B C), each
// run with a model loaded anew outside the measured time, after a warm-up that
// is not counted.
//
// # The grid
//
// Deadlines lie on fixed lines, start + k·period. The game thread sleeps until
// the line on which its frame begins, without spinning; it calls FrameBegin,
// wakes the load's workers, waits until all are done, and calls FrameEnd and
// Poll. Then
//
//	overrun = end of work (our calls included) - deadline      late when > 0
//
// and a late frame takes the next free line. See package metrics for what is
// made of it, and package load for the work.
//
// # What to compare with
//
// The same run measures how fast the model is without a game, with llama.cpp's
// best setting, and how much of the cores native leaves idle:
//
//	limit = idle rate · idle share
//
// Two workers of 11 ms in frames of 16.7 ms use 22 of 33.3 ms of two cores, so
// a third is idle; at 97 tokens/s without a game, the idle time is worth
// 97 · 0.32 = 31 tokens/s. A policy that makes 20 with as few late frames as
// native has a limit_share of 0.65.
//
// # Memories
//
// A scenario with memories says what its characters live through: who remembers
// what, how often, in which phases. {n} in a text is the how manieth it is.
//
//	memories:
//	  - owner: guard
//	    scope: witnessed
//	    audience: [innkeeper]
//	    texts: ["Wolf {n} jumped over the wall.", "The arrow hit wolf {n}."]
//	    every_s: 0.5
//	    phases: [combat]
//
// They are remembered in a store of the run's own, and before each request the
// character recalls what fits, which stands in its prompt. Example: 25 s of combat
// bring 50 memories. lull embeds none of them before the menu, where a text takes
// 10 ms: half a second later embeddings are {combat: 0, menu: 50} and none is left.
// lull-eager embeds them in combat, lull-no-lexical finds none of them there, and
// lull-no-memory shows what frames are like without. Policies without a controller
// have nobody who grants time for memories, and no memories.
//
// # Objectives
//
//	objectives:
//	  # Late frames that lull adds to the game's own, repeat by repeat: at most 1 in 100.
//	  - {metric: jank_rate, policy: lull, against: native, op: "<=", limit: 0.01}
//	  # The first word of a reply, within a second in half of the replies.
//	  - {metric: ttft_ms.p50, op: "<=", limit: 1000}
//	  # Of the tokens/s that the idle time is worth.
//	  - {metric: limit_share, op: ">=", limit: 0.5}
//
// is a file for --slo, or a part of a scenario (SampleObjectives). The first
// reads: the median over the repeats of lull's jank_rate minus native's of the
// same repeat is at most 0.01. metric is a key of a run, with dots
// (overrun_ms.p99, phases.combat.jank_rate); policy is lull unless named;
// without against, the value itself is compared; op is "<=" or ">=".
//
// A repeat during which other processes took more than 5 % of the cores does
// not count. If no other is left, the objective is undecided rather than met or
// missed, and the value is told all the same.
//
// # Trust
//
// A second clock notices jumps of the first; such a frame is named and not
// used. Go's garbage collector is off in measured time and counted. CPU time of
// other processes is reported, with a warning above 5 %. Selftest shows that
// the instruments move when they should and only then.
//
// Out of scope: virtual time (package soc simulates a chip), reading captures
// (package frames), pictures.
package harness
