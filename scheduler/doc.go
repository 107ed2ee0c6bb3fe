// Package scheduler decides, frame by frame, what the language model may do, so
// that the game keeps its frames and a reply still ends.
//
// It is pure: no clock, goroutine, lock, log or file. Time comes in with the
// samples. So the same Controller runs in a game, behind the C ABI and in a
// simulator, and a recorded game gives the same decisions again.
//
// # Terms
//
// A frame is late if the game's work ends after its deadline. The LLM is
// charged only with late frames during which it could run. Openness is a place
// on one axis, from yielding all to taking all:
//
//	0         the narrowest window: the idle time of the frame, less a margin before the deadline
//	0 … 0.5   the margin shrinks
//	0.5       the whole idle time, from FrameEnd to the deadline
//	0.5 … 1   layers begin before FrameEnd: ever earlier beside the game's work
//	0.95 … 1  the gate is free
//
// Where a game does not mark its frames, the same axis is the length of the
// pause between two groups of layers. With a low-priority base (threads that
// run only where nobody else wants the core) the upper half costs few late
// frames and earns many tokens; without it, it costs most of them. Nobody knows
// beforehand how many: the loop finds the place from the frames that are late.
//
// One thing is known. Where the game's threads want every core, the system still
// owes the lowest class its few thousandths, and gives them all at once: a core
// that such a thread has got stays with it until the next tick of the timer. Where
// frames have less room than that on the whole (TakeBack, 5 ms) the upper half of the
// axis therefore costs one now and then for hardly a token, and openness ends at 0.5:
// layers stay apart from the game's work. LLM-first does without that bound.
//
// The reference is what a frame is measured by: its target, or the game's own
// frame time where the game misses its target without the LLM.
//
// # The frame loop
//
// Let p₀ be the share of frames that are late without the LLM, and a the
// LateAllowance of the preset. Each frame in which the LLM could run moves
//
//	late:      openness -= StepBack · (1 - p*)      p* = p₀ + a
//	punctual:  openness += StepBack · p*
//
// which holds the mean rate of late frames at p*, whatever the game and the
// machine are like: over n frames it exceeds p* by at most 1/(StepBack·n).
// Around this integral stand a proportional part, which gives way before frames
// are late (when the work comes within Headroom of the target in two frames
// running), a quick return where the work leaves half of the frame free, and a
// back-off for several late frames in a row.
//
// A row of late frames asks whose they are. The probe closes the gate for 8
// frames. If the frames stay late, the game misses its target by itself: the
// reference rises to its own frame time, and the LLM is not starved for what it
// did not do. If lateness goes away, openness is halved. p₀ is learned from
// frames of closed gates and of an idle engine, starting from 0.5 %.
//
// Below it all lies the floor: a bucket that drains at FloorTokensPerSecond
// while a reply is running. When it is half empty openness is raised by
// degrees, when it is empty control is off until the reply has moved. Reason
// says so.
//
// # One example in numbers
//
// Preset balanced: a = 0.006, StepBack = 0.1; with p₀ = 0.005, p* = 0.011. A late
// frame costs 0.0989 of openness, a punctual one returns 0.0011: 90 punctual
// frames pay for a late one, and at 60 Hz a whole late frame is banked after
// 1.5 s without any, from when on the return is four times as fast.
//
// At 60 Hz and openness 0.25 the margin is 0.2 · 16.67 ms · (1 - 0.25/0.5) =
// 1.67 ms. With 11 ms of work, the window is open from FrameEnd at 11 ms to 15 ms.
// At openness 0.75 it opens after 11 ms · (1 - 0.25/0.5) = 5.5 ms and shuts at the
// deadline. A group of layers that takes 0.4 ms begins at 16.26 ms at the latest.
//
// # The contention loop
//
// Game and LLM share one memory, and neither sees the other's traffic. The LLM's
// layers feel it. With T₀ what a group of layers takes undisturbed,
//
//	CS = (T - T₀) / T₀
//
// is the score. Sensor makes it: it learns T₀ of each layer, for each width and
// number of threads, in calm moments (the game's menu, or no game), and by how
// much it grows with each token of the conversation. It drops samples that were
// cut by a context switch, leaves out the output head, prefers the draft
// model's layers, and takes the mean of the middle half of the last 64 groups. A score
// has a confidence and an age. One that is missing, without baseline, unsure, not
// a number, negative, absurd or old is not acted on, and the decision says which.
//
// The loop is PI without D: e = CS - target moves the pressure, from 0 to 1, up
// by e at once and e/2 for each further score, down by |e|/10. What it moves, in
// this order:
//
//  1. three scores in a row above the target: no draft model (patterns fill in)
//  2. pressure 0 … 0.5: wider verify batches, so that the weights are read less often
//  3. pressure 0.5 … 1: a sleep of 1 to 2 ms between groups of layers; in a window,
//     which has no pauses, the share of time that they would take
//
// The bottleneck selects whose actuators move. The frame loop is the judge: only
// where scores are above the target, frames are late meanwhile, and neither CPU
// nor GPU is full by the game's own work, memory is the bottleneck and this loop
// moves alone, until it has no more to give. Then the frame loop goes on. Where
// the two want different things, Reason names the rule:
//
//	memory-first   a frame was late in a memory bottleneck: pressure rises by 0.25, openness holds
//	memory-hold    none was, but memory is contended still: openness does not return
//	frame-first    memory is contended, but CPU or GPU decide: only the frame loop moves
//	memory-apart   memory is contended, but layers run only where the game does not: nothing to protect
//	narrow         memory wants wide batches, a full CPU or GPU short bursts: narrow
//	floor-relax, floor-off   the reply is behind: up to four times the target, then no control
//
// In numbers, preset balanced (target 0.15), an engine that verifies up to 8
// tokens (4 when calm). A layer takes 1.0 instead of 0.8 ms: CS = 0.25, e = 0.10.
// Each score adds 0.05 to the integral, and e counts at once: pressure is 0.15,
// 0.20, 0.25 after three scores. The third drops the draft model, and reaches
// the quarter from which batches are 8 wide. The tenth finds 0.6: a sleep of
// 1.2 ms after each group of 2 ms, so the LLM's demand is 2/3.2 of what it was.
//
// # Bottlenecks
//
// Classify names what a frame waits for by Unity's rule; the classifier holds
// the answer still with hysteresis. A frame cap is no bottleneck: its waiting
// time is free. What is bound decides which actuators help: for memory those of
// the contention loop, otherwise the gate, then threads. Time that a thread waits
// for memory counts as busy, so where the game's own work, seen without the LLM,
// leaves room, a full CPU does not speak against memory.
//
// # Placement
//
// Where the model is held on more devices than one, a Placer chooses where
// prefill and decode run, from what was measured of them: speed, energy, by what
// share i each makes the work of a frame longer, and what moving a conversation
// takes. A reply of p new tokens of prompt and n tokens takes
//
//	T = p/prefill + move + n/decode        from its prompt on
//	T = move + (n/2)/decode                in its middle
//
// and what is least is T·(1 + w·i), with w = 4 in combat, 2 in exploration, 1 in
// dialogue and 0 where nobody looks at frames. The bottleneck leaves out what
// runs on what is full; heat and saving put J a reply in the place of T. What
// does not fit into the memory budget, weights and caches of all devices
// together, is not there to be chosen.
//
// Example: 64 tokens of prompt at 100/s and 48 at 16/s on an NPU take 3.6 s, on a
// CPU at 145/s and 10/s 5.2 s; prefill on the CPU and decode on the NPU with a
// move of 20 ms take 3.5 s. That gains less than the 15 % that a move must, so
// who is on the NPU stays; who is on the CPU goes.
//
// # Out of scope
//
// Where the samples come from (package local), what a batch holds (package llm),
// which device profile is true (package calibrate), and who times the layers
// (package llamacpp).
package scheduler
