package harness

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/harness/metrics"
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

// idleFinalists is how many of the settings are played again in each repeat.
const idleFinalists = 2

// idleOf lists what is played without a game in a repeat: all settings in the
// first one, then those that may be the best.
func (h *harness) idleOf(repeat int) []Policy {
	list := idlePolicies()
	if repeat == 1 || len(h.report.IdleRates) != len(list) {
		return list
	}
	at := map[string]float64{}
	for _, x := range h.report.IdleRates {
		at[x.Setting] = x.Rates[0]
	}
	slices.SortStableFunc(list, func(a, b Policy) int { return cmp.Compare(at[b.Name], at[a.Name]) })
	return list[:min(idleFinalists, len(list))]
}

// playIdle measures how fast the model is where nobody needs the machine: the
// best of the settings is what a policy can reach at most. It is measured in
// each repeat, since a machine's speed drifts within minutes.
func (h *harness) playIdle(ctx context.Context, repeat int) error {
	s := idleScenario(h.o.Scenario, h.idle.Seconds())
	h.report.Setting.IdleSeconds = h.idle.Seconds()
	for _, p := range h.idleOf(repeat) {
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
		h.report.idled(p, run.TokensPerSecond)
	}
	if repeat > 1 {
		return nil
	}
	return h.learnBaselines(ctx)
}

// idled notes the rate of a setting in one more repeat.
func (r *Report) idled(p Policy, rate float64) {
	i := slices.IndexFunc(r.IdleRates, func(x IdleRate) bool { return x.Setting == p.Name })
	if i < 0 {
		i = len(r.IdleRates)
		r.IdleRates = append(r.IdleRates, IdleRate{Setting: p.Name, Threads: p.Spec.Threads})
	}
	r.IdleRates[i].Add(rate)
}

// Add takes rates of further repeats.
func (x *IdleRate) Add(rates ...float64) {
	x.Rates = append(x.Rates, rates...)
	x.TokensPerSecond = metrics.Quartiles(x.Rates).Median
}

// compareIdle finds the best setting, among those that every repeat has, and
// compares each run with its rate in the same repeat.
func (r *Report) compareIdle() {
	var best *IdleRate
	repeats := 0
	for i := range r.IdleRates {
		repeats = max(repeats, len(r.IdleRates[i].Rates))
	}
	for i := range r.IdleRates {
		x := &r.IdleRates[i]
		if len(x.Rates) == repeats && (best == nil || x.TokensPerSecond > best.TokensPerSecond) {
			best = x
		}
	}
	if best == nil {
		return
	}
	r.IdleRate = &best.TokensPerSecond
	for i := range r.Runs {
		run := &r.Runs[i]
		if at := run.Repeat - 1; run.Policy != PolicyNative && at < len(best.Rates) && best.Rates[at] > 0 {
			share := run.TokensPerSecond / best.Rates[at]
			run.IdleRateShare = &share
		}
	}
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
