package soc

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

const (
	contextTokens = 2048
	// graphTokens is the widest prepared graph: NPUs want static shapes.
	graphTokens = 128
	sequences   = 4
)

// model is an llm.Model whose layers take what the chip takes for them, and
// which says what the streams say.
type model struct {
	world   *world
	gate    *llm.SoftGate
	network *Network
	info    llm.Info
	device  place
	draft   bool
	threads int
	dice    *rand.Rand
	spread  []float64 // of each layer
	streams *streams

	watch   func(width int, prompt, begins bool) // of batches and groups; nil: nobody
	graphs  []int                                // widths of the graphs that decode, rising; nil: any width
	rows    []llm.Token
	samples []llm.LayerSample
	open    int
	closed  bool
}

// streams are the conversations, by the first token of their ledgers.
type streams struct {
	seed uint64
	app  *App
	by   map[llm.Token]*stream
}

func (s *streams) of(first llm.Token) *stream {
	x := s.by[first]
	if x == nil {
		x = newStream(s.seed, uint64(first-1), s.app)
		s.by[first] = x
	}
	return x
}

// newModel makes a model that shares the gate of another, or has its own.
func newModel(w *world, n *Network, where place, gate *llm.SoftGate, s *streams, seed uint64) *model {
	m := &model{world: w, network: n, device: where, draft: gate != nil, gate: gate, streams: s,
		dice: rand.New(rand.NewPCG(seed, uint64(n.Layers)))}
	if gate == nil {
		m.gate = llm.NewGate(w, admit)
	}
	m.threads = 1
	if where == onCPU {
		m.threads = w.chip.CPU.ModelRuns
	}
	m.info = llm.Info{
		Name: n.Name, Architecture: "simulated", Device: [...]string{"NPU", "CPU", "little"}[where],
		Library: "simulated", Layers: n.Layers, Vocab: vocabulary, Context: contextTokens, TrainContext: contextTokens,
		MaxBatch: graphTokens, MaxSequences: sequences, CanTruncate: true,
	}
	// Fusion, alignment and tiling make layers differ, always in the same way.
	m.spread = make([]float64, n.Layers+1)
	for i := range m.spread {
		m.spread[i] = 1 + mul(w.chip.LayerSpread.Value, m.dice.Float64()-0.5)
	}
	return m
}

// admit is the scheduler's rule in the engine's words.
func admit(now, lastEnd int64, w llm.Window, next time.Duration, tentative bool) (llm.Verdict, int64) {
	verdict, until := scheduler.Admit(scheduler.Instant(now), scheduler.Instant(lastEnd), scheduler.Window{
		Gate: scheduler.Gate(w.Mode), Open: scheduler.Instant(w.Open), Close: scheduler.Instant(w.Close),
		Pause:   w.Pause,
		Expires: scheduler.Instant(w.Expires),
	}, next, tentative)
	return llm.Verdict(verdict), int64(until)
}

func (m *model) Info() llm.Info { return m.info }
func (m *model) Gate() llm.Gate { return m.gate }
func (m *model) Stop()          { m.gate.Stop() }
func (m *model) Resume()        { m.gate.Resume() }

func (m *model) Close() error {
	m.closed = true
	return nil
}

// Decode implements llm.Model.
func (m *model) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	if m.closed {
		return llm.Work{}, llm.ErrClosed
	}
	rows, past, err := m.check(b)
	if err != nil {
		return llm.Work{}, err
	}
	if m.watch != nil {
		m.watch(len(b.Entries), rows < len(b.Entries), true)
	}
	w := llm.Work{Threads: m.threads, Start: m.world.now}
	if g.Threads > 0 {
		w.Threads = min(g.Threads, m.threads)
	}
	m.rows = m.rows[:0]
	ok := m.run(b, &w, rows, past)
	w.End = m.world.now
	if !ok {
		w.Stopped = true
		return w, llm.ErrStopped
	}
	w.Tokens = len(b.Entries)
	for _, e := range b.Entries {
		s := e.Sequence.(*sequence)
		s.tokens = append(s.tokens, e.Token)
		if e.Logits {
			said, guessed := m.streams.of(s.tokens[0]).at(len(s.tokens))
			if m.draft {
				said = guessed
			}
			m.rows = append(m.rows, said)
		}
	}
	return w, nil
}

func (m *model) check(b *llm.Batch) (rows, past int, err error) {
	if n := len(b.Entries); n == 0 || n > m.info.MaxBatch {
		return 0, 0, fmt.Errorf("soc: batch of %d tokens: want 1…%d: %w", n, m.info.MaxBatch, llm.ErrBatch)
	}
	for i, e := range b.Entries {
		s, ok := e.Sequence.(*sequence)
		if !ok || s == nil || s.model != m || s.closed || e.Token < 0 || e.Token >= vocabulary {
			return 0, 0, fmt.Errorf("soc: entry %d: closed, of another model, or token %d: %w", i, e.Token,
				llm.ErrBatch)
		}
		if len(s.tokens)+len(b.Entries) > m.info.Context {
			return 0, 0, fmt.Errorf("soc: %d tokens and %d more: %w", len(s.tokens), len(b.Entries),
				llm.ErrContextFull)
		}
		past = len(s.tokens)
		if e.Logits {
			rows++
		}
	}
	return rows, past, nil
}

// run lets the batch's layers run, group by group under the gate. A graph that
// was started is not stopped.
func (m *model) run(b *llm.Batch, w *llm.Work, rows, past int) bool {
	defer m.gate.Leave()
	width := len(b.Entries)
	if rows == width {
		width = m.graph(width)
	}
	m.samples = m.samples[:0]
	lastEnd := w.Start
	for first := 0; first < m.info.Layers; {
		size := m.group(first)
		next := m.predict(size, width, past, w.Threads)
		waited, ok := m.gate.Pass(lastEnd, next, b.Tentative)
		w.Waited += waited
		w.Stops++
		if !ok {
			return false
		}
		if m.watch != nil {
			m.watch(width, false, false)
		}
		begin, last := m.world.now, first+size-1
		free := m.gate.Window().Mode == llm.GateFree
		for layer := first; layer < first+size; layer++ {
			m.layer(layer, width, past, w.Threads)
			if last = layer; free && m.gate.Window().Mode != llm.GateFree {
				break
			}
		}
		lastEnd = m.world.now
		m.sample(first, last, width, w.Threads, lastEnd-begin)
		if first = last + 1; m.gate.Stopped() {
			return false
		}
	}
	if rows > 0 {
		begin := m.world.now
		m.head(rows, w.Threads)
		m.sample(m.info.Layers, m.info.Layers, width, w.Threads, m.world.now-begin)
	}
	w.Samples = m.samples
	return !m.gate.Stopped()
}

// graph is the width of the narrowest prepared graph that takes a batch: what it
// has beyond is padding.
func (m *model) graph(width int) int {
	for _, g := range m.graphs {
		if g >= width {
			return g
		}
	}
	return width
}

func (m *model) group(first int) int {
	size := m.gate.Window().LayersPerStop
	if size < 1 {
		size = m.info.Layers
	}
	return min(size, m.info.Layers-first)
}

func (m *model) sample(first, last, width, threads int, ns int64) {
	m.samples = append(m.samples, llm.LayerSample{First: int16(first), Last: int16(last), Width: int16(width),
		Threads: int16(threads), Duration: time.Duration(ns)})
}

// predict is what a group takes undisturbed.
func (m *model) predict(size, width, past, threads int) time.Duration {
	j := m.cost(float64(size)/float64(m.info.Layers), 0, width, past, threads)
	return time.Duration(max(j.read, j.compute) + j.extra)
}

// cost is a graph with a share of the layers' weights, all undisturbed.
func (m *model) cost(layers, head float64, width, past, threads int) job {
	d := m.place()
	n := m.network
	body := mul(layers, 1-n.HeadShare.Value) + mul(head, n.HeadShare.Value)
	cache := mul(mul(n.CacheBytes.Value*1e3, float64(past)), layers)
	j := job{device: m.device, left: 1, threads: float64(threads)}
	j.bytes = mul(n.Weights.Value*1e9, body) + cache
	bandwidth, compute := d.Bandwidth.Value, d.Compute.Value
	if m.draft {
		bandwidth = mul(bandwidth, d.SmallEff.Value)
	}
	if m.device == onCPU && threads < m.threads {
		part := float64(threads) / float64(m.threads)
		compute = mul(compute, part)
		bandwidth = mul(bandwidth, min(1, 0.4+mul(0.6, part))) // a few cores nearly fill the bus
	}
	j.read = j.bytes / bandwidth // GB/s is bytes a ns
	j.compute = mul(2*n.Params.Value*1e9, mul(body, float64(width))) / (compute * 1e3)
	j.extra = mul(d.DispatchUS.Value, 1e3)
	if width > 1 {
		j.extra += mul(j.read, d.BatchStep.Value+mul(d.BatchSlope.Value, float64(width-1)))
	}
	return j
}

func (m *model) place() *Device {
	switch m.device {
	case onCPU:
		return &m.world.chip.CPUModel
	case onLittle:
		return &m.world.chip.Little
	}
	return &m.world.chip.NPU
}

func (m *model) layer(layer, width, past, threads int) {
	j := m.cost(1/float64(m.info.Layers), 0, width, past, threads)
	odd := mul(m.spread[layer], 1+mul(m.world.chip.LayerNoise.Value, m.dice.Float64()+m.dice.Float64()-1))
	j.read, j.compute, j.extra = mul(j.read, odd), mul(j.compute, odd), mul(j.extra, odd)
	m.spend(j)
}

func (m *model) head(rows, threads int) { m.spend(m.cost(0, 1, rows, 0, threads)) }

// spend runs one graph to its end.
func (m *model) spend(j job) {
	w := m.world
	j.active = true
	w.job = j
	w.rates()
	for w.job.active {
		w.step(never)
	}
}

// sequence is one conversation; its cache is its ledger.
type sequence struct {
	model  *model
	tokens []llm.Token
	closed bool
}

func (m *model) NewSequence() (llm.Sequence, error) {
	if m.open >= sequences {
		return nil, fmt.Errorf("soc: all %d sequences: %w", sequences, llm.ErrNoSequence)
	}
	m.open++
	return &sequence{model: m}, nil
}

func (s *sequence) Tokens() []llm.Token { return s.tokens }

func (s *sequence) Truncate(n int) error {
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("soc: truncate to %d of %d tokens: %w", n, len(s.tokens), llm.ErrBatch)
	}
	s.tokens = s.tokens[:n]
	return nil
}

func (s *sequence) CopyFrom(src llm.Sequence) error {
	from, ok := src.(*sequence)
	if !ok || from.model != s.model {
		return fmt.Errorf("soc: copy from a sequence of another model: %w", llm.ErrBatch)
	}
	s.tokens = append(s.tokens[:0], from.tokens...)
	return nil
}

// Save and Load keep the ledger as 4 bytes a token.
func (s *sequence) Save(dst []byte) ([]byte, error) {
	for _, t := range s.tokens {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(t))
	}
	return dst, nil
}

func (s *sequence) Load(state []byte) error {
	s.tokens = s.tokens[:0]
	if len(state)%4 != 0 || len(state) > 4*contextTokens {
		return fmt.Errorf("soc: a state of %d bytes: %w", len(state), llm.ErrState)
	}
	for ; len(state) > 0; state = state[4:] {
		t := llm.Token(binary.LittleEndian.Uint32(state))
		if t < 0 || t >= vocabulary {
			s.tokens = s.tokens[:0]
			return fmt.Errorf("soc: a state with token %d: %w", t, llm.ErrState)
		}
		s.tokens = append(s.tokens, t)
	}
	return nil
}

func (s *sequence) Close() {
	if !s.closed {
		s.closed = true
		s.model.open--
	}
}

// sampler says what the streams say.
type sampler struct{ model *model }

func (m *model) NewSampler(s llm.Sampling) (llm.Sampler, error) {
	if s.Grammar != "" {
		return nil, fmt.Errorf("soc: no grammars here: %w", llm.ErrRequest)
	}
	return sampler{m}, s.Validate()
}

func (s sampler) Sample(row int) (llm.Token, error) {
	if row < 0 || row >= len(s.model.rows) {
		return 0, fmt.Errorf("soc: row %d of %d: %w", row, len(s.model.rows), llm.ErrBatch)
	}
	return s.model.rows[row], nil
}

func (s sampler) Accept(llm.Token)   {}
func (s sampler) Clone() llm.Sampler { return s }
func (s sampler) Close()             {}

// The text of a token is its number: nobody reads it.
func (m *model) Tokenize(dst []llm.Token, text string, _ bool) ([]llm.Token, error) {
	for i := range len(text) {
		dst = append(dst, firstWord+llm.Token(text[i]))
	}
	return dst, nil
}

func (m *model) AppendPiece(dst []byte, t llm.Token) []byte {
	if t < firstWord {
		return dst
	}
	return append(dst, 'a'+byte(t%26))
}

func (m *model) BOS() (llm.Token, bool) { return 1, true }
func (m *model) IsEnd(t llm.Token) bool { return t == 0 }

func (m *model) RenderChat(turns []llm.Turn, reply bool) ([]llm.Segment, error) {
	var out []llm.Segment
	for i, t := range turns {
		out = append(out, llm.Segment{Text: t.Text, Turn: i, Tokens: t.Tokens})
	}
	return out, nil
}
