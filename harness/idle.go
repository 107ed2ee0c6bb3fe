package harness

import (
	"context"
	"fmt"
	"runtime"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/local"
)

// idlePolicies are the settings that are tried without a game: llama.cpp as it
// comes, and on a pool that does not poll, each with one thread and with all.
func idlePolicies() []Policy {
	var list []Policy
	counts := []int{1}
	if n := runtime.NumCPU(); n > 1 {
		counts = append(counts, n)
	}
	for _, n := range counts {
		plain := local.Spec{Plain: true, Threads: n, Steer: local.SteerNone}
		pool := local.Spec{Threads: n, Steer: local.SteerNone}
		list = append(list, Policy{Name: fmt.Sprintf("plain-%d", n), Spec: &plain},
			Policy{Name: fmt.Sprintf("pool-%d", n), Spec: &pool})
	}
	return list
}

// idleSpeaker is asked where the scenario has nobody who always talks.
var idleSpeaker = NPC{
	Name:       "innkeeper",
	Persona:    "You keep the inn at the old bridge. You speak in full sentences about the village and the road.",
	Ask:        []string{"Tell me about the people who came through here last winter."},
	Continuous: true,
}

// idleScenario is the scenario without its game.
func idleScenario(s *Scenario, length float64) *Scenario {
	c := *s
	c.Phases = []Phase{{Phase: "menu", Seconds: length}}
	c.NPCs, c.Memories = []NPC{idleSpeaker}, nil
	for _, n := range s.NPCs {
		if n.Continuous {
			n.Phases = nil
			c.NPCs[0] = n
			break
		}
	}
	return &c
}

// playIdle measures how fast the model is where nobody needs the machine: the
// best of the settings is what a policy can reach at most.
func (h *harness) playIdle(ctx context.Context) error {
	s := idleScenario(h.o.Scenario, h.idle.Seconds())
	h.report.Setting.IdleSeconds = h.idle.Seconds()
	for _, p := range idlePolicies() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t := &timeline{names: []string{"menu"}, ends: h.timeline.ends[:0:0], jobs: []load.Source{load.Idle{}}}
		t.ends = append(t.ends, h.idle)
		rec, err := h.watch(ctx, h.session(s, t, p, h.o.Seed), Progress{What: "rate without a game, " + p.Name})
		if err != nil {
			return err
		}
		if rec.interrupted {
			return nil
		}
		h.remember(rec.info)
		run, err := newRun(rec, contextOf{policy: p.Name, cores: runtime.NumCPU()})
		if err != nil {
			return err
		}
		rate := run.TokensPerSecond
		h.report.IdleRates = append(h.report.IdleRates, IdleRate{p.Name, p.Spec.Threads, rate})
		if h.report.IdleRate == nil || rate > *h.report.IdleRate {
			h.report.IdleRate = &rate
		}
	}
	return h.learnBaselines(ctx)
}

// learnBaselines opens lull once for what it knows of layers at rest: all
// policies are measured by that.
func (h *harness) learnBaselines(ctx context.Context) error {
	cfg := h.o.Model
	cfg.Spec, cfg.Clock = local.DefaultSpec(), h.clock
	rt, err := h.o.Open(ctx, cfg)
	if err != nil {
		return fmt.Errorf("harness: times of layers at rest: %w", err)
	}
	h.base = rt.Baselines()
	if len(h.base.Rows) == 0 {
		h.report.note("what layers take at rest is not known: contention is relative to each run's fastest layers")
	}
	return rt.Close()
}
