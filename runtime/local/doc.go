// Package local puts a runtime together: it finds or fetches the library and
// the model, loads them, starts the engine's worker on its low-priority thread,
// and steers the gate from the game's frame marks.
//
// Everything that runs a model on this machine starts here: the C ABI, the demo
// game, the harness and the command.
//
// # One frame
//
//	FrameBegin(id, target, now)   the gate shuts: the game works
//	FrameEnd(id, deadline, now)   what the worker did is reported, the
//	                              controller decides, the window until the
//	                              deadline is published
//	Engine.Poll(events)           text, done, failed: on the game thread
//
// Example at 60 Hz: FrameBegin at 0 ms, FrameEnd at 11 ms with the deadline at
// 16.7 ms and a margin of 0.7 ms: the gate is open from 11 to 16.0 ms, so ten
// layers of 0.45 ms run in this frame.
//
// # Decision to grant, once
//
// The controller's Decision becomes a window at the gate, and a grant (threads,
// prefill chunk) for the worker's next batch. That stands in steer.go and
// nowhere else. The worker's reports reach the controller through a ring, so
// that the game thread neither locks nor waits.
//
// # Sensing
//
// What the layers take is scored on the worker's thread and goes along in the
// report. What they take undisturbed is timed once, when the model is opened
// (30 tokens for each number of threads, a second or two), and kept in the cache
// folder beside what verifying costs. A third of a second at each further start
// says whether it still holds; it is timed again in menus, in the background, and
// while no frames are shown.
//
// # Where it runs
//
// Config.Devices says it in a text. With "auto" the figures that Calibrate kept are
// tried in a table of situations (a menu, frames that wait for the CPU, heat …), and
// the model is opened where one of them would want it; the controller then chooses
// in each frame. What a probe.Poller reads of heat, battery and pressure goes along,
// and what the game tells by SetHost goes first.
//
// # Guessing ahead
//
// Open makes the speculator of package speculative, with the draft model, if
// one is named, behind the gate of the target. What verifying costs here is
// measured at the first start, in about a second for each number of threads, and
// kept in the cache's device-profile folder. The decision's Draft and
// VerifyWidth reach the next grant; in a menu both are all there is. Close ends
// engine, speculator, draft model and target in that order.
//
// # Memories
//
// OpenMemories adds an embedder behind the model's gate and a goroutine that
// serves the stores:
//
//	SetPhase(combat)   no text is embedded from now on, and what runs is stopped
//	FrameEnd           Decision.IndexTime is credited; combat, cutscenes and
//	                   pressure grant none, and take back what was not used
//	the goroutine      rag.Store.Work with the credit, once the next text fits
//
// Example: in calm play a decision grants 2 ms, and the next text takes 16 ms by
// those before it. After eight frames the text is embedded; at the gate it waits
// for idle time like a layer of speech. In a menu each frame grants 100 ms. A text
// of 150 ms fits no credit of play, and is embedded in a menu, or when half of
// rag.Config.EmbedWithin has passed since it was remembered, in the next frames
// that grant anything at all. Only a fight or pressure that lasts for the other
// half can make it later than that. A question of a character follows the same
// rule: where nothing is granted, it is recalled by words.
//
// Out of scope: what is said (npc), what is remembered and found (rag).
package local
