// Package bench measures what lull's engine costs against llama.cpp as it
// comes, on this machine, in one interleaved run.
//
// Every candidate is open at the same time, and each round runs all of them in
// a new order, so that a machine that slows down slows all of them. What is
// reported are ratios of paired rounds: median, quartiles and a 95 % bootstrap
// interval; absolute rates stand beside them and mean little on another day.
//
// Example: best plain setting 102 tokens/s in a round, lull's free gate 101 in
// the same round: ratio 0.990. Over 20 rounds the median of such ratios is
// what "idle decode ≥ 0.97" is about.
//
// Stop latency is from the call of Stop to the return of Decode, at random
// moments of decoding and of a prefill of 32 tokens, with a look at the gate
// after each layer, and of decoding with a free gate. A batch stops between two
// operations. The longest one would be the product with the vocabulary, 2 ms of
// a decode of 10 for 49,152 tokens; lull computes that in slices,
// and one row keeps it whole to compare.
//
// Example: "stop at each layer" at 0.95 of the free gate and the same with a pool
// that polls at 0.99: four of the five percent are the waking of the pool's
// threads after each halt, one is the gate.
//
// NPCs measures what a player has of that: the time to a character's first words,
// alone and in a crowd, cold, known and after a restart; the time to a bark; and
// what choosing an action within a grammar costs beside free text. Example: a lone
// guard answers after 60 ms, among 100 of whom 7 others speak after 70 in the same
// round: ratio 1.17.
//
// Out of scope: frames and games, see package harness.
package bench
