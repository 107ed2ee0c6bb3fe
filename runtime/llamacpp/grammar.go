package llamacpp

import (
	"fmt"
	"math"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

// startGrammar is where a reply begins in a grammar; nil where there is none.
// llama.cpp's own grammar sampler is not used: it looks at every token of the
// vocabulary for every token of the reply, and a grammar that it does not like
// throws through an interface that carries no exceptions.
func startGrammar(text string) (*gbnf.State, error) {
	if text == "" {
		return nil, nil
	}
	g, err := gbnf.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("llamacpp: %w: %w", llm.ErrRequest, err)
	}
	return g.Start(), nil
}

// constrained chooses as without a grammar, on a copy of the chain. Most often
// the grammar allows that. Where it does not, the tokens that it forbids get the
// logit -Inf, and the chain chooses again with another draw: together that is
// the distribution of what is allowed.
func (s *sampler) constrained(row int) (llm.Token, error) {
	if s.dead {
		return 0, fmt.Errorf("llamacpp: what was accepted is outside the grammar: %w", llm.ErrRequest)
	}
	try := &sampler{model: s.model}
	if s.chain != 0 {
		try.chain = llama.SamplerClone(s.chain)
	}
	t, err := try.free(row)
	if err == nil && s.allows(t) {
		s.chain, try.chain = try.chain, s.chain
		try.Close()
		s.follow(t)
		return t, nil
	}
	try.Close()
	if err != nil {
		return 0, err
	}
	s.throw()
	if err := s.mask(row); err != nil {
		return 0, err
	}
	if t, err = s.free(row); err == nil {
		s.follow(t)
	}
	return t, err
}

// throw lets the chain's random state go on by one draw. The copy was turned down
// because of its draw; with the same one again, the choice among what is left
// would not be free: tokens that stand late in the distribution would be rarer.
func (s *sampler) throw() {
	if s.chain == 0 {
		return
	}
	const enough = 64 // so that cuts by rank or probability leave something to draw from
	var data [enough]llama.TokenData
	for i := range data {
		data[i].Id = llama.Token(i)
	}
	llama.SamplerApply(s.chain, &llama.TokenDataArray{Data: &data[0], Size: enough, Selected: -1})
}

// mask forbids what the grammar does, in the logits of the last batch.
func (s *sampler) mask(row int) error {
	logits, err := s.model.Logits(row)
	if err != nil {
		return err
	}
	first := s.grammar.Begins()
	left := 0
	for i := range logits {
		t, piece := llm.Token(i), s.model.piece(llm.Token(i))
		if len(piece) > 0 && !first[piece[0]] && !s.model.IsEnd(t) || !s.allows(t) {
			logits[i] = float32(math.Inf(-1))
			continue
		}
		left++
	}
	if left == 0 {
		return fmt.Errorf("llamacpp: the grammar allows no token of the vocabulary: %w", llm.ErrRequest)
	}
	return nil
}

func (s *sampler) allows(t llm.Token) bool {
	if s.model.IsEnd(t) {
		return s.grammar.Complete()
	}
	piece := s.model.piece(t)
	_, ok := s.grammar.Next(piece)
	return ok && len(piece) > 0
}

// follow moves the grammar on.
func (s *sampler) follow(t llm.Token) {
	if s.grammar == nil || s.model.IsEnd(t) {
		return
	}
	next, ok := s.grammar.Next(s.model.piece(t))
	if !ok {
		s.dead = true
		return
	}
	s.grammar = next
}

// piece is what a token spells. The vocabulary is asked once: 49,152 calls into
// the library take some 50 ms, and a grammar looks through it for each token
// that it has to correct.
func (m *Model) piece(t llm.Token) []byte {
	m.pieceOnce.Do(func() {
		m.pieces = make([][]byte, m.info.Vocab)
		for i := range m.pieces {
			m.pieces[i] = m.AppendPiece(nil, llm.Token(i))
		}
	})
	if t < 0 || int(t) >= len(m.pieces) {
		return nil
	}
	return m.pieces[t]
}
