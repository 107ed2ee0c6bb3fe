// Package soc simulates a system on a chip, with a game in front and a language
// model behind it, and lets the real scheduler.Controller, scheduler.Sensor,
// llm.Engine and speculative.Speculator run on it in virtual time. It is the
// phone that we don't have, and it never claims to be one: everything that it
// prints says "simulated".
//
// # The chip
//
// One memory serves all. With B = peak · efficiency · clock, the NPU's traffic h
// goes first (at most 0.9 of B), the rest of the traffic shares what is left. u
// is the load of the memory, both as shares of B:
//
//	latency L = 1 + queue · u / ((1-h)·(1-u))      of low-priority traffic; ≥ wish / what is left
//	speed     = 1 / ((1-s)/clock + s·L)            of a thread that waits s of its time for memory
//	NPU reads take max(1, own wish / B + coupling · others' traffic / B) times as long
//
// In numbers: 8-elite has B = 84.8 · 0.898 = 76 GB/s. Llama-3.1-8B reads 4.53 GB a
// token at 60 GB/s, so its wish is 0.79 of B, with a token of 76 ms. Beside a game that
// moves 10 GB/s a read takes 0.79 + 2.46·10/76 = 1.11 times as long: h = 0.71 and u = 0.84.
// With queue = 0.266 the latency is 1 + 0.266·0.84/(0.29·0.16) = 5.8, and work that waits a
// third of its time runs at 1/(0.67 + 0.33·5.8) = 0.39 of its speed. A draft model's
// layers, which wish for 0.94 of B, take 1.26 times as long: they are the finer sensor.
//
// The clock of the memory is chosen every 64 ms from the load of the last 64 ms,
// except that the NPU's driver asks for the top while it computes. A graph that
// was started is not stopped: the gate is asked between layers only.
//
// A layer of a batch of n tokens takes max(read, compute·n) + extra, where extra
// is a dispatch, and for more than one token a step and a slope beside reading,
// which make T(8)/T(1) and T(32)/T(1) what was published.
//
// Heat is a resistance and a capacity: dT/dt = (ambient + P·R - T)/τ. From
// throttle_c to severe_c clocks fall to low_clock.
//
// # The game
//
// Frames begin on a grid; CPU, then GPU, then the image is shown on the next line.
// A frame's times are a mean, varied by a slow scene and by itself, and
// sometimes by a heavy tail. Questions follow replies after a pause. Memories come
// up and are embedded on a core: at once, or for lull when the scheduler says so.
//
// # What is said
//
// Text is drawn with a seed: words, and stretches that stood before, which
// n-grams find. A draft model knows each next token with a chance of its own. So
// what is accepted follows from the process and the real speculation.
//
// # Sameness
//
// One goroutine, one order of events, generators of its own, and of floating point only
// + - · / and square root, each rounded (mul): the same seed gives the same bytes on
// amd64 and arm64.
//
// # Parameters
//
// stand in chips, apps, models and tasks, each with its source: a row of the published
// facts, a named public figure, or "fitted". Package fit fits those. What is
// compared with (late frames, tokens/s) is never written into a parameter.
//
// # Out of scope
//
// Operating systems beyond a fair share of cores, GPU as a place for the model,
// caches, several models at one time, and being right about a phone.
package soc
