// Package calibrate measures a machine's devices with one model, and keeps what
// was measured.
//
// # The device profile
//
// Run times prefill and decode apart, on each device, after several lengths of
// context, in several widths of batch and numbers of threads; what it takes to
// hand a conversation from one device to another; by how much the work of a
// frame gets longer beside each stage; what layers take; and what a batch of
// judged tokens costs in decodes. Where the machine has an energy counter, each
// stage has its J a token: of the whole package, idle power included, since that
// is what the battery gives.
//
//	interference = (frame beside - frame alone) / frame alone
//
// of the medians, in turns of 20 frames: with 5.0 ms alone and 6.5 ms beside a
// decode on the CPU it is 0.3. Measured at ordinary priority and with an open
// gate: it ranks devices, it does not foretell a game that steers.
//
// A run is a list of tasks with names. Each is saved when it is done, so that one
// that was interrupted goes on. What one batch would take a tenth of the budget
// for is left out and named, as is what fails.
//
// A file holds hashes of host, drivers, library and model. Where one differs from
// what is here, the profile is stale and says by what. The scheduler's choice is
// made of it by Placement: nothing about which device is better is built in.
//
// # Baselines
//
// The scheduler scores the contention of memory by how much longer layers take
// than undisturbed. What they take undisturbed differs from layer to layer, and
// with the width of the batch and the number of threads; it is measured once,
// at start or in a calm moment, and kept in a file:
//
//	magic, version, hash of the key, device, rows of {draft, width, threads, layers in ns, halt in ns,
//	tokens in the cache, ns a layer and further token}
//
// in msgpack. The key names model, draft model, library and processor; where any
// of them changes, the file is refused and measured anew. A model of 30 layers
// takes 31 numbers of 5 bytes a row: about 200 bytes for each width.
//
// A stored baseline is used at once, but counts as old until a calm moment has
// confirmed it: the device may be hotter than it was, or its clocks lower.
//
// Out of scope: what verifying costs (package speculative), when to measure
// (packages scheduler and local).
package calibrate
