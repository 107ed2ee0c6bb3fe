package soc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/scheduler"
)

// ErrPolicy is wrapped by every error about a policy.
var ErrPolicy = errors.New("soc: bad policy")

// Names of policies that others are compared with.
const (
	PolicyNative = "native"
	PolicyLull   = "lull"
)

type steering uint8

const (
	steerNone  steering = iota // the model runs whenever it has work
	steerChunk                 // each batch whole, then a fixed rest
	steerLoop                  // the controller
)

type guessing uint8

const (
	guessNone    guessing = iota
	guessFixed            // batches of one width, drafts that wait
	guessElastic          // where it pays, drafts that give way
)

// Policy is a way to run a model beside a game on a simulated chip.
type Policy struct {
	Name        string
	Description string

	model    bool // false: the game alone
	where    place
	low      bool // its CPU threads run only where nobody else wants the core
	limited  bool // the NPU's clock is
	steer    steering
	guess    guessing
	tuned    bool // --without and --preset are for it
	deferred bool // memory work waits for the scheduler
	features scheduler.Features
	open     float64           // openness to begin with; 0: the preset's
	graphs   []int             // widths of the graphs that decode, rising; nil: any width
	preset   *scheduler.Preset // its own; nil: the plan's
}

// Policies lists all policies in the order in which they are shown.
func Policies() []Policy {
	return []Policy{
		{Name: PolicyNative, Description: "the game alone"},
		{Name: "vanilla", Description: "the NPU, token by token, whenever there is work", model: true},
		{Name: "vanilla-spec", Description: "the same with speculation: batches of one width, drafts that wait",
			model: true, guess: guessFixed},
		{Name: "freq-limit", Description: "vanilla-spec at a lower clock of the NPU", model: true, guess: guessFixed,
			limited: true},
		{Name: "chunk-sleep", Description: "vanilla-spec with a fixed rest of 8 ms after each batch", model: true,
			guess: guessFixed, steer: steerChunk},
		{Name: "sereno", Description: "SERENO's loop alone: contention of memory moves drafts, verify width and sleeps",
			model: true, guess: guessElastic, steer: steerLoop, tuned: true, open: 1,
			features: scheduler.ContentionOnly, graphs: []int{8, 16, 32}},
		{Name: PolicyLull, Description: "the frame-aware scheduler", model: true, guess: guessElastic, steer: steerLoop,
			tuned: true, deferred: true, features: scheduler.AllFeatures, low: true},
		{Name: "lull-no-speculation", Description: "lull without guessing ahead", model: true, steer: steerLoop,
			tuned: true, deferred: true, features: scheduler.AllFeatures, low: true},
		{Name: "lull-cpu", Description: "lull with the model on the CPU's fast cores, at low priority", model: true,
			where: onCPU, guess: guessElastic, steer: steerLoop, tuned: true, deferred: true,
			features: scheduler.AllFeatures, low: true},
		{Name: "cpu-only", Description: "the CPU's fast cores, token by token", model: true, where: onCPU},
		{Name: "mnn", Description: "cores of its own, token by token, as an engine that protects the foreground",
			model: true, where: onLittle},
	}
}

// ParsePolicies reads a list of names split by commas, in its order. A name may
// end in -no-FEATURE, or in -PRESET.
func ParsePolicies(list string) ([]Policy, error) {
	var found []Policy
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		p, err := findPolicy(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(found, func(o Policy) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("%w: %q stands twice in %q", ErrPolicy, name, list)
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: none is named", ErrPolicy)
	}
	return found, nil
}

func findPolicy(name string) (Policy, error) {
	var names []string
	for _, p := range Policies() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	base, feature, ok := strings.Cut(name, "-no-")
	if f, err := scheduler.ParseFeatures(feature); ok && err == nil && f != 0 {
		if p, err := findPolicy(base); err == nil && p.tuned {
			p.Name, p.Description = name, p.Description+", without "+feature
			p.features &^= f
			return p, nil
		}
	}
	for preset := scheduler.Balanced; preset < scheduler.Custom; preset++ {
		base, ok := strings.CutSuffix(name, "-"+preset.String())
		if !ok {
			continue
		}
		if p, err := findPolicy(base); err == nil && p.tuned {
			p.Name, p.Description, p.preset = name, p.Description+", preset "+preset.String(), &preset
			return p, nil
		}
	}
	return Policy{}, fmt.Errorf("%w: there is no %q: want some of %s, lull-no-FEATURE with one of %s, or "+
		"lull-ui-first, lull-llm-first", ErrPolicy, name, strings.Join(names, ", "),
		strings.Join(scheduler.FeatureNames(), ", "))
}
