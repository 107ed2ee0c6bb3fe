//go:build !cgo

package llamacpp

import (
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// The calls that a token makes, through the binding.

func findHot(string) error { return nil }

func (m *Model) callDecode() (code int32, err error) { return llama.Decode(m.ctx, m.batch) }

func (m *Model) logitsAt(entry int32) []float32 {
	logits, err := llama.GetLogitsIth(m.ctx, entry, m.info.Vocab)
	if err != nil {
		return nil
	}
	return logits
}

func (m *Model) removeFrom(id llama.SeqId, n int) bool {
	ok, err := llama.MemorySeqRm(m.memory, id, llama.Pos(n), -1)
	return err == nil && ok
}

func (m *Model) cacheHolds(id llama.SeqId, n int) bool {
	low, err1 := llama.MemorySeqPosMin(m.memory, id)
	high, err2 := llama.MemorySeqPosMax(m.memory, id)
	return err1 == nil && err2 == nil && low == 0 && int(high) == n-1
}

func (m *Model) sampleWith(chain llama.Sampler, entry int32) int32 {
	return int32(llama.SamplerSample(chain, m.ctx, entry))
}

func (m *Model) pieceInto(buf []byte, t int32) int32 {
	return llama.TokenToPiece(m.vocab, llama.Token(t), buf, 0, false)
}

func (m *Model) ends(t int32) bool { return llama.VocabIsEOG(m.vocab, llama.Token(t)) }

const batchBytes = unsafe.Sizeof(llama.BatchData{})
