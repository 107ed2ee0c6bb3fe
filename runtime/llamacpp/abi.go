package llamacpp

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// Shifted structs corrupt memory without a sign, so before the first use the
// defaults that the library itself fills in must stand where this build
// expects them. (n_threads is left out: yzma sets it.) Offsets are those of llama.cpp v0.5.0 on 64-bit systems.

type abiField struct {
	name   string
	offset uintptr
	want   uint64
	size   uintptr
}

const (
	contextParamsSize = 0xA0
	modelParamsSize   = 0x50
)

var contextDefaults = []abiField{
	{"n_ctx", 0x00, 512, 4},
	{"n_batch", 0x04, 2048, 4},
	{"n_ubatch", 0x08, 512, 4},
	{"n_seq_max", 0x0c, 1, 4},
	{"rope_scaling_type", 0x28, math.MaxUint32, 4}, // -1, from the model
	{"pooling_type", 0x2c, math.MaxUint32, 4},
	{"attention_type", 0x30, math.MaxUint32, 4},
	{"flash_attn_type", 0x34, math.MaxUint32, 4}, // -1, auto
	{"cb_eval", 0x58, 0, 8},
	{"type_k", 0x68, 1, 4}, // f16
	{"type_v", 0x6c, 1, 4},
	{"abort_callback", 0x70, 0, 8},
	{"offload_kqv", 0x81, 1, 1},
	{"swa_full", 0x84, 1, 1},
}

// checkABI compares the library's defaults with the ones known.
func checkABI() error {
	ctx := llama.ContextDefaultParams()
	if got := unsafe.Sizeof(ctx); got != contextParamsSize {
		return fmt.Errorf("this build's context parameters have %d bytes, want %d", got, contextParamsSize)
	}
	if got := unsafe.Sizeof(llama.ModelParams{}); got != modelParamsSize {
		return fmt.Errorf("this build's model parameters have %d bytes, want %d", got, modelParamsSize)
	}
	if err := checkFields("context", unsafe.Pointer(&ctx), contextDefaults); err != nil {
		return err
	}
	model := llama.ModelDefaultParams()
	if model.VocabOnly != 0 || model.UseExtraBufts != 1 || model.ProgressCallback != 0 || model.Devices != 0 {
		return fmt.Errorf("model parameters have other defaults than llama.cpp %s", Version)
	}
	return nil
}

func checkFields(which string, p unsafe.Pointer, fields []abiField) error {
	for _, f := range fields {
		var got uint64
		switch at := unsafe.Add(p, f.offset); f.size {
		case 1:
			got = uint64(*(*uint8)(at))
		case 4:
			got = uint64(*(*uint32)(at))
		default:
			got = *(*uint64)(at)
		}
		if got != f.want {
			return fmt.Errorf("%s parameter %s at offset %#x is %#x by default, want %#x", which, f.name, f.offset,
				got, f.want)
		}
	}
	return nil
}
