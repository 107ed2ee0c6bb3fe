package demo

import (
	"fmt"
	"time"

	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/scheduler"
)

// headlessRepeat is how often each mode runs: twice, so that what changes on the
// machine meanwhile meets all of them.
const headlessRepeat = 2

// MaxHeadless bounds the length of a headless run of a mode.
const MaxHeadless = time.Hour

// Headless is the same game for package harness: the modes in turn, twice, each
// for half of length.
func Headless(s Setting, length time.Duration) (harness.Options, error) {
	o := harness.Options{Repeat: headlessRepeat, Seed: 1, SkipIdle: true}
	if err := s.Validate(); err != nil {
		return o, err
	}
	if length < time.Second || length > MaxHeadless {
		return o, fmt.Errorf("demo: %v a mode: want 1s…%v", length, MaxHeadless)
	}
	for m := Off; m < Modes; m++ {
		p, err := harness.FindPolicy(m.Policy())
		if err != nil {
			return o, err
		}
		o.Policies = append(o.Policies, p)
	}
	o.Scenario = &harness.Scenario{
		Name:        "demo",
		Description: fmt.Sprintf("Every frame burns %d × %.4g ms of CPU time.", s.Workers, ms(s.Load)),
		TargetHz:    s.Hz,
		Phases: []harness.Phase{{
			Phase: scheduler.PhaseExplore.String(), Seconds: length.Seconds() / headlessRepeat,
		}},
	}
	if s.Load > 0 {
		o.Scenario.Phases[0].Load = harness.Load{Workers: s.Workers, CPUMs: ms(s.Load)}
	}
	// One character that always talks: with both, the harness would run two
	// replies at a time, and the screen shows one.
	v := visits[0]
	p, err := npc.LoadPersona(v.persona)
	if err != nil {
		return o, err
	}
	o.Scenario.NPCs = []harness.NPC{{
		Name: p.Name, Persona: p.SystemText(), Ask: v.lines, Continuous: true, MaxTokens: p.MaxTokens,
	}}
	return o, nil
}
