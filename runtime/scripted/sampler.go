package scripted

import (
	"fmt"
	"math/rand/v2"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

// sampler implements llm.Sampler.
type sampler struct {
	model  *Model
	random rand.PCG
	stray  float64 // chance of another word than the best one

	grammar *gbnf.State // nil: anything may be said
	dead    bool        // what was accepted is outside the grammar
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
	if s.Grammar != "" {
		g, err := gbnf.Parse(s.Grammar)
		if err != nil {
			return nil, fmt.Errorf("scripted: %w: %w", llm.ErrRequest, err)
		}
		out.grammar = g.Start()
	}
	return out, nil
}

// Sample implements llm.Sampler.
func (s *sampler) Sample(row int) (llm.Token, error) {
	if row < 0 || row >= len(s.model.rows) {
		return 0, fmt.Errorf("scripted: row %d: the last batch has %d rows of logits: %w",
			row, len(s.model.rows), llm.ErrBatch)
	}
	best := s.model.rows[row]
	strays := false
	if s.stray > 0 {
		if r := rand.New(&s.random); r.Float64() < s.stray {
			best, strays = firstPiece+llm.Token(r.IntN(babbled)), true
		}
	}
	if s.grammar == nil {
		return best, nil
	}
	return s.constrained(best, strays)
}

// constrained is the best token if the grammar allows it, or else one that it
// allows: the first at least as large as the best, or any when straying.
func (s *sampler) constrained(best llm.Token, strays bool) (llm.Token, error) {
	if s.dead {
		return 0, fmt.Errorf("scripted: what was accepted is outside the grammar: %w", llm.ErrRequest)
	}
	begin := int(best)
	if strays {
		begin = rand.New(&s.random).IntN(vocabSize)
	}
	for i := range vocabSize {
		if t := llm.Token((begin + i) % vocabSize); s.allows(t) {
			s.Accept(t)
			return t, nil
		}
	}
	return 0, fmt.Errorf("scripted: the grammar allows no token of the vocabulary: %w", llm.ErrRequest)
}

func (s *sampler) allows(t llm.Token) bool {
	if s.model.IsEnd(t) {
		return s.grammar.Complete()
	}
	piece := appendPiece(nil, t)
	_, ok := s.grammar.Next(piece)
	return ok && len(piece) > 0
}

// Accept implements llm.Sampler: what was chosen moves the grammar on, and
// changes nothing else here.
func (s *sampler) Accept(t llm.Token) {
	if s.grammar == nil || s.model.IsEnd(t) {
		return
	}
	next, ok := s.grammar.Next(appendPiece(nil, t))
	if !ok {
		s.dead = true
		return
	}
	s.grammar = next
}

// Clone implements llm.Sampler.
func (s *sampler) Clone() llm.Sampler {
	c := *s
	return &c
}

// Close implements llm.Sampler.
func (s *sampler) Close() {}
