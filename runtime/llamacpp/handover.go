package llamacpp

import (
	"fmt"

	"github.com/lull-npc/lull/runtime/llm"
)

// A conversation moves between two models of the same file on two devices by
// Sequence.Save and Load: the state's header names file, library and cache
// layout, and not the device. What else belongs to a reply is its sampler.

// AdoptSampler makes a sampler of a model of the same file choose from this
// model's logits from now on, with the state that it has: the random numbers
// drawn, the tokens that penalties look back on, the place in its grammar. Call
// from the goroutine that uses both models.
func (m *Model) AdoptSampler(s llm.Sampler) error {
	x, ok := s.(*sampler)
	switch {
	case !ok || x == nil:
		return fmt.Errorf("llamacpp: adopt a sampler of another engine: %w", llm.ErrRequest)
	case m.closed.Load():
		return llm.ErrClosed
	case x.model.print != m.print || x.model.info.Vocab != m.info.Vocab:
		return fmt.Errorf("llamacpp: adopt a sampler of another model file: %w", llm.ErrRequest)
	}
	x.model = m
	return nil
}

// FileFingerprint is the Fingerprint of the model that a file holds, without
// loading it.
func FileFingerprint(path string) (string, error) {
	print, err := checkModelFile(path, modelFlag)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", print), nil
}
