package local

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// openScripted starts a runtime over the scripted model on the real clock: the
// model then computes in no time, so nothing waits for one.
func openScripted(t *testing.T, spec Spec) *Runtime {
	t.Helper()
	r, err := Open(context.Background(), Config{Spec: spec,
		OpenModel: func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
			return scripted.New(scripted.Config{Script: scripted.Echo, Clock: clock, Admit: admit})
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func request(t *testing.T, r *Runtime, text string) llm.Request {
	t.Helper()
	segments, err := r.Model.RenderChat([]llm.Turn{{Role: llm.User, Text: text}}, true)
	if err != nil {
		t.Fatal(err)
	}
	prompt, _, err := llm.TokenizeChat(r.Model, segments)
	if err != nil {
		t.Fatal(err)
	}
	return llm.Request{Prompt: prompt, MaxTokens: 64}
}

// reply runs frames of 2 ms until the request has ended: a game's own loop.
func reply(r *Runtime, id llm.RequestID) (string, llm.Event) {
	text := ""
	var events []llm.Event
	for frame := uint64(1); ; frame++ {
		now := r.Clock.Now()
		r.FrameBegin(frame, 2*time.Millisecond, now)
		r.FrameEnd(frame, now+2e6, r.Clock.Now())
		r.Clock.WaitUntil(now+2e6, nil)
		events = r.Engine.Poll(events[:0])
		for _, e := range events {
			if e.Request != id {
				continue
			}
			text += e.Text
			if e.Kind != llm.EventText && e.Kind != llm.EventOverflow {
				return text, e
			}
		}
	}
}

func TestReplyInsideFrames(t *testing.T) {
	for name, spec := range map[string]Spec{
		"controller": DefaultSpec(),
		"windows":    {Steer: SteerWindows},
		"nobody":     {Steer: SteerNone},
	} {
		t.Run(name, func(t *testing.T) {
			r := openScripted(t, spec)
			id, err := r.Engine.Submit(request(t, r, "Well met!"))
			if err != nil {
				t.Fatal(err)
			}
			if text, end := reply(r, id); text != "Well met!" || end.Kind != llm.EventDone {
				t.Errorf("%q, %v %v", text, end.Kind, end.Err)
			}
		})
	}
}

// The game thread's part of a frame allocates nothing.
func TestFramesDoNotAllocate(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	frame, now := uint64(0), r.Clock.Now()
	events := make([]llm.Event, 0, 16)
	one := func() {
		frame++
		r.FrameBegin(frame, 16*time.Millisecond, now)
		r.FrameEnd(frame, now+16e6, now+11e6)
		r.FrameTimings(frame, scheduler.FrameTimings{GPUBusy: 5 * time.Millisecond})
		events = r.Engine.Poll(events[:0])
		now += 16e6
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations a frame, want none", n)
	}
	if got := r.Reasons(); got[scheduler.ReasonNoTarget]+got[scheduler.ReasonBadTimes] != 0 {
		t.Errorf("frames were refused: %v", got)
	}
}

// A game that stops marking frames in the middle of one leaves no reply behind
// a shut window.
func TestReplyWithoutFramesGoesOn(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	now := r.Clock.Now()
	r.FrameBegin(1, 16*time.Millisecond, now)
	r.FrameEnd(1, now+16e6, now+1e6)
	r.FrameBegin(2, 16*time.Millisecond, now+16e6)
	id, err := r.Engine.Submit(request(t, r, "Anybody there?"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for done := false; !done; {
		for _, e := range r.Engine.Poll(nil) {
			text.WriteString(e.Text)
			done = done || e.Request == id && e.Kind == llm.EventDone
		}
	}
	if text.String() != "Anybody there?" {
		t.Errorf("said %q", text.String())
	}
}

// Likewise where whole frames are told and then no more: while it loads, a game may
// wait for the very reply.
func TestReplyAfterTheLastFrameGoesOn(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	now := r.Clock.Now()
	d := r.Frame(scheduler.FrameSample{Frame: 1, Start: scheduler.Instant(now), End: scheduler.Instant(now + 11e6),
		Deadline: scheduler.Instant(now + 16e6), Target: 16 * time.Millisecond})
	w := r.Model.Gate().(*llm.SoftGate).Window()
	if w.Mode != llm.GateMode(d.Gate) || w.Expires != now+11e6+int64(scheduler.WindowLife) {
		t.Errorf("%v until %v, want %v for %v after the frame", w.Mode, w.Expires-now, d.Gate, scheduler.WindowLife)
	}
}

func TestCloseWhileSpeaking(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	r.Model.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	id, err := r.Engine.Submit(request(t, r, "A long story, please."))
	if err != nil {
		t.Fatal(err)
	}
	late := request(t, r, "Hello?") // a closed model makes no tokens
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	ended := false
	for _, e := range r.Engine.Poll(nil) {
		ended = ended || e.Request == id && e.Kind == llm.EventCancelled
	}
	if !ended {
		t.Error("the request never ended")
	}
	if _, err := r.Engine.Submit(late); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("submit after close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestBadSpecs(t *testing.T) {
	for name, spec := range map[string]Spec{
		"plain with a gate": {Plain: true},
		"unknown steer":     {Steer: 9},
		"bad scheduler":     {Scheduler: scheduler.Config{LateAllowance: -1}},
	} {
		_, err := Open(context.Background(), Config{Spec: spec,
			OpenModel: func(context.Context, llm.Clock, llm.AdmitFunc) (llm.Model, error) {
				return scripted.New(scripted.Config{})
			}})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWorkRingIsBounded(t *testing.T) {
	var q workRing
	for i := range 1000 {
		q.put(scheduler.Work{Tokens: i})
	}
	n := 0
	for {
		w, ok := q.take()
		if !ok {
			break
		}
		if w.Tokens != n {
			t.Fatalf("item %d is %d", n, w.Tokens)
		}
		n++
	}
	if n != len(q.slots) {
		t.Errorf("%d items kept, want %d", n, len(q.slots))
	}
}

// When the floor under a reply is empty, the second worker carries on where the
// first one never gets a core, and the reply ends.
func TestReliefEndsAStarvedReply(t *testing.T) {
	r := openScripted(t, DefaultSpec())
	gate := r.Model.Gate()
	gate.Publish(llm.Window{Mode: llm.GateClosed}) // the first worker waits in its first batch
	id, err := r.Engine.Submit(request(t, r, "Can you hear me at all?"))
	if err != nil {
		t.Fatal(err)
	}
	r.relief.duty(true)
	gate.Publish(llm.Window{Mode: llm.GateFree})
	var text strings.Builder
	for done := false; !done; {
		for _, e := range r.Engine.Poll(nil) {
			text.WriteString(e.Text)
			done = done || e.Request == id && e.Kind == llm.EventDone
		}
	}
	if text.String() != "Can you hear me at all?" {
		t.Errorf("said %q", text.String())
	}
	r.relief.duty(false)
	id, err = r.Engine.Submit(request(t, r, "And now?"))
	if err != nil {
		t.Fatal(err)
	}
	if text, end := reply(r, id); text != "And now?" || end.Kind != llm.EventDone {
		t.Errorf("after relief: %q, %v", text, end.Kind)
	}
}
