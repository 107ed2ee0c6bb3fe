package llamacpp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// Options say how a model is opened. The zero value is a good default.
type Options struct {
	Device       string        // ggml device id; default the CPU
	Offload      string        // beside the CPU: the device that computes the products of large batches; default none
	Context      int           // tokens a sequence may hold; default 2048
	MaxSequences int           // conversations in the cache at one time; default 4
	MaxBatch     int           // tokens in one Decode; default 256
	MaxOutputs   int           // tokens of one Decode whose logits may be wanted; default 64
	Threads      int           // threads of the pool; default one a core, at most 16
	Clock        llm.Clock     // the clock of windows; required
	Admit        llm.AdmitFunc // the rule at the gate, for builds without cgo; required
	Gate         llm.Gate      // a gate made by NewGate, to share; default one of its own
	Poll         int           // 0 … 100: how eagerly pool threads spin for work; 0, the default, sleeps

	// NoGate and NoPool leave out what this package adds, to compare with:
	// without a pool llama.cpp makes threads for each graph. llama.cpp's own
	// programs run without a gate on a pool with Poll 50.
	// WholeHead computes the output head in one piece, as llama.cpp does.
	NoGate, NoPool, WholeHead bool

	// Setting is what the program's user names the file with, for errors; default
	// the flag --model.
	Setting string

	// Progress is told the loaded share, 0 to 1, now and then, from the
	// goroutine that called Open.
	Progress func(done float64)
}

// Limits of Options. Beyond them llama.cpp would abort the process or take
// memory by the gigabyte.
const (
	minContext   = 64
	maxContext   = 1 << 20
	maxSequences = 64
	maxBatch     = 4096
)

func (o *Options) complete() error {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	o.Setting = cmp.Or(o.Setting, modelFlag)
	def(&o.Context, 2048)
	def(&o.MaxSequences, 4)
	def(&o.MaxBatch, 256)
	def(&o.MaxOutputs, 64)
	def(&o.Threads, DefaultThreads())
	check := func(name string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("llamacpp: %s %d, want %d…%d", name, v, low, high)
		}
		return nil
	}
	o.MaxBatch = min(o.MaxBatch, max(o.Context, minContext))
	if o.Clock == nil || o.Admit == nil {
		return errors.New("llamacpp: Options.Clock and Options.Admit are required; package local sets them")
	}
	return errors.Join(
		check("Context", o.Context, minContext, maxContext),
		check("MaxSequences", o.MaxSequences, 1, maxSequences),
		check("MaxBatch", o.MaxBatch, 1, maxBatch),
		check("MaxOutputs", o.MaxOutputs, 1, maxBatch),
		check("Threads", o.Threads, 1, maxThreads),
		check("Poll", o.Poll, 0, 100),
	)
}

// Model is a GGUF model in llama.cpp; it implements llm.Model.
type Model struct {
	opt      Options
	info     llm.Info
	template string
	print    fingerprint
	helper   Device // Options.Offload; the zero value is none

	handle llama.Model
	vocab  llama.Vocab
	users  sync.RWMutex // of vocab: Close waits for them
	ctx    llama.Context
	memory llama.Memory
	batch  llama.Batch
	call   *llama.BatchData // what the C side is handed of it

	gate    *gate
	hook    *hook
	head    *head
	pool    *pool
	threads int // set in the context now

	sequences []*sequence // by id; nil is free
	rows      []int32     // row of the last decode's logits → index in its batch
	closed    atomic.Bool

	pieceOnce sync.Once
	pieces    [][]byte // of the vocabulary, for grammars; asked for once
}

// NewGate makes a gate that several models can share.
func NewGate(clock llm.Clock, admit llm.AdmitFunc) (llm.Gate, error) { return newGate(clock, admit) }

// Open loads a model and makes its KV cache. It takes seconds: call it from a
// goroutine of its own; cancelling ctx ends it early. On error nothing is left
// behind, and the next Open works.
func Open(ctx context.Context, path string, opt Options) (*Model, error) {
	return openWith(ctx, path, opt, (*Model).makeContext)
}

// openWith checks everything, loads the weights and makes a context of one kind.
func openWith(ctx context.Context, path string, opt Options, makeContext func(*Model, Device) error) (*Model, error) {
	if err := loaded(); err != nil {
		return nil, err
	}
	if err := opt.complete(); err != nil {
		return nil, err
	}
	device, err := findDevice(opt.Device)
	if err != nil {
		return nil, err
	}
	print, err := checkModelFile(path, opt.Setting)
	if err != nil {
		return nil, err
	}
	m := &Model{opt: opt, print: print}
	if opt.Offload != "" {
		if m.helper, err = findHelper(device, opt.Offload); err != nil {
			return nil, err
		}
	}
	if err := m.loadWeights(ctx, path, device); err != nil {
		return nil, err
	}
	err = ctx.Err() // asked again on both sides of what can't be stopped half way
	if err == nil {
		err = makeContext(m, device)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// modelFlag names a model's file on a command line.
const modelFlag = "--model"

// checkModelFile refuses what is plainly no model before llama.cpp sees it.
func checkModelFile(path, setting string) (fingerprint, error) {
	f, err := os.Open(path)
	if err != nil {
		return fingerprint{}, fmt.Errorf("llamacpp: %w: %w; name another with %s, or run 'lull assets fetch'",
			ErrModelFile, err, setting)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fingerprint{}, fmt.Errorf("llamacpp: %w: %w", ErrModelFile, err)
	}
	if !info.Mode().IsRegular() {
		return fingerprint{}, fmt.Errorf("llamacpp: %w: %s is no regular file; a model is one .gguf file",
			ErrModelFile, path)
	}
	if info.Size() == 0 {
		return fingerprint{}, fmt.Errorf("llamacpp: %w: %s is empty; download it again", ErrModelFile, path)
	}
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || string(magic[:]) != "GGUF" {
		return fingerprint{}, fmt.Errorf("llamacpp: %w: %s begins with %q, not with \"GGUF\"; convert it to GGUF",
			ErrModelFile, path, magic)
	}
	if err := checkMetadata(io.NewSectionReader(f, 0, info.Size())); err != nil {
		return fingerprint{}, fmt.Errorf("llamacpp: %w: %s: %w; download it again", ErrModelFile, path, err)
	}
	return fingerprintOf(f, info.Size())
}

// loadWeights runs the load on a goroutine of its own and watches ctx.
func (m *Model) loadWeights(ctx context.Context, path string, device Device) error {
	takeLog()
	l := newLoading()
	defer l.free()
	params := llama.ModelDefaultParams()
	params.ProgressCallback, params.ProgressCallbackUserData = l.callback()
	named := device
	if device.Kind == CPU {
		params.SetCPUOnly()
		named = m.helper // beside no layers: the weights stay here
	}
	devices := []llama.GGMLBackendDevice{named.handle, 0}
	if named.handle != 0 {
		if err := params.SetDevices(devices); err != nil {
			return fmt.Errorf("llamacpp: device %s: %w", named.ID, err)
		}
	}
	done := make(chan error, 1)
	go func() {
		var err error
		m.handle, err = llama.ModelLoadFromFile(path, params)
		done <- err
	}()
	err := m.watch(ctx, l, done)
	runtime.KeepAlive(devices)
	switch {
	case ctx.Err() != nil:
		if m.handle != 0 {
			llama.ModelFree(m.handle)
			m.handle = 0
		}
		return fmt.Errorf("llamacpp: loading %s: %w", path, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("llamacpp: %w: %s: %s", ErrModelFile, path, orUnknown(lastLog()))
	}
	m.describe(path, device)
	if m.info.Vocab == 0 || !llama.ModelHasDecoder(m.handle) && !llama.ModelHasEncoder(m.handle) {
		m.Close()
		return fmt.Errorf("llamacpp: %w: %s has no vocabulary; it is no language model", ErrModelFile, path)
	}
	return nil
}

// watch waits for the load and passes progress and cancel on.
func (m *Model) watch(ctx context.Context, l *loading, done <-chan error) error {
	const every = 50 * time.Millisecond // as often as a progress bar can be seen to move
	tick := time.NewTicker(every)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case err := <-done:
			if m.opt.Progress != nil && err == nil {
				m.opt.Progress(1)
			}
			return err
		case <-cancelled:
			l.cancel()
			cancelled = nil // the load ends at its next tensor
		case <-tick.C:
			if m.opt.Progress != nil {
				m.opt.Progress(l.done())
			}
		}
	}
}

func orUnknown(log string) string {
	if log == "" {
		return "llama.cpp gave no reason"
	}
	return log
}

func (m *Model) describe(path string, device Device) {
	m.vocab = llama.ModelGetVocab(m.handle)
	arch, _ := llama.ModelMetaValStr(m.handle, "general.architecture")
	name := named{file: path, format: llama.FtypeName(llama.ModelFtype(m.handle))}
	name.name, _ = llama.ModelMetaValStr(m.handle, "general.name")
	name.basename, _ = llama.ModelMetaValStr(m.handle, "general.basename")
	name.size, _ = llama.ModelMetaValStr(m.handle, "general.size_label")
	m.template = llama.ModelChatTemplate(m.handle, "")
	if m.template == "" {
		m.template = "chatml" // what llama.cpp's own tools fall back to
	}
	m.info = llm.Info{
		Name:         name.display(),
		Architecture: arch,
		Device:       device.ID,
		Library:      "llama.cpp " + Version,
		Layers:       int(llama.ModelNLayer(m.handle)),
		Vocab:        int(llama.VocabNTokens(m.vocab)),
		Context:      m.opt.Context,
		TrainContext: int(llama.ModelNCtxTrain(m.handle)),
		MaxBatch:     m.opt.MaxBatch,
		MaxSequences: m.opt.MaxSequences,
		Bytes:        llama.ModelSize(m.handle),
		CanTruncate:  !llama.ModelIsRecurrent(m.handle) && !llama.ModelIsHybrid(m.handle),
	}
}

// makeContext makes the KV cache, with every choice explicit: AUTO values may
// differ between two contexts, and then states cannot be moved.
func (m *Model) makeContext(device Device) (err error) {
	if m.info.Layers > 4096 {
		return fmt.Errorf("llamacpp: %w: %d layers", ErrModelFile, m.info.Layers)
	}
	if err := m.makeGate(); err != nil {
		return err
	}
	o := m.opt
	p := llama.ContextDefaultParams()
	p.NCtx = uint32(o.Context * o.MaxSequences) // divided by n_seq_max, as the cache is not unified
	p.NBatch, p.NUbatch = uint32(o.MaxBatch), uint32(o.MaxBatch)
	p.NSeqMax = uint32(o.MaxSequences)
	p.NOutputsMax = uint32(min(o.MaxOutputs, o.MaxBatch))
	p.NThreads, p.NThreadsBatch = int32(o.Threads), int32(o.Threads)
	p.FlashAttentionType = llama.FlashAttentionTypeEnabled
	p.KVUnified, p.SwaFull, p.NoPerf = 0, 1, 1
	if device.Kind == CPU {
		p.Offload_kqv, p.OpOffload = 0, 0
		if m.helper.handle != 0 {
			p.OpOffload = 1
		}
	}
	if !o.NoGate {
		p.CbEval, p.AbortCallback, p.AbortCallbackData, p.CbEvalUserData = m.hook.callbacks()
	}
	takeLog()
	if m.ctx, err = llama.InitFromModel(m.handle, p); err != nil {
		return fmt.Errorf("llamacpp: %w: no context of %d × %d tokens: %s", ErrModelFile, o.MaxSequences, o.Context,
			orUnknown(lastLog()))
	}
	if m.memory, err = llama.GetMemory(m.ctx); err != nil {
		return fmt.Errorf("llamacpp: %s: %w", m.info.Name, err)
	}
	if m.memory == 0 { // a decode with one would end the process
		return fmt.Errorf("llamacpp: %w: %s reads texts and does not write any, it is a sentence embedder; "+
			"name a chat model", ErrModelFile, m.info.Name)
	}
	m.threads = o.Threads
	m.batch = llama.BatchInit(int32(o.MaxBatch), 0, 1)
	m.sequences = make([]*sequence, o.MaxSequences)
	m.rows = make([]int32, 0, o.MaxBatch)
	m.newHead(device)
	return nil
}

func (m *Model) makeGate() (err error) {
	shared, ok := m.opt.Gate.(*gate)
	if m.gate = shared; !ok || shared == nil {
		if m.gate, err = newGate(m.opt.Clock, m.opt.Admit); err != nil {
			return err
		}
	}
	m.hook, err = newHook(m.gate, m.info.Layers)
	return err
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.info }

// Gate implements llm.Model.
func (m *Model) Gate() llm.Gate { return m.gate }

// Stop implements llm.Model.
func (m *Model) Stop() { m.hook.stop(true) }

// Resume implements llm.Model.
func (m *Model) Resume() { m.hook.stop(false) }

// Close implements llm.Model. It joins the pool's threads.
func (m *Model) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	m.users.Lock() // who comes meanwhile sees that it is closed
	defer m.users.Unlock()
	if m.ctx != 0 {
		llama.DetachThreadpool(m.ctx)
		llama.Free(m.ctx)
		llama.BatchFree(m.batch)
	}
	m.head.free()
	if m.hook != nil {
		m.hook.release()
	}
	m.pool.free()
	if m.handle != 0 {
		llama.ModelFree(m.handle)
	}
	trim()
	return nil // gate and hook live on until nobody can reach them: Publish and Stop may still come
}
