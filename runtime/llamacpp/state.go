package llamacpp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// A saved sequence, little endian:
//
//	"LULLSEQ1"      8 bytes
//	fingerprint    32 bytes: model file, library version, cache layout
//	tokens          4 bytes, count n
//	n × 4 bytes     the ledger
//	payload         8 bytes, length, then llama.cpp's own state
//	CRC-32C         4 bytes, over all before
//
// llama.cpp wipes the destination before it reads a state and leaves it damaged
// when the state is bad, so everything is checked before it sees a byte.
const stateMagic = "LULLSEQ1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fingerprint tells model files apart without reading all of them: size and
// three samples. A file that was changed elsewhere gives the same print; the
// assets' SHA-256 is there for that.
type fingerprint [sha256.Size]byte

const sampleBytes = 64 << 10

func fingerprintOf(f io.ReaderAt, size int64) (fingerprint, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d ", size)
	for _, at := range []int64{0, size/2 - sampleBytes/2, size - sampleBytes} {
		at = max(at, 0)
		if _, err := io.Copy(h, io.NewSectionReader(f, at, sampleBytes)); err != nil {
			return fingerprint{}, fmt.Errorf("llamacpp: %w: %w", ErrModelFile, err)
		}
	}
	return fingerprint(h.Sum(nil)), nil
}

// Fingerprint tells the model's file from others: a hash of its size and parts,
// in hexadecimal. Safe for concurrent use.
func (m *Model) Fingerprint() string { return fmt.Sprintf("%x", m.print) }

// layout is the fingerprint of model and cache together.
func (m *Model) layout() fingerprint {
	h := sha256.New()
	fmt.Fprintf(h, "%x %s %d %d flash=1 unified=0 kv=f16", m.print, m.info.Library, m.info.Layers, m.opt.Context)
	return fingerprint(h.Sum(nil))
}

// Save implements llm.Sequence.
func (s *sequence) Save(dst []byte) ([]byte, error) {
	if err := s.usable(); err != nil {
		return dst, err
	}
	start := len(dst)
	print := s.model.layout()
	dst = append(dst, stateMagic...)
	dst = append(dst, print[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.tokens)))
	for _, t := range s.tokens {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(t))
	}
	var size uint64
	if len(s.tokens) > 0 {
		size = llama.StateSeqGetSize(s.model.ctx, s.ids[0])
	}
	dst = binary.LittleEndian.AppendUint64(dst, size)
	at := len(dst)
	dst = append(dst, make([]byte, size)...)
	if size > 0 {
		if n := llama.StateSeqGetData(s.model.ctx, dst[at:], s.ids[0]); n != size {
			return dst[:start], fmt.Errorf("llamacpp: state of %d bytes, wrote %d: %w", size, n, llm.ErrState)
		}
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), nil
}

// Load implements llm.Sequence.
func (s *sequence) Load(state []byte) error {
	if err := s.usable(); err != nil {
		return err
	}
	llama.MemorySeqRm(s.model.memory, s.ids[0], -1, -1)
	s.tokens = s.tokens[:0]
	tokens, payload, err := s.model.parseState(state)
	if err != nil {
		return err
	}
	if len(tokens) == 0 {
		return nil
	}
	n := llama.StateSeqSetData(s.model.ctx, payload, s.ids[0])
	if n != uint64(len(payload)) || !s.holds(len(tokens)) {
		llama.MemorySeqRm(s.model.memory, s.ids[0], -1, -1)
		return fmt.Errorf("llamacpp: llama.cpp took %d of %d bytes (%s): %w", n, len(payload), orUnknown(lastLog()),
			llm.ErrState)
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// parseState checks a saved sequence down to its last byte.
func (m *Model) parseState(state []byte) ([]llm.Token, []byte, error) {
	bad := func(format string, args ...any) ([]llm.Token, []byte, error) {
		return nil, nil, fmt.Errorf("llamacpp: saved sequence: %s: %w", fmt.Sprintf(format, args...), llm.ErrState)
	}
	const head, tail = len(stateMagic) + sha256.Size + 4, 4
	if len(state) < head+8+tail || string(state[:len(stateMagic)]) != stateMagic {
		return bad("no saved sequence (%d bytes)", len(state))
	}
	body := state[:len(state)-tail]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(state[len(body):]) {
		return bad("checksum is wrong, the file is damaged or cut short")
	}
	if print := m.layout(); string(body[len(stateMagic):len(stateMagic)+sha256.Size]) != string(print[:]) {
		return bad("it belongs to another model, library version or context size")
	}
	count := int(binary.LittleEndian.Uint32(body[head-4:]))
	if count > m.opt.Context || len(body) < head+4*count+8 {
		return bad("%d tokens, context is %d", count, m.opt.Context)
	}
	tokens := make([]llm.Token, count)
	for i := range tokens {
		tokens[i] = llm.Token(binary.LittleEndian.Uint32(body[head+4*i:]))
		if tokens[i] < 0 || int(tokens[i]) >= m.info.Vocab {
			return bad("token %d is %d", i, tokens[i])
		}
	}
	rest := body[head+4*count:]
	payload := rest[8:]
	if size := binary.LittleEndian.Uint64(rest); size != uint64(len(payload)) || (size == 0) != (count == 0) {
		return bad("payload of %d bytes, header says %d", len(payload), size)
	}
	return tokens, payload, nil
}
