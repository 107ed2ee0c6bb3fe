// Package llm says what a language model is to lull, and turns one into a
// stream of events that a game polls.
//
// # Terms
//
// A Model holds weights and a KV cache on a device. A Sequence is one
// conversation inside that cache: an ordered ledger of the tokens that the
// cache holds. A Batch is what one call of Model.Decode computes: prefill
// (many tokens of a prompt), decode (one new token) or verify (several drafted
// tokens whose logits are all wanted).
//
// A Gate stands between the layers of the model. Every few layers it asks
// whether the next ones may run now; the answer depends on a Window that the
// game thread publishes, and is given by one pure function (Admit). So a model
// never runs longer past the frame's idle time than its longest group of
// layers.
//
// An Engine takes Requests from any goroutine, keeps a bounded queue, and
// advances the best of them by one batch each time Step is called. A Worker
// calls Step in a loop on an OS thread of its own. What happened comes out as
// Events: whole UTF-8 text, never half a character.
//
// # One reply, in numbers
//
// A prompt of 300 tokens, of which the sequence already holds 260 from the last
// turn, with PrefillChunk 16: Step runs three batches (16, 16, 8 tokens), the
// last of which yields the first token; each further Step decodes one. A reply
// of 40 tokens is 3 + 39 = 42 steps. Cancel stops whichever step is running
// within one node of the graph, and the ledger says what the cache still holds.
//
// # What need not be computed
//
// A prompt begins with a head that other owners' prompts begin with too
// (Request.Head): it is copied from their sequences, or loaded from a HeadStore
// after a restart. A reply within a grammar (Sampling.Grammar) has stretches that
// leave no choice: they are appended and computed in one batch. For a call such as
// {"do":"give","item":"sword"} the model chooses two or three tokens of a dozen.
//
// # What is out of scope
//
// Which window to publish, how many threads, how large a chunk: that is the
// scheduler's. Prompts, personas and history: package npc's.
package llm
