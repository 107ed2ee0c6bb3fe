package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

// ErrPolicy is wrapped by every error about a policy.
var ErrPolicy = errors.New("harness: bad policy")

// Names of the policies that others are compared with.
const (
	PolicyNative  = "native"
	PolicyVanilla = "vanilla"
	PolicyLull    = "lull"

	// PolicyVanillaSpec guesses as llama.cpp's own programs do.
	PolicyVanillaSpec = "vanilla-spec"
	// PolicyNoSpeculation is lull without guessing ahead.
	PolicyNoSpeculation = PolicyLull + "-no-speculation"

	// PolicyNoMemory is lull where nobody remembers, PolicyEager lull where what is
	// remembered is embedded at once.
	PolicyNoMemory = PolicyLull + "-no-memory"
	PolicyEager    = PolicyLull + "-eager"
)

// Policy is a way to run a model beside a game: how the engine is built, and
// who steers it.
type Policy struct {
	Name        string
	Description string

	// Spec says how the engine is built; nil: the game runs alone.
	Spec *local.Spec
	// Tuned says that --without and --preset are for this policy.
	Tuned bool
	// Lacks is what memory work has to do without.
	Lacks MemoryFeatures
}

// Tuning is what the command line changes in tuned policies.
type Tuning struct {
	Without scheduler.Features
	Memory  MemoryFeatures // to do without as well
	Preset  scheduler.Preset
}

// remembers reports whether characters do: where a controller grants the time for
// it.
func (p Policy) remembers() bool {
	return p.Spec != nil && p.Spec.Steer == local.SteerController && !p.Lacks.Has(Memory)
}

// tuned returns the policy as the tuning wants it.
func (p Policy) tuned(t Tuning) Policy {
	if !p.Tuned || p.Spec == nil {
		return p
	}
	spec := *p.Spec
	if t.Preset != spec.Scheduler.Preset {
		open := spec.Scheduler.StartOpenness
		spec.Scheduler = spec.Scheduler.WithPreset(t.Preset)
		if !spec.Scheduler.Features.Has(scheduler.FeatureFeedback) && open == 1 {
			spec.Scheduler.StartOpenness = 1 // without the frame loop it is no start but a choice
		}
	}
	p.Spec = &spec
	p.Lacks |= t.Memory
	p.without(t.Without)
	return p
}

// without switches features off. The priority of threads is the engine's
// matter, not the controller's alone.
func (p *Policy) without(f scheduler.Features) {
	p.Spec.Scheduler.Features &^= f
	if f.Has(scheduler.FeatureLowPrio) {
		p.Spec.LowPriority = false
	}
}

// Policies lists all policies in the order in which they are shown.
func Policies() []Policy {
	plain := func(threads int) *local.Spec {
		return &local.Spec{Plain: true, Threads: threads, Steer: local.SteerNone}
	}
	engine := func(threads int, low bool, steer local.Steer) *local.Spec {
		return &local.Spec{Threads: threads, LowPriority: low, Steer: steer}
	}
	lull, silent := local.DefaultSpec(), local.DefaultSpec()
	silent.Speculation = local.SpeculateOff
	sereno := local.DefaultSpec()
	sereno.LowPriority = false
	sereno.Scheduler.Features = scheduler.ContentionOnly
	sereno.Scheduler.StartOpenness = 1
	serenoIdle := sereno
	serenoIdle.LowPriority = true
	fixed := plain(0)
	fixed.Speculation = local.SpeculateFixed
	list := []Policy{
		{PolicyNative, "the game alone", nil, false, 0},
		{PolicyVanilla, "llama.cpp as it comes: every core, threads that poll, ordinary priority", plain(0), false, 0},
		{PolicyVanillaSpec, "the same with speculation: batches of one width, drafts that wait", fixed, false, 0},
		{PolicyLull, "the frame-aware scheduler on a low-priority pool", &lull, true, 0},
		{PolicyNoSpeculation, "lull without guessing ahead", &silent, true, 0},
		{"vanilla-1", "llama.cpp as it comes, with one thread", plain(1), false, 0},
		{"idle-1", "one thread that runs only where no other wants the core", engine(1, true, local.SteerNone), false,
			0},
		{"idle-2", "two such threads on a pool that does not poll", engine(2, true, local.SteerNone), false, 0},
		{"sereno", "SERENO's loop alone: contention of memory moves drafts, verify width and sleeps; no windows, " +
			"ordinary priority", &sereno, true, 0},
		{"sereno-idle", "the same at low priority", &serenoIdle, true, 0},
		{"chunk-sleep", "each batch whole, then a fixed rest of 8 ms; every core, no polling",
			engine(0, false, local.SteerChunkSleep), false, 0},
		{"freq-limit", "half the speed: after each layer a rest as long as it took. On a CPU this duty cycle stands " +
			"in for an NPU's lower clock", engine(0, false, local.SteerDuty), false, 0},
		{"window-1", "layers only between the end of the work and the deadline, one thread",
			engine(1, false, local.SteerWindows), false, 0},
		{"window-2", "the same with two threads", engine(2, false, local.SteerWindows), false, 0},
		{"window-idle-1", "window-1 at low priority", engine(1, true, local.SteerWindows), false, 0},
		{"window-idle-2", "window-2 at low priority", engine(2, true, local.SteerWindows), false, 0},
	}
	for _, name := range scheduler.FeatureNames() {
		f, err := scheduler.ParseFeatures(name)
		if err != nil {
			continue // the scheduler's own list is what it parses
		}
		spec := local.DefaultSpec()
		p := Policy{PolicyLull + "-no-" + name, "lull without its feature " + name, &spec, true, 0}
		p.without(f)
		list = append(list, p)
	}
	return append(list, memoryPolicies()...)
}

// memoryPolicies are lull with less of its memory work.
func memoryPolicies() []Policy {
	lull := func(name, description string, lacks MemoryFeatures) Policy {
		spec := local.DefaultSpec()
		return Policy{name, description, &spec, true, lacks}
	}
	return []Policy{
		lull(PolicyNoMemory, "lull where nobody remembers: without its feature memory", Memory),
		lull(PolicyEager, "lull that embeds memories at once, in any phase: without its feature deferral", Deferral),
		lull(PolicyLull+"-no-lexical", "lull that finds memories by their vectors only: without its feature lexical",
			Lexical),
	}
}

// FindPolicy looks a policy up by its name.
func FindPolicy(name string) (Policy, error) {
	all := Policies()
	i := slices.IndexFunc(all, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		return Policy{}, fmt.Errorf("%w: there is no %q: want some of %s", ErrPolicy, name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// ParsePolicies reads a list of names split by commas, in its order.
func ParsePolicies(list string) ([]Policy, error) {
	var found []Policy
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		p, err := FindPolicy(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(found, func(o Policy) bool { return o.Name == name }) {
			return nil, fmt.Errorf("%w: %q stands twice in %q: --repeat runs it again", ErrPolicy, name, list)
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: none is named", ErrPolicy)
	}
	return found, nil
}
