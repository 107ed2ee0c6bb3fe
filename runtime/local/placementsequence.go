package local

import (
	"fmt"
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

// placedSequence is a conversation that is on one device at a time. It keeps a
// ledger of its own: that of a device that failed is not to be trusted.
type placedSequence struct {
	model  *Placed
	inner  [maxPlaced]llm.Sequence // nil where it never was
	at     int                     // the device that holds it
	tokens []llm.Token
	closed bool
}

// NewSequence implements llm.Model.
func (p *Placed) NewSequence() (llm.Sequence, error) {
	s := &placedSequence{model: p}
	to, ok := p.target(&p.batch)
	if !ok {
		return nil, fmt.Errorf("local: open a sequence: %w", errNoDevice)
	}
	return s, s.openOn(to)
}

// openOn makes the device to the one that holds the sequence, empty there.
func (s *placedSequence) openOn(to int) (err error) {
	if s.inner[to] == nil {
		if s.inner[to], err = s.model.devices[to].model.NewSequence(); err != nil {
			s.inner[to] = nil
			return err
		}
	}
	if len(s.inner[to].Tokens()) > 0 {
		err = s.inner[to].Truncate(0)
	}
	s.at = to
	return err
}

func (s *placedSequence) usable() error {
	if s.closed {
		return llm.ErrClosed
	}
	return nil
}

// Tokens implements llm.Sequence.
func (s *placedSequence) Tokens() []llm.Token { return s.tokens }

// Truncate implements llm.Sequence. On a device that failed it has to be done
// on the ledger alone; what is left is computed again elsewhere.
func (s *placedSequence) Truncate(n int) error {
	if err := s.usable(); err != nil {
		return err
	}
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("local: truncate to %d of %d tokens: %w", n, len(s.tokens), llm.ErrBatch)
	}
	if s.lost() {
		s.tokens = s.tokens[:n]
		return nil
	}
	in := s.inner[s.at]
	if len(in.Tokens()) < n { // a move that was stopped: the rest is computed before the next batch
		s.tokens = s.tokens[:n]
		return nil
	}
	err := in.Truncate(n)
	s.tokens = s.tokens[:min(len(in.Tokens()), n)]
	return err
}

func (s *placedSequence) lost() bool { return s.model.lost.Load()&(1<<s.at) != 0 }

// CopyFrom implements llm.Sequence: the copy is where its source is.
func (s *placedSequence) CopyFrom(from llm.Sequence) error {
	if err := s.usable(); err != nil {
		return err
	}
	src, ok := from.(*placedSequence)
	if !ok || src == nil || src.model != s.model || src.closed {
		return fmt.Errorf("local: copy from a sequence that is closed or of another model: %w", llm.ErrBatch)
	}
	if src == s {
		return nil
	}
	s.tokens = s.tokens[:0]
	if src.lost() {
		// Its ledger is all there is of it: this one's next move computes it.
		s.tokens, s.at = append(s.tokens, src.tokens...), src.at
		return nil
	}
	if err := s.openOn(src.at); err != nil {
		return err
	}
	if err := s.inner[s.at].CopyFrom(src.inner[s.at]); err != nil {
		return err
	}
	s.tokens = append(s.tokens, s.inner[s.at].Tokens()...)
	return nil
}

// Save implements llm.Sequence.
func (s *placedSequence) Save(dst []byte) ([]byte, error) {
	if err := s.usable(); err != nil {
		return dst, err
	}
	if s.lost() || !slices.Equal(s.inner[s.at].Tokens(), s.tokens) {
		return dst, fmt.Errorf("local: the device of the sequence failed: %w", llm.ErrState)
	}
	return s.inner[s.at].Save(dst)
}

// Load implements llm.Sequence.
func (s *placedSequence) Load(state []byte) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.tokens = s.tokens[:0]
	if s.lost() {
		to, ok := s.model.target(&s.model.batch)
		if !ok {
			return fmt.Errorf("local: load a sequence: %w", errNoDevice)
		}
		if err := s.openOn(to); err != nil {
			return err
		}
	}
	err := s.inner[s.at].Load(state)
	s.tokens = append(s.tokens, s.inner[s.at].Tokens()...)
	return err
}

// Close implements llm.Sequence.
func (s *placedSequence) Close() {
	if s.closed {
		return
	}
	s.closed = true
	for _, in := range s.inner {
		if in != nil {
			in.Close()
		}
	}
}

// moveTo brings the sequence to another device: by its state, or where the old
// device can't give one or the new one not take it, by computing its tokens
// again. If that is stopped, the next batch goes on where it was.
func (s *placedSequence) moveTo(to int, g llm.Grant) (llm.Work, error) {
	p, from := s.model, s.at
	if len(s.tokens) == 0 {
		return llm.Work{}, s.openOn(to)
	}
	if s.inner[to] == nil {
		if err := s.openOn(to); err != nil {
			s.at = from
			return llm.Work{}, err
		}
		s.at = from
	}
	have := s.inner[to].Tokens()
	begun := len(have) > 0 && len(have) <= len(s.tokens) && slices.Equal(have, s.tokens[:len(have)])
	if !s.lost() && !begun {
		if s.byState(to) {
			return llm.Work{}, nil
		}
	}
	if !begun && len(have) > 0 {
		if err := s.inner[to].Truncate(0); err != nil {
			return llm.Work{}, err
		}
	}
	if w, err := s.compute(to, g); err != nil {
		return w, err
	}
	p.moves.Computed++
	s.settleOn(to)
	return llm.Work{}, nil
}

// byState moves by Save and Load, and reports whether that worked.
func (s *placedSequence) byState(to int) bool {
	p, src := s.model, s.inner[s.at]
	if !slices.Equal(src.Tokens(), s.tokens) {
		return false
	}
	var err error
	if p.state, err = src.Save(p.state[:0]); err == nil {
		err = s.inner[to].Load(p.state)
	}
	if err != nil || !slices.Equal(s.inner[to].Tokens(), s.tokens) {
		return false
	}
	p.moves.Moved++
	s.settleOn(to)
	return true
}

// settleOn makes to the device that holds the sequence, and empties the other.
func (s *placedSequence) settleOn(to int) {
	if !s.lost() {
		_ = s.inner[s.at].Truncate(0) // it is not used again before it is empty
	}
	s.at = to
	s.model.moves.Tokens += len(s.tokens)
}

// compute runs the tokens that the device to lacks, without their logits.
func (s *placedSequence) compute(to int, g llm.Grant) (llm.Work, error) {
	p := s.model
	var b llm.Batch
	for len(s.inner[to].Tokens()) < len(s.tokens) {
		at := len(s.inner[to].Tokens())
		n := min(len(s.tokens)-at, p.info.MaxBatch)
		if g.PrefillChunk > 0 {
			n = min(n, g.PrefillChunk)
		}
		b.Reset()
		for _, t := range s.tokens[at : at+n] {
			b.Add(s.inner[to], t, false)
		}
		if w, err := p.devices[to].model.Decode(&b, g); err != nil {
			return w, err
		}
	}
	return llm.Work{}, nil
}

// samplerAdopter is a model that can take over the samplers of another one.
type samplerAdopter interface {
	AdoptSampler(llm.Sampler) error
}

// placedSampler chooses from the logits of the device that computed last. Where
// samplers can be handed over there is one; elsewhere one for each device, which
// all see what was chosen.
type placedSampler struct {
	model *Placed
	inner []llm.Sampler
	one   bool
}

// NewSampler implements llm.Model.
func (p *Placed) NewSampler(x llm.Sampling) (llm.Sampler, error) {
	s := &placedSampler{model: p, one: true}
	for _, d := range p.devices {
		_, adopts := d.model.(samplerAdopter)
		s.one = s.one && adopts
	}
	var err error
	for _, d := range p.devices {
		var in llm.Sampler
		if in, err = d.model.NewSampler(x); err != nil {
			break
		}
		if s.inner = append(s.inner, in); s.one {
			break
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Sample implements llm.Sampler.
func (s *placedSampler) Sample(row int) (llm.Token, error) {
	at := s.model.at
	if s.one {
		if err := s.model.devices[at].model.(samplerAdopter).AdoptSampler(s.inner[0]); err != nil {
			return 0, fmt.Errorf("local: hand a sampler over: %w", err)
		}
		return s.inner[0].Sample(row)
	}
	t, err := s.inner[at].Sample(row)
	if err == nil {
		for i, in := range s.inner {
			if i != at {
				in.Accept(t)
			}
		}
	}
	return t, err
}

// Accept implements llm.Sampler.
func (s *placedSampler) Accept(t llm.Token) {
	for _, in := range s.inner {
		in.Accept(t)
	}
}

// Clone implements llm.Sampler.
func (s *placedSampler) Clone() llm.Sampler {
	c := &placedSampler{model: s.model, one: s.one}
	for _, in := range s.inner {
		c.inner = append(c.inner, in.Clone())
	}
	return c
}

// Close implements llm.Sampler.
func (s *placedSampler) Close() {
	for _, in := range s.inner {
		in.Close()
	}
}

var (
	_ llm.Model    = (*Placed)(nil)
	_ llm.Sequence = (*placedSequence)(nil)
)
