package llm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// Places in a step where something else may happen at the same time.
const (
	beforeResume = "before Resume"
	afterResume  = "after Resume"
	inDecode     = "in Decode"
)

// hooked is a scripted model that does something once, at one place of a step.
type hooked struct {
	*scripted.Model
	at      string
	do      func()
	stopped chan struct{} // receives each Stop
}

func (h *hooked) hit(at string) {
	if h.at == at {
		h.at = ""
		h.do()
	}
}

func (h *hooked) Resume() {
	h.hit(beforeResume)
	h.Model.Resume()
	h.hit(afterResume)
}

func (h *hooked) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	h.hit(inDecode)
	return h.Model.Decode(b, g)
}

func (h *hooked) Stop() {
	h.Model.Stop()
	select {
	case h.stopped <- struct{}{}:
	default:
	}
}

// opens is when the closed gate of these tests opens again, in virtual time: an
// interrupt that got lost waits until then, instead of for ever.
const opens = int64(time.Second)

// atClosedGate returns an engine with a reply begun and the gate closed.
func atClosedGate(t *testing.T) (*stage, *hooked, *scripted.Clock, llm.RequestID) {
	clock := scripted.NewClock(0)
	h := &hooked{
		Model:   newModel(t, scripted.Config{Clock: clock, Script: scripted.Echo}),
		stopped: make(chan struct{}, 1),
	}
	s := newStage(t, h, llm.EngineConfig{Clock: clock})
	id := s.submit(llm.Request{Owner: "mira", Prompt: prompt(t, h, "hello there")})
	for range 3 {
		if err := s.step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	h.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	clock.At(opens, func() { h.Gate().Publish(llm.Window{}) })
	return s, h, clock, id
}

func TestCancelIsNeverLost(t *testing.T) {
	for _, at := range []string{beforeResume, afterResume, inDecode} {
		t.Run(at, func(t *testing.T) {
			s, h, clock, id := atClosedGate(t)
			h.at, h.do = at, func() {
				if !s.e.Cancel(id) {
					t.Error("Cancel says the request is not there")
				}
			}
			if err := s.step(llm.Grant{}); err != nil {
				t.Fatal(err)
			}
			if now := clock.Now(); now >= opens {
				t.Errorf("the step came back at %d, when the gate opened", now)
			}
			s.drain(llm.Grant{})
			if _, ev := s.ending(id); ev.Kind != llm.EventCancelled {
				t.Errorf("%s, want cancelled", ev.Kind)
			}
		})
	}
}

// A request of higher priority does not wait for a batch that runs; one of the
// same priority does.
func TestHigherPriorityOvertakes(t *testing.T) {
	for _, c := range []struct {
		priority int
		waits    bool
	}{{0, true}, {5, false}} {
		s, h, clock, first := atClosedGate(t)
		var second llm.RequestID
		h.at, h.do = inDecode, func() {
			second = s.submit(llm.Request{Owner: "player", Priority: c.priority, Prompt: prompt(t, h, "a word")})
		}
		if err := s.step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
		if waited := clock.Now() >= opens; waited != c.waits {
			t.Errorf("priority %d: the running batch came back at %d", c.priority, clock.Now())
		}
		h.Gate().Publish(llm.Window{})
		s.drain(llm.Grant{})
		s.wantText(first, "hello there", llm.DoneEnd)
		s.wantText(second, "a word", llm.DoneEnd)
	}
}

func TestCloseIsNeverLost(t *testing.T) {
	for _, at := range []string{beforeResume, afterResume, inDecode} {
		t.Run(at, func(t *testing.T) {
			s, h, clock, id := atClosedGate(t)
			closed := make(chan struct{})
			h.at, h.do = at, func() {
				go func() { s.e.Close(); close(closed) }()
				<-h.stopped
			}
			s.step(llm.Grant{}) // done, or ErrClosed where it came to that
			<-closed
			if now := clock.Now(); now >= opens {
				t.Errorf("the step came back at %d, when the gate opened", now)
			}
			s.events = s.e.Poll(s.events)
			if _, ev := s.ending(id); ev.Kind != llm.EventCancelled {
				t.Errorf("%s, want cancelled", ev.Kind)
			}
		})
	}
}

func TestWorkerStopIsNeverLost(t *testing.T) {
	for _, at := range []string{beforeResume, afterResume, inDecode} {
		t.Run(at, func(t *testing.T) {
			s, h, clock, id := atClosedGate(t)
			started := make(chan *llm.Worker, 1)
			ended := make(chan struct{})
			h.at, h.do = at, func() {
				w := <-started
				go func() { w.Stop(); close(ended) }()
				<-h.stopped
			}
			w, err := llm.StartWorker(s.e, llm.WorkerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			started <- w
			<-ended
			if now := clock.Now(); now >= opens {
				t.Errorf("the worker ended at %d, when the gate opened", now)
			}
			h.Gate().Publish(llm.Window{})
			s.drain(llm.Grant{})
			s.wantText(id, "hello there", llm.DoneEnd)
		})
	}
}

// canceller cancels the request while the model chooses its end token.
type canceller struct {
	*scripted.Model
	atEnd func()
}

type cancellingSampler struct {
	llm.Sampler
	c *canceller
}

func (c *canceller) NewSampler(s llm.Sampling) (llm.Sampler, error) {
	inner, err := c.Model.NewSampler(s)
	return cancellingSampler{inner, c}, err
}

func (s cancellingSampler) Sample(row int) (llm.Token, error) {
	t, err := s.Sampler.Sample(row)
	if s.c.IsEnd(t) {
		s.c.atEnd()
	}
	return t, err
}

// TestCancelWhileEnding: when Cancel said yes, the reply is not done.
func TestCancelWhileEnding(t *testing.T) {
	m := &canceller{Model: newModel(t, scripted.Config{Script: scripted.Echo})}
	s := newStage(t, m, llm.EngineConfig{})
	id := s.submit(llm.Request{Prompt: prompt(t, m, "hi")})
	m.atEnd = func() {
		if !s.e.Cancel(id) {
			t.Error("Cancel says the request is not there")
		}
	}
	s.drain(llm.Grant{})
	if text, ev := s.ending(id); ev.Kind != llm.EventCancelled || ev.Reason != "" || text != "hi" {
		t.Errorf("%s %q with text %q, want cancelled with hi", ev.Kind, ev.Reason, text)
	}
}

// TestTakingTurns: a prompt that comes later takes turns with a reply; then
// both share batches.
func TestTakingTurns(t *testing.T) {
	m := newModel(t, scripted.Config{Script: scripted.Echo, MaxBatch: 16})
	s := newStage(t, m, llm.EngineConfig{})
	steps := func(n int) string {
		var out []string
		for range n {
			w, err := s.e.Step(llm.Grant{})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s%d", w.Stage, w.Tokens))
		}
		return strings.Join(out, " ")
	}
	first := s.submit(llm.Request{Owner: "a", Prompt: prompt(t, m, "0123456789"), MaxTokens: 12})
	trace := steps(3)
	second := s.submit(llm.Request{Owner: "b", Prompt: prompt(t, m, strings.Repeat("z", 20)), MaxTokens: 4})
	trace += " | " + steps(7)
	want := "prefill16 prefill3 decode1 | prefill16 decode1 prefill13 decode2 decode2 decode2 decode1"
	if d := cmp.Diff(want, trace); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	s.drain(llm.Grant{})
	s.wantText(first, "0123456789", llm.DoneEnd)
	s.wantText(second, "zzzz", llm.DoneLength)
}
