package scripted

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

// sequence implements llm.Sequence. Its cache is its ledger.
type sequence struct {
	model   *Model
	tokens  []llm.Token
	pending int // tokens of the batch that is being checked
	closed  bool
	cached  scriptedReply
}

// NewSequence implements llm.Model.
func (m *Model) NewSequence() (llm.Sequence, error) {
	if m.closed.Load() {
		return nil, llm.ErrClosed
	}
	if len(m.open) >= m.cfg.MaxSequences {
		return nil, fmt.Errorf("scripted: all %d sequences: %w", m.cfg.MaxSequences, llm.ErrNoSequence)
	}
	s := &sequence{model: m, tokens: make([]llm.Token, 0, m.cfg.Context)}
	m.open = append(m.open, s)
	return s, nil
}

func (s *sequence) usable() error {
	if s.closed || s.model.closed.Load() {
		return llm.ErrClosed
	}
	return nil
}

func (s *sequence) Tokens() []llm.Token { return s.tokens }

func (s *sequence) Truncate(n int) error {
	if err := s.usable(); err != nil {
		return err
	}
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("scripted: truncate to %d of %d tokens: %w", n, len(s.tokens), llm.ErrBatch)
	}
	if n < len(s.tokens) && s.model.cfg.NoTruncate {
		n = 0
	}
	if s.tokens = s.tokens[:n]; n < s.cached.at {
		s.cached = scriptedReply{}
	}
	return nil
}

func (s *sequence) CopyFrom(src llm.Sequence) error {
	if err := s.usable(); err != nil {
		return err
	}
	from, ok := src.(*sequence)
	if !ok || from == nil || from.model != s.model || from.closed {
		return fmt.Errorf("scripted: copy from a sequence that is closed or of another model: %w", llm.ErrBatch)
	}
	s.tokens = append(s.tokens[:0], from.tokens...)
	s.cached = from.cached
	return nil
}

func (s *sequence) Close() {
	s.closed = true
	s.model.open = slices.DeleteFunc(s.model.open, func(o *sequence) bool { return o == s })
}

// A saved sequence, little endian: magic, a hash of model and library (8
// bytes), the number of tokens and the tokens (4 bytes each), and a CRC-32 of
// all before. A real model's cache would follow the tokens.
const (
	stateMagic = "LULLSCR1"
	stateHead  = len(stateMagic) + 8 + 4
	stateTail  = 4
)

// Save implements llm.Sequence.
func (s *sequence) Save(dst []byte) ([]byte, error) {
	if err := s.usable(); err != nil {
		return dst, err
	}
	begin := len(dst)
	dst = append(dst, stateMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, s.model.fingerprint())
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.tokens)))
	for _, t := range s.tokens {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(t))
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[begin:])), nil
}

// Load implements llm.Sequence.
func (s *sequence) Load(state []byte) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.tokens, s.cached = s.tokens[:0], scriptedReply{}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("scripted: saved sequence: %s: %w", fmt.Sprintf(format, args...), llm.ErrState)
	}
	if len(state) < stateHead+stateTail || string(state[:len(stateMagic)]) != stateMagic {
		return bad("these %d bytes are none", len(state))
	}
	body := state[:len(state)-stateTail]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(state[len(body):]) {
		return bad("the checksum is wrong: it is damaged or cut short")
	}
	if binary.LittleEndian.Uint64(body[len(stateMagic):]) != s.model.fingerprint() {
		return bad("it is of another model or library: make it anew")
	}
	n := int(binary.LittleEndian.Uint32(body[stateHead-4:]))
	if n > s.model.cfg.Context || len(body) != stateHead+4*n {
		return bad("%d tokens in %d bytes, context %d", n, len(state), s.model.cfg.Context)
	}
	for i := range n {
		t := llm.Token(binary.LittleEndian.Uint32(body[stateHead+4*i:]))
		if t < 0 || int(t) >= vocabSize {
			s.tokens = s.tokens[:0]
			return bad("token %d is %d: want 0…%d", i, t, vocabSize-1)
		}
		s.tokens = append(s.tokens, t)
	}
	return nil
}

func (m *Model) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d\x00%d", m.info.Name, m.info.Library, m.info.Layers, m.info.Vocab)
	return h.Sum64()
}
