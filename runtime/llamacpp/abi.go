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
	if got := unsafe.Sizeof(llama.BatchData{}); got != batchBytes {
		return fmt.Errorf("this build's batches have %d bytes, want %d", got, batchBytes)
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
	return checkTensors()
}

// mulMatOp is ggml's number of the matrix product, found out by checkTensors.
var mulMatOp int32

// checkTensors makes a small product and looks for every field where the gate
// will look for it.
func checkTensors() error {
	const f16, f32, flagCompute = 1, 0, 16
	ctx := newContext(1<<20, false)
	if ctx == 0 {
		return fmt.Errorf("no memory for a tensor of 64 × 32")
	}
	defer ggml.free(ctx)
	a, b := ggml.newTensor(ctx, f16, 64, 32), ggml.newTensor(ctx, f32, 64, 3)
	view := ggml.view(ctx, a, 64, 16, a.nb[1], 8*128)
	product, other := ggml.mulMat(ctx, a, b), ggml.mulMat(ctx, view, b)
	ggml.setName(product, "l_out-7")
	ggml.expand(ggml.newGraph(ctx, 64, false), product)
	if got, want := ggml.tensorOverhead()-unsafe.Sizeof(*a), uintptr(64); got > want {
		return fmt.Errorf("a tensor has %d bytes more than %d, want at most %d for its header", got,
			unsafe.Sizeof(*a), want)
	}
	mulMatOp = product.op
	for _, f := range []struct {
		name string
		good bool
	}{
		{"type", a.kind == f16 && b.kind == f32},
		{"ne", a.ne == [4]int64{64, 32, 1, 1} && product.ne == [4]int64{32, 3, 1, 1}},
		{"nb", a.nb == [4]uintptr{2, 128, 4096, 4096}},
		{"op", a.op == 0 && product.op > 0 && other.op == product.op && view.op > 0 && view.op != product.op},
		{"flags", product.flags&flagCompute != 0 && other.flags&flagCompute == 0},
		{"src", product.src[0] == a.address() && product.src[1] == b.address() && product.src[2] == 0},
		{"view_src", view.viewSrc == a.address() && product.viewSrc == 0},
		{"view_offs", view.viewOffs == 8*128},
		{"data", a.data != 0 && a.data == ggml.getData(a) && view.data == a.data+8*128},
		{"name", tensorName(product) == "l_out-7"},
	} {
		if !f.good {
			return fmt.Errorf("tensor field %s does not stand where llama.cpp %s has it", f.name, Version)
		}
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
