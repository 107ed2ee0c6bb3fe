package llmtest

import (
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
)

// Options says what a model can do beyond what all must.
type Options struct {
	// Say returns a conversation to which the model answers exactly text; nil
	// where it cannot be told what to say.
	Say func(text string) []llm.Turn

	// Exact says that the model gives the same tokens whatever the shapes of
	// the batches.
	Exact bool
}

// Opener opens a fresh model; Run closes it.
type Opener func(t *testing.T) llm.Model

// Run runs the table. The model should hold 512 tokens of context or more.
func Run(t *testing.T, open Opener, o Options) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*subject)
	}{
		{"info", testInfo},
		{"text round trip", testRoundTrip},
		{"text invalid", testInvalidText},
		{"text never markup", testNeverMarkup},
		{"chat prompt", testChatPrompt},
		{"chat bad role", testBadRole},
		{"say unicode", testSayUnicode},
		{"greedy", testGreedy},
		{"seeds", testSeeds},
		{"bad sampling", testBadSampling},
		{"prefix reuse", testPrefixReuse},
		{"forget", testForget},
		{"cancel queued", testCancelQueued},
		{"cancel in prefill", testCancelPrefill},
		{"cancel in decode", testCancelDecode},
		{"cancel from the game thread", testCancelConcurrently},
		{"cancel at a closed gate", testCancelClosedGate},
		{"queue full", testQueueFull},
		{"bad requests", testBadRequests},
		{"priorities", testPriorities},
		{"deadlines", testDeadlines},
		{"stop strings", testStopStrings},
		{"max tokens", testMaxTokens},
		{"overflow", testOverflow},
		{"grammar", testGrammar},
		{"grammar cut short", testGrammarCut},
		{"grammar in a clone", testGrammarClone},
		{"grammar and guesses", testGrammarSpeculated},
		{"owners together", testOwnersTogether},
		{"more owners than sequences", testManyOwners},
		{"worker stops and goes on", testWorkers},
		{"engine closes", testEngineClose},
		{"stop in a closed gate", testStopClosedGate},
		{"closed gate opens", testGateOpens},
		{"tentative at a closed gate", testTentative},
		{"batches", testBatches},
		{"sequences run out", testSequencesRunOut},
		{"truncate", testTruncate},
		{"copy", testCopy},
		{"save and load", testSaveLoad},
		{"damaged states", testDamagedStates},
		{"clone a sampler", testCloneSampler},
		{"closed model", testClosedModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &subject{T: t, o: o, m: open(t)}
			t.Cleanup(func() {
				if err := s.m.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			c.run(s)
		})
	}
}

// Specimens are texts whose characters take 1 to 4 bytes, combine, join, or run
// from right to left.
func Specimens() []string {
	return []string{
		"plain text", "déjà vu", "5 € for the sword", "😀", "two 😀😀 in a row",
		"a\u0301e\u0308n\u0303", "👩‍👩‍👧‍👦 family", "🏳️‍🌈", "שלום עולם", "مرحبا يا صديقي", "\u202Eright\u202C to left",
		"नमस्ते", "日本語テキスト", "한국어", "tab\tand\nline\n\nbreaks", "  two  spaces  ", "\U0010FFFD", "<b>& \"quotes\" \\n",
	}
}
