package speculative_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
)

// tiny is a language model small enough that every probability can be written
// down: the logits are a hash of the last two tokens. Its sampler has a random
// state and a repeat penalty, so that a token that should not have reached it
// shows. Its last token ends a reply.
type tiny struct {
	vocab, batch, context int
	spread                float64 // of the logits
	noise                 float64 // share of contexts in which it thinks otherwise than a tiny without
	noUndo                bool    // CanTruncate is false
	lies                  bool    // CanTruncate is true, but Truncate clears

	gate    *llm.SoftGate
	onLayer func() // before each of 4 layers
	fault   func() error

	open     int
	afterEnd int // samples after an end
	decodes  int
	widest   int // batch so far
	rows     [][]float64
}

const tinyLayers = 4

func newTiny(vocab int) *tiny {
	return &tiny{vocab: vocab, batch: 32, context: 400, spread: 3, gate: llm.NewGate(llm.NewClock(), nil)}
}

func (m *tiny) Info() llm.Info {
	return llm.Info{
		Name: fmt.Sprintf("tiny %d", m.vocab), Layers: tinyLayers, Vocab: m.vocab,
		Context: m.context, TrainContext: m.context, MaxBatch: m.batch, MaxSequences: 3, CanTruncate: !m.noUndo,
	}
}

func (m *tiny) Tokenize(dst []llm.Token, text string, _ bool) ([]llm.Token, error) {
	for _, b := range []byte(text) {
		dst = append(dst, llm.Token(int(b)%(m.vocab-1)))
	}
	return dst, nil
}

func (m *tiny) AppendPiece(dst []byte, t llm.Token) []byte {
	if m.IsEnd(t) {
		return dst
	}
	return append(dst, 'a'+byte(t))
}
func (m *tiny) BOS() (llm.Token, bool) { return 0, false }
func (m *tiny) IsEnd(t llm.Token) bool { return int(t) == m.vocab-1 }
func (m *tiny) NewSequence() (llm.Sequence, error) {
	if m.open == 3 {
		return nil, llm.ErrNoSequence
	}
	m.open++
	return &tinySequence{m: m}, nil
}
func (m *tiny) Stop()          { m.gate.Stop() }
func (m *tiny) Resume()        { m.gate.Resume() }
func (m *tiny) Gate() llm.Gate { return m.gate }
func (m *tiny) Close() error   { return nil }

func (m *tiny) RenderChat(turns []llm.Turn, _ bool) ([]llm.Segment, error) {
	var out []llm.Segment
	for i, t := range turns {
		out = append(out, llm.Segment{Text: t.Text, Turn: i})
	}
	return out, nil
}

// mix is a hash that is the same in every process.
func mix(xs ...uint64) uint64 {
	h := uint64(0x243F6A8885A308D3)
	for _, x := range xs {
		h ^= x + 1
		h *= 0x9E3779B97F4A7C15
		h ^= h >> 31
		h *= 0xD6E8FEB86659FD93
		h ^= h >> 32
	}
	return h
}

func share(h uint64) float64 { return float64(h>>11) / (1 << 53) }

func (m *tiny) logits(ledger []llm.Token) []float64 {
	var a, b uint64 = 99, 99
	if n := len(ledger); n > 1 {
		a, b = uint64(ledger[n-2]), uint64(ledger[n-1])
	} else if n > 0 {
		b = uint64(ledger[n-1])
	}
	salt := uint64(0)
	if share(mix(a, b, 7)) < m.noise {
		salt = 1
	}
	out := make([]float64, m.vocab)
	for t := range out {
		out[t] = m.spread * share(mix(a, b, uint64(t), salt))
	}
	out[m.vocab-1] -= m.spread * 0.6 // ends are rare
	return out
}

func (m *tiny) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	m.decodes++
	m.widest = max(m.widest, len(b.Entries))
	if n := len(b.Entries); n == 0 || n > m.batch {
		return llm.Work{}, fmt.Errorf("tiny: %d tokens: %w", n, llm.ErrBatch)
	}
	if m.fault != nil {
		if err := m.fault(); err != nil {
			return llm.Work{}, err
		}
	}
	m.rows = m.rows[:0]
	for range tinyLayers {
		if m.onLayer != nil {
			m.onLayer()
		}
		if _, ok := m.gate.Pass(0, 0, b.Tentative); !ok {
			return llm.Work{Stopped: true}, llm.ErrStopped
		}
	}
	for _, e := range b.Entries {
		if s := e.Sequence.(*tinySequence); len(s.tokens)+len(b.Entries) > m.context && len(s.tokens) >= m.context {
			return llm.Work{}, llm.ErrContextFull
		}
	}
	for _, e := range b.Entries {
		s := e.Sequence.(*tinySequence)
		s.tokens = append(s.tokens, e.Token)
		if e.Logits {
			m.rows = append(m.rows, m.logits(s.tokens))
		}
	}
	return llm.Work{Tokens: len(b.Entries), Threads: 1, End: int64(len(b.Entries))}, nil
}

type tinySequence struct {
	m      *tiny
	tokens []llm.Token
}

func (s *tinySequence) Tokens() []llm.Token { return s.tokens }
func (s *tinySequence) Truncate(n int) error {
	if n < 0 || n > len(s.tokens) {
		return llm.ErrBatch
	}
	if n < len(s.tokens) && (s.m.noUndo || s.m.lies) {
		n = 0
	}
	s.tokens = s.tokens[:n]
	return nil
}
func (s *tinySequence) CopyFrom(llm.Sequence) error     { return llm.ErrBatch }
func (s *tinySequence) Save(dst []byte) ([]byte, error) { return dst, llm.ErrState }
func (s *tinySequence) Load([]byte) error               { return llm.ErrState }
func (s *tinySequence) Close()                          { s.m.open-- }

func (m *tiny) NewSampler(s llm.Sampling) (llm.Sampler, error) {
	return &tinySampler{m: m, s: s, random: *rand.NewPCG(uint64(s.Seed), 5)}, nil
}

type tinySampler struct {
	m      *tiny
	s      llm.Sampling
	random rand.PCG
	recent []llm.Token
}

func (x *tinySampler) Sample(row int) (llm.Token, error) {
	if row < 0 || row >= len(x.m.rows) {
		return 0, fmt.Errorf("tiny: row %d of %d: %w", row, len(x.m.rows), llm.ErrBatch)
	}
	if n := len(x.recent); n > 0 && x.m.IsEnd(x.recent[n-1]) {
		x.m.afterEnd++ // a grammar would have no more to say, and llama.cpp would end the process
	}
	p := x.probabilities(x.m.rows[row])
	t := llm.Token(0)
	if x.s.Temperature == 0 {
		for i := range p {
			if p[i] > p[t] {
				t = llm.Token(i)
			}
		}
	} else {
		r := rand.New(&x.random).Float64()
		for ; int(t) < len(p)-1 && r >= p[t]; t++ {
			r -= p[t]
		}
	}
	x.Accept(t)
	return t, nil
}

func (x *tinySampler) probabilities(logits []float64) []float64 {
	p := slices.Clone(logits)
	if x.s.RepeatPenalty > 0 {
		for _, t := range x.recent[max(0, len(x.recent)-3):] {
			p[t] -= float64(x.s.RepeatPenalty)
		}
	}
	return softmax(p, float64(x.s.Temperature))
}

func softmax(logits []float64, temperature float64) []float64 {
	if temperature == 0 {
		temperature = 1
	}
	sum := 0.0
	for i := range logits {
		logits[i] = math.Exp(logits[i] / temperature)
		sum += logits[i]
	}
	for i := range logits {
		logits[i] /= sum
	}
	return logits
}

func (x *tinySampler) Accept(t llm.Token) { x.recent = append(x.recent, t) }
func (x *tinySampler) Clone() llm.Sampler {
	c := *x
	c.recent = slices.Clone(x.recent)
	return &c
}
func (x *tinySampler) Close() {}

// ending is how a request ended.
type ending struct {
	Text   string
	Kind   llm.EventKind
	Reason llm.DoneReason
	Reply  []llm.Token
	Tokens int // generated
	Err    error
}

// endings joins the events of each request.
func endings(events []llm.Event) map[llm.RequestID]*ending {
	out := map[llm.RequestID]*ending{}
	for _, ev := range events {
		e := out[ev.Request]
		if e == nil {
			e = &ending{}
			out[ev.Request] = e
		}
		e.Text += ev.Text
		if ev.Kind >= llm.EventDone {
			e.Kind, e.Reason, e.Reply, e.Tokens, e.Err = ev.Kind, ev.Reason, ev.Reply, ev.Usage.Generated, ev.Err
		}
	}
	return out
}

// plain decodes a request one token at a time.
func plain(t testing.TB, m llm.Model, r llm.Request) *ending {
	t.Helper()
	e, err := llm.NewEngine(m, llm.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r.Owner = ""
	id, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	for e.HasWork() {
		if _, err := e.Step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	return endings(e.Poll(nil))[id]
}
