package rag

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Identity names what vectors were made with. Vectors of two identities are
// never compared.
type Identity struct {
	Model     string // name or hash of the weights
	Pooling   string // mean, cls, last …
	Dimension int    // numbers in a vector
}

const maxDimension = 8192 // larger than any embedder for devices; bounds a frame of the log

// Validate says what is wrong with an identity.
func (i Identity) Validate() error {
	if i.Model == "" || len(i.Model) > MaxName || len(i.Pooling) > MaxName {
		return fmt.Errorf("rag: embedder %.40q with pooling %.40q: want a model's name of 1…%d bytes",
			i.Model, i.Pooling, MaxName)
	}
	if i.Dimension < 1 || i.Dimension > maxDimension {
		return fmt.Errorf("rag: embedder %q has dimension %d: want 1…%d", i.Model, i.Dimension, maxDimension)
	}
	return nil
}

// Embedder turns a text into a vector. The store calls it from one goroutine at
// a time, never from Remember, and cuts texts to Config.EmbedBytes before.
type Embedder interface {
	// Identity must not change while a store is open.
	Identity() Identity
	// Embed returns Dimension finite numbers, not all zero. An error that wraps
	// ErrInterrupted is no failure: the text is tried again later. One that wraps
	// ErrNoContent says that the text never has a vector.
	Embed(ctx context.Context, text string) ([]float32, error)
}

// Timed is an Embedder that knows what a text takes without the time in which it
// waited, at the gate of a frame for instance. Slices are sized by that; of others
// the whole call is taken.
type Timed interface {
	Embedder
	EmbedTimed(ctx context.Context, text string) (x []float32, took time.Duration, err error)
}

// ErrInterrupted is wrapped by an Embedder that was stopped, by a gate for
// instance.
var ErrInterrupted = errors.New("rag: embedding was interrupted")

// ErrNoContent is wrapped by an Embedder that knows nothing of a text, such as a
// row of emoji. The memory is found by its words only, and nobody tries again.
var ErrNoContent = errors.New("rag: nothing in the text that the embedder knows")

// Sync names when a memory counts as durable.
type Sync uint8

const (
	// SyncBatch: after fsync. Survives a power cut. One fsync serves all that was
	// remembered while the one before ran.
	SyncBatch Sync = iota
	// SyncProcess: once the system has it. Survives the end of the process in any
	// way, not a power cut; for devices where fsync takes tens of milliseconds.
	SyncProcess
)

// Weights say how much each part counts in a memory's score. Each part lies in
// [0, 1].
type Weights struct {
	Relevance  float64
	Recency    float64
	Importance float64
}

// Config is how a store works. DefaultConfig is complete.
type Config struct {
	Dir      string   // folder of the store; "" keeps all in memory, for tests and evaluations
	Embedder Embedder // nil: no vectors, lexical only
	Sync     Sync

	// Clock counts play: it may stand still in a pause. It is used for the
	// durability bound, never for scores.
	Clock func() time.Duration
	// Stopwatch measures budgets and what embedding costs, and goes on in a pause;
	// nil: Clock does.
	Stopwatch func() time.Duration

	Weights Weights
	// Decay is the recency left after one game hour without use. 0.995 is the
	// figure of the Generative Agents paper: half is left after 138 hours.
	Decay float64
	// FusionK damps the first ranks in reciprocal rank fusion: 1/(k + rank). 10
	// rather than the usual 60, which lost 0.03 of the recall at 10: with two lists
	// of which both are good, the top should count.
	FusionK float64
	// Depth is how many of each list are fused. On conversations of 500 lines, 30
	// cost 0.016 of the recall at 10 and 200 won 0.005.
	Depth int
	// K1 and B are BM25's: saturation of repeated words, and how much long texts
	// are held back. Memories are short and of like length, hence the low values.
	K1, B float64
	// SpeakerBonus is added to the cosine where the query names the speaker.
	SpeakerBonus float64

	// EmbedWithin is the bound in play time by which a memory has its vector. From
	// half of it on Due asks for slices.
	EmbedWithin time.Duration
	// EmbedBytes is the longest text given to the embedder at once, 254 tokens of
	// a WordPiece model at four bytes each; longer texts are split.
	EmbedBytes int
	// FirstCost is the guess for embedding a full text before one was measured.
	FirstCost time.Duration

	// Backlog is how many changes may wait for the writer. At the limit Remember
	// writes a small slice itself, so it never drops one; see Remember.
	Backlog int
	// ChromemMost is the number of vectors of one audience up to which chromem-go
	// searches; above it the int8 scan does. See BenchmarkIndex.
	ChromemMost int

	// Eager embeds within Remember, NoLexical recalls by vectors only: ablations.
	Eager, NoLexical bool

	disk disk // nil: the system's; set by tests that fill it up
}

func (c *Config) stopwatch() time.Duration {
	if c.Stopwatch == nil {
		return c.Clock()
	}
	return c.Stopwatch()
}

// maxDepth bounds Depth: one frame of results, not a dump.
const maxDepth = 1000

// DefaultConfig is for a store in dir.
func DefaultConfig(dir string) Config {
	start := time.Now()
	return Config{
		Dir:     dir,
		Clock:   func() time.Duration { return time.Since(start) },
		Weights: Weights{Relevance: 1, Recency: 0.1, Importance: 0.1},
		Decay:   0.995, FusionK: 10, Depth: 100, K1: 0.9, B: 0.4, SpeakerBonus: 0.1,
		EmbedWithin: 10 * time.Minute, EmbedBytes: 1000, FirstCost: 60 * time.Millisecond,
		Backlog: 4096, ChromemMost: 1000,
	}
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	finite := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	w := c.Weights
	switch {
	case c.Clock == nil:
		return errors.New("rag: no Clock: begin with DefaultConfig")
	case !finite(w.Relevance) || !finite(w.Recency) || !finite(w.Importance) || w.Relevance+w.Recency+w.Importance == 0:
		return fmt.Errorf("rag: Weights %+v: want numbers from 0, not all 0", w)
	case !(c.Decay > 0 && c.Decay <= 1):
		return fmt.Errorf("rag: Decay %v: want above 0, at most 1", c.Decay)
	case !(c.FusionK > 0) || !finite(c.FusionK):
		return fmt.Errorf("rag: FusionK %v: want above 0", c.FusionK)
	case c.Depth < 1 || c.Depth > maxDepth:
		return fmt.Errorf("rag: Depth %d: want 1…%d", c.Depth, maxDepth)
	case !finite(c.K1) || !(c.B >= 0 && c.B <= 1):
		return fmt.Errorf("rag: K1 %v, B %v: want K1 from 0 and B 0…1", c.K1, c.B)
	case !(math.Abs(c.SpeakerBonus) <= 1):
		return fmt.Errorf("rag: SpeakerBonus %v: want -1…1", c.SpeakerBonus)
	case c.EmbedWithin <= 0 || c.FirstCost <= 0:
		return fmt.Errorf("rag: EmbedWithin %v, FirstCost %v: want above 0", c.EmbedWithin, c.FirstCost)
	case c.EmbedBytes < 64 || c.EmbedBytes > MaxText:
		return fmt.Errorf("rag: EmbedBytes %d: want 64…%d", c.EmbedBytes, MaxText)
	case c.Backlog < 1 || c.Backlog > 1<<20:
		return fmt.Errorf("rag: Backlog %d: want 1…%d", c.Backlog, 1<<20)
	case c.ChromemMost < 0:
		return fmt.Errorf("rag: ChromemMost %d: want from 0", c.ChromemMost)
	case c.Sync > SyncProcess:
		return fmt.Errorf("rag: Sync %d: want SyncBatch or SyncProcess", c.Sync)
	}
	if c.Embedder != nil {
		return c.Embedder.Identity().Validate()
	}
	return nil
}
