package npc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// recallLimit is how many memories are asked for a turn; the budget for notes
// takes the first of them that fit.
const recallLimit = 8

// maxThoughts is how many tokens a model that thinks may think before it speaks,
// on top of the persona's own: at 30 tokens a second, 17 s. What it says is still
// bounded: enough is asked at the latest every 2*maxSentence characters.
const maxThoughts = 512

// job is a prompt to be prepared. Prepare sees nothing of the world but this.
type job struct {
	turn  *turn // the game thread's
	in    PlanInput
	query Query // without an Agent: no memories are wanted

	// What came of it.
	plan     Plan
	recalled []Recalled
	err      error // no prompt could be made
	lost     error // memories could not be recalled; the turn goes on without
}

// Prepare makes the prompt of one turn that waits for one, memories recalled,
// and reports whether there was one. A World that is not Manual does so itself.
// Call from one goroutine at a time, which may be any.
func (w *World) Prepare() bool {
	select {
	case j := <-w.jobs:
		w.prepare(j)
		return true
	default:
		return false
	}
}

func (w *World) prepare(j *job) {
	if w.cfg.Memory != nil && j.query.Agent != "" {
		j.recalled, j.lost = w.recall(j.query)
		for _, r := range j.recalled {
			j.in.Notes = append(j.in.Notes, Note{Key: "memory " + r.ID, Text: "You remember: " + r.Text,
				From: noteMemory, Score: r.Score})
		}
	}
	w.modelMu.Lock()
	j.plan, j.err = MakePlan(w.cfg.Model, j.in)
	w.modelMu.Unlock()
	select {
	case w.done <- j:
	case <-w.quit:
	}
}

// recall asks the game's memory, whose panic is an error: nobody of the game is on
// this goroutine to catch it.
func (w *World) recall(q Query) (found []Recalled, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("npc: Memory.Recall panicked: %v", p)
		}
	}()
	return w.cfg.Memory.Recall(q)
}

// write is the goroutine that prepares.
func (w *World) write() {
	defer w.scribe.Done()
	for {
		select {
		case <-w.quit:
			return
		case j := <-w.jobs:
			w.prepare(j)
		}
	}
}

// begin hands a turn over to Prepare.
func (w *World) begin(t *turn, now int64) {
	a := t.agent
	in := PlanInput{Persona: a.persona, Lore: w.cfg.Lore, Rules: w.cfg.Rules, Summary: a.summary,
		History: slices.Clone(a.entries), Budget: DefaultPlanBudget(w.info, a.persona)}
	j := &job{turn: t}
	t.base, t.mark = a.dropped, a.dropped+len(a.entries)
	switch t.kind {
	case turnReply, turnCue:
		in.Notes = a.notes(w.facts, now)
		j.query = Query{Agent: a.id, Text: t.line, Limit: recallLimit, Now: now,
			Quick: w.phase.Guarded()}
	case turnResume:
		if a.broken == nil {
			w.fail(t, fmt.Errorf("%w: %s forgot what it was saying", ErrAgent, a.id))
			return
		}
		in.Go = a.broken.tokens
		in.History = in.History[:a.broken.at]
	case turnChoose:
		in.History = append(in.History, Entry{Kind: EntryNote, Text: t.line})
		in.Budget.Reply = maxCallTokens
	case turnSummary:
		in.History = append(in.History, Entry{Kind: EntryNote, Text: summaryCue})
		in.Budget.Reply = maxSummaryTokens
	}
	j.in = in
	t.job = j
	w.jobs <- j // has room: see schedule
}

// notes is what a character should know now, the newest first.
func (a *agent) notes(world []Fact, now int64) []Note {
	var out []Note
	for _, q := range slices.Backward(a.quests) {
		if f := q.fact(now); f.Text != "" {
			out = append(out, Note{Key: f.Key, Text: f.Text, From: "quest"})
		}
	}
	for _, facts := range [][]Fact{a.facts, world} {
		for _, f := range slices.Backward(facts) {
			if f.Valid(now) {
				out = append(out, Note{Key: "fact " + f.Key, Text: f.Text, From: "fact"})
			}
		}
	}
	return append(out, a.outdated(out)...)
}

// outdated tells of facts in the history that are true no more.
func (a *agent) outdated(valid []Note) []Note {
	var out []Note
	seen := map[string]bool{}
	for _, e := range slices.Backward(a.entries) {
		if e.Kind != EntryNote || e.Key == "" || seen[e.Key] || isMemory(e.Key) {
			continue
		}
		seen[e.Key] = true
		is := func(n Note) bool { return n.Key == e.Key }
		if !slices.ContainsFunc(valid, is) && !strings.HasPrefix(e.Text, noLonger) {
			out = append(out, Note{Key: e.Key, Text: noLonger + e.Text, From: "fact"})
		}
	}
	return out
}

const noLonger = "No longer true: "

func isMemory(key string) bool { return strings.HasPrefix(key, "memory ") }

// prepared takes a plan that is ready and hands it to the engine.
func (w *World) prepared(j *job, now int64) {
	t := j.turn
	if t.ended || t.closing != "" || t.job != j {
		return
	}
	t.record.fill(j)
	if j.err != nil {
		w.fail(t, j.err)
		return
	}
	if j.lost != nil {
		t.decide("no memories: %v", j.lost)
	}
	a := t.agent
	if j.plan.Prompt.DroppedTokens > 0 && t.kind != turnChoose && t.kind != turnSummary {
		w.emit(Event{Kind: EventOverflow, Agent: a.id, Turn: t.id, Tokens: j.plan.Prompt.DroppedTokens})
		t.decide("dropped %d entries of the history, %d tokens", j.plan.Dropped, j.plan.Prompt.DroppedTokens)
	}
	if t.kind == turnReply || t.kind == turnCue {
		w.settleNotes(t, j.plan)
	}
	const crowdedAt = 0.6 // of the room for history: half of it is then summarised, if a menu comes in time
	if j.plan.Full > crowdedAt && t.kind != turnSummary && !slices.Contains(w.crowded, a) {
		w.crowded = append(w.crowded, a)
	}
	w.submit(t, now)
}

// settleNotes puts the notes of a plan into the history, where they stand in
// the prompt, and drops what no prompt holds any more.
func (w *World) settleNotes(t *turn, p Plan) {
	a := t.agent
	since := a.dropped - t.base // what came meanwhile may have pushed some out
	a.drop(max(0, min(p.Dropped-since, t.place())))
	at := t.place()
	a.entries = append(withNotes(a.entries[:at:at], p.Notes), a.entries[at:]...)
	t.mark += len(p.Notes)
	a.drop(max(0, len(a.entries)-maxEntries))
}

// place is where among the entries the reply belongs.
func (t *turn) place() int { return max(0, min(t.mark-t.agent.dropped, len(t.agent.entries))) }

// submit makes the request of a turn that is prepared. Where the engine has no
// place now, the next Poll tries again.
func (w *World) submit(t *turn, now int64) {
	a, p := t.agent, t.job.plan.Prompt
	sampling := a.persona.Sampling
	a.said++
	sampling.Seed += w.cfg.Seed + a.said
	reply := t.job.in.Budget.Reply
	if t.speaks() && (w.thinks || p.OpensThought()) {
		reply += maxThoughts
	}
	r := llm.Request{Owner: string(a.id), Prompt: p.Tokens, Keep: p.Keep, Cuts: p.Cuts, Head: p.Keep,
		MaxTokens: reply, Stop: a.persona.StopStrings(), Sampling: sampling,
		Deadline: t.dueAt() + int64(engineGrace)}
	if t.player {
		r.Deadline = t.dueAt()
	}
	if w.urgent(t) {
		r.Priority = 1
	}
	if t.kind == turnChoose {
		r.Stop = nil
		r.Sampling.Grammar, r.Sampling.RepeatPenalty = t.grammar, 0 // a list repeats itself
	}
	id, err := w.cfg.Engine.Submit(r)
	switch {
	case err == nil:
		t.request = id
		t.job = nil
		t.record.Sampling = r.Sampling
		t.decide("submitted after %d ms with priority %d", (now-t.asked)/1e6, r.Priority)
		w.startSpeech(t)
	case errors.Is(err, llm.ErrQueueFull):
	default:
		w.fail(t, err)
	}
}

// startSpeech makes what follows what the model says.
func (w *World) startSpeech(t *turn) {
	a := t.agent
	if t.kind == turnChoose || t.kind == turnSummary {
		return
	}
	cfg := SpeechConfig{Name: a.persona.Name, Others: []string{w.cfg.Player}, Emotions: a.persona.Emotions,
		Thinking: t.record.Plan.Prompt.OpensThought()}
	for _, m := range a.scene.members {
		if m != a {
			cfg.Others = append(cfg.Others, m.persona.Name)
		}
	}
	cfg.Enough = func(sentence string) bool { return w.enough(t, sentence) }
	b := a.broken
	if t.kind == turnResume && b != nil { // it comes back as a whole
		t.resumed, t.mark, a.broken = b.raw, a.dropped+b.at, nil
		a.entries = slices.Delete(a.entries, b.at, b.at+1)
	}
	cfg.Before = a.saidBefore()
	t.speech = NewSpeech(cfg)
	if a.blocked != nil {
		t.guard = newGuard(a.blocked)
	}
	w.repeatResumed(t)
}

// repeatResumed takes in what was said before an interruption, which was heard
// then.
func (w *World) repeatResumed(t *turn) {
	pieces := t.speech.Add(nil, t.resumed)
	t.before = len(t.speech.Text())
	if t.guard != nil {
		pieces = t.guard.pass(nil, pieces)
	}
	if !w.guarded(t) {
		return
	}
	for _, p := range pieces {
		t.noteSaid(&p)
	}
	t.before = len(t.said)
}

// enough counts a whole sentence, and reports whether another one would hardly
// fit into what the persona may say at one time.
func (w *World) enough(t *turn, sentence string) bool {
	tokens, err := w.cfg.Model.Tokenize(w.tokens[:0], sentence, false)
	if err != nil {
		return false // the engine's own limit ends it
	}
	w.tokens = tokens
	t.spent += len(tokens)
	limit := t.agent.persona.MaxTokens
	return t.spent >= limit-limit/4
}

// saidBefore are the sentences of a character's last replies.
func (a *agent) saidBefore() []string {
	const replies = 3 // further back, people do say the same again
	var out []string
	n := 0
	for _, e := range slices.Backward(a.entries) {
		if e.Kind != EntryOwn {
			continue
		}
		if n++; n > replies {
			break
		}
		var s Sentences
		out = s.End(s.Add(out, e.Text))
	}
	return out
}
