package llamacpp

import (
	"fmt"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/lull-npc/lull/runtime/llm"
)

// Decode implements llm.Model. Every guard stands before the call, since
// llama.cpp answers a bad batch by ending the process.
func (m *Model) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	if m.closed.Load() {
		return llm.Work{}, llm.ErrClosed
	}
	if err := m.check(b); err != nil {
		return llm.Work{}, err
	}
	if err := m.prepareThreads(g.Threads); err != nil {
		return llm.Work{}, err
	}
	w := llm.Work{Threads: m.threads, Start: m.opt.Clock.Now()}
	m.rows = m.rows[:0]
	if m.opt.NoGate && m.hook.stopped() {
		return m.ended(w, llm.ErrStopped)
	}
	if !m.opt.NoGate && !m.hook.enter(len(b.Entries), m.threads, b.Tentative) {
		m.hook.leave(false, &w)
		return m.ended(w, llm.ErrStopped)
	}
	if err := m.fill(b); err != nil {
		return w, err
	}
	code, err := m.callDecode()
	if !m.opt.NoGate {
		if err == nil && code == 0 && m.hook.dropped() { // between slices of the head, where llama.cpp sees no stop
			code = codeStopped
		}
		m.hook.leave(err == nil && code == 0, &w)
	}
	if err != nil {
		return w, fmt.Errorf("llamacpp: decode: %w", err)
	}
	if code != 0 {
		m.reconcile(b)
		return m.ended(w, decodeError(code))
	}
	w.Tokens = len(b.Entries)
	for i, e := range b.Entries {
		s := e.Sequence.(*sequence)
		s.tokens = append(s.tokens, e.Token)
		if e.Logits {
			m.rows = append(m.rows, int32(i))
		}
	}
	w, err = m.ended(w, nil)
	m.learnHead()
	return w, err
}

func (m *Model) ended(w llm.Work, err error) (llm.Work, error) {
	w.End = m.opt.Clock.Now()
	w.Stopped = err == llm.ErrStopped
	return w, err
}

// check refuses a batch that llama.cpp would not survive.
func (m *Model) check(b *llm.Batch) error {
	n := len(b.Entries)
	if n == 0 || n > m.opt.MaxBatch {
		return fmt.Errorf("llamacpp: batch of %d tokens, want 1…%d: %w", n, m.opt.MaxBatch, llm.ErrBatch)
	}
	outputs := 0
	for i, e := range b.Entries {
		s, ok := e.Sequence.(*sequence)
		if !ok || s == nil || s.model != m || s.closed {
			return fmt.Errorf("llamacpp: entry %d: sequence is closed or of another model: %w", i, llm.ErrBatch)
		}
		if e.Token < 0 || int(e.Token) >= m.info.Vocab {
			return fmt.Errorf("llamacpp: entry %d: token %d, want 0…%d: %w", i, e.Token, m.info.Vocab-1, llm.ErrBatch)
		}
		if e.Logits {
			outputs++
		}
		s.pending = 0
	}
	if limit := min(m.opt.MaxOutputs, m.opt.MaxBatch); outputs > limit {
		return fmt.Errorf("llamacpp: logits of %d tokens wanted, at most %d: %w", outputs, limit, llm.ErrBatch)
	}
	for _, e := range b.Entries {
		s := e.Sequence.(*sequence)
		if s.pending++; len(s.tokens)+s.pending > m.opt.Context {
			return fmt.Errorf("llamacpp: sequence of %d tokens has no room for more (context %d): %w",
				len(s.tokens), m.opt.Context, llm.ErrContextFull)
		}
	}
	return nil
}

// fill copies the batch into llama.cpp's, with positions from the ledgers.
func (m *Model) fill(b *llm.Batch) error {
	m.batch.Clear()
	for _, e := range b.Entries {
		e.Sequence.(*sequence).pending = 0
	}
	for _, e := range b.Entries {
		s := e.Sequence.(*sequence)
		at := llama.Pos(len(s.tokens) + s.pending)
		s.pending++
		if err := m.batch.Add(llama.Token(e.Token), at, s.ids[:], e.Logits); err != nil {
			return fmt.Errorf("llamacpp: %w: %w", llm.ErrBatch, err)
		}
	}
	return nil
}

// prepareThreads makes the pool at the first decode and changes the number of
// threads at a token boundary. More than the pool has is clamped.
func (m *Model) prepareThreads(want int) error {
	if want <= 0 {
		want = m.opt.Threads
	}
	want = min(want, m.opt.Threads)
	if m.pool == nil && !m.opt.NoPool {
		p, err := newPool(m.opt.Threads, m.opt.Poll)
		if err != nil {
			return err
		}
		m.pool = p
		llama.AttachThreadpool(m.ctx, uintptr(p.handle), uintptr(p.handle))
	}
	if want != m.threads {
		llama.SetNThreads(m.ctx, int32(want), int32(want))
		m.threads = want
		m.head.setThreads(want)
	}
	return nil
}

// reconcile makes the cache hold what the ledgers say after a failed decode:
// llama.cpp keeps earlier micro-batches of the call, and removes the failed
// one only for the first sequence of each token.
func (m *Model) reconcile(b *llm.Batch) {
	for _, e := range b.Entries {
		s := e.Sequence.(*sequence)
		if s.pending == 0 {
			continue
		}
		s.pending = 0
		s.rollback(len(s.tokens))
	}
}

// codeStopped is what llama_decode returns when the abort callback ended it.
const codeStopped = 2

func decodeError(code int32) error {
	switch code {
	case 1:
		return fmt.Errorf("llamacpp: no room in the KV cache: %w", llm.ErrContextFull)
	case codeStopped:
		return llm.ErrStopped
	case -1:
		return fmt.Errorf("llamacpp: llama.cpp refused the batch (%s): %w", orUnknown(lastLog()), llm.ErrBatch)
	case -2:
		return fmt.Errorf("llamacpp: out of memory for the batch (%s)", orUnknown(lastLog()))
	}
	return fmt.Errorf("llamacpp: compute failed with code %d (%s)", code, orUnknown(lastLog()))
}
