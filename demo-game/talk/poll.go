package talk

import (
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// Poll moves everything on and appends what was heard to dst. Once a frame.
func (v *Voices) Poll(dst []Heard, now int64) []Heard {
	if v.crew != nil {
		select {
		case r := <-v.crew.give:
			v.takeOver(r)
		default:
		}
	}
	if v.stage.Pump != nil && v.world != nil {
		v.world.Prepare()
		v.stage.Pump()
		v.world.Judge()
	}
	if v.world != nil {
		v.events = v.world.Poll(v.events[:0], now)
		for i := range v.events {
			dst = v.hear(dst, &v.events[i])
			v.events[i] = npc.Event{}
		}
	}
	dst = append(dst, v.queue...)
	v.queue = v.queue[:0]
	return dst
}

// hear turns an event into what the game knows.
func (v *Voices) hear(dst []Heard, e *npc.Event) []Heard {
	h := Heard{Who: string(e.Agent), Text: e.Text, Turn: e.Turn}
	switch e.Kind {
	case npc.EventBark:
		h.Kind = Bark
	case npc.EventText:
		h.Kind = Said
	case npc.EventDone:
		h.Kind, h.TTFT = Done, v.ttft(e.Agent, e.Turn)
	case npc.EventInterrupted:
		h.Kind = Done
	case npc.EventAction:
		h.Kind, h.Action = Wants, e.Action
	case npc.EventQuest:
		h.Kind = Asks
	case npc.EventFailed:
		h.Kind, h.Err = Failed, e.Err
	default:
		return dst
	}
	return append(dst, h)
}

// ttft finds what a turn's first token took.
func (v *Voices) ttft(who npc.AgentID, turn npc.TurnID) time.Duration {
	for _, x := range v.world.Explain(who) {
		if x.Turn == turn && x.Usage.Generated > 0 {
			return x.Usage.TTFT
		}
	}
	return 0
}

// FrameBegin tells that the game's work on a frame begins.
func (v *Voices) FrameBegin(id uint64, target time.Duration, now int64) {
	if rt := v.stage.Runtime; rt != nil {
		rt.FrameBegin(id, target, now)
	}
}

// FrameEnd tells that the game waits now, until the deadline.
func (v *Voices) FrameEnd(id uint64, deadline, now int64) {
	if rt := v.stage.Runtime; rt != nil {
		rt.FrameEnd(id, deadline, now)
	}
}

// Stats is what the HUD shows of a runtime.
type Stats struct {
	Steered  bool // somebody decides
	Decision scheduler.Decision
	Replying bool // a request waits or runs
	Ran      bool // layers ran or run now
	Groups   uint64
	Tokens   int64 // generated since the start
	Device   string
	Memories int
	Pending  int
	Vectors  int
	Embeds   bool
}

// Stats is how things stand. The memories are counted on another goroutine: ask
// for a recount once a second.
func (v *Voices) Stats(recount bool) Stats {
	s := Stats{Tokens: v.tokens.Load()}
	if rt := v.stage.Runtime; rt != nil {
		s.Steered = !rt.Spec().Plain
		s.Decision = rt.Decision()
		s.Ran, s.Groups = rt.Model.Gate().Activity()
		s.Replying = rt.Engine.HasWork()
		s.Device = rt.Model.Info().Device
	}
	if store := v.stage.Store; store != nil && recount && v.counting.CompareAndSwap(false, true) {
		go func() {
			counts := store.Stats()
			v.counts.Store(&counts)
			v.counting.Store(false)
		}()
	}
	if c := v.counts.Load(); c != nil {
		s.Memories, s.Pending, s.Vectors, s.Embeds = c.Memories, c.Pending, c.Vectors, c.Identity.Dimension > 0
	}
	return s
}

// Decides reports whether a scheduler decides now, and what.
func (v *Voices) Decides() (scheduler.Decision, bool) {
	rt := v.stage.Runtime
	if rt == nil {
		return scheduler.Decision{}, false
	}
	return rt.Decision(), !rt.Spec().Plain
}

// Model is what speaks now; the zero value where nothing does.
func (v *Voices) Model() llm.Info {
	if v.stage.Model == nil {
		return llm.Info{}
	}
	return v.stage.Model.Info()
}

// KeepMemories gives what writes the memories into a file beside a save, for
// another goroutine; nil where no store is open.
func (v *Voices) KeepMemories() func(file string) error {
	if v.stage.Store == nil {
		return nil
	}
	return v.stage.Store.SaveNow
}

// Memories counts what is remembered. It takes its time: for tests and tools.
func (v *Voices) Memories() int {
	if v.stage.Store == nil {
		return 0
	}
	return v.stage.Store.Stats().Memories
}
