package harness

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/scheduler"
)

// ErrScenario is wrapped by every error about a scenario or an SLO file.
var ErrScenario = errors.New("harness: bad scenario")

// Limits of a scenario. They keep a slip of the pen from filling the memory or
// running for days.
const (
	maxPhases     = 64
	maxNPCs       = 32
	maxAsks       = 64
	maxObjectives = 64
	maxSeconds    = 24 * 3600.0
	maxFrames     = 4 << 20 // 19 hours at 60 Hz; kept in memory, 150 bytes each
	maxTextBytes  = 4096
	minHz, maxHz  = 0.2, 1000.0
	maxMaxTokens  = 4096
	minEvery      = 0.1 // s: a character does not speak ten times a second
)

// Scenario is a game to play and what is asked of the language model meanwhile.
type Scenario struct {
	Name        string  `yaml:"name" json:"name"`
	Description string  `yaml:"description" json:"description"`
	TargetHz    float64 `yaml:"target_hz" json:"target_hz"` // frames a second that the game wants
	// DisplayHz is the lines of the screen; 0: as the target. CapHz is a
	// limiter's rate below the target; 0: none.
	DisplayHz float64 `yaml:"display_hz,omitempty" json:"display_hz,omitempty"`
	CapHz     float64 `yaml:"cap_hz,omitempty" json:"cap_hz,omitempty"`
	Phases    []Phase `yaml:"phases" json:"phases"`
	NPCs      []NPC   `yaml:"npcs,omitempty" json:"npcs,omitempty"`
	// Memories are what characters live through. With some, each NPC recalls what
	// fits before it is asked, by its name.
	Memories   []Experience `yaml:"memories,omitempty" json:"memories,omitempty"`
	Objectives []Objective  `yaml:"objectives,omitempty" json:"objectives,omitempty"`

	folder string // where the paths of captures begin
}

// Phase is a stretch of the game.
type Phase struct {
	Phase   string  `yaml:"phase" json:"phase"`
	Seconds float64 `yaml:"seconds" json:"seconds"`
	Load    Load    `yaml:"load,omitempty" json:"load"`
}

// Load is what the game does in each frame: burn and stream, or replay a
// capture.
type Load struct {
	Workers int       `yaml:"workers,omitempty" json:"workers,omitempty"`
	CPUMs   float64   `yaml:"cpu_ms,omitempty" json:"cpu_ms,omitempty"` // of each worker in each frame
	Jitter  float64   `yaml:"jitter,omitempty" json:"jitter,omitempty"` // ± share of cpu_ms, [0, 1)
	Memory  []float64 `yaml:"memory_gb_per_s,omitempty" json:"memory_gb_per_s,omitempty"`

	// Window has a real game drawn besides, see package load.
	Window bool `yaml:"window,omitempty" json:"window,omitempty"`

	Trace string  `yaml:"trace,omitempty" json:"trace,omitempty"` // a capture's file, relative to the scenario's
	Scale float64 `yaml:"scale,omitempty" json:"scale,omitempty"`
	Fill  float64 `yaml:"fill,omitempty" json:"fill,omitempty"` // share of the period that the CPU's mean fills
}

// NPC is a character that is asked things.
type NPC struct {
	Name      string   `yaml:"name" json:"name"`
	Persona   string   `yaml:"persona,omitempty" json:"persona,omitempty"` // the system prompt
	Ask       []string `yaml:"ask" json:"ask"`                             // in turn, beginning where the seed says
	Priority  int      `yaml:"priority,omitempty" json:"priority,omitempty"`
	MaxTokens int      `yaml:"max_tokens,omitempty" json:"max_tokens,omitempty"` // 0: 64

	// When it is asked: always (one reply runs at any time), at times, every so
	// often; only in some phases if they are named.
	Continuous bool      `yaml:"continuous,omitempty" json:"continuous,omitempty"`
	AtS        []float64 `yaml:"at_s,omitempty" json:"at_s,omitempty"`
	EveryS     float64   `yaml:"every_s,omitempty" json:"every_s,omitempty"`
	Phases     []string  `yaml:"phases,omitempty" json:"phases,omitempty"`
}

//go:embed scenarios/*.yaml
var shipped embed.FS

// Names lists the shipped scenarios.
func Names() []string {
	entries, err := shipped.ReadDir("scenarios")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// LoadScenario finds a shipped scenario by its name, or reads a YAML file.
func LoadScenario(name string) (*Scenario, error) {
	if slices.Contains(Names(), name) {
		text, err := shipped.ReadFile(path.Join("scenarios", name+".yaml"))
		if err != nil {
			return nil, err
		}
		return ParseScenario(name+".yaml", text)
	}
	if !strings.ContainsAny(name, `./\`) {
		return nil, fmt.Errorf("%w: there is no %q: want one of %s, or a YAML file", ErrScenario, name,
			strings.Join(Names(), ", "))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	s, err := ParseScenario(name, text)
	if err == nil {
		s.folder = filepath.Dir(name)
	}
	return s, err
}

// ParseScenario reads a scenario. Errors name file, line and column and show the
// lines around; file is only named.
func ParseScenario(file string, text []byte) (*Scenario, error) {
	var s Scenario
	if err := decode(file, text, &s, func() []problem { return s.problems() }); err != nil {
		return nil, err
	}
	return &s, nil
}

// problems says what is wrong with which field.
func (s *Scenario) problems() []problem {
	var c checks
	c.text("$.name", s.Name, true)
	c.text("$.description", s.Description, true)
	c.between("$.target_hz", s.TargetHz, minHz, maxHz)
	if s.DisplayHz != 0 {
		c.between("$.display_hz", s.DisplayHz, max(minHz, s.rate()), maxHz)
	}
	if s.CapHz != 0 {
		c.between("$.cap_hz", s.CapHz, minHz, max(minHz, s.TargetHz))
	}
	c.count("$.phases", len(s.Phases), 1, maxPhases)
	total := 0.0
	for i := range s.Phases {
		s.Phases[i].check(&c, fmt.Sprintf("$.phases[%d]", i))
		total += s.Phases[i].Seconds
	}
	if total*s.rate() > maxFrames {
		c.add("$.phases", "together %.0f s at %v Hz, more than %d frames: shorten them", total, s.rate(), maxFrames)
	}
	c.count("$.npcs", len(s.NPCs), 0, maxNPCs)
	names := map[string]bool{}
	for i := range s.NPCs {
		at := fmt.Sprintf("$.npcs[%d]", i)
		s.NPCs[i].check(&c, at, total)
		if names[s.NPCs[i].Name] {
			c.add(at+".name", "%q stands twice: names tell conversations apart", s.NPCs[i].Name)
		}
		names[s.NPCs[i].Name] = true
	}
	checkExperiences(&c, "$.memories", s.Memories, total)
	checkObjectives(&c, "$.objectives", s.Objectives)
	return c.found
}

func (p *Phase) check(c *checks, at string) {
	if _, ok := parsePhase(p.Phase); !ok {
		c.add(at+".phase", "%q is no phase: want one of %s", p.Phase, strings.Join(phaseNames(), ", "))
	}
	c.between(at+".seconds", p.Seconds, 0.01, maxSeconds)
	l, at := &p.Load, at+".load"
	c.between(at+".cpu_ms", l.CPUMs, 0, float64(load.MaxCPU)/1e6)
	c.between(at+".jitter", l.Jitter, 0, 0.999)
	c.count(at+".workers", l.Workers, 0, load.MaxWorkers)
	c.count(at+".memory_gb_per_s", len(l.Memory), 0, 64)
	for i, r := range l.Memory {
		c.between(fmt.Sprintf("%s.memory_gb_per_s[%d]", at, i), r, 0, load.MaxRate)
	}
	c.between(at+".scale", l.Scale, 0, 1000)
	c.between(at+".fill", l.Fill, 0, 10)
	c.text(at+".trace", l.Trace, false)
	switch {
	case l.Trace != "" && (l.CPUMs != 0 || l.Jitter != 0 || len(l.Memory) > 0 || l.Window):
		c.add(at+".trace",
			"a capture and cpu_ms, jitter, memory_gb_per_s or window: the capture says what a frame does")
	case l.Trace != "" && l.Scale != 0 && l.Fill != 0:
		c.add(at+".fill", "both scale and fill: give one")
	case l.Trace == "" && (l.Scale != 0 || l.Fill != 0):
		c.add(at, "scale and fill are for a trace, and there is none")
	case l.Trace == "" && (l.Workers == 0) != (l.CPUMs == 0):
		c.add(at, "workers %d and cpu_ms %v: want both or neither", l.Workers, l.CPUMs)
	}
}

func (n *NPC) check(c *checks, at string, total float64) {
	c.text(at+".name", n.Name, true)
	c.text(at+".persona", n.Persona, false)
	c.count(at+".ask", len(n.Ask), 1, maxAsks)
	for i, a := range n.Ask {
		c.text(fmt.Sprintf("%s.ask[%d]", at, i), a, true)
	}
	c.count(at+".max_tokens", n.MaxTokens, 0, maxMaxTokens)
	c.count(at+".priority", n.Priority, -1000, 1000)
	checkTimes(c, at, n.AtS, total)
	if n.EveryS != 0 {
		c.between(at+".every_s", n.EveryS, minEvery, maxSeconds)
	}
	if ways := btoi(n.Continuous) + btoi(len(n.AtS) > 0) + btoi(n.EveryS != 0); ways != 1 {
		c.add(at, "%q is asked in %d ways: want one of continuous, at_s, every_s", n.Name, ways)
	}
	checkPhases(c, at, n.Phases)
}

// checkTimes checks moments that follow each other.
func checkTimes(c *checks, at string, times []float64, total float64) {
	c.count(at+".at_s", len(times), 0, 1000)
	last := 0.0
	for i, t := range times {
		field := fmt.Sprintf("%s.at_s[%d]", at, i)
		c.between(field, t, last, max(total, last))
		last = max(t, last)
	}
}

func checkPhases(c *checks, at string, phases []string) {
	for i, p := range phases {
		if _, ok := parsePhase(p); !ok {
			c.add(fmt.Sprintf("%s.phases[%d]", at, i), "%q is no phase: want some of %s", p,
				strings.Join(phaseNames(), ", "))
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rate is the frame rate that the game really has: its limiter's, if lower.
func (s *Scenario) rate() float64 {
	if s.CapHz > 0 {
		return min(s.CapHz, s.TargetHz)
	}
	return s.TargetHz
}

// target is the frame period wanted, line that of the screen.
func (s *Scenario) target() time.Duration { return period(s.rate()) }

func (s *Scenario) line() time.Duration {
	if s.DisplayHz > 0 {
		return period(s.DisplayHz)
	}
	return s.target()
}

func period(hz float64) time.Duration { return time.Duration(float64(time.Second) / hz) }

// Seconds is the length of the scenario.
func (s *Scenario) Seconds() float64 {
	total := 0.0
	for _, p := range s.Phases {
		total += p.Seconds
	}
	return total
}

// WithSeconds returns the scenario with another length: phases and times of
// requests keep their proportions; every_s stays, since a character does not
// speak faster.
func (s *Scenario) WithSeconds(seconds float64) (*Scenario, error) {
	total := s.Seconds()
	if !(seconds >= 0.1 && seconds <= maxSeconds) {
		return nil, fmt.Errorf("%w: %v seconds: want 0.1…%v", ErrScenario, seconds, maxSeconds)
	}
	c := *s
	f := seconds / total
	c.Phases = slices.Clone(s.Phases)
	for i := range c.Phases {
		c.Phases[i].Seconds *= f
	}
	c.NPCs = slices.Clone(s.NPCs)
	for i := range c.NPCs {
		c.NPCs[i].AtS = scaled(c.NPCs[i].AtS, f)
	}
	c.Memories = slices.Clone(s.Memories)
	for i := range c.Memories {
		c.Memories[i].AtS = scaled(c.Memories[i].AtS, f)
	}
	if seconds*c.rate() > maxFrames {
		return nil, fmt.Errorf("%w: %v seconds at %v Hz are more than %d frames", ErrScenario, seconds, c.rate(),
			maxFrames)
	}
	remembered := 0
	for i := range c.Memories {
		remembered += c.Memories[i].most(seconds)
	}
	if remembered > maxRemembered {
		return nil, fmt.Errorf("%w: in %v seconds there are more than %d memories", ErrScenario, seconds, maxRemembered)
	}
	return &c, nil
}

func scaled(times []float64, f float64) []float64 {
	times = slices.Clone(times)
	for i := range times {
		times[i] *= f
	}
	return times
}

// WithTrace returns the scenario with every load but that of loading replaced
// by a capture.
func (s *Scenario) WithTrace(file string, scale, fill float64, workers int) *Scenario {
	c := *s
	c.Phases = slices.Clone(s.Phases)
	for i := range c.Phases {
		if c.Phases[i].Phase != scheduler.PhaseLoading.String() {
			c.Phases[i].Load = Load{Trace: file, Scale: scale, Fill: fill, Workers: workers}
		}
	}
	c.folder = ""
	return &c
}

// phaseNames lists the phases that a scenario can name.
func phaseNames() []string {
	var names []string
	for p := scheduler.PhaseExplore; p <= scheduler.PhaseBackground; p++ {
		names = append(names, p.String())
	}
	return names
}

func parsePhase(name string) (scheduler.Phase, bool) {
	i := slices.Index(phaseNames(), name)
	return scheduler.Phase(max(i, 0)), i >= 0
}
