package scripted

import "time"

// Cost says how long the model computes; the package comment has the formula.
// The zero value takes no time. All are of one thread.
type Cost struct {
	LayerNS    float64 // reading the weights of one layer
	TokenNS    float64 // computing one token in one layer
	TailNS     float64 // the output head, for each row of logits
	ThreadGain float64 // speed that each further thread adds, [0, 1]

	// Contention is the share by which reading takes longer at an instant, ≥ 0;
	// nil is none. Called from the goroutine that decodes.
	Contention func(now int64) float64
}

// SmolLM2 is about what SmolLM2-135M in Q4_0 costs on a 2-core x86-64 machine,
// where llama-bench says 66 and 103 tokens/s of decode and 221 and 419 of
// prefill with 1 and 2 threads.
func SmolLM2() Cost { return Cost{LayerNS: 260e3, TokenNS: 150e3, TailNS: 1e6, ThreadGain: 0.6} }

func (c Cost) layer(now int64, width, threads int) time.Duration {
	read := c.LayerNS
	if c.Contention != nil {
		read *= 1 + max(0, c.Contention(now))
	}
	return c.scale(read+c.TokenNS*float64(width), threads)
}

func (c Cost) head(rows, threads int) time.Duration { return c.scale(c.TailNS*float64(rows), threads) }

func (c Cost) scale(ns float64, threads int) time.Duration {
	return time.Duration(ns / (1 + float64(threads-1)*c.ThreadGain))
}
