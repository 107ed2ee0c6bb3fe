package llamacpp

import (
	"context"
	"fmt"
	"math"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// Embedder turns texts into vectors. It has a context of its own, with pooling,
// and the same gate as speech. Call from one goroutine at a time.
type Embedder struct {
	model     *Model
	dimension int
}

// OpenEmbedder opens a model to embed with. Models without a pooling of their
// own get the mean over their tokens.
func OpenEmbedder(ctx context.Context, path string, opt Options) (*Embedder, error) {
	if opt.Context == 0 {
		opt.Context = 512 // longer than any memory; sentence models are trained for 256
	}
	opt.MaxSequences, opt.MaxBatch = 1, opt.Context
	m, err := openWith(ctx, path, opt, (*Model).makeEmbeddingContext)
	if err != nil {
		return nil, err
	}
	return &Embedder{m, int(llama.ModelNEmbdOut(m.handle))}, nil
}

func (m *Model) makeEmbeddingContext(Device) (err error) {
	if err := m.makeGate(); err != nil {
		return err
	}
	p := llama.ContextDefaultParams()
	p.NCtx, p.NBatch, p.NUbatch = uint32(m.opt.Context), uint32(m.opt.MaxBatch), uint32(m.opt.MaxBatch)
	p.NThreads, p.NThreadsBatch = int32(m.opt.Threads), int32(m.opt.Threads)
	p.FlashAttentionType = llama.FlashAttentionTypeDisabled
	p.Embeddings, p.NoPerf = 1, 1
	p.CbEval, p.AbortCallback, p.AbortCallbackData, p.CbEvalUserData = m.hook.callbacks()
	if _, own := llama.ModelMetaValStr(m.handle, m.info.Architecture+".pooling_type"); !own {
		p.PoolingType = llama.PoolingTypeMean
	}
	takeLog()
	if m.ctx, err = llama.InitFromModel(m.handle, p); err != nil {
		return fmt.Errorf("llamacpp: %w: no embedding context: %s", ErrModelFile, orUnknown(lastLog()))
	}
	m.memory, _ = llama.GetMemory(m.ctx) // encoders have none
	m.threads = m.opt.Threads
	m.batch = llama.BatchInit(int32(m.opt.MaxBatch), 0, 1)
	return nil
}

// Info describes the model. Dimension is the length of its vectors.
func (e *Embedder) Info() llm.Info { return e.model.info }
func (e *Embedder) Dimension() int { return e.dimension }
func (e *Embedder) Stop()          { e.model.Stop() }
func (e *Embedder) Resume()        { e.model.Resume() }
func (e *Embedder) Close() error   { return e.model.Close() }

// Embed appends the vector of text, of length 1, to dst. A text longer than the
// context is cut at its end: a longer one would end the process.
func (e *Embedder) Embed(dst []float32, text string, g llm.Grant) ([]float32, llm.Work, error) {
	m := e.model
	if m.closed.Load() {
		return dst, llm.Work{}, llm.ErrClosed
	}
	tokens := e.tokens(text)
	if len(tokens) == 0 {
		return dst, llm.Work{}, fmt.Errorf("llamacpp: nothing to embed in %q: %w", text, llm.ErrRequest)
	}
	if err := m.prepareThreads(g.Threads); err != nil {
		return dst, llm.Work{}, err
	}
	w := llm.Work{Threads: m.threads, Start: m.opt.Clock.Now()}
	if !m.hook.enter(len(tokens), m.threads, false) {
		m.hook.leave(false, &w)
		_, err := m.ended(w, llm.ErrStopped)
		return dst, w, err
	}
	code, err := e.compute(tokens)
	m.hook.leave(err == nil && code == 0, &w)
	w, _ = m.ended(w, nil)
	if err != nil {
		return dst, w, fmt.Errorf("llamacpp: embed: %w", err)
	}
	if code != 0 {
		w.Stopped = code == 2
		return dst, w, decodeError(code)
	}
	w.Tokens = len(tokens)
	v, err := llama.GetEmbeddingsSeq(m.ctx, 0, int32(e.dimension))
	if err != nil || v == nil {
		return dst, w, fmt.Errorf("llamacpp: %s gives no pooled embedding; it is no embedding model", m.info.Name)
	}
	dst, err = appendUnit(dst, v)
	return dst, w, err
}

func (e *Embedder) tokens(text string) []llama.Token {
	if len(text) > maxText {
		text = text[:maxText]
	}
	clean, _ := e.model.Tokenize(nil, text, false)
	if len(clean) == 0 {
		return nil
	}
	// The special tokens at both ends (CLS, SEP) come from the empty text.
	ends := llama.Tokenize(e.model.vocab, "", true, false)
	room := e.model.opt.MaxBatch - len(ends)
	clean = clean[:min(len(clean), room)]
	out := make([]llama.Token, 0, len(clean)+len(ends))
	half := (len(ends) + 1) / 2
	out = append(out, ends[:half]...)
	for _, t := range clean {
		out = append(out, llama.Token(t))
	}
	return append(out, ends[half:]...)
}

func (e *Embedder) compute(tokens []llama.Token) (int32, error) {
	m := e.model
	if m.memory != 0 {
		llama.MemorySeqRm(m.memory, 0, -1, -1)
	}
	m.batch.Clear()
	for i, t := range tokens {
		if err := m.batch.Add(t, llama.Pos(i), []llama.SeqId{0}, true); err != nil {
			return 0, err
		}
	}
	if m.memory == 0 {
		return llama.Encode(m.ctx, m.batch)
	}
	return llama.Decode(m.ctx, m.batch)
}

// appendUnit scales v to length 1. A vector that cannot be scaled is an error:
// it would be the best match of everything.
func appendUnit(dst, v []float32) ([]float32, error) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	norm := math.Sqrt(sum)
	if norm == 0 || math.IsNaN(norm) || math.IsInf(norm, 0) {
		return dst, fmt.Errorf("llamacpp: the embedding has length %v", norm)
	}
	for _, x := range v {
		dst = append(dst, float32(float64(x)/norm))
	}
	return dst, nil
}
