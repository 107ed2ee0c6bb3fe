package local

import (
	"context"
	"os"
	"path/filepath"

	"github.com/lull-npc/lull/runtime/assets/convert"
	"github.com/lull-npc/lull/runtime/llamacpp"
)

// makeModel writes src to dst in a format that llama.cpp can quantise to. An
// embedder as its makers publish it becomes a GGUF first, in full precision so
// that nothing is rounded twice.
func makeModel(ctx context.Context, src, dst, format string, progress func(done float64)) error {
	if filepath.Base(src) != convert.WeightsFile {
		return llamacpp.Quantize(ctx, src, dst, format, progress)
	}
	whole := dst + ".f32"
	defer os.Remove(whole)
	half := func(from float64) func(float64) {
		return func(done float64) { progress(from + done/2) }
	}
	if err := convert.BERT(ctx, filepath.Dir(src), whole, convert.F32, half(0)); err != nil {
		return err
	}
	return llamacpp.Quantize(ctx, whole, dst, format, half(0.5))
}
