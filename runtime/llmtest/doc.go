// Package llmtest is the table of tests that every llm.Model must pass, alone
// and under an llm.Engine. A package that implements a model runs it:
//
//	func TestModel(t *testing.T) {
//		llmtest.Run(t, open, llmtest.Options{})
//	}
//
// # Terms
//
// A subject is the model under test; each test opens its own and closes it. An
// outcome is what one request gave: its text, and its last event.
//
// # What is compared
//
// Where two replies must be equal, both were computed in batches of the same
// shapes: the sums inside a real model differ in their last bits with the shape
// of the batch, so a near-tie between two tokens may fall either way. A model
// without that weakness sets Options.Exact and is compared across shapes too.
//
// For example, the prompt of 40 tokens in chunks of 8, cancelled after the
// second chunk, must give the same reply for a new owner (again 5 chunks of 8)
// for every model; for the same owner (16 tokens reused, 3 chunks of 8) only
// with Exact.
//
// Out of scope: time. Nothing here measures or sleeps.
package llmtest
