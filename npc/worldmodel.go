package npc

import (
	"fmt"
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

// SetModel has the characters talk through another engine and model from now
// on: a larger one in a menu, a smaller one when memory is short. Turns under
// way are interrupted, where they are heard in the middle of the sentence; turns
// that wait go to the new model. What was lived through stays: of histories only
// the text is used, as tokens of another model do no harm. Waits some
// milliseconds where a prompt is just being made; afterwards the world uses the
// old engine and model no more, and they may be closed.
//
// The error wraps ErrWorld; then nothing has changed.
func (w *World) SetModel(engine *llm.Engine, model llm.Model) error {
	if engine == nil || model == nil {
		return fmt.Errorf("%w: want an Engine and a Model", ErrWorld)
	}
	for _, t := range slices.Concat(w.active, w.waiting) {
		if t.kind != turnResume && slices.Contains(w.waiting, t) {
			continue
		}
		w.abandon(t, "another model")
		if !t.ended { // its last event would be the old engine's
			w.conclude(t, &llm.Event{Kind: llm.EventCancelled}, w.now)
		}
	}
	w.modelMu.Lock()
	w.cfg.Engine, w.cfg.Model, w.info = engine, model, model.Info()
	w.modelMu.Unlock()
	if w.anyActive {
		w.cfg.Active = activeFor(w.info)
	}
	for _, a := range w.agents {
		if a.broken != nil {
			a.broken.tokens = nil // Resume then comes back to it in new words
		}
	}
	return nil
}

// activeFor is how many turns are under way at one time by default: one sequence
// stays free for who is spoken to.
func activeFor(info llm.Info) int { return max(1, min(info.MaxSequences-1, maxActive)) }
