// Package calibrate keeps what was measured of a device: the part of the device
// profile that says how long a model's layers take undisturbed.
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
