package scripted

import (
	"fmt"
	"math/rand/v2"

	"github.com/lull-npc/lull/runtime/llm"
)

// sampler implements llm.Sampler.
type sampler struct {
	model  *Model
	random rand.PCG
	stray  float64 // chance of another word than the best one
}

// NewSampler implements llm.Model.
func (m *Model) NewSampler(s llm.Sampling) (llm.Sampler, error) {
	if m.closed.Load() {
		return nil, llm.ErrClosed
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	out := &sampler{model: m, random: *rand.NewPCG(uint64(s.Seed), 0)}
	if s.TopK != 1 {
		out.stray = 0.5 * float64(s.Temperature/(s.Temperature+1)) // 0 when greedy, towards ½ when hot
	}
	return out, nil
}

// Sample implements llm.Sampler.
func (s *sampler) Sample(row int) (llm.Token, error) {
	if row < 0 || row >= len(s.model.rows) {
		return 0, fmt.Errorf("scripted: row %d: the last batch has %d rows of logits: %w",
			row, len(s.model.rows), llm.ErrBatch)
	}
	if s.stray > 0 {
		if r := rand.New(&s.random); r.Float64() < s.stray {
			return firstPiece + llm.Token(r.IntN(babbled)), nil
		}
	}
	return s.model.rows[row], nil
}

// Accept implements llm.Sampler: what was chosen changes nothing here.
func (s *sampler) Accept(llm.Token) {}

// Clone implements llm.Sampler.
func (s *sampler) Clone() llm.Sampler {
	c := *s
	return &c
}

// Close implements llm.Sampler.
func (s *sampler) Close() {}
