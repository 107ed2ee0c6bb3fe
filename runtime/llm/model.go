package llm

import (
	"errors"
	"time"
)

// Token is a vocabulary entry's index, in [0, Info.Vocab).
type Token int32

// Info describes a loaded model. Counts are of tokens unless named otherwise.
type Info struct {
	Name         string // short name, e.g. "SmolLM2-135M-Instruct Q4_0"
	Architecture string // "llama", "gemma3", … as the model file says
	Device       string // the ggml device that runs it, e.g. "CPU"
	Library      string // version of the engine underneath, e.g. "llama.cpp v0.5.0"
	Layers       int    // transformer layers
	Vocab        int    // vocabulary size
	Context      int    // tokens that one sequence may hold
	TrainContext int    // tokens the model was trained for; Context beyond it degrades
	MaxBatch     int    // tokens in one Decode at most
	MaxSequences int    // sequences open at one time at most
	Bytes        uint64 // size of the weights

	// CanTruncate reports whether a sequence can drop its last tokens.
	// Recurrent and hybrid models cannot; there the sequence is cleared.
	CanTruncate bool
}

// Expected conditions. Causes are wrapped with %w and the operation.
var (
	ErrStopped     = errors.New("llm: stopped before the batch was complete")
	ErrContextFull = errors.New("llm: context is full")
	ErrNoSequence  = errors.New("llm: every sequence is in use")
	ErrBatch       = errors.New("llm: bad batch")
	ErrClosed      = errors.New("llm: closed")
	ErrQueueFull   = errors.New("llm: request queue is full")
	ErrRequest     = errors.New("llm: bad request")
	ErrState       = errors.New("llm: bad sequence state")
)

// Model is weights and a KV cache on one device. Call from one goroutine at a
// time, except Info, Tokenizer's methods and Stop, which are safe for
// concurrent use.
type Model interface {
	Info() Info
	Tokenizer

	// NewSampler returns a sampler with its own random state.
	NewSampler(Sampling) (Sampler, error)

	// NewSequence opens an empty sequence, or returns ErrNoSequence.
	NewSequence() (Sequence, error)

	// Decode computes one batch under the gate and appends its tokens to the
	// ledgers of their sequences. On ErrStopped none of the batch is kept, and
	// the same batch may be tried again. It never blocks in a closed gate once
	// Stop was called.
	Decode(b *Batch, g Grant) (Work, error)

	// Stop makes a running Decode return ErrStopped within one node of the
	// graph, and every later one too, until Resume. Safe for concurrent use.
	Stop()

	// Resume takes Stop back. Safe for concurrent use.
	Resume()

	// Gate is where the windows for this model are published.
	Gate() Gate

	// Close frees everything. The model must not be used afterwards, but for its
	// Tokenizer, which may be in use meanwhile: Tokenize then fails with ErrClosed.
	Close() error
}

// Tokenizer turns text into tokens and back. Safe for concurrent use.
type Tokenizer interface {
	// Tokenize appends the tokens of text to dst. With markup false, nothing
	// in text can become a control token: it is the only way in for text that
	// a player or a memory wrote. Invalid UTF-8 and NUL become U+FFFD. No BOS is added.
	Tokenize(dst []Token, text string, markup bool) ([]Token, error)

	// AppendPiece appends the bytes of a token, which may be part of a UTF-8
	// character. Control tokens append nothing.
	AppendPiece(dst []byte, t Token) []byte

	// BOS returns the token that must begin a prompt, if the model wants one.
	BOS() (Token, bool)

	// IsEnd reports whether t ends a reply.
	IsEnd(t Token) bool

	// RenderChat lays turns out as the model's chat template wants them. With
	// reply true it ends where the assistant begins to speak.
	RenderChat(turns []Turn, reply bool) ([]Segment, error)
}

// Role says who speaks in a Turn.
type Role string

const (
	System    Role = "system"    // the game: persona, rules, facts
	User      Role = "user"      // the player
	Assistant Role = "assistant" // the character that the model speaks for
)

// Turn is one contribution to a conversation.
type Turn struct {
	Role Role
	Text string

	// Tokens are the tokens that Text was generated as, if it was. They are
	// used as they are, so that the KV cache of an earlier reply fits again.
	Tokens []Token
}

// Segment is a stretch of a rendered prompt. Markup is the template's own text
// and may hold control tokens; the rest is content and may not.
type Segment struct {
	Text   string
	Markup bool
	Turn   int     // index of the turn that it belongs to, -1 for none
	Tokens []Token // already tokenised content, or nil
}

// Sequence is one conversation in the KV cache. Call from the goroutine that
// uses its model.
type Sequence interface {
	// Tokens is the ledger: what the cache holds, in order. Valid until the
	// next call that changes the sequence.
	Tokens() []Token

	// Truncate drops all but the first n tokens. Where the model cannot, the
	// sequence is cleared: look at len(Tokens()) afterwards.
	Truncate(n int) error

	// CopyFrom makes this sequence hold what src holds, without computing it.
	CopyFrom(src Sequence) error

	// Save appends the state of the sequence to dst, with a header that ties
	// it to the model and the library. Load replaces the sequence by such a
	// state; on error the sequence is empty and the error wraps ErrState.
	Save(dst []byte) ([]byte, error)
	Load(state []byte) error

	Close()
}

// Sampling says how the next token is chosen. The zero value is greedy.
type Sampling struct {
	Temperature   float32 // 0 is greedy; usual 0.2 … 1.2
	TopK          int     // 0 keeps all: TopP then sorts the whole vocabulary, 4 ms a token for 49,152
	TopP          float32 // nucleus, (0, 1]; 0 keeps all
	MinP          float32 // share of the best token's probability, [0, 1); 0 keeps all
	RepeatPenalty float32 // 1 or 0 is none; usual 1.0 … 1.3
	RepeatLast    int     // tokens the penalty looks back on; 0 means 64 when there is a penalty
	Seed          uint32  // same seed, same prompt, same batches: same reply

	// Grammar allows only the replies that it describes; empty allows all. It
	// is what package gbnf reads, and is checked there before a model sees it.
	// What it forces is appended in one batch instead of decoded one by one.
	Grammar string
}

// Sampler chooses tokens from the logits of the last Decode. Call from the
// goroutine that uses its model.
type Sampler interface {
	// Sample chooses from row i of the last batch's logits and accepts the
	// choice. Rows count only the batch's entries with Logits set.
	Sample(row int) (Token, error)
	// Accept tells the sampler of a token chosen otherwise.
	Accept(t Token)
	// Clone copies the sampler with its state, to try drafts on.
	Clone() Sampler
	Close()
}

// Batch is what one Decode computes. Reuse it with Reset.
type Batch struct {
	Entries []Entry
	// Tentative work may be dropped rather than wait: a draft. At a closed
	// gate it stops instead of waiting.
	Tentative bool
}

// Entry is one token to compute. Its position is the next one of its sequence,
// counting earlier entries of the batch.
type Entry struct {
	Sequence Sequence
	Token    Token
	Logits   bool // whether this token's logits are wanted
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.Entries, b.Tentative = b.Entries[:0], false }

// Add appends one token.
func (b *Batch) Add(s Sequence, t Token, logits bool) {
	b.Entries = append(b.Entries, Entry{s, t, logits})
}

// Grant is what the scheduler allows the next step. The zero value of a field
// means the model's default.
type Grant struct {
	Threads      int // CPU threads; clamped to the pool
	PrefillChunk int // tokens of a prompt in one batch; clamped to MaxBatch

	VerifyWidth  int  // tokens in one verify batch at most; 1 guesses nothing
	NoDraftModel bool // guess without a draft model
	NoPatterns   bool // guess with a draft model alone
}

// Stage is what a batch was for.
type Stage uint8

const (
	Idle    Stage = iota // nothing
	Prefill              // tokens of a prompt
	Decode               // one new token of each reply
	Verify               // drafted tokens, all judged at once
	Draft                // tokens of a draft model
)

func (s Stage) String() string {
	return [...]string{"idle", "prefill", "decode", "verify", "draft"}[s]
}

// Work is what one step did. Times are monotonic nanoseconds of the model's
// clock. Samples are valid until the next Decode.
type Work struct {
	Stage     Stage
	Request   RequestID
	Tokens    int // tokens computed and kept
	Generated int // tokens chosen
	Drafted   int // Verify: candidates judged
	Accepted  int // Verify: of these, the right ones
	Threads   int
	Past      int // tokens in the cache before the batch, of all its sequences
	Start     int64
	End       int64
	Waited    time.Duration // of End-Start, spent waiting at the gate
	Stops     int           // how often the gate was asked
	Stopped   bool          // ErrStopped: nothing was kept
	Samples   []LayerSample
}

// LayerSample is the measured run time of a group of layers.
type LayerSample struct {
	First, Last int16 // layers, inclusive; Last == Info.Layers is the output head
	Width       int16 // tokens in the batch
	Threads     int16
	Duration    time.Duration
	Switched    bool // the thread was preempted, or began on caches that the game left: says nothing of memory
}
