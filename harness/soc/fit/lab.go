package fit

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/lull-npc/lull/harness/soc"
)

// lab holds the parameters that are tried, and simulates with them.
type lab struct {
	chips   map[string]*soc.Chip
	apps    map[string]*soc.App
	models  map[string]*soc.Network
	seconds float64
	seed    uint64

	runs   map[string]*soc.Run // of the present parameters, by app and policy
	wanted []experiment        // by the rows and orderings that are looked at
}

func newLab(seconds float64, seed uint64) (*lab, error) {
	l := &lab{chips: map[string]*soc.Chip{}, apps: map[string]*soc.App{}, models: map[string]*soc.Network{},
		seconds: seconds, seed: seed}
	for _, name := range []string{"8-elite", "8-gen-3"} {
		c, err := soc.LoadChip(name)
		if err != nil {
			return nil, err
		}
		l.chips[name] = c
	}
	for _, name := range soc.Names("apps") {
		a, err := soc.LoadApp(name)
		if err != nil {
			return nil, err
		}
		l.apps[name] = a
	}
	for _, name := range soc.Names("models") {
		n, err := soc.LoadNetwork(name)
		if err != nil {
			return nil, err
		}
		l.models[name] = n
	}
	return l, nil
}

// experiment is a run that rows need.
type experiment struct{ app, policy string }

func (e experiment) key() string { return e.app + "/" + e.policy }

// idle is the app of experiments without a game.
const idle = "none"

// play simulates what is wanted with the present parameters.
func (l *lab) play() error {
	list := l.wanted
	l.runs = map[string]*soc.Run{}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	next := 0
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(list) {
					return
				}
				r, err := l.simulate(list[i])
				mu.Lock()
				if l.runs[list[i].key()] = r; err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return failed
}

func (l *lab) simulate(e experiment) (*soc.Run, error) {
	name, without, _ := strings.Cut(e.policy, " without ")
	policies, err := soc.ParsePolicies(name)
	if err != nil {
		return nil, err
	}
	o := soc.Options{Chip: l.chips["8-elite"], App: l.apps[e.app], Target: l.models["llama-3.1-8b"],
		Draft: l.models["llama-3.2-1b"], Policy: policies[0], Seconds: l.seconds, Seed: l.seed}
	if e.app == idle {
		o.App = soc.Idle(l.apps["social"])
	}
	if e.app == "sporadic" {
		o.Seconds = 4 * l.seconds
	}
	if o.Without, err = parseFeatures(without); err != nil {
		return nil, err
	}
	r, err := soc.Simulate(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.key(), err)
	}
	return r, nil
}

// run is what came of an experiment. While a lab learns what is wanted, nothing is.
func (l *lab) run(app, policy string) *soc.Run {
	e := experiment{app, policy}
	if r := l.runs[e.key()]; r != nil {
		return r
	}
	if !slices.Contains(l.wanted, e) {
		l.wanted = append(l.wanted, e)
	}
	return &soc.Run{}
}

// parameter is one number that may move; several values may share it.
type parameter struct {
	Name      string
	to        []*soc.Value
	low, high float64
}

func (p *parameter) set(x float64) {
	for _, v := range p.to {
		v.Value = min(p.high, max(p.low, x))
	}
}

// free names the parameters that are fitted, each with the bounds that physics or
// plain sense give it: of a chip, of an app, or with "apps." of all apps alike.
var free = []struct {
	name      string
	low, high float64
}{
	{"8-elite.dram.efficiency", 0.75, 0.95},
	{"8-elite.dram.queue", 0.01, 1},
	{"8-elite.dram.coupling", 0, 5},
	{"8-elite.dram.coupling_compute", 0, 0.5},
	{"8-elite.npu.bandwidth_gb_per_s", 45, 70}, // of 72 that the memory gives
	{"8-elite.npu.compute_tflops", 6, 40},
	{"8-elite.npu.batch_step", 0, 0.5},
	{"8-elite.npu.batch_slope", 0, 0.03},
	{"8-elite.npu.small_efficiency", 0.6, 1.24}, // the same
	{"8-elite.npu.power_w", 1, 6},
	{"8-elite.cpu_model.power_w", 2, 12},
	{"8-elite.little.bandwidth_gb_per_s", 5, 25},
	{"8-elite.npu_limit_clock", 0.2, 0.8},
	{"llama-3.2-1b.weights_gb", 0.55, 0.79}, // 0.86 GB with graphs
	{"apps.draft_right", 0.5, 0.9},
	{"apps.copy_start", 0, 0.1},
	{"social.parts[0].cpu_ms", 0.3, 4},
	{"social.parts[0].tail_share", 0.02, 0.5},
	{"social.parts[0].tail_scale", 0.2, 3},
	{"tools.parts[0].cpu_ms", 0.3, 4},
	{"tools.parts[0].tail_share", 0.02, 0.5},
	{"video.parts[0].cpu_ms", 0.3, 4},
	{"video.parts[0].tail_share", 0.02, 0.5},
	{"sporadic.parts[0].tail_share", 0.02, 0.5},
	{"gaming-a.parts[0].gpu_ms", 0.5, 12},
	{"gaming-b.parts[0].cpu_ms", 0.5, 12},
	{"benchmark.parts[0].cpu_stall", 0.1, 0.8},
	{"benchmark.parts[0].gpu_stall", 0.1, 0.8},
	{"benchmark.parts[0].gpu_gb_per_s", 4, 30},
}

// parameters finds the values of the free names, which have to be marked fitted.
func (l *lab) parameters() ([]parameter, error) {
	var list []parameter
	for _, x := range free {
		name := x.name
		owner, path, _ := strings.Cut(name, ".")
		if strings.HasPrefix(name, "8-") || strings.HasPrefix(name, "llama-3.") {
			for owner = range strings.SplitSeq("8-elite,8-gen-3,llama-3.2-1b", ",") {
				if rest, ok := strings.CutPrefix(name, owner+"."); ok {
					path = rest
					break
				}
			}
		}
		p := parameter{Name: name, low: x.low, high: x.high}
		for _, f := range l.fields(owner) {
			if f.Path == path {
				if !f.To.IsFitted() {
					return nil, fmt.Errorf("fit: %s has the source %q: only what is fitted moves", name, f.To.Source)
				}
				p.to, p.low, p.high = append(p.to, f.To), max(p.low, f.Low), min(p.high, f.High)
			}
		}
		if len(p.to) == 0 {
			return nil, fmt.Errorf("fit: there is no parameter %s", name)
		}
		list = append(list, p)
	}
	return list, nil
}

func (l *lab) fields(owner string) []soc.Field {
	if c := l.chips[owner]; c != nil {
		return c.Fields()
	}
	if a := l.apps[owner]; a != nil {
		return a.Fields()
	}
	if n := l.models[owner]; n != nil {
		return n.Fields()
	}
	if owner != "apps" {
		return nil
	}
	var all []soc.Field
	var names []string
	for name := range l.apps {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, l.apps[name].Fields()...)
	}
	return all
}
