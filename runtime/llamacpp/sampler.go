package llamacpp

import (
	"fmt"
	"math"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

// sampler implements llm.Sampler. Greedy sampling without penalties reads the
// logits itself; everything else is llama.cpp's chain.
type sampler struct {
	model *Model
	chain llama.Sampler // 0 is greedy

	grammar *gbnf.State // what may follow; nil: anything
	dead    bool        // something else followed
}

// NewSampler implements llm.Model.
func (m *Model) NewSampler(s llm.Sampling) (llm.Sampler, error) {
	if m.closed.Load() {
		return nil, llm.ErrClosed
	}
	if err := checkSampling(s); err != nil {
		return nil, err
	}
	penalty := s.RepeatPenalty != 0 && s.RepeatPenalty != 1
	grammar, err := startGrammar(s.Grammar)
	if err != nil {
		return nil, err
	}
	if s.Temperature == 0 && !penalty {
		return &sampler{model: m, grammar: grammar}, nil
	}
	chain := llama.SamplerChainInit(llama.SamplerChainDefaultParams())
	add := func(x llama.Sampler) { llama.SamplerChainAdd(chain, x) }
	if penalty {
		last := s.RepeatLast
		if last == 0 {
			last = 64
		}
		add(llama.SamplerInitPenalties(int32(m.info.Vocab), int32(last), s.RepeatPenalty, 0, 0))
	}
	if s.Temperature == 0 {
		add(llama.SamplerInitGreedy())
		return &sampler{model: m, chain: chain, grammar: grammar}, nil
	}
	if s.TopK > 0 {
		add(llama.SamplerInitTopK(int32(s.TopK)))
	}
	if s.MinP > 0 { // before TopP, which sorts all that is left
		add(llama.SamplerInitMinP(s.MinP, 1))
	}
	if s.TopP > 0 && s.TopP < 1 {
		add(llama.SamplerInitTopP(s.TopP, 1))
	}
	add(llama.SamplerInitTempExt(s.Temperature, 0, 1))
	add(llama.SamplerInitDist(s.Seed))
	return &sampler{model: m, chain: chain, grammar: grammar}, nil
}

func checkSampling(s llm.Sampling) error {
	bad := func(name string, v, low, high float32) error {
		if math.IsNaN(float64(v)) || v < low || v > high {
			return fmt.Errorf("llamacpp: sampling: %s %v, want %v…%v: %w", name, v, low, high, llm.ErrRequest)
		}
		return nil
	}
	for _, err := range []error{
		bad("temperature", s.Temperature, 0, 10),
		bad("top_p", s.TopP, 0, 1),
		bad("min_p", s.MinP, 0, 1),
		bad("repeat_penalty", s.RepeatPenalty, 0, 10),
		bad("top_k", float32(s.TopK), 0, 1e6),
		bad("repeat_last", float32(s.RepeatLast), 0, 1e6),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Sample implements llm.Sampler. llama.cpp's sample also accepts.
func (s *sampler) Sample(row int) (llm.Token, error) {
	m := s.model
	if m.closed.Load() {
		return 0, llm.ErrClosed
	}
	if row < 0 || row >= len(m.rows) {
		return 0, fmt.Errorf("llamacpp: logits row %d, the last batch has %d: %w", row, len(m.rows), llm.ErrBatch)
	}
	if s.grammar != nil {
		return s.constrained(row)
	}
	return s.free(row)
}

// free chooses and accepts without a grammar.
func (s *sampler) free(row int) (llm.Token, error) {
	m := s.model
	if s.chain == 0 {
		logits, err := m.Logits(row)
		if err != nil {
			return 0, err
		}
		return argmax(logits)
	}
	t := m.sampleWith(s.chain, m.rows[row])
	if t < 0 || int(t) >= m.info.Vocab {
		return 0, fmt.Errorf("llamacpp: the sampler chose token %d of %d", t, m.info.Vocab)
	}
	return llm.Token(t), nil
}

// Logits returns the scores of all tokens after entry `row` of the last batch.
// Valid until the next Decode.
func (m *Model) Logits(row int) ([]float32, error) {
	if row < 0 || row >= len(m.rows) {
		return nil, fmt.Errorf("llamacpp: logits row %d, the last batch has %d: %w", row, len(m.rows), llm.ErrBatch)
	}
	logits := m.logitsAt(m.rows[row])
	if logits == nil {
		return nil, fmt.Errorf("llamacpp: no logits for row %d", row)
	}
	return logits, nil
}

// argmax returns the first of the largest logits.
func argmax(logits []float32) (llm.Token, error) {
	best, at := float32(math.Inf(-1)), -1
	for i, x := range logits {
		if x > best {
			best, at = x, i
		}
	}
	if at < 0 {
		return 0, fmt.Errorf("llamacpp: every logit is NaN or -Inf; the model or its quantisation is broken")
	}
	return llm.Token(at), nil
}

func (s *sampler) Accept(t llm.Token) {
	if s.chain != 0 {
		llama.SamplerAccept(s.chain, llama.Token(t))
	}
	s.follow(t)
}

func (s *sampler) Clone() llm.Sampler {
	c := &sampler{model: s.model, grammar: s.grammar, dead: s.dead}
	if s.chain != 0 {
		c.chain = llama.SamplerClone(s.chain)
	}
	return c
}

func (s *sampler) Close() {
	if s.chain != 0 {
		llama.SamplerFree(s.chain)
		s.chain = 0
	}
}
