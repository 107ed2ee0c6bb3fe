package llm

import (
	"fmt"

	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

// Validate says which field is out of its range, wrapping ErrRequest.
func (s Sampling) Validate() error {
	for _, f := range []struct {
		name    string
		v       float32
		lo, hi  float32
		allowed string
	}{
		{"Temperature", s.Temperature, 0, 100, "0 (greedy) … 100"},
		{"TopP", s.TopP, 0, 1, "0 (off) … 1"},
		{"MinP", s.MinP, 0, 1, "0 (off) … 1"},
		{"RepeatPenalty", s.RepeatPenalty, 0, 100, "0 or 1 (off) … 100"},
	} {
		if !(f.lo <= f.v && f.v <= f.hi) { // so written, a NaN is refused too
			return fmt.Errorf("%w: Sampling.%s %v: want %s", ErrRequest, f.name, f.v, f.allowed)
		}
	}
	if s.TopK < 0 {
		return fmt.Errorf("%w: Sampling.TopK %d: want 0 (off) or more", ErrRequest, s.TopK)
	}
	if s.RepeatLast < 0 {
		return fmt.Errorf("%w: Sampling.RepeatLast %d: want 0 (64 tokens) or more", ErrRequest, s.RepeatLast)
	}
	if s.Grammar != "" {
		if _, err := gbnf.Parse(s.Grammar); err != nil {
			return fmt.Errorf("%w: Sampling.Grammar: %w", ErrRequest, err)
		}
	}
	return nil
}
