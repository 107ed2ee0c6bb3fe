package llamacpp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/hybridgroup/yzma/pkg/llama"
	"golang.org/x/text/unicode/norm"

	"github.com/lull-npc/lull/runtime/llm"
)

// Expected conditions of embedding.
var (
	// ErrNoEmbedder: the file is a model, but none that makes sentence vectors.
	ErrNoEmbedder = errors.New("the model is no sentence embedder")

	// ErrNoContent: nothing of the text is known to the model: it is empty, or
	// in a script that the vocabulary lacks. All such texts would have the same
	// vector and be each other's best match, so they have none.
	ErrNoContent = errors.New("nothing in the text that the embedder knows")
)

const (
	// defaultPassTokens: the length that the MiniLM family is trained for, CLS
	// and SEP included; longer texts in one pass are seen less well.
	defaultPassTokens = 256

	// maxPasses of EmbedLong. At 254 tokens each about 20 kB of English; a pass
	// takes 0.1 s, so the longest text takes 1.6 s of one core.
	maxPasses = 16

	// textPerToken bounds what is tokenised by what can be used: the longest
	// word of a vocabulary has some 20 letters of up to 4 bytes.
	textPerToken = 128

	// boundaryTokens is how far a cut moves back to fall between two words.
	boundaryTokens = 16
)

// Embedder turns texts into vectors of length 1. It has weights and a context of
// its own and may share a gate with a Model. Call from one goroutine at a time,
// except Info, Identity, Stop and Resume, which are safe for concurrent use.
type Embedder struct {
	model    *Model
	halt     halt
	identity Identity
	ends     []llama.Token // what stands before and after each text, such as CLS and SEP
	before   int           // of ends
	unknown  llama.Token   // stands for words outside the vocabulary; -1: there is none
	apart    bool          // the tokenizer wants accents apart from their letters
	counted  bool          // the hook knows how many nodes a pass has
	sum      []float64     // of EmbedLong
	pass     []float32
}

// Identity says which vectors may be compared: only those of equal identities.
// A store keeps it beside its vectors.
type Identity struct {
	Name      string // of the model and its format, for people
	SHA256    string // of the model file
	Pooling   string // how token vectors become one: "mean", "first" or "last"
	Dimension int    // numbers in a vector
	MaxTokens int    // of one pass, special tokens included
}

// poolings names the ways that give one vector a text. A reranker's (4) gives
// one number.
var poolings = map[int]string{1: "mean", 2: "first", 3: "last"}

// OpenEmbedder opens a sentence embedder: a GGUF that names its pooling. Unless
// options say else it sees 256 tokens at a time and computes on one thread,
// since memories can wait and the other cores are the game's.
func OpenEmbedder(ctx context.Context, path string, opt Options) (*Embedder, error) {
	if opt.Context == 0 {
		opt.Context = defaultPassTokens
	}
	if opt.Threads == 0 {
		opt.Threads = 1
	}
	opt.MaxSequences, opt.MaxBatch, opt.NoGate = 1, opt.Context, false
	e := &Embedder{}
	m, err := openWith(ctx, path, opt, func(m *Model, _ Device) error {
		e.model = m
		return e.makeContext(path)
	})
	if err != nil {
		return nil, err
	}
	e.halt.apply = m.hook.stop
	if e.identity.SHA256, err = fileHash(ctx, path); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return e, nil
}

func fileHash(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("llamacpp: %w: %w", ErrModelFile, err)
	}
	defer f.Close()
	h := sha256.New()
	for {
		_, err := io.CopyN(h, f, 1<<20)
		if ctx.Err() != nil {
			return "", fmt.Errorf("llamacpp: %s: %w", path, context.Cause(ctx))
		}
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", fmt.Errorf("llamacpp: %w: %w", ErrModelFile, err)
		}
	}
}

func (e *Embedder) makeContext(path string) (err error) {
	m := e.model
	if err := e.describe(path); err != nil {
		return err
	}
	if err := m.makeGate(); err != nil {
		return err
	}
	p := llama.ContextDefaultParams()
	p.NCtx, p.NBatch, p.NUbatch = uint32(m.opt.Context), uint32(m.opt.MaxBatch), uint32(m.opt.MaxBatch)
	p.NThreads, p.NThreadsBatch = int32(m.opt.Threads), int32(m.opt.Threads)
	p.FlashAttentionType = llama.FlashAttentionTypeDisabled
	p.Embeddings, p.NoPerf = 1, 1
	p.CbEval, p.AbortCallback, p.AbortCallbackData, p.CbEvalUserData = m.hook.callbacks()
	takeLog()
	if m.ctx, err = llama.InitFromModel(m.handle, p); err != nil {
		return fmt.Errorf("llamacpp: %w: no embedding context: %s", ErrModelFile, orUnknown(lastLog()))
	}
	m.memory, _ = llama.GetMemory(m.ctx) // encoders have none
	m.threads = m.opt.Threads
	m.batch = llama.BatchInit(int32(m.opt.MaxBatch), 0, 1)
	return nil
}

// describe refuses what is no embedder and learns what the others are like.
func (e *Embedder) describe(path string) error {
	m := e.model
	kind, named := m.number(m.info.Architecture + ".pooling_type")
	pooling, known := poolings[kind]
	switch {
	case !named:
		return fmt.Errorf("llamacpp: %w: %w: %s (architecture %s) names no pooling, so it is a chat model; "+
			"'lull assets fetch all-minilm-l6-v2-q8_0' makes an embedder", ErrModelFile, ErrNoEmbedder, path,
			m.info.Architecture)
	case !known:
		return fmt.Errorf("llamacpp: %w: %w: %s has pooling %d, want 1 (mean), 2 (first) or 3 (last)", ErrModelFile,
			ErrNoEmbedder, path, kind)
	case m.info.TrainContext > 0 && m.opt.Context > m.info.TrainContext:
		// BERT has a vector for each position: one beyond them ends the process.
		m.opt.Context, m.opt.MaxBatch = m.info.TrainContext, m.info.TrainContext
		m.info.Context, m.info.MaxBatch = m.info.TrainContext, m.info.TrainContext
	}
	e.ends = llama.Tokenize(m.vocab, "", true, false)
	e.before = (len(e.ends) + 1) / 2
	e.unknown = -1
	if id, ok := m.number("tokenizer.ggml.unknown_token_id"); ok {
		e.unknown = llama.Token(id)
	}
	kindOfTokens, _ := llama.ModelMetaValStr(m.handle, "tokenizer.ggml.model")
	lower, _ := llama.ModelMetaValStr(m.handle, "tokenizer.ggml.normalizer.lowercase")
	e.apart = kindOfTokens == "bert" && lower != "false"
	if len(e.ends) >= m.opt.Context {
		return fmt.Errorf("llamacpp: %w: %s sees %d tokens and puts %d around each text", ErrModelFile, path,
			m.opt.Context, len(e.ends))
	}
	name, _ := llama.ModelMetaValStr(m.handle, "general.name")
	e.identity = Identity{Name: name + " " + llama.FtypeName(llama.ModelFtype(m.handle)), Pooling: pooling,
		Dimension: int(llama.ModelNEmbdOut(m.handle)), MaxTokens: m.opt.Context}
	if e.identity.Dimension < 1 {
		return fmt.Errorf("llamacpp: %w: %s makes vectors of %d numbers", ErrModelFile, path, e.identity.Dimension)
	}
	return nil
}

// number reads a whole number of the model's metadata.
func (m *Model) number(key string) (int, bool) {
	text, ok := llama.ModelMetaValStr(m.handle, key)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// Info describes the model.
func (e *Embedder) Info() llm.Info { return e.model.info }

// Identity says which vectors may be compared with this embedder's.
func (e *Embedder) Identity() Identity { return e.identity }

// Dimension is how many numbers a vector has.
func (e *Embedder) Dimension() int { return e.identity.Dimension }

// Gate is where the windows for this embedder are published.
func (e *Embedder) Gate() llm.Gate { return e.model.gate }

// Stop makes a running Embed return llm.ErrStopped within one node of the
// graph, and every later one too, until Resume.
func (e *Embedder) Stop() { e.halt.set(haltOwner, true) }

// Resume takes Stop back.
func (e *Embedder) Resume() { e.halt.set(haltOwner, false) }

// Close frees everything. The embedder must not be used afterwards.
func (e *Embedder) Close() error { return e.model.Close() }

// Embed appends the vector of text, of length 1, to dst. A text longer than one
// pass is cut at its end. It waits at the gate as speech does; llm.ErrStopped or
// the cause of ctx say that the text may be tried again, ErrNoContent that it
// has no vector. On an error dst comes back as it was.
func (e *Embedder) Embed(ctx context.Context, dst []float32, text string, g llm.Grant) ([]float32, llm.Work, error) {
	return e.embed(ctx, dst, text, g, 1)
}

// EmbedLong is Embed for texts of any length: they are split into passes of
// about equal length, between words, and the vector is the direction of the
// passes' mean, weighted by their tokens. What is beyond 16 passes is cut.
func (e *Embedder) EmbedLong(ctx context.Context, dst []float32, text string, g llm.Grant) ([]float32, llm.Work,
	error) {
	return e.embed(ctx, dst, text, g, maxPasses)
}

func (e *Embedder) embed(ctx context.Context, dst []float32, text string, g llm.Grant, passes int) ([]float32,
	llm.Work, error) {
	m := e.model
	if m.closed.Load() {
		return dst, llm.Work{}, llm.ErrClosed
	}
	if ctx.Err() != nil {
		return dst, llm.Work{}, fmt.Errorf("llamacpp: embed: %w", context.Cause(ctx))
	}
	tokens := e.tokens(text, passes)
	if !e.knows(tokens) {
		return dst, llm.Work{}, fmt.Errorf("llamacpp: %.40q: %w: %w", text, ErrNoContent, llm.ErrRequest)
	}
	release := e.stopWith(ctx)
	v, w, err := e.passes(tokens, g)
	release()
	if errors.Is(err, llm.ErrStopped) && ctx.Err() != nil {
		err = fmt.Errorf("llamacpp: embed: %w", context.Cause(ctx))
	}
	if err != nil {
		return dst, w, err
	}
	return append(dst, v...), w, nil
}

// stopWith ends the running pass when ctx ends. release must be called.
func (e *Embedder) stopWith(ctx context.Context) (release func()) {
	fired := make(chan struct{})
	unused := context.AfterFunc(ctx, func() {
		e.halt.set(haltContext, true)
		close(fired)
	})
	return func() {
		if !unused() {
			<-fired
			e.halt.set(haltContext, false)
		}
	}
}

// tokens are those of the text alone, as many as fit the passes.
func (e *Embedder) tokens(text string, passes int) []llm.Token {
	room := passes * e.room()
	if most := room * textPerToken; len(text) > most {
		text = text[:most]
	}
	if e.apart {
		// llama.cpp does so too, but not for Korean, and would lose most of it.
		// Marks that take up space, in Indic scripts, it still drops.
		text = norm.NFD.String(llm.ValidText(text))
	}
	out, _ := e.model.Tokenize(nil, text, false) // fails for longer texts only
	return out[:min(len(out), room)]
}

// room is how many tokens of a text fit one pass.
func (e *Embedder) room() int { return e.model.opt.MaxBatch - len(e.ends) }

func (e *Embedder) knows(tokens []llm.Token) bool {
	for _, t := range tokens {
		if llama.Token(t) != e.unknown {
			return true
		}
	}
	return false
}

// passes computes the vector of the tokens, in one pass if they fit. The result
// is valid until the next call.
func (e *Embedder) passes(tokens []llm.Token, g llm.Grant) (v []float32, all llm.Work, err error) {
	if err := e.model.prepareThreads(g.Threads); err != nil {
		return nil, all, err
	}
	all = llm.Work{Threads: e.model.threads, Start: e.model.opt.Clock.Now()}
	if !e.counted && e.model.memory == 0 && len(e.ends) > 0 {
		// Encoders don't name the ends of their layers: the gate cuts them at
		// equal distance, once it has counted the nodes of a whole pass. This
		// shortest one takes a few milliseconds.
		if err := e.run(nil, &all); err != nil {
			return nil, all, err
		}
		e.counted = true
	}
	e.sum = append(e.sum[:0], make([]float64, e.identity.Dimension)...)
	for left := (len(tokens) + e.room() - 1) / e.room(); left > 0; left-- {
		n := len(tokens)
		if left > 1 {
			n = e.wordStart(tokens, min((len(tokens)+left-1)/left, e.room()), e.room()*(left-1))
		}
		if err := e.run(tokens[:n], &all); err != nil {
			return nil, all, err
		}
		pooled, err := llama.GetEmbeddingsSeq(e.model.ctx, 0, int32(e.identity.Dimension))
		if err != nil || pooled == nil {
			return nil, all, fmt.Errorf("llamacpp: %s gives no pooled vector: %w", e.identity.Name, ErrNoEmbedder)
		}
		if e.pass, err = appendUnit(e.pass[:0], pooled); err != nil {
			return nil, all, err
		}
		for i, x := range e.pass {
			e.sum[i] += float64(x) * float64(n)
		}
		tokens = tokens[n:]
	}
	e.pass, err = appendUnit(e.pass[:0], e.sum)
	return e.pass, all, err
}

// wordStart moves a cut after n tokens back to the beginning of a word, unless
// then more would be left than fits the passes that are left.
func (e *Embedder) wordStart(tokens []llm.Token, n, room int) int {
	var piece [64]byte
	for k := n; k > max(0, n-boundaryTokens) && len(tokens)-k <= room; k-- {
		if text := e.model.AppendPiece(piece[:0], tokens[k]); len(text) > 0 && text[0] == ' ' {
			return k
		}
	}
	return n
}

// run computes one pass under the gate and adds to the work done.
func (e *Embedder) run(tokens []llm.Token, all *llm.Work) error {
	m := e.model
	n := len(tokens) + len(e.ends)
	w := llm.Work{}
	if !m.hook.enter(n, m.threads, false) {
		m.hook.leave(false, &w)
		e.account(all, w, 0)
		all.Stopped = true
		return llm.ErrStopped
	}
	code, err := e.compute(tokens)
	m.hook.leave(err == nil && code == 0, &w)
	if err == nil && code != 0 {
		err = decodeError(code)
	} else if err != nil {
		err = fmt.Errorf("llamacpp: embed: %w", err)
	}
	if err != nil {
		n = 0
	}
	e.account(all, w, n)
	all.Stopped = errors.Is(err, llm.ErrStopped)
	return err
}

// account adds one pass. Samples are those of the last pass.
func (e *Embedder) account(all *llm.Work, w llm.Work, tokens int) {
	all.Waited += w.Waited
	all.Stops += w.Stops
	all.Samples = w.Samples
	all.Tokens += tokens
	all.End = e.model.opt.Clock.Now()
}

func (e *Embedder) compute(tokens []llm.Token) (int32, error) {
	m := e.model
	if m.memory != 0 {
		llama.MemorySeqRm(m.memory, 0, -1, -1)
	}
	m.batch.Clear()
	at := llama.Pos(0)
	add := func(t llama.Token) error {
		err := m.batch.Add(t, at, []llama.SeqId{0}, true)
		at++
		return err
	}
	for _, t := range e.ends[:e.before] {
		if err := add(t); err != nil {
			return 0, err
		}
	}
	for _, t := range tokens {
		if err := add(llama.Token(t)); err != nil {
			return 0, err
		}
	}
	for _, t := range e.ends[e.before:] {
		if err := add(t); err != nil {
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
func appendUnit[T float32 | float64](dst []float32, v []T) ([]float32, error) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return dst, fmt.Errorf("llamacpp: the vector has length %v", length)
	}
	for _, x := range v {
		dst = append(dst, float32(float64(x)/length))
	}
	return dst, nil
}
