package scheduler

import "time"

const (
	// prefillProgress is what a token of the prompt counts for a reply's
	// progress, in generated tokens: prefill runs 4 (two CPU cores) to 10 times
	// (NPU) as fast as decoding.
	prefillProgress = 1.0 / 8

	// relaxBelow is the share of the bucket below which the target is relaxed,
	// offUntil the share that ends the time without control. Between 0 and
	// offUntil lie one or two tokens, so that control is off in short bursts:
	// a few long frames instead of many.
	relaxBelow = 0.5
	offUntil   = 0.25
)

// bucket is the floor under a reply. It drains at the floor's rate while there
// is something to do and fills with progress. Below half of it the frame loop's
// target is relaxed by degrees; empty, control is off until it is a quarter
// full. It never holds more than its capacity, so that a fast second is not
// saved up to starve in the next minute; and it is full whenever nothing waits,
// so that each reply starts without debts.
//
// Invariants: 0 ≤ level ≤ capacity.
type bucket struct {
	rate, capacity float64 // tokens per second, tokens
	level          float64
	off            bool
}

func newBucket(tokensPerSecond float64, span time.Duration) bucket {
	capacity := tokensPerSecond * span.Seconds()
	return bucket{rate: tokensPerSecond, capacity: capacity, level: capacity}
}

func (b *bucket) advance(dt time.Duration, demand bool) {
	if !demand {
		b.level, b.off = b.capacity, false
		return
	}
	b.level = max(0, b.level-float64(b.rate*dt.Seconds()))
	if b.level <= 0 {
		b.off = true
	}
}

func (b *bucket) credit(tokens float64) {
	b.level = min(b.capacity, b.level+tokens)
	if b.level >= offUntil*b.capacity {
		b.off = false
	}
}

// relax is how much of the target is given up, from 0 (none) to 1 (all).
func (b *bucket) relax() float64 {
	return max(0, 1-b.level/float64(relaxBelow*b.capacity))
}
