package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// talker keeps one reply going.
type talker struct {
	engine  *llm.Engine
	request llm.Request
	events  []llm.Event
	id      llm.RequestID
	busy    bool
}

// talkerReply is the length of each reply in tokens: long enough for layers of
// conversations of all lengths to be timed at rest.
const talkerReply = 192

func newTalker(rt *local.Runtime) (*talker, error) {
	segments, err := rt.Model.RenderChat([]llm.Turn{
		{Role: llm.System, Text: idleSpeaker.Persona}, {Role: llm.User, Text: idleSpeaker.Ask[0]},
	}, true)
	if err != nil {
		return nil, fmt.Errorf("harness: prompt: %w", err)
	}
	prompt, _, err := llm.TokenizeChat(rt.Model, segments)
	if err != nil {
		return nil, fmt.Errorf("harness: prompt: %w", err)
	}
	length := min(talkerReply, rt.Model.Info().Context-len(prompt))
	return &talker{engine: rt.Engine, request: llm.Request{Prompt: prompt, MaxTokens: length},
		events: make([]llm.Event, 0, maxEvents)}, nil
}

// goOn asks again when the reply has ended.
func (t *talker) goOn() (err error) {
	t.events = t.engine.Poll(t.events[:0])
	for _, e := range t.events {
		switch {
		case e.Request != t.id:
		case e.Kind == llm.EventFailed:
			return fmt.Errorf("harness: reply: %w", e.Err)
		case e.Kind == llm.EventDone || e.Kind == llm.EventCancelled:
			t.busy = false
		}
	}
	if t.busy {
		return nil
	}
	t.request.Sampling.Seed++
	t.request.Sampling.Temperature = 0.8 // a greedy reply would always be the same, and may end at once
	t.id, err = t.engine.Submit(t.request)
	t.busy = err == nil
	return err
}

// streamer reads memory at a rate while the model talks. Call from the thread
// that made its timer.
type streamer struct {
	timer *load.Timer
	team  *load.Team
	talk  *talker
}

// stream reads for a while and returns how many bytes that were, and whether the
// time was played to its end. It does not catch up: where the machine can't read
// so fast, less is read, and that is what counts.
func (s *streamer) stream(ctx context.Context, rate float64, length time.Duration) (bytes int64, whole bool,
	err error) {
	begin := s.timer.Now()
	end := begin + int64(length)
	job := load.Job{Bytes: int64(rate * float64(contentionTick)), Rate: rate} // GB/s are bytes a nanosecond
	for next := begin; ; {
		if ctx.Err() != nil {
			return bytes, false, nil
		}
		if err := s.talk.goOn(); err != nil {
			return bytes, false, err
		}
		now := s.timer.Now()
		if now >= end {
			return bytes, true, nil
		}
		if job.Bytes > 0 {
			bytes += s.team.Run(&job, now).Streamed
		}
		next = max(next+int64(contentionTick), s.timer.Now())
		s.timer.SleepUntil(min(next, end))
	}
}
