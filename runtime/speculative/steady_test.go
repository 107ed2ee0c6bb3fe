package speculative

import (
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
)

// still is a model whose tokens count up to 99 and begin again. It does not
// allocate, so that what does shows.
type still struct{ llm.Model }

func (still) Info() llm.Info {
	return llm.Info{Vocab: 100, Context: 4096, MaxBatch: 64, MaxSequences: 1, CanTruncate: true}
}
func (still) Tokenize(dst []llm.Token, text string, _ bool) ([]llm.Token, error) {
	for range text {
		dst = append(dst, 1)
	}
	return dst, nil
}
func (still) AppendPiece(dst []byte, _ llm.Token) []byte         { return dst }
func (still) BOS() (llm.Token, bool)                             { return 0, false }
func (still) IsEnd(llm.Token) bool                               { return false }
func (still) RenderChat([]llm.Turn, bool) ([]llm.Segment, error) { return nil, nil }
func (m still) NewSequence() (llm.Sequence, error)               { return &stillSequence{}, nil }
func (m still) NewSampler(llm.Sampling) (llm.Sampler, error)     { return stillSampler{}, nil }
func (m still) Decode(b *llm.Batch, _ llm.Grant) (llm.Work, error) {
	for _, e := range b.Entries {
		s := e.Sequence.(*stillSequence)
		s.ledger = append(s.ledger, e.Token)
		lastStill = after(e.Token)
	}
	return llm.Work{Tokens: len(b.Entries)}, nil
}

var lastStill llm.Token

func after(t llm.Token) llm.Token { return (t + 1) % 100 }

type stillSequence struct {
	llm.Sequence
	ledger []llm.Token
}

func (s *stillSequence) Tokens() []llm.Token  { return s.ledger }
func (s *stillSequence) Truncate(n int) error { s.ledger = s.ledger[:n]; return nil }
func (s *stillSequence) Close()               {}

type stillSampler struct{ llm.Sampler }

func (stillSampler) Sample(int) (llm.Token, error) { return lastStill, nil }
func (stillSampler) Close()                        {}

// TestSteadyState: after warm-up, drafting, proposing and judging allocate
// nothing, right or wrong, with a draft model and without.
func TestSteadyState(t *testing.T) {
	for _, mode := range []Mode{ModeNGram, ModeAuto} {
		o := Options{Mode: mode, Draft: still{}, Costs: Costs{Rows: []Row{{Threads: 1, Verify: []Point{{8, 1.1}}}}}}
		s, err := New(still{}, o)
		if err != nil {
			t.Fatal(err)
		}
		tokens := make([]llm.Token, 1, 4096)
		drafts, chosen := make([]llm.Token, 0, 64), make([]llm.Token, 0, 64)
		judged := 0
		round := func() {
			r := llm.Reply{Request: 1, Owner: "mira", Tokens: tokens, Prompt: 1, Room: 30}
			for {
				if _, ran := s.Draft(r, llm.Grant{}); !ran {
					break
				}
			}
			drafts = s.Propose(drafts[:0], r, llm.Grant{})
			chosen = append(chosen[:0], after(tokens[len(tokens)-1]))
			for i := range drafts {
				if len(tokens)%7 == 0 || drafts[i] != chosen[i] {
					break
				}
				chosen = append(chosen, after(chosen[i]))
			}
			if len(tokens)%7 == 0 {
				chosen[0] = 50 // none of the candidates
			}
			judged += len(drafts)
			s.Judged(r, llm.Judgement{Drafts: drafts, Chosen: chosen})
			tokens = append(tokens, chosen...)
		}
		for range 20 {
			round()
		}
		if n := testing.AllocsPerRun(150, round); n != 0 || judged < 300 {
			t.Errorf("%s: %v allocations a round, %d candidates; want none", mode, n, judged)
		}
		if x := s.Stats().Sources[FromModel]; (x.Judged > 0) != (mode == ModeAuto) {
			t.Errorf("%s: %+v of the model", mode, x)
		}
	}
}
