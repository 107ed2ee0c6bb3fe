package npc

import (
	"fmt"
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

// SetModel has the characters talk through another engine and model from now
// on: a larger one in a menu, a smaller one when memory is short. Who is heard is
// interrupted, in the middle of the sentence if need be; who was asked and is not
// heard yet answers with the new model. What was lived through stays: of histories only
// the text is used, as tokens of another model do no harm. Waits some
// milliseconds where a prompt is just being made; afterwards the world uses the
// old engine and model no more, and they may be closed.
//
// The error wraps ErrWorld; then nothing has changed.
func (w *World) SetModel(engine *llm.Engine, model llm.Model) error {
	if engine == nil || model == nil {
		return fmt.Errorf("%w: want an Engine and a Model", ErrWorld)
	}
	switch {
	case w.closed:
		return errWorldClosed
	case engine != w.cfg.Engine && !engine.Claim():
		return fmt.Errorf("%w: another world polls that engine", ErrWorld)
	}
	for _, t := range slices.Concat(w.active, w.waiting) {
		if t.kind != turnResume && slices.Contains(w.waiting, t) || w.again(t) {
			continue
		}
		w.abandon(t, "another model")
		if !t.ended { // its last event would be the old engine's
			w.conclude(t, &llm.Event{Kind: llm.EventCancelled}, w.now)
		}
	}
	if engine != w.cfg.Engine {
		w.cfg.Engine.Release()
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

// again puts a turn that is not heard yet back among those that wait, and reports
// whether it could.
func (w *World) again(t *turn) bool {
	if t.kind != turnReply && t.kind != turnCue || t.closing != "" || t.final != nil ||
		t.speech != nil && (w.heardOf(t) != "" || len(t.held) > 0) {
		return false
	}
	if t.request != 0 {
		w.cfg.Engine.Cancel(t.request)
	}
	t.request, t.job, t.speech, t.guard = 0, nil, nil, nil
	t.decide("begins again with another model")
	w.active = slices.DeleteFunc(w.active, func(o *turn) bool { return o == t })
	w.waiting = append(w.waiting, t)
	return true
}

// activeFor is how many turns are under way at one time by default: one sequence
// stays free for who is spoken to.
func activeFor(info llm.Info) int { return max(1, min(info.MaxSequences-1, maxActive)) }
