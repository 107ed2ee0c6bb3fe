package llmtest

import (
	"fmt"
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
)

func testCancelQueued(s *subject) {
	d := s.engine(llm.EngineConfig{})
	id := d.submit(llm.Request{Owner: "mira", Prompt: s.prompt(innkeeper("Hello")), MaxTokens: few})
	if !d.e.Cancel(id) {
		s.Error("Cancel of a queued request says it is not there")
	}
	if d.e.HasWork() {
		s.Error("a cancelled request is work")
	}
	d.poll()
	if o := d.outcome(id); o.last.Kind != llm.EventCancelled || o.last.Owner != "mira" {
		s.Errorf("%s of %q, want cancelled of mira", o.last.Kind, o.last.Owner)
	}
	if d.e.Cancel(id) || d.e.Cancel(0) || d.e.Cancel(id+1) {
		s.Error("Cancel of what is not there says it is")
	}
}

func testCancelPrefill(s *subject) { testCancelAfter(s, 2) }

func testCancelDecode(s *subject) {
	n := len(s.prompt(innkeeper("Who are you?")))
	testCancelAfter(s, (n+s.chunk()-1)/s.chunk()+2)
}

// testCancelAfter cancels after some steps and wants the next requests to be
// none the worse for it.
func testCancelAfter(s *subject, steps int) {
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Owner: "alone", Prompt: s.prompt(innkeeper("Who are you?")), MaxTokens: few}
	alone := d.reply(r)
	d.e.Forget(r.Owner)
	r.Owner = "mira"
	id := d.submit(r)
	for range steps {
		d.step()
	}
	if !d.e.Cancel(id) {
		s.Error("Cancel of a running request says it is not there")
	}
	d.step()
	cut := d.outcome(id)
	if cut.last.Kind != llm.EventCancelled {
		s.Errorf("%s, want cancelled", cut.last.Kind)
	}
	if want := min(steps*s.chunk(), len(r.Prompt)); cut.last.Usage.Prefilled != want {
		s.Errorf("cancelled after %d tokens of the prompt, want %d", cut.last.Usage.Prefilled, want)
	}
	again := d.reply(r)
	if u := again.last.Usage; s.m.Info().CanTruncate && u.Reused == 0 {
		s.Error("what was computed before Cancel was not reused")
	}
	if s.o.Exact && again.text != alone.text {
		s.Errorf("after Cancel the owner got %q, alone %q", again.text, alone.text)
	}
	r.Owner = "new"
	if fresh := d.reply(r); fresh.text != alone.text {
		s.Errorf("after Cancel another owner got %q, alone %q", fresh.text, alone.text)
	}
}

// worker starts a worker, which ends with the test.
func (d *desk) worker() *llm.Worker {
	d.Helper()
	w, err := llm.StartWorker(d.e, llm.WorkerConfig{
		Grant: func() llm.Grant { return llm.Grant{PrefillChunk: chunk} },
		Report: func(llm.Work) {
			select {
			case d.stepped <- struct{}{}:
			default: // one is pending, and shows all
			}
		},
	})
	d.must(err)
	d.Cleanup(w.Stop)
	return w
}

func testCancelConcurrently(s *subject) {
	d := s.engine(llm.EngineConfig{})
	d.worker()
	r := llm.Request{Prompt: s.prompt(innkeeper("Who are you?")), MaxTokens: few}
	want := d.untilLast(d.submit(r)).text
	for range 5 {
		id := d.submit(r)
		cancelled := d.e.Cancel(id) // false where the reply was faster
		if o := d.untilLast(id); (o.last.Kind == llm.EventCancelled) != cancelled {
			s.Errorf("Cancel says %v, but the last event is %s", cancelled, o.last.Kind)
		}
	}
	r.MaxTokens = s.m.Info().Context - len(r.Prompt)
	id := d.submit(r)
	if ev := d.until(id, func(ev llm.Event) bool { return ev.Kind == llm.EventText || last(ev) }); !last(ev) {
		d.e.Cancel(id)
	}
	d.untilLast(id)
	r.MaxTokens = few
	if got := d.untilLast(d.submit(r)); got.text != want {
		s.Errorf("after Cancel the reply is %q, before %q", got.text, want)
	}
}

// testCancelClosedGate: a cancel must not wait for the gate, whatever the
// worker is just doing.
func testCancelClosedGate(s *subject) {
	d := s.engine(llm.EngineConfig{})
	d.worker()
	s.m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	r := llm.Request{Prompt: s.prompt(innkeeper("Hello")), MaxTokens: few}
	for range 50 {
		id := d.submit(r)
		d.e.Cancel(id)
		if o := d.untilLast(id); o.last.Kind != llm.EventCancelled || o.last.Usage.Generated != 0 {
			s.Errorf("%s after %d tokens, want cancelled before the first", o.last.Kind, o.last.Usage.Generated)
		}
	}
	s.m.Gate().Publish(llm.Window{})
	d.untilLast(d.submit(r))
}

func (d *desk) untilLast(id llm.RequestID) outcome {
	d.Helper()
	d.until(id, last)
	return d.outcome(id)
}

// testOwnersTogether lets three talk at the same time.
func testOwnersTogether(s *subject) {
	d := s.engine(llm.EngineConfig{})
	var requests []llm.Request
	var alone []string
	for i, say := range []string{"Who are you?", "Is the bridge safe?", "What does a room cost?"} {
		r := llm.Request{Prompt: s.prompt(innkeeper(say)), MaxTokens: few + i}
		alone = append(alone, d.reply(r).text)
		r.Owner = say
		requests = append(requests, r)
	}
	var ids []llm.RequestID
	for _, r := range requests {
		ids = append(ids, d.submit(r))
	}
	shared := false
	for range maxSteps {
		if !d.e.HasWork() {
			break
		}
		w, err := d.e.Step(llm.Grant{}) // whole prompts, so that all three soon decode
		s.must(err)
		shared = shared || w.Stage == llm.Decode && w.Generated > 1
	}
	d.poll()
	for i, id := range ids {
		if o := d.outcome(id); o.last.Kind != llm.EventDone || s.o.Exact && o.text != alone[i] {
			s.Errorf("request %d: %s, said %q, alone %q", i, o.last.Kind, o.text, alone[i])
		}
	}
	if info := s.m.Info(); info.MaxSequences > 1 && info.MaxBatch >= 32 && !shared {
		s.Error("no batch was shared")
	}
}

func testManyOwners(s *subject) {
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Prompt: s.prompt(innkeeper("Hello")), MaxTokens: 2}
	want := d.reply(r).text
	var ids []llm.RequestID
	for i := range s.m.Info().MaxSequences + 2 {
		r.Owner = fmt.Sprint("owner ", i)
		ids = append(ids, d.submit(r))
	}
	d.drain()
	for i, id := range ids {
		if o := d.outcome(id); o.last.Kind != llm.EventDone || s.o.Exact && o.text != want {
			s.Errorf("owner %d: %s, said %q, want %q", i, o.last.Kind, o.text, want)
		}
	}
}

// testWorkers stops a worker in the middle of a reply; the next one goes on.
func testWorkers(s *subject) {
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Owner: "alone", Prompt: s.prompt(innkeeper("Who are you?")), MaxTokens: few}
	want := d.reply(r).text
	if _, err := llm.StartWorker(d.e, llm.WorkerConfig{OnThread: func() error { return llm.ErrRequest }}); err == nil {
		s.Error("StartWorker hides the error of OnThread")
	}
	r.Owner = "mira"
	w := d.worker()
	if _, err := llm.StartWorker(d.e, llm.WorkerConfig{}); err == nil {
		s.Error("an engine took two workers")
	}
	id := d.submit(r)
	d.until(id, func(ev llm.Event) bool { return ev.Kind == llm.EventText || last(ev) })
	w.Stop()
	d.worker()
	if o := d.untilLast(id); o.last.Kind != llm.EventDone || o.text != want {
		s.Errorf("after a change of workers: %s, %q; want %q", o.last.Kind, o.text, want)
	}
}

// testEngineClose closes the engine while its worker waits in a closed gate.
func testEngineClose(s *subject) {
	d := s.engine(llm.EngineConfig{})
	w := d.worker()
	s.m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	r := llm.Request{Prompt: s.prompt(innkeeper("Hello")), MaxTokens: few}
	a, b := d.submit(r), d.submit(r)
	d.e.Close()
	<-w.Done()
	d.poll()
	for _, id := range []llm.RequestID{a, b} {
		if o := d.outcome(id); o.last.Kind != llm.EventCancelled {
			s.Errorf("%s, want cancelled", o.last.Kind)
		}
	}
	_, err := d.e.Submit(r)
	s.wants("Submit after Close", err, llm.ErrClosed)
	_, err = d.e.Step(llm.Grant{})
	s.wants("Step after Close", err, llm.ErrClosed)
	s.m.Gate().Publish(llm.Window{})
	s.sequence(r.Prompt).Close() // the model is still there, and its sequences are free
}

// decodeElsewhere decodes one token in another goroutine.
func (s *subject) decodeElsewhere(q llm.Sequence, t llm.Token) <-chan error {
	done := make(chan error, 1)
	go func() {
		var b llm.Batch
		b.Add(q, t, true)
		_, err := s.m.Decode(&b, llm.Grant{})
		done <- err
	}()
	return done
}

func testStopClosedGate(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	q := s.sequence(p[:len(p)-1])
	want := slices.Clone(q.Tokens())
	s.m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	for range 3 {
		done := s.decodeElsewhere(q, p[len(p)-1])
		s.m.Stop()
		s.wants("Decode that was stopped", <-done, llm.ErrStopped)
		s.wants("Decode after Stop", <-s.decodeElsewhere(q, p[len(p)-1]), llm.ErrStopped)
		s.m.Resume()
		s.holds("after Stop", q, want)
	}
	s.m.Gate().Publish(llm.Window{})
	s.must(<-s.decodeElsewhere(q, p[len(p)-1]))
	got := s.greedy()
	q.Close()
	q = s.sequence(p[:len(p)-1])
	s.extend(q, p[len(p)-1:])
	if want := s.greedy(); got != want {
		s.Errorf("after a stop the next token is %d, without it %d", got, want)
	}
}

func testGateOpens(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	q := s.sequence(p[:len(p)-1])
	s.m.Gate().Publish(llm.Window{Mode: llm.GateClosed, LayersPerStop: 1})
	done := s.decodeElsewhere(q, p[len(p)-1])
	s.m.Gate().Publish(llm.Window{Mode: llm.GateFree})
	s.must(<-done)
	s.holds("after the gate opened", q, p)
}

func testTentative(s *subject) {
	p := s.prompt(innkeeper("Hello"))
	q := s.sequence(p[:len(p)-1])
	s.m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	b := llm.Batch{Tentative: true}
	b.Add(q, p[len(p)-1], true)
	w, err := s.m.Decode(&b, llm.Grant{})
	s.wants("a draft at a closed gate", err, llm.ErrStopped)
	if !w.Stopped || w.Tokens != 0 {
		s.Errorf("its work says stopped %v, %d tokens", w.Stopped, w.Tokens)
	}
	s.holds("after the draft was dropped", q, p[:len(p)-1])
}
