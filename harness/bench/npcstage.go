package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// benchChunk is the prefill chunk that the scheduler grants beside a game: a
	// reply that is wanted at once waits for no more than that of another's
	// prompt.
	benchChunk = 32

	// npcContext holds a persona, a line and a reply many times.
	npcContext = 1024

	// npcPatience is how long anything may take that is waited for.
	npcPatience = 2 * time.Minute
)

// noPast is a save in which nobody lived through anything.
var noPast = []byte(`{"lull_world":1,"agents":[]}`)

// npcStage is a model with its engine and, for most, a world.
type npcStage struct {
	clock  llm.Clock
	model  llm.Model
	engine *llm.Engine
	worker *llm.Worker
	world  *npc.World
	events []npc.Event
	heard  func(npc.Event) // each event, first; may be nil
}

// openStage loads a model and starts its worker. The pages of the weights are
// read before it returns.
func openStage(ctx context.Context, cfg *NPCConfig, sequences int, heads llm.HeadStore) (*npcStage, error) {
	s := &npcStage{clock: llm.NewClock()}
	var err error
	if s.model, err = cfg.open(ctx, s.clock, npcContext, sequences); err != nil {
		return nil, err
	}
	if s.engine, err = llm.NewEngine(s.model, llm.EngineConfig{Clock: s.clock, Heads: heads}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	grant := llm.Grant{Threads: cfg.Threads, PrefillChunk: benchChunk}
	s.worker, err = llm.StartWorker(s.engine, llm.WorkerConfig{Grant: func() llm.Grant { return grant }})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	prompt, err := s.model.Tokenize(nil, "The innkeeper wiped the counter and told the traveller", false)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if _, _, err := s.answer(ctx, llm.Request{Prompt: prompt, MaxTokens: 2}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *npcStage) close() error {
	if s.world != nil {
		s.world.Close()
	}
	if s.worker != nil {
		s.worker.Stop()
	}
	if s.engine != nil {
		s.engine.Close()
	}
	return s.model.Close()
}

// answer has the engine answer a request, without a world.
func (s *npcStage) answer(ctx context.Context, r llm.Request) (text string, end llm.Event, err error) {
	id, err := s.engine.Submit(r)
	if err != nil {
		return "", end, err
	}
	var events []llm.Event
	for start := time.Now(); ; {
		events = s.engine.Poll(events[:0])
		for _, e := range events {
			if e.Request != id {
				continue
			}
			text += e.Text
			switch e.Kind {
			case llm.EventDone:
				return text, e, nil
			case llm.EventFailed, llm.EventCancelled:
				return text, e, fmt.Errorf("bench: a reply %s: %w", e.Kind, e.Err)
			}
		}
		if err := pause(ctx, start); err != nil {
			s.engine.Cancel(id)
			return text, end, err
		}
	}
}

// pause lets the worker have the processor for a moment.
func pause(ctx context.Context, since time.Time) error {
	if time.Since(since) > npcPatience {
		return fmt.Errorf("bench: nothing within %s", npcPatience)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(500 * time.Microsecond):
		return nil
	}
}

// poll takes what happened in the world. A turn that failed is an error.
func (s *npcStage) poll() error {
	s.events = s.world.Poll(s.events[:0], s.clock.Now())
	for _, e := range s.events {
		if s.heard != nil {
			s.heard(e)
		}
		if e.Kind == npc.EventFailed {
			return fmt.Errorf("bench: %s: %w", e.Agent, e.Err)
		}
	}
	return nil
}

// until polls until an event is what is wanted.
func (s *npcStage) until(ctx context.Context, want func(npc.Event) bool) error {
	for start := time.Now(); ; {
		if err := s.poll(); err != nil {
			return err
		}
		for _, e := range s.events {
			if want(e) {
				return nil
			}
		}
		if err := pause(ctx, start); err != nil {
			return err
		}
	}
}

// ttft is from Say to the first text of the answer, in milliseconds.
func (s *npcStage) ttft(ctx context.Context, to npc.AgentID, line string) (float64, error) {
	start := time.Now()
	turn, err := s.world.Say(npc.Line{To: to, Text: line}, s.clock.Now())
	if err != nil {
		return 0, err
	}
	err = s.until(ctx, func(e npc.Event) bool {
		return e.Turn == turn && (e.Kind == npc.EventText || e.Kind == npc.EventDone)
	})
	return float64(time.Since(start)) / 1e6, err
}

// rest waits until nothing is under way in world and engine.
func (s *npcStage) rest(ctx context.Context) error {
	for start := time.Now(); ; {
		if err := s.poll(); err != nil {
			return err
		}
		if !s.engine.HasWork() {
			return s.poll()
		}
		if err := pause(ctx, start); err != nil {
			return err
		}
	}
}
