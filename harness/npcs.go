package harness

import (
	"fmt"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// defaultReply is three or four sentences: what a character says in one go.
const defaultReply = 64

// speaker is one NPC in one run: its prompts, made before the time is measured,
// and when it is asked.
type speaker struct {
	name    string
	persona string
	asks    []string
	prompts [][]llm.Token
	keep    int // tokens of the persona
	next    int // which prompt comes next
	request llm.Request

	continuous bool
	phases     []bool // by phase of the timeline; nil: all
	at         []time.Duration
	every      time.Duration
	due        time.Duration // of every: the next time
	running    int           // requests without an end
}

// cast is all speakers of a run. Call from the game thread.
type cast struct {
	speakers   []speaker
	engine     *llm.Engine
	keeper     *keeper // nil: nobody remembers
	events     []llm.Event
	byID       map[llm.RequestID]*speaker
	seed       uint64
	count      uint64 // requests so far, for seeds
	clock      llm.Clock
	submitting time.Duration // what Submit took in this frame
	outcome    talk
}

// talk is what came of the requests of a run.
type talk struct {
	asked, done, failed, cancelled int
	refused                        int // by Submit: the queue was full
	ttft                           []time.Duration
	generated                      int
	err                            error // the first one
}

// maxEvents is how many events one poll may bring without allocating: three for
// each of the requests that may run.
const maxEvents = 256

func newCast(s *Scenario, t *timeline, rt *local.Runtime, seed uint64) (*cast, error) {
	c := &cast{engine: rt.Engine, events: make([]llm.Event, 0, maxEvents), byID: map[llm.RequestID]*speaker{},
		clock: rt.Clock, seed: seed}
	for i := range s.NPCs {
		sp, err := newSpeaker(&s.NPCs[i], t, rt.Model, seed+uint64(i))
		if err != nil {
			return nil, err
		}
		c.speakers = append(c.speakers, sp)
	}
	c.outcome.ttft = make([]time.Duration, 0, 4096)
	return c, nil
}

func newSpeaker(n *NPC, t *timeline, m llm.Model, seed uint64) (speaker, error) {
	sp := speaker{name: n.Name, persona: n.Persona, asks: n.Ask, continuous: n.Continuous,
		every: seconds(n.EveryS), due: seconds(n.EveryS)}
	for _, at := range n.AtS {
		sp.at = append(sp.at, seconds(at))
	}
	sp.phases = t.only(n.Phases)
	for _, ask := range n.Ask {
		prompt, keep, err := render(m, n.Persona, ask)
		if err != nil {
			return sp, fmt.Errorf("harness: prompt of %q: %w", n.Name, err)
		}
		sp.prompts, sp.keep = append(sp.prompts, prompt), keep
	}
	sp.next = int(seed % uint64(len(sp.prompts)))
	reply := n.MaxTokens
	if reply == 0 {
		reply = defaultReply
	}
	// A small model repeats itself when it is greedy; the seed keeps it
	// repeatable all the same.
	sp.request = llm.Request{
		Owner: n.Name, Keep: sp.keep, MaxTokens: reply, Priority: n.Priority,
		Sampling: llm.Sampling{Temperature: 0.7, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1},
	}
	return sp, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// render makes the tokens of a conversation of one question.
func render(m llm.Model, persona, ask string) (prompt []llm.Token, keep int, err error) {
	turns := []llm.Turn{{Role: llm.User, Text: ask}}
	if persona != "" {
		turns = append([]llm.Turn{{Role: llm.System, Text: persona}}, turns...)
	}
	segments, err := m.RenderChat(turns, true)
	if err != nil {
		return nil, 0, err
	}
	prompt, starts, err := llm.TokenizeChat(m, segments)
	if err != nil {
		return nil, 0, err
	}
	if len(starts) > 1 {
		keep = starts[1]
	}
	return prompt, keep, nil
}

// frame takes the events that came and asks what is due. played is the time
// since the scenario began, negative in the warm-up, when only continuous
// speakers talk.
func (c *cast) frame(p int, played time.Duration) {
	c.submitting = 0
	c.poll()
	if c.keeper != nil {
		c.keeper.frame(p, played)
		c.answer()
	}
	for i := range c.speakers {
		sp := &c.speakers[i]
		allowed := sp.phases == nil || sp.phases[p]
		switch {
		case sp.continuous:
			if allowed && sp.running == 0 {
				c.ask(sp, played)
			}
		case played < 0:
		case sp.every > 0:
			if played >= sp.due {
				sp.due += sp.every
				if allowed {
					c.ask(sp, played)
				}
			}
		default:
			for len(sp.at) > 0 && played >= sp.at[0] {
				sp.at = sp.at[1:]
				c.ask(sp, played)
			}
		}
	}
}

// ask asks the next question, with what the character remembers if it can.
func (c *cast) ask(sp *speaker, played time.Duration) {
	n := sp.next
	sp.next = (n + 1) % len(sp.prompts)
	if c.keeper == nil {
		c.submit(sp, sp.prompts[n], sp.keep)
		return
	}
	if !c.keeper.recall(sp, n, played) {
		c.outcome.refused++
		c.note(fmt.Errorf("harness: ask %q: %d questions wait for memories", sp.name, maxRecalls))
		return
	}
	sp.running++
}

// answer submits the questions that wait no more for memories.
func (c *cast) answer() {
	for {
		j, ok := c.keeper.take()
		if !ok {
			return
		}
		j.speaker.running--
		c.submit(j.speaker, j.prompt, j.keep)
	}
}

func (c *cast) submit(sp *speaker, prompt []llm.Token, keep int) {
	r := sp.request
	r.Prompt, r.Keep = prompt, keep
	c.count++
	r.Sampling.Seed = uint32(c.seed*2654435761 + c.count)
	began := c.clock.Now()
	id, err := c.engine.Submit(r)
	c.submitting += time.Duration(c.clock.Now() - began)
	if err != nil {
		c.outcome.refused++
		c.note(fmt.Errorf("harness: ask %q: %w", sp.name, err))
		return
	}
	c.outcome.asked++
	sp.running++
	c.byID[id] = sp
}

func (c *cast) poll() {
	c.events = c.engine.Poll(c.events[:0])
	for i := range c.events {
		e := &c.events[i]
		switch e.Kind {
		case llm.EventDone:
			c.outcome.done++
		case llm.EventCancelled:
			c.outcome.cancelled++
		case llm.EventFailed:
			c.outcome.failed++
			c.note(fmt.Errorf("harness: a reply failed: %w", e.Err))
		default:
			continue
		}
		if e.Kind != llm.EventFailed && e.Usage.Generated > 0 {
			c.outcome.ttft = append(c.outcome.ttft, e.Usage.TTFT)
			c.outcome.generated += e.Usage.Generated
		}
		if sp := c.byID[e.Request]; sp != nil {
			sp.running--
			delete(c.byID, e.Request)
		}
		c.events[i] = llm.Event{}
	}
}

func (c *cast) note(err error) {
	if c.outcome.err == nil {
		c.outcome.err = err
	}
}

// cancel ends what still runs. Its events come until the engine is closed.
func (c *cast) cancel() {
	for id := range c.byID {
		c.engine.Cancel(id)
	}
}
