package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lull-npc/lull/rag"
)

const (
	maxExperiences = 64
	maxTexts       = 256
	// maxRemembered bounds what a run remembers in all: it is made before the
	// measured time, some hundred bytes each.
	maxRemembered = 100_000
)

// Experience is something that a character lives through and remembers, again and
// again.
type Experience struct {
	Owner      string   `yaml:"owner" json:"owner"`
	Scope      string   `yaml:"scope,omitempty" json:"scope,omitempty"` // empty: own
	Audience   []string `yaml:"audience,omitempty" json:"audience,omitempty"`
	Speaker    string   `yaml:"speaker,omitempty" json:"speaker,omitempty"`
	Scene      string   `yaml:"scene,omitempty" json:"scene,omitempty"`
	Importance int      `yaml:"importance,omitempty" json:"importance,omitempty"` // 1 … 10; 0: 5

	// Texts are remembered in turn. {n} stands for the how manieth it is: the same
	// words twice are one memory that was told again.
	Texts []string `yaml:"texts" json:"texts"`

	// When: at times, or every so often; only in some phases if they are named.
	AtS    []float64 `yaml:"at_s,omitempty" json:"at_s,omitempty"`
	EveryS float64   `yaml:"every_s,omitempty" json:"every_s,omitempty"`
	Phases []string  `yaml:"phases,omitempty" json:"phases,omitempty"`
}

// memory is the nth one, from 1.
func (e *Experience) memory(n int) rag.Memory {
	scope, _ := rag.ParseScope(e.scope()) // it was checked
	text := e.Texts[(n-1)%len(e.Texts)]
	return rag.Memory{Owner: e.Owner, Scope: scope, Audience: slices.Clone(e.Audience), Speaker: e.Speaker,
		Scene: e.Scene, Importance: e.Importance, Text: strings.ReplaceAll(text, "{n}", strconv.Itoa(n))}
}

func (e *Experience) scope() string {
	if e.Scope == "" {
		return rag.Own.String()
	}
	return e.Scope
}

// most is how often it can happen in so many seconds.
func (e *Experience) most(total float64) int {
	if e.EveryS > 0 {
		return int(min(total/e.EveryS+1, maxRemembered+1))
	}
	return len(e.AtS)
}

func (e *Experience) check(c *checks, at string, total float64) {
	c.text(at+".owner", e.Owner, true)
	c.text(at+".speaker", e.Speaker, false)
	c.text(at+".scene", e.Scene, false)
	c.count(at+".texts", len(e.Texts), 1, maxTexts)
	for i, text := range e.Texts {
		c.text(fmt.Sprintf("%s.texts[%d]", at, i), text, true)
	}
	c.count(at+".importance", e.Importance, 0, 10)
	checkTimes(c, at, e.AtS, total)
	if e.EveryS != 0 {
		c.between(at+".every_s", e.EveryS, 0.001, maxSeconds)
	}
	if (len(e.AtS) > 0) == (e.EveryS != 0) {
		c.add(at, "it happens in %d ways: want one of at_s, every_s", 2*btoi(e.EveryS != 0))
	}
	checkPhases(c, at, e.Phases)
	if len(c.found) > 0 {
		return // the store would say the same in other words
	}
	if _, err := rag.ParseScope(e.scope()); err != nil {
		c.add(at+".scope", "%q: want own, witnessed, faction, region or world", e.Scope)
		return
	}
	if err := e.memory(1).Validate(); err != nil {
		c.add(at, "%v", err)
	}
}

func checkExperiences(c *checks, at string, list []Experience, total float64) {
	c.count(at, len(list), 0, maxExperiences)
	all := 0
	for i := range list {
		list[i].check(c, fmt.Sprintf("%s[%d]", at, i), total)
		all += list[i].most(total)
	}
	if all > maxRemembered {
		c.add(at, "together more than %d memories: make every_s longer", maxRemembered)
	}
}

// happening is an Experience in one run: its memories, made before the time is
// measured, and when they come.
type happening struct {
	memories []rag.Memory // those to come
	phases   []bool       // by phase of the timeline; nil: all
	at       []time.Duration
	every    time.Duration
	due      time.Duration // of every: the next time
}

func newHappening(e *Experience, t *timeline) happening {
	h := happening{every: seconds(e.EveryS), due: seconds(e.EveryS), phases: t.only(e.Phases)}
	for _, at := range e.AtS {
		h.at = append(h.at, seconds(at))
	}
	for n := range e.most(t.total().Seconds()) {
		h.memories = append(h.memories, e.memory(n+1))
	}
	return h
}

// next takes the next memory if one is due.
func (h *happening) next(p int, played time.Duration) (m rag.Memory, ok bool) {
	for len(h.memories) > 0 {
		switch {
		case h.every > 0 && played >= h.due:
			h.due += h.every
		case len(h.at) > 0 && played >= h.at[0]:
			h.at = h.at[1:]
		default:
			return m, false
		}
		if h.phases != nil && !h.phases[p] {
			continue
		}
		m, h.memories = h.memories[0], h.memories[1:]
		m.At = rag.GameTime(played)
		return m, true
	}
	return m, false
}
