package llamacpp

import (
	"fmt"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// sequence implements llm.Sequence: one stream of the KV cache and the ledger
// of the tokens it holds.
type sequence struct {
	model   *Model
	ids     [1]llama.SeqId
	tokens  []llm.Token
	pending int // tokens of the batch being built
	closed  bool
}

// NewSequence implements llm.Model.
func (m *Model) NewSequence() (llm.Sequence, error) {
	if m.closed.Load() {
		return nil, llm.ErrClosed
	}
	for id, used := range m.sequences {
		if used == nil {
			s := &sequence{model: m, ids: [1]llama.SeqId{llama.SeqId(id)}}
			s.tokens = make([]llm.Token, 0, m.opt.Context)
			m.sequences[id] = s
			return s, nil
		}
	}
	return nil, fmt.Errorf("llamacpp: all %d sequences: %w", len(m.sequences), llm.ErrNoSequence)
}

func (s *sequence) Tokens() []llm.Token { return s.tokens }

func (s *sequence) Truncate(n int) error {
	if err := s.usable(); err != nil {
		return err
	}
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("llamacpp: truncate to %d of %d tokens: %w", n, len(s.tokens), llm.ErrBatch)
	}
	if n == len(s.tokens) {
		return nil
	}
	s.rollback(n)
	return nil
}

func (s *sequence) usable() error {
	if s.closed || s.model.closed.Load() {
		return llm.ErrClosed
	}
	return nil
}

// rollback drops everything after the first n tokens, and clears the sequence
// where the cache does not confirm that.
func (s *sequence) rollback(n int) {
	if !s.model.info.CanTruncate {
		n = 0 // a recurrent state has no past to go back to
	}
	ok := s.model.removeFrom(s.ids[0], n)
	if n > 0 && (!ok || !s.holds(n)) {
		n = 0
		llama.MemorySeqRm(s.model.memory, s.ids[0], -1, -1)
	}
	s.tokens = s.tokens[:n]
}

// holds reports whether the cache has exactly the positions 0…n-1. An SWA
// cache may have dropped early ones although it says yes.
func (s *sequence) holds(n int) bool { return s.model.cacheHolds(s.ids[0], n) }

func (s *sequence) CopyFrom(from llm.Sequence) error {
	if err := s.usable(); err != nil {
		return err
	}
	src, ok := from.(*sequence)
	if !ok || src.model != s.model || src.closed {
		return fmt.Errorf("llamacpp: copy from a sequence that is closed or of another model: %w", llm.ErrBatch)
	}
	if src == s {
		return nil
	}
	llama.MemorySeqRm(s.model.memory, s.ids[0], -1, -1)
	s.tokens = s.tokens[:0]
	if len(src.tokens) == 0 {
		return nil
	}
	// Between streams only a copy of everything is allowed (an assert else).
	if err := llama.MemorySeqCp(s.model.memory, src.ids[0], s.ids[0], -1, -1); err != nil {
		return fmt.Errorf("llamacpp: copy of a sequence: %w", err)
	}
	s.tokens = append(s.tokens, src.tokens...)
	return nil
}

func (s *sequence) Close() {
	if s.closed {
		return
	}
	s.closed = true
	if s.model.closed.Load() {
		return
	}
	llama.MemorySeqRm(s.model.memory, s.ids[0], -1, -1)
	s.model.sequences[s.ids[0]] = nil
}
