package llm

import "time"

// RequestID names a request; 0 is none.
type RequestID uint64

// Request asks for one reply.
type Request struct {
	// Owner names the conversation. Its sequence is kept between requests, so
	// that a reply prefills only what is new. Empty means no reuse.
	Owner string

	// Prompt is the whole prompt, BOS included where the model wants one.
	Prompt []Token

	// Keep is how many tokens at the head of Prompt survive an overflow, and
	// Cuts are the offsets in Prompt, rising, where something that may be
	// dropped begins (turns). When Prompt and MaxTokens do not fit, whole
	// stretches between cuts are dropped, oldest first, after an
	// EventOverflow. What stands before the first cut and after the last one
	// always stays; if that does not fit, the request fails.
	Keep int
	Cuts []int

	// Head is how many tokens at the head of Prompt are not this owner's alone:
	// the lore of a world, the sheet of a character. They may be copied from
	// the sequence of another owner or loaded from EngineConfig.Heads instead
	// of computed; 0 means none. A head of a few tokens is always computed.
	Head int

	MaxTokens int      // of the reply; 0 means 256
	Stop      []string // text that ends the reply; not part of it
	Sampling  Sampling
	Priority  int   // higher goes first; among equals the earlier Deadline, then the earlier request
	Deadline  int64 // ns of the engine's clock by which the reply should begin; 0 is none. Orders, never drops
}

// EventKind says what an Event is.
type EventKind uint8

const (
	EventText      EventKind = iota // Text is a delta: whole UTF-8 characters
	EventOverflow                   // Tokens of the prompt are about to be dropped
	EventDone                       // the reply is complete; Reason and Usage are set
	EventCancelled                  // Cancel, or the engine closed
	EventFailed                     // Err says why
)

func (k EventKind) String() string {
	return [...]string{"text", "overflow", "done", "cancelled", "failed"}[k]
}

// DoneReason says why a reply ended.
type DoneReason string

const (
	DoneEnd     DoneReason = "end"     // the model ended it
	DoneStop    DoneReason = "stop"    // a stop string
	DoneLength  DoneReason = "length"  // MaxTokens
	DoneContext DoneReason = "context" // the context is full
)

// Usage is what a reply cost.
type Usage struct {
	Prompt    int           // tokens of the prompt after any overflow
	Reused    int           // of those, already in the cache
	Shared    int           // of the reused, copied from the sequence of another owner
	Prefilled int           // of those, computed for this reply
	Generated int           // tokens chosen, the end token included
	Forced    int           // tokens of the reply that Sampling.Grammar left no choice about
	TTFT      time.Duration // from Submit to the first chosen token
	Total     time.Duration // from Submit to the end
}

// Event is something that happened to a request. Tokens and Err are set only
// for the kinds that name them.
type Event struct {
	Request RequestID
	Kind    EventKind
	Owner   string
	Text    string
	Tokens  int        // EventOverflow: tokens dropped
	Reply   []Token    // EventDone, EventCancelled: the tokens of the text given out
	Reason  DoneReason // EventDone
	Usage   Usage      // EventDone, EventCancelled
	Err     error      // EventFailed
}
