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
// moments of decoding and of a prefill of 32 tokens. A batch stops between two
// operations: the longest of a decode is the product with the vocabulary, about
// 2 ms of 10 for 49,152 tokens, so one stop in five waits for the rest of it.
//
// # Guessing ahead
//
// Speculate runs conversations plainly, with n-grams and with a draft model, in
// a new order each round and on one engine, so that a prompt is computed once
// for all. A ratio is that of one round's tokens per second after the first
// token: plain 21.6, n-grams 39.3: 1.82. Beside it stands what was predicted:
// with T(B)/T(1) = 1.6 at B = 4 and four candidates in five right, a batch
// yields 2.95 tokens, so 1.85. Replies are compared with the plain ones token by
// token; where two part, the logits of both tokens say how near a tie it was.
//
// Out of scope: frames and games, see package harness.
package bench
