package llm

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// stepState is what Step keeps from one call to the next, so that a decoded
// token allocates nothing.
type stepState struct {
	live    []*request // queued and active ones, best first
	group   []*request // those to advance now, each with a sequence
	members []*request // those in batch
	rows    []*request // whose token each row of logits chooses
	batch   Batch

	drafts    []Token // candidates in batch
	chosen    []Token // what came of them
	reply     Reply   // what the speculator was asked about
	guessing  bool    // it was asked
	plainOnce bool    // the candidates had no room in the cache: go on without
	noUndo    bool    // the cache cannot take candidates back

	chunkLimit int    // tokens of a prompt in one batch, after stops
	decoded    bool   // the last batch held no prompt
	count      uint64 // steps: the time by which sequences grow old
	piece      []byte
	delta      []byte
}

// Step advances the best requests by one batch at most and says what that took.
// A batch that was stopped is no error: it is tried again. An error is that of
// the model, after the requests of the batch got their EventFailed, and the
// engine goes on; or ErrClosed. Call from one goroutine at a time.
func (e *Engine) Step(g Grant) (Work, error) {
	e.stepMu.Lock()
	defer e.stepMu.Unlock()
	// Resume comes before every look at closed, halted and the cancelled: who
	// sets one of them stops the model afterwards, so a stop is never lost.
	e.overtaken.Store(false)
	e.resumeModels()
	if e.closed.Load() {
		return Work{}, fmt.Errorf("llm: step: %w", ErrClosed)
	}
	e.step.count++
	e.sweep()
	e.choose()
	if len(e.step.group) == 0 {
		return Work{}, nil
	}
	stage := e.fill(g)
	for _, r := range e.step.members {
		r.entry.running.Store(true)
	}
	e.runs.Store(int64(e.step.members[0].Priority))
	var w Work
	err := ErrStopped
	if !e.interrupted() {
		w, stage, err = e.run(stage, g)
	}
	e.runs.Store(noBatch)
	for _, r := range e.step.members {
		r.entry.running.Store(false)
	}
	w.Stage, w.Request = stage, e.step.members[0].id
	if stage == Draft {
		return w, nil
	}
	return w, e.settle(&w, err)
}

// run computes the batch, or one of the draft model before it.
func (e *Engine) run(stage Stage, g Grant) (Work, Stage, error) {
	past := 0
	for _, r := range e.step.members {
		past += len(r.slot.seq.Tokens())
	}
	if e.mayGuess(stage) {
		if w, drafted := e.guess(g); drafted {
			w.Past = past
			return w, Draft, nil
		}
		if len(e.step.drafts) > 0 {
			stage = Verify
		}
	}
	w, err := e.model.Decode(&e.step.batch, g)
	w.Past = past
	return w, stage, err
}

// interrupted reports whether somebody wants the batch to end, so that being
// stopped says nothing of its size.
func (e *Engine) interrupted() bool {
	return e.closed.Load() || e.halted.Load() || e.overtaken.Load() ||
		slices.ContainsFunc(e.step.members, func(r *request) bool { return r.entry.state() == cancelling })
}

// sweep ends what was cancelled, drops what was forgotten, and lists the rest.
func (e *Engine) sweep() {
	st := &e.step
	st.live = st.live[:0]
	for i := range e.table {
		switch r, state := e.table[i].look(); state {
		case cancelling:
			e.finish(r, Event{Kind: EventCancelled})
		case queued, active:
			st.live = append(st.live, r)
		}
	}
	for _, r := range st.live {
		if p := r.promoted.Load(); p != nil {
			r.Priority = *p
		}
	}
	slices.SortFunc(st.live, before)
	for i := range e.slots {
		if s := &e.slots[i]; s.user == nil && s.forget.Load() {
			e.forgotten(s)
		}
	}
}

// choose fills group with up to together requests of the best priority.
func (e *Engine) choose() {
	st := &e.step
	st.group = st.group[:0]
	priority := 0
	for _, r := range st.live {
		// A waiting request lends its rank to the one in its way, so priority
		// is that of r, not of the holder.
		if len(st.group) == e.together || len(st.group) > 0 && r.Priority < priority {
			break
		}
		c := e.holder(r)
		if c.over || c.parked || slices.Contains(st.group, c) {
			continue
		}
		if e.ready(c, len(st.group) == 0) {
			if len(st.group) == 0 {
				priority = r.Priority
			}
			st.group = append(st.group, c)
		}
	}
}

// holder is the request that must end before r can begin: one of its owner
// that has begun, or else r itself.
func (e *Engine) holder(r *request) *request {
	if r.Owner == "" || r.started {
		return r
	}
	for _, o := range e.step.live {
		if o.started && !o.over && o.Owner == r.Owner {
			return o
		}
	}
	return r
}

// ready begins r where it has not, and sees that it has a sequence whose ledger
// is the head of r.all.
func (e *Engine) ready(r *request, best bool) bool {
	if !r.started && !e.begin(r) {
		return false
	}
	if r.slot == nil && !e.acquire(r, best) {
		return false
	}
	if n := r.missing(); n < 1 {
		r.slot.close()
		e.fail(r, fmt.Errorf("llm: owner %q: the model's ledger is wrong: it holds %d tokens, want fewer than %d",
			r.Owner, len(r.all)-n, len(r.all)))
		return false
	}
	return true
}

func (r *request) missing() int { return len(r.all) - len(r.slot.seq.Tokens()) }

// begin takes r from the queue.
func (e *Engine) begin(r *request) bool {
	if !r.entry.move(r.id, queued, active) {
		return false // cancelled a moment ago
	}
	r.started = true
	if !e.fit(r) {
		return false
	}
	r.prompt, r.usage.Prompt = len(r.all), len(r.all)
	r.ends = make([]int, 0, r.MaxTokens)
	r.text = NewText(r.Stop)
	var err error
	if r.sampler, err = e.model.NewSampler(r.Sampling); err != nil {
		e.fail(r, fmt.Errorf("llm: make a sampler: %w", err))
		return false
	}
	return e.constrain(r)
}

// fit makes r.all the prompt, without the oldest stretches where it would not
// leave room for the reply.
func (e *Engine) fit(r *request) bool {
	over := len(r.Prompt) + min(r.MaxTokens, e.info.Context+1) - e.info.Context // min: no overflow of int
	n := 0                                                                      // stretches to drop
	for rest := over; rest > 0; n++ {
		if n+1 >= len(r.Cuts) {
			e.fail(r, fmt.Errorf("%w: prompt of %d tokens (%d of them must stay), reply of %d, context %d: shorten one",
				ErrContextFull, len(r.Prompt), len(r.Prompt)-r.droppable(), r.MaxTokens, e.info.Context))
			return false
		}
		rest -= r.Cuts[n+1] - r.Cuts[n]
	}
	r.all = make([]Token, 0, len(r.Prompt)+r.MaxTokens)
	if n == 0 {
		r.all = append(r.all, r.Prompt...)
		return true
	}
	drop := r.Cuts[n] - r.Cuts[0]
	e.out.put(Event{Request: r.id, Kind: EventOverflow, Owner: r.Owner, Tokens: drop}, nil)
	r.all = append(append(r.all, r.Prompt[:r.Cuts[0]]...), r.Prompt[r.Cuts[n]:]...)
	return true
}

func (r *request) droppable() int {
	if len(r.Cuts) < 2 {
		return 0
	}
	return r.Cuts[len(r.Cuts)-1] - r.Cuts[0]
}

// fill makes the batch: a chunk of one prompt, or a row for each reply.
func (e *Engine) fill(g Grant) Stage {
	st := &e.step
	st.batch.Reset()
	st.members, st.rows = st.members[:0], st.rows[:0]
	st.drafts, st.guessing = st.drafts[:0], false
	var prompt *request
	for _, r := range st.group {
		if r.missing() > 1 && prompt == nil {
			prompt = r
		}
		if r.missing() == 1 && len(st.members) < e.info.MaxBatch {
			st.members = append(st.members, r)
		}
	}
	// A prompt that is not the best one takes turns with the replies, so that
	// neither waits for the whole of the other.
	if prompt != nil && (prompt == st.group[0] || len(st.members) == 0 || st.decoded) {
		st.decoded = false
		st.members = append(st.members[:0], prompt)
		e.fillChunk(prompt, g)
		return Prefill
	}
	st.decoded = true
	for _, r := range st.members {
		st.batch.Add(r.slot.seq, r.all[len(r.all)-1], true)
		st.rows = append(st.rows, r)
	}
	return Decode
}

func (e *Engine) fillChunk(r *request, g Grant) {
	st := &e.step
	chunk := min(st.chunkLimit, r.missing())
	if g.PrefillChunk > 0 {
		chunk = min(chunk, g.PrefillChunk)
	}
	from := len(r.all) - r.missing()
	chunk = r.toHead(from, chunk)
	last := from + chunk - 1
	for i := from; i <= last; i++ {
		st.batch.Add(r.slot.seq, r.all[i], i == len(r.all)-1)
	}
	if last == len(r.all)-1 {
		st.rows = append(st.rows, r)
	}
}

// settle takes what Decode said to the requests of the batch.
func (e *Engine) settle(w *Work, err error) error {
	st := &e.step
	switch {
	case err == nil:
		w.Tokens = len(st.batch.Entries)
		if w.Stage == Prefill && w.Tokens >= st.chunkLimit {
			st.chunkLimit = min(2*st.chunkLimit, e.info.MaxBatch)
		}
		for _, r := range st.members {
			e.countPrompt(r)
			e.keepHead(r)
		}
		e.advance(w)
		return nil
	case errors.Is(err, ErrStopped):
		w.Stopped = true
		if w.Stage == Prefill && !e.interrupted() {
			st.chunkLimit = max(1, len(st.batch.Entries)/2)
		}
		return nil
	case errors.Is(err, ErrContextFull) && len(st.drafts) > 0:
		st.plainOnce = true // nobody else's sequence goes for a guess
		return nil
	case errors.Is(err, ErrContextFull) && e.makeRoom():
		return nil
	}
	for _, r := range st.members {
		if errors.Is(err, ErrContextFull) && len(r.ends) > 0 {
			r.slot.close()
			e.complete(r, DoneContext)
			continue
		}
		r.slot.close() // what it holds after an error is not known
		e.fail(r, fmt.Errorf("llm: %s of %d tokens for owner %q: %w", w.Stage, len(st.batch.Entries), r.Owner, err))
	}
	return err
}

// countPrompt notes how much of the prompt is in the cache for the first time.
func (e *Engine) countPrompt(r *request) {
	n := min(len(r.slot.seq.Tokens()), r.prompt)
	if n > r.primed {
		r.usage.Prefilled += n - r.primed
		r.primed = n
	}
}

// advance chooses the next tokens from the rows of logits.
func (e *Engine) advance(w *Work) {
	st := &e.step
	if st.guessing {
		r := st.rows[0]
		before := r.usage.Generated
		e.judge(r, w)
		w.Generated = r.usage.Generated - before
		return
	}
	for i, r := range st.rows {
		t, err := e.sample(r, i)
		if err != nil {
			e.fail(r, err)
			continue
		}
		e.take(r, t)
		w.Generated++
	}
}

// sample chooses a token of r from a row of logits.
func (e *Engine) sample(r *request, row int) (Token, error) {
	t, err := r.sampler.Sample(row)
	if err == nil && (t < 0 || int(t) >= e.info.Vocab) {
		err = fmt.Errorf("token %d is not in [0, %d)", t, e.info.Vocab)
	}
	if err != nil {
		return 0, fmt.Errorf("llm: choose a token for owner %q: %w", r.Owner, err)
	}
	return t, nil
}

// take adds a token that was chosen to the reply of r, and ends it where that
// was the last.
func (e *Engine) take(r *request, t Token) {
	if r.usage.Generated == 0 {
		r.usage.TTFT = e.since(r.submitted)
	}
	r.usage.Generated++
	if e.model.IsEnd(t) {
		if e.mayEnd(r) {
			e.complete(r, DoneEnd)
		}
		return
	}
	if e.follow(r, t) {
		e.add(r, t)
	}
	if !r.over {
		e.force(r)
	}
}

// add appends a token to the reply of r, and ends it where that was the last.
func (e *Engine) add(r *request, t Token) {
	r.all = append(r.all, t)
	st := &e.step
	st.piece = e.model.AppendPiece(st.piece[:0], t)
	var stopped bool
	st.delta, stopped = r.text.Add(st.delta[:0], st.piece)
	if r.text.Partial() {
		r.ends = append(r.ends, -1)
	} else {
		r.ends = append(r.ends, r.text.Produced())
	}
	e.say(r, st.delta)
	switch {
	case stopped:
		e.complete(r, DoneStop)
	case r.grammar != nil && r.grammar.Finished():
		e.complete(r, DoneEnd)
	case len(r.ends) >= r.MaxTokens:
		e.complete(r, DoneLength)
	case len(r.all) > e.info.Context:
		e.complete(r, DoneContext)
	}
}

func (e *Engine) say(r *request, delta []byte) {
	begin := r.reply.Len()
	r.reply.Write(delta)
	e.out.putText(r, begin)
}

// complete ends a reply well: what was held back for a stop string is given
// out. A character that the model left half said is an error of the model and
// becomes U+FFFD; one that MaxTokens cut in half is not shown.
func (e *Engine) complete(r *request, why DoneReason) {
	if why != DoneStop {
		if why != DoneEnd {
			r.text.DropPartial()
		}
		rest, stopped := r.text.Flush(e.step.delta[:0])
		if stopped {
			why = DoneStop
		}
		e.say(r, rest)
	}
	e.finish(r, Event{Kind: EventDone, Reason: why})
}

func (e *Engine) fail(r *request, err error) { e.finish(r, Event{Kind: EventFailed, Err: err}) }

// finish gives out the last event of r and lets go of what it used.
func (e *Engine) finish(r *request, ev Event) {
	r.over = true
	if r.slot != nil {
		r.slot.leave(e.step.count)
	}
	if r.sampler != nil {
		r.sampler.Close()
	}
	for _, o := range e.step.live {
		o.parked = false
	}
	if !r.entry.move(r.id, active, ending) { // cancelled meanwhile
		if ev.Kind == EventDone {
			ev = Event{Kind: EventCancelled}
		}
		r.entry.set(r.id, ending)
	}
	ev.Request, ev.Owner = r.id, r.Owner
	if ev.Kind != EventFailed {
		r.usage.Total = e.since(r.submitted)
		ev.Usage, ev.Reply = r.usage, e.replyTokens(r)
	}
	e.out.put(ev, r.entry)
	r.entry.move(r.id, ending, ended) // in vain where Poll was faster
}

// replyTokens returns the tokens of the text given out: those that were chosen
// as far as they are whole in it, and the rest of the text tokenised.
func (e *Engine) replyTokens(r *request) []Token {
	given, n, done := r.reply.Len(), len(r.ends), 0
	for n > 0 && (r.ends[n-1] < 0 || r.ends[n-1] > given) {
		n--
	}
	if n > 0 {
		done = r.ends[n-1]
	}
	tokens := slices.Clone(r.all[r.prompt : r.prompt+n])
	if done == given {
		return tokens
	}
	// A rest that cannot be tokenised is left out: then the next prompt, made
	// of the text, matches the cache for a few tokens less.
	if whole, err := e.model.Tokenize(tokens, r.reply.String()[done:], false); err == nil {
		return whole
	}
	return tokens
}

func (e *Engine) since(t int64) time.Duration { return time.Duration(e.clock.Now() - t) }
