package llmtest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
)

// maxSteps is more than any test here needs: an engine that makes no progress
// fails instead of hanging.
const maxSteps = 100_000

// chunk is the PrefillChunk of all tests: small enough that every prompt takes
// several.
const chunk = 8

// subject is the model under test, in one test.
type subject struct {
	*testing.T
	o Options
	m llm.Model
}

// innkeeper is the conversation that most tests begin with.
func innkeeper(say string) []llm.Turn {
	return []llm.Turn{
		{Role: llm.System, Text: "You are Mira, who keeps the inn at the old bridge. Answer in one sentence."},
		{Role: llm.User, Text: say},
	}
}

// chunk is how many tokens of a prompt go into one batch here.
func (s *subject) chunk() int { return min(chunk, s.m.Info().MaxBatch) }

func (s *subject) prompt(turns []llm.Turn) []llm.Token {
	s.Helper()
	p, _ := s.promptAndStarts(turns)
	return p
}

func (s *subject) promptAndStarts(turns []llm.Turn) ([]llm.Token, []int) {
	s.Helper()
	segments, err := s.m.RenderChat(turns, true)
	if err != nil {
		s.Fatalf("RenderChat: %v", err)
	}
	p, starts, err := llm.TokenizeChat(s.m, segments)
	if err != nil {
		s.Fatal(err)
	}
	return p, starts
}

// text joins the pieces of tokens.
func (s *subject) text(tokens []llm.Token) string {
	var b []byte
	for _, t := range tokens {
		b = s.m.AppendPiece(b, t)
	}
	return string(b)
}

// must fails the test on an error of something that should work.
func (s *subject) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// wants fails the test unless err wraps target.
func (s *subject) wants(what string, err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// desk is an engine and what it said.
type desk struct {
	*subject
	e        *llm.Engine
	events   []llm.Event
	polled   []llm.Event
	prefills int // tokens of all prefill steps

	stepped chan struct{} // capacity 1: a worker has done a step
}

func (s *subject) engine(cfg llm.EngineConfig) *desk {
	s.Helper()
	e, err := llm.NewEngine(s.m, cfg)
	s.must(err)
	s.Cleanup(e.Close)
	return &desk{subject: s, e: e, stepped: make(chan struct{}, 1)}
}

func (d *desk) submit(r llm.Request) llm.RequestID {
	d.Helper()
	id, err := d.e.Submit(r)
	d.must(err)
	return id
}

// poll takes new events in and returns them. They are valid until the next poll.
func (d *desk) poll() []llm.Event {
	d.polled = d.e.Poll(d.polled[:0])
	d.events = append(d.events, d.polled...)
	return d.polled
}

func (d *desk) step() llm.Work {
	d.Helper()
	w, err := d.e.Step(llm.Grant{PrefillChunk: chunk})
	d.must(err)
	if w.Stage == llm.Prefill {
		d.prefills += w.Tokens
	}
	d.poll()
	return w
}

// drain steps until nothing is left to do.
func (d *desk) drain() {
	d.Helper()
	for range maxSteps {
		if !d.e.HasWork() {
			d.poll()
			return
		}
		d.step()
	}
	d.Fatalf("still working after %d steps", maxSteps)
}

// until polls after each step of a worker until the request has an event that
// is wanted. It does not spin: the worker may run at the lowest priority.
func (d *desk) until(id llm.RequestID, want func(llm.Event) bool) llm.Event {
	seen := 0
	for {
		for ; seen < len(d.events); seen++ {
			if ev := d.events[seen]; ev.Request == id && want(ev) {
				return ev
			}
		}
		if len(d.poll()) == 0 {
			<-d.stepped
		}
	}
}

func last(ev llm.Event) bool {
	return ev.Kind == llm.EventDone || ev.Kind == llm.EventCancelled || ev.Kind == llm.EventFailed
}

// outcome is what one request gave.
type outcome struct {
	text  string
	kinds []llm.EventKind
	last  llm.Event
}

// outcome gathers the events of a request that has ended, and checks what holds
// for all.
func (d *desk) outcome(id llm.RequestID) outcome {
	d.Helper()
	var o outcome
	ends := 0
	for _, ev := range d.events {
		if ev.Request != id {
			continue
		}
		if ends > 0 {
			d.Errorf("request %d: %s after its last event", id, ev.Kind)
		}
		if !utf8.ValidString(ev.Text) {
			d.Errorf("request %d: delta %+q is not whole UTF-8", id, ev.Text)
		}
		o.text += ev.Text
		o.kinds = append(o.kinds, ev.Kind)
		if last(ev) {
			o.last = ev
			ends++
		}
	}
	if ends != 1 {
		d.Fatalf("request %d has %d last events among %v, want 1", id, ends, o.kinds)
	}
	if o.last.Kind == llm.EventFailed {
		return o
	}
	if got := llm.ValidText(d.subject.text(o.last.Reply)); got != o.text {
		d.Errorf("request %d: the tokens of the reply say %+q, the events said %+q", id, got, o.text)
	}
	if u := o.last.Usage; o.last.Kind == llm.EventDone && u.Reused+u.Prefilled != u.Prompt {
		d.Errorf("request %d: %d reused + %d prefilled tokens, want %d", id, u.Reused, u.Prefilled, u.Prompt)
	}
	return o
}

// reply submits, steps until all is done, and wants it done well.
func (d *desk) reply(r llm.Request) outcome {
	d.Helper()
	o := d.run(r)
	if o.last.Kind != llm.EventDone {
		d.Fatalf("%s: %v, want done", o.last.Kind, o.last.Err)
	}
	return o
}

func (d *desk) run(r llm.Request) outcome {
	d.Helper()
	id := d.submit(r)
	d.drain()
	return d.outcome(id)
}

// sequence opens a sequence that holds tokens, computed in one or more batches,
// the last token with logits.
func (s *subject) sequence(tokens []llm.Token) llm.Sequence {
	s.Helper()
	q, err := s.m.NewSequence()
	s.must(err)
	s.extend(q, tokens)
	return q
}

func (s *subject) extend(q llm.Sequence, tokens []llm.Token) {
	s.Helper()
	var b llm.Batch
	for part := range slices.Chunk(tokens, s.chunk()) {
		b.Reset()
		for i, t := range part {
			b.Add(q, t, i == len(part)-1)
		}
		w, err := s.m.Decode(&b, llm.Grant{})
		s.must(err)
		if w.Tokens != len(part) || w.Stopped {
			s.Errorf("Decode of %d tokens: kept %d, stopped %v", len(part), w.Tokens, w.Stopped)
		}
	}
}

// greedy is the best token of the last row.
func (s *subject) greedy() llm.Token {
	s.Helper()
	p, err := s.m.NewSampler(llm.Sampling{})
	s.must(err)
	defer p.Close()
	t, err := p.Sample(0)
	s.must(err)
	return t
}

// holds fails the test unless the ledger of q is want.
func (s *subject) holds(what string, q llm.Sequence, want []llm.Token) {
	s.Helper()
	if got := q.Tokens(); !slices.Equal(got, want) {
		s.Errorf("%s: the ledger holds %d tokens %v, want %d %v", what, len(got), got, len(want), want)
	}
}

// middle returns a part of text, from its second character on, whose first
// occurrence is not at the beginning.
func middle(text string) (string, bool) {
	runes := []rune(text)
	for i := 1; i+2 <= len(runes); i++ {
		if part := string(runes[i : i+2]); strings.Index(text, part) > 0 {
			return part, true
		}
	}
	return "", false
}
