package llamacpp

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// quantFormat is a format that Quantize can write.
type quantFormat struct {
	ftype  llama.Ftype
	growth float64 // size of the result by that of a 4-bit source, at most
}

var quantFormats = map[string]quantFormat{
	"Q4_0": {llama.FtypeMostlyQ4_0, 1},
	"Q4_1": {llama.FtypeMostlyQ4_1, 1.1},
	"Q8_0": {llama.FtypeMostlyQ8_0, 1.9},
}

// Quantize writes src to dst in a format: Q4_0, whose kernels ggml repacks for
// this processor, several times faster at prefill than Q4_1; Q4_1; or Q8_0.
// Quantising what is quantised already loses a little, to Q8_0 next to nothing;
// Perplexity says how much. A half-written dst is removed on error. Cancelling
// returns at once, the library's call ends in the background. progress, which
// may be nil, is told the share of the expected size that is written, 0 to 1.
func Quantize(ctx context.Context, src, dst, format string, progress func(done float64)) error {
	if err := loaded(); err != nil {
		return err
	}
	f, ok := quantFormats[format]
	if !ok {
		return fmt.Errorf("llamacpp: quantise %s to %q: want one of %s", src, format,
			strings.Join(slices.Sorted(maps.Keys(quantFormats)), ", "))
	}
	if _, err := checkModelFile(src, modelFlag); err != nil {
		return err
	}
	params := llama.ModelQuantizeDefaultParams()
	params.Ftype = f.ftype
	params.AllowRequantize = 1
	params.NThread = int32(runtime.NumCPU())
	takeLog()
	done := make(chan uint32, 1)
	go func() { done <- llama.ModelQuantize(src, dst, &params) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case code := <-done:
			if code != 0 {
				os.Remove(dst)
				return fmt.Errorf("llamacpp: quantise %s: %w: %s", src, ErrModelFile, orUnknown(lastLog()))
			}
			return nil
		case <-ctx.Done():
			go func() { <-done; os.Remove(dst) }()
			return context.Cause(ctx)
		case <-tick.C:
			if progress != nil {
				progress(writtenShare(src, dst, f.growth))
			}
		}
	}
}

// writtenShare compares the two sizes.
func writtenShare(src, dst string, growth float64) float64 {
	a, err1 := os.Stat(src)
	b, err2 := os.Stat(dst)
	if err1 != nil || err2 != nil || a.Size() == 0 {
		return 0
	}
	return min(float64(b.Size())/(growth*float64(a.Size())), 1)
}

// Perplexity is exp of the mean negative log likelihood that m gives each next
// token of tokens, over windows of `window` tokens; the first quarter of each
// window is context only. It returns the number of tokens scored too, and calls
// each with the best token at every scored position, so that two models can be
// compared token by token. The window must not be longer than Options.MaxOutputs.
func (m *Model) Perplexity(ctx context.Context, tokens []llm.Token, window int, each func(best llm.Token)) (float64,
	int, error) {
	if window < 8 || window > min(m.opt.MaxBatch, m.opt.MaxOutputs) {
		return 0, 0, fmt.Errorf("llamacpp: perplexity window %d, want 8…%d: %w", window, min(m.opt.MaxBatch,
			m.opt.MaxOutputs), llm.ErrRequest)
	}
	s, err := m.NewSequence()
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	var b llm.Batch
	sum, n := 0.0, 0
	for ; len(tokens) >= window; tokens = tokens[window:] {
		if ctx.Err() != nil {
			return 0, n, context.Cause(ctx)
		}
		b.Reset()
		for _, t := range tokens[:window] {
			b.Add(s, t, true)
		}
		if _, err := m.Decode(&b, llm.Grant{}); err != nil {
			return 0, n, err
		}
		for i := window / 4; i < window-1; i++ {
			nll, best, err := m.negLogLikelihood(i, tokens[i+1])
			if err != nil {
				return 0, n, err
			}
			sum, n = sum+nll, n+1
			if each != nil {
				each(best)
			}
		}
		if err := s.Truncate(0); err != nil {
			return 0, n, err
		}
	}
	if n == 0 {
		return 0, 0, fmt.Errorf("llamacpp: text is shorter than one window of %d tokens: %w", window, llm.ErrRequest)
	}
	return math.Exp(sum / float64(n)), n, nil
}

func (m *Model) negLogLikelihood(row int, next llm.Token) (float64, llm.Token, error) {
	logits, err := m.Logits(row)
	if err != nil {
		return 0, 0, err
	}
	best, err := argmax(logits)
	if err != nil {
		return 0, 0, err
	}
	top, sum := float64(logits[best]), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	return math.Log(sum) + top - float64(logits[next]), best, nil
}
