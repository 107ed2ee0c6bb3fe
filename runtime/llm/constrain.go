package llm

import (
	"fmt"

	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

// maxForced bounds how much text is forced at one time, in bytes. A call of a
// game's action has some dozens.
const maxForced = 512

// constrain begins to follow the grammar of r. What it forces at once becomes
// part of the first batches, behind the prompt.
func (e *Engine) constrain(r *request) bool {
	if r.Sampling.Grammar == "" {
		return true
	}
	g, err := gbnf.Parse(r.Sampling.Grammar)
	if err != nil {
		e.fail(r, fmt.Errorf("%w: Sampling.Grammar: %w", ErrRequest, err))
		return false
	}
	r.grammar = g.Start()
	e.force(r)
	return !r.over
}

// follow moves r on in its grammar. A model whose sampler heeds the grammar
// never leaves it; one that ignores it fails here, so that nobody acts on a
// reply that was not allowed.
func (e *Engine) follow(r *request, t Token) bool {
	if r.grammar == nil {
		return true
	}
	next, ok := r.grammar.Next(e.model.AppendPiece(nil, t))
	if !ok {
		e.fail(r, fmt.Errorf("llm: owner %q: the model said token %d after %q, which Sampling.Grammar does not allow: "+
			"its sampler does not heed grammars", r.Owner, t, r.reply.String()))
		return false
	}
	r.grammar = next
	return true
}

// mayEnd reports whether the grammar lets the reply end, and fails it if not.
func (e *Engine) mayEnd(r *request) bool {
	if r.grammar == nil || r.grammar.Complete() {
		return true
	}
	e.fail(r, fmt.Errorf("llm: owner %q: the model ended the reply after %q, which Sampling.Grammar does not allow: "+
		"its sampler does not heed grammars", r.Owner, r.reply.String()))
	return false
}

// force appends what the grammar leaves no choice about. The last of these
// tokens is left to the model where something may follow it, because the two
// might be one token together; at the end of the grammar there is nothing.
func (e *Engine) force(r *request) {
	if r.grammar == nil {
		return
	}
	text := r.grammar.Forced(maxForced)
	if text == "" {
		return
	}
	tokens, err := e.model.Tokenize(nil, text, false)
	if err != nil || !e.spells(tokens, text) {
		return // then the model says it, token by token
	}
	if end, ok := r.grammar.Next([]byte(text)); !ok || !end.Finished() {
		tokens = tokens[:max(0, len(tokens)-1)]
	}
	room := min(r.MaxTokens-len(r.ends)-1, len(tokens))
	for _, t := range tokens[:max(0, room)] {
		r.sampler.Accept(t)
		r.usage.Forced++
		if !e.follow(r, t) {
			return
		}
		if e.add(r, t); r.over {
			return
		}
	}
}

// spells reports whether tokens are exactly text: some vocabularies begin with
// a blank that is not there.
func (e *Engine) spells(tokens []Token, text string) bool {
	var spelled []byte
	for _, t := range tokens {
		spelled = e.model.AppendPiece(spelled, t)
	}
	return string(spelled) == text
}
