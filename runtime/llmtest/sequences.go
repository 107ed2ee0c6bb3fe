package llmtest

import (
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

func testBatches(s *subject) {
	info := s.m.Info()
	q := s.sequence([]llm.Token{1, 2})
	closed, err := s.m.NewSequence()
	if err == nil {
		closed.Close()
	} else {
		s.wants("second sequence", err, llm.ErrNoSequence)
		closed = nil
	}
	large := slices.Repeat([]llm.Entry{{Sequence: q, Token: 1}}, info.MaxBatch+1)
	for name, entries := range map[string][]llm.Entry{
		"empty":           nil,
		"too large":       large,
		"negative token":  {{Sequence: q, Token: 1}, {Sequence: q, Token: -1}},
		"token too large": {{Sequence: q, Token: llm.Token(info.Vocab)}},
		"no sequence":     {{Token: 1}},
		"closed sequence": {{Sequence: closed, Token: 1}},
	} {
		_, err := s.m.Decode(&llm.Batch{Entries: entries}, llm.Grant{})
		s.wants(name, err, llm.ErrBatch)
	}
	s.holds("after bad batches", q, []llm.Token{1, 2})
	s.extend(q, []llm.Token{3})
	sampler, err := s.m.NewSampler(llm.Sampling{})
	s.must(err)
	defer sampler.Close()
	for _, row := range []int{-1, 1, 1 << 20} {
		if t, err := sampler.Sample(row); err == nil {
			s.Errorf("row %d of one gave token %d", row, t)
		}
	}
}

func testSequencesRunOut(s *subject) {
	var open []llm.Sequence
	for range s.m.Info().MaxSequences {
		q, err := s.m.NewSequence()
		s.must(err)
		open = append(open, q)
	}
	_, err := s.m.NewSequence()
	s.wants("one sequence too many", err, llm.ErrNoSequence)
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Owner: "mira", Prompt: s.prompt(innkeeper("Hello")), MaxTokens: 1}
	s.wants("a request without a sequence", d.run(r).last.Err, llm.ErrNoSequence)
	open[0].Close()
	d.reply(r)
}

func testTruncate(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	head, tail := p[:len(p)-2], p[len(p)-2:]
	q := s.sequence(head)
	s.extend(q, tail[:1])
	s.extend(q, tail[1:])
	want := s.greedy()
	for _, n := range []int{-1, len(p) + 1} {
		if q.Truncate(n) == nil {
			s.Errorf("Truncate to %d of %d tokens is no error", n, len(p))
		}
	}
	s.must(q.Truncate(len(p)))
	s.holds("after Truncate of nothing", q, p)
	s.must(q.Truncate(len(head)))
	if !s.m.Info().CanTruncate {
		s.holds("after Truncate", q, nil)
		s.extend(q, head)
	}
	s.holds("after Truncate", q, head)
	s.extend(q, tail[:1])
	s.extend(q, tail[1:])
	if got := s.greedy(); got != want {
		s.Errorf("after Truncate the next token is %d, want %d", got, want)
	}
	s.must(q.Truncate(0))
	s.holds("after Truncate to 0", q, nil)
}

func testCopy(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	a := s.sequence(p[:len(p)-1])
	b, err := s.m.NewSequence()
	if err != nil {
		s.wants("second sequence", err, llm.ErrNoSequence)
		s.Skip("the model holds one sequence only")
	}
	s.extend(b, p[:3]) // what it held must go
	s.must(b.CopyFrom(a))
	s.holds("copy", b, p[:len(p)-1])
	s.extend(b, p[len(p)-1:])
	got := s.greedy()
	s.holds("the original", a, p[:len(p)-1])
	s.extend(a, p[len(p)-1:])
	if want := s.greedy(); got != want {
		s.Errorf("the copy goes on with %d, the original with %d", got, want)
	}
	b.Close()
	if a.CopyFrom(b) == nil {
		s.Error("CopyFrom took a closed sequence")
	}
}

func testSaveLoad(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	q := s.sequence(p[:len(p)-1])
	state, err := q.Save([]byte("head"))
	s.must(err)
	if string(state[:4]) != "head" {
		s.Errorf("Save changed what it should append to: %q", state[:4])
	}
	state = state[4:]
	s.extend(q, p[len(p)-1:])
	want := s.greedy()
	q.Close()
	q = s.sequence(p[:3]) // what it held must go
	s.must(q.Load(state))
	s.holds("loaded", q, p[:len(p)-1])
	s.extend(q, p[len(p)-1:])
	if got := s.greedy(); got != want {
		s.Errorf("the loaded sequence goes on with %d, the saved one with %d", got, want)
	}
	s.must(q.Truncate(0))
	state, err = q.Save(nil)
	s.must(err)
	s.extend(q, p[:3])
	s.must(q.Load(state))
	s.holds("loaded empty", q, nil)
}

// testDamagedStates flips a byte in every region of a state, and cuts it.
func testDamagedStates(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	q := s.sequence(p)
	state, err := q.Save(nil)
	s.must(err)
	const header, spread = 96, 64
	places := []int{len(state) - 1, len(state) - 2, len(state) - 3, len(state) - 4, len(state) - 5}
	for i := range min(header, len(state)) {
		places = append(places, i)
	}
	for i := range spread {
		places = append(places, i*len(state)/spread)
	}
	for _, at := range places {
		bad := slices.Clone(state)
		bad[at] ^= 0x41
		s.wants("flipped", q.Load(bad), llm.ErrState)
		s.holds("after a flipped state", q, nil)
		s.wants("cut", q.Load(state[:at]), llm.ErrState)
	}
	for name, bad := range map[string][]byte{
		"nil": nil, "text": []byte("not a state"),
		"too long": append(slices.Clone(state), 0), "twice": slices.Concat(state, state),
	} {
		s.wants(name, q.Load(bad), llm.ErrState)
	}
	s.must(q.Load(state))
	s.holds("loaded after damaged ones", q, p)
}

func testCloneSampler(s *subject) {
	s.sequence(s.prompt(innkeeper("Tell me a story.")))
	a, err := s.m.NewSampler(llm.Sampling{Temperature: 2, Seed: 7, RepeatPenalty: 1.1})
	s.must(err)
	defer a.Close()
	draw := func(p llm.Sampler) []llm.Token {
		var out []llm.Token
		for range 8 {
			t, err := p.Sample(0)
			s.must(err)
			out = append(out, t)
		}
		return out
	}
	draw(a)
	b := a.Clone()
	defer b.Close()
	if x, y := draw(b), draw(a); !slices.Equal(x, y) {
		s.Errorf("a clone draws %v, the original %v", x, y)
	}
}

func testClosedModel(s *subject) {
	q := s.sequence([]llm.Token{1, 2})
	// Prompts are made on goroutines that know nothing of who closes the model.
	ended := make(chan error)
	begun := make(chan struct{}, 2)
	for range cap(begun) {
		go func() {
			var err error
			for first := true; err == nil; first = false {
				if _, err = s.m.Tokenize(nil, "one more line of the prompt", false); first {
					begun <- struct{}{}
				}
				s.m.AppendPiece(nil, 1)
				s.m.IsEnd(1)
				s.m.BOS()
			}
			ended <- err
		}()
	}
	for range cap(begun) {
		<-begun
	}
	s.must(s.m.Close())
	for range cap(begun) {
		s.wants("Tokenize", <-ended, llm.ErrClosed)
	}
	var b llm.Batch
	b.Add(q, 1, true)
	_, err := s.m.Decode(&b, llm.Grant{})
	s.wants("Decode", err, llm.ErrClosed)
	_, err = s.m.NewSequence()
	s.wants("NewSequence", err, llm.ErrClosed)
	_, err = s.m.NewSampler(llm.Sampling{})
	s.wants("NewSampler", err, llm.ErrClosed)
	s.wants("Truncate", q.Truncate(0), llm.ErrClosed)
	_, err = q.Save(nil)
	s.wants("Save", err, llm.ErrClosed)
	s.wants("Load", q.Load(nil), llm.ErrClosed)
	q.Close()
	s.m.Stop()
	s.m.Resume()
	s.m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
}
