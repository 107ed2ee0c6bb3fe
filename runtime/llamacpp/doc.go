// Package llamacpp runs GGUF models on llama.cpp's prebuilt libraries, as an
// llm.Model. It is the only package that knows yzma, purego and cgo.
//
// # The gate
//
// llama.cpp asks a callback before every node of a graph whether it should
// halt after it. The hook (gate.h) says yes at the ends of layers, named
// l_out-N: every LayersPerStop of them when the game published a window, never
// when the gate is free. At such a halt the thread asks the rule (llm.AdmitFunc,
// repeated in C) and goes on, waits on a futex, or drops the work through the
// abort callback. A halt costs about 1 µs and a wake of the pool's threads; what
// would cost is a Go callback at each of 936 nodes, so with cgo the hook is C.
//
// # Predicting a group
//
// Whether the next group of layers still fits a window is predicted from what
// the same layers took before, for each width of batch and number of threads.
// What a slice of the output head took stands beside them.
//
// # The output head
//
// The product with the vocabulary is one node that takes as long as many layers:
// 2 ms of 10 for 49,152 words over 576 dimensions. No window of a 120 Hz game
// holds it, and nothing stops it. So the graph halts at the head's input, and the
// hook (head_c.c) computes the product in slices of the same weight, as many as
// it is times as large as a layer: each one is admitted like a layer, and a
// stop between two of them is a stop of the batch. They write into llama.cpp's
// own tensor, whose node is switched off for that time, so sampling and the order
// of rows are as ever. The first head of each number of rows is computed whole as
// well, and only slices with the very same bits stand in for it from then on.
// Other heads stay whole: on other devices, in memory laid out as one piece, of
// more than 16 rows.
//
// Example: a window closes in 4 ms and a layer takes 0.4 ms. Half of 4 ms hold 5
// layers, half of the 2 ms that are left 2, half of 1.2 ms one, of 0.8 ms one
// again; then 0.4 ≤ 0.4 lets a last one go, and the thread sleeps until the next
// window is published: five halts for ten layers.
//
// # The ledger
//
// Each sequence keeps the tokens that its part of the KV cache holds. After any
// decode that did not return 0 the cache is rolled back to the ledger and the
// positions are compared; where they differ the sequence is cleared, never
// trusted.
//
// # Out of scope
//
// Which window to publish (scheduler), prompts (npc), several models at a time
// on one thread. Devices without an abort callback (GPUs) stop only between
// batches; Device.CanStop says so.
package llamacpp
