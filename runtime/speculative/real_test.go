package speculative_test

import (
	"slices"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

// nearTie is how far two logits may differ and still change places with the
// shape of the batch: other kernels add up in another order. Logits of this
// model are 5 to 20, and the best leads the second by 1 to 5 as a rule.
const nearTie = 0.5

// scorer is a model whose logits can be read, as llamacpp's can.
type scorer interface {
	llm.Model
	Logits(row int) ([]float32, error)
}

func openReal(t *testing.T) scorer {
	t.Helper()
	library, model := testassets.Locate(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	return openFile(t, model, nil)
}

// gap is by how much the logit of a exceeds that of b after a prompt and the
// tokens said, decoded one by one.
func gap(t *testing.T, m scorer, prompt, said []llm.Token, a, b llm.Token) float32 {
	t.Helper()
	seq, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	var batch llm.Batch
	decode := func(tokens []llm.Token) {
		batch.Reset()
		for i, x := range tokens {
			batch.Add(seq, x, i == len(tokens)-1)
		}
		if _, err := m.Decode(&batch, llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	for chunk := range slices.Chunk(prompt, m.Info().MaxBatch) {
		decode(chunk)
	}
	for i := range said {
		decode(said[i : i+1])
	}
	logits, err := m.Logits(0)
	if err != nil {
		t.Fatal(err)
	}
	return logits[a] - logits[b]
}

// TestRealModel: greedy replies of the real model with patterns and with itself
// as draft model equal plain decoding, up to near-ties, which are listed.
func TestRealModel(t *testing.T) {
	target, draft := openReal(t), openReal(t)
	list := "3 healing potions, 2 torches, 1 rope, 12 silver arrows, 1 map of the old mine"
	var requests []llm.Request
	var want []*ending
	for _, say := range [][2]string{
		{"Repeat what the user says, word for word.", list + "; " + list},
		{"You keep the inn at the crossroads.", "What do you sell?"},
	} {
		turns := []llm.Turn{{Role: llm.System, Text: say[0]}, {Role: llm.User, Text: say[1]}}
		segments, err := target.RenderChat(turns, true)
		if err != nil {
			t.Fatal(err)
		}
		prompt, _, err := llm.TokenizeChat(target, segments)
		if err != nil {
			t.Fatal(err)
		}
		r := llm.Request{Owner: "mira", Prompt: prompt, MaxTokens: 40}
		requests, want = append(requests, r), append(want, plain(t, target, r))
	}
	for name, opt := range map[string]speculative.Options{
		"patterns":    {Mode: speculative.ModeNGram, Fixed: true, MaxWidth: 6},
		"draft model": {Mode: speculative.ModeModel, Draft: draft, Fixed: true, MaxWidth: 4},
		"as it pays":  {Draft: draft, Costs: flat(1)},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, target, opt)
			var got []*ending
			for _, r := range requests {
				got = append(got, tb.run(r, llm.Grant{}))
			}
			s := tb.spec.Stats()
			tb.engine.Close() // its sequence is needed for comparing
			for i, r := range requests {
				equalUpToTies(t, target, r.Prompt, want[i], got[i])
			}
			for source, x := range s.Sources {
				t.Logf("%-8s %d judged, %.0f %% accepted", speculative.Source(source), x.Judged, 100*x.Acceptance())
			}
			if s.Rounds == 0 || s.ModelOff != "" {
				t.Errorf("%d rounds, model off %q", s.Rounds, s.ModelOff)
			}
			if m := s.Sources[speculative.FromModel]; m.Judged > 0 && m.Acceptance() < 0.9 {
				t.Errorf("as its own draft model %+v are accepted, want nearly all", m)
			}
		})
	}
}

// equalUpToTies compares replies up to the first near-tie: what follows one is
// another reply.
func equalUpToTies(t *testing.T, m scorer, prompt []llm.Token, want, got *ending) {
	t.Helper()
	if want.Err != nil || got.Err != nil {
		t.Fatalf("plain: %v, speculative: %v", want.Err, got.Err)
	}
	at := 0
	for at < min(len(want.Reply), len(got.Reply)) && want.Reply[at] == got.Reply[at] {
		at++
	}
	switch {
	case at == len(want.Reply) && at == len(got.Reply):
		t.Logf("equal: %q", got.Text)
	case at == len(want.Reply) || at == len(got.Reply):
		t.Errorf("said %q, want %q", got.Text, want.Text)
	default:
		g := gap(t, m, prompt, want.Reply[:at], want.Reply[at], got.Reply[at])
		t.Logf("token %d differs, the logits by %.3f: %q, plain %q", at, g, got.Text, want.Text)
		if g > nearTie {
			t.Errorf("token %d differs, and the logits by %.3f: that is no near-tie", at, g)
		}
	}
}
