// Package scripted is a language model that says what a script tells it to, and
// takes as long about it as a cost model says: for tests, and for simulation in
// virtual time. It does everything else as a real one does: it tokenises, keeps
// ledgers, runs layer by layer under a gate, stops in the middle with nothing
// kept, saves and loads, runs out of cache, and fails when told to.
//
// # Vocabulary
//
// Tokens 0…255 are bytes. After them come word pieces, some of which end inside
// a UTF-8 character ("\xF0\x9F", the first half of most emoji); text is cut
// greedily into the longest. The last are control tokens: <s> (the BOS),
// <|im_start|>, <|im_end|>, <|endoftext|>. The chat template is ChatML.
//
// # What it says
//
// Where the newest turn in a sequence is the assistant's, the Script is called
// with the conversation before it, and the model says the answer and then
// <|im_end|>, as long as what follows the header is what the script wants. Else,
// and without a script, it babbles: words drawn from a hash of the last tokens.
// Sampling with a temperature now and then picks another word; from there on it
// babbles, so that another seed gives another text.
//
// # What it costs
//
// With width tokens in the batch, n threads and contention c(t) ≥ 0:
//
//	layer = (LayerNS·(1+c) + TokenNS·width) / (1 + (n-1)·ThreadGain)
//	head  = TailNS·rows / (1 + (n-1)·ThreadGain)
//
// One decoded token of SmolLM2 (30 layers, LayerNS 260 µs, TokenNS 150 µs,
// TailNS 1 ms, one thread) takes 30·0.41 + 1 = 13.3 ms; a chunk of 16 tokens of
// a prompt 30·(0.26+2.4) = 79.8 ms, and the last chunk 1 ms more for its row. A
// zero cost takes no time at all.
//
// Out of scope: logits as numbers (a sampler sees only the best token), repeat
// penalties, and the time of tokenising, sampling, saving and loading.
package scripted
