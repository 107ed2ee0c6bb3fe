//go:build cgo

package llamacpp

/*
#cgo noescape lull_decode
#cgo noescape lull_piece
#cgo nocallback lull_piece
#include "hot.h"

lull_hot lull_llama;
*/
import "C"

import (
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// The calls that a token makes; hot.h says why they don't go through the binding.

// findHot looks the functions up. llama.cpp is loaded already.
func findHot(dir string) error {
	lib, err := openLibrary(libraryFile(dir, "llama"))
	if err != nil {
		return err
	}
	for name, f := range map[string]unsafe.Pointer{
		"llama_decode":             unsafe.Pointer(&C.lull_llama.decode),
		"llama_get_logits_ith":     unsafe.Pointer(&C.lull_llama.logits),
		"llama_memory_seq_rm":      unsafe.Pointer(&C.lull_llama.remove),
		"llama_memory_seq_pos_min": unsafe.Pointer(&C.lull_llama.first),
		"llama_memory_seq_pos_max": unsafe.Pointer(&C.lull_llama.last),
		"llama_sampler_sample":     unsafe.Pointer(&C.lull_llama.sample),
		"llama_token_to_piece":     unsafe.Pointer(&C.lull_llama.piece),
		"llama_vocab_is_eog":       unsafe.Pointer(&C.lull_llama.is_end),
	} {
		address, err := findSymbol(lib, name)
		if err != nil {
			return err
		}
		*(*uintptr)(f) = address
	}
	return nil
}

// callDecode computes the batch that fill made.
func (m *Model) callDecode() (code int32, err error) {
	if m.call == nil { // by itself: cgo looks through all of what a pointer lies in
		m.call = new(llama.BatchData)
	}
	*m.call = m.batch.BatchData
	return int32(C.lull_decode(C.uintptr_t(m.ctx), (*C.lull_batch)(unsafe.Pointer(m.call)))), nil
}

// logitsAt returns the scores after an entry of the last batch, or nil.
func (m *Model) logitsAt(entry int32) []float32 {
	p := (*float32)(C.lull_logits(C.uintptr_t(m.ctx), C.int32_t(entry)))
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, m.info.Vocab)
}

// removeFrom drops the tokens of a sequence from position n on.
func (m *Model) removeFrom(id llama.SeqId, n int) bool {
	return bool(C.lull_remove(C.uintptr_t(m.memory), C.int32_t(id), C.int32_t(n)))
}

// cacheHolds reports whether the cache has exactly the positions 0…n-1.
func (m *Model) cacheHolds(id llama.SeqId, n int) bool {
	return bool(C.lull_holds(C.uintptr_t(m.memory), C.int32_t(id), C.int32_t(n)))
}

func (m *Model) sampleWith(chain llama.Sampler, entry int32) int32 {
	return int32(C.lull_sample_token(C.uintptr_t(chain), C.uintptr_t(m.ctx), C.int32_t(entry)))
}

// pieceInto writes the bytes of a token; -n says that n would be needed.
func (m *Model) pieceInto(buf []byte, t int32) int32 {
	text := (*C.char)(unsafe.Pointer(unsafe.SliceData(buf)))
	return int32(C.lull_piece(C.uintptr_t(m.vocab), C.int32_t(t), text, C.int32_t(len(buf))))
}

func (m *Model) ends(t int32) bool { return bool(C.lull_is_end(C.uintptr_t(m.vocab), C.int32_t(t))) }

// batchBytes is the size of a batch as C has it.
const batchBytes = C.sizeof_lull_batch
