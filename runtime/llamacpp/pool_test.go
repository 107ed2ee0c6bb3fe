package llamacpp

import (
	"slices"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
)

// Two OS threads take turns, each with a pool of its own, in the middle of
// sentences and of the head's slices: nothing changes in what is said.
func TestTwoPoolsTakeTurns(t *testing.T) {
	m := open(t, func(o *Options) { o.Threads = 2 })
	prompt := tokens(t, m, "The ferryman counted the coins and", false)
	want := greedy(t, m, prompt, 16)
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sampler, err := m.NewSampler(llm.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	m.Gate().Publish(llm.Window{LayersPerStop: 5})
	defer m.Gate().Publish(llm.Window{})

	turns := make([]chan *llm.Batch, 2)
	answers := make(chan error)
	for i := range turns {
		turns[i] = make(chan *llm.Batch)
		go func() {
			threadOfItsOwn()
			for b := range turns[i] {
				_, err := m.Decode(b, llm.Grant{Threads: 1 + i, Second: i == 1})
				answers <- err
			}
		}()
		defer close(turns[i])
	}
	var b llm.Batch
	for i, tok := range prompt {
		b.Add(s, tok, i == len(prompt)-1)
	}
	var got []llm.Token
	for i := range 16 {
		turns[i/3%2] <- &b
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
		next, err := sampler.Sample(0)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, next)
		b.Reset()
		b.Add(s, next, true)
	}
	if !slices.Equal(got, want) {
		t.Errorf("two pools: %v, want %v", got, want)
	}
}
