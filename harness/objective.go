package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lull-npc/lull/harness/metrics"
)

// SampleObjectives is an SLO file to begin with.
const SampleObjectives = `objectives:
  # Late frames that lull adds to the game's own, repeat by repeat: at most 1 in 100.
  - {metric: jank_rate, policy: lull, against: native, op: "<=", limit: 0.01}
  # The first word of a reply, within a second in half of the replies.
  - {metric: ttft_ms.p50, op: "<=", limit: 1000}
  # Of the tokens/s that the idle time is worth.
  - {metric: limit_share, op: ">=", limit: 0.5}
`

// Objective is something that a run must show. With Against, the difference to
// that policy is meant, repeat by repeat.
type Objective struct {
	// Metric is a key of a run, with dots: overrun_ms.p99, phases.combat.jank_rate.
	Metric  string  `yaml:"metric" json:"metric"`
	Policy  string  `yaml:"policy,omitempty" json:"policy,omitempty"`   // empty: lull
	Against string  `yaml:"against,omitempty" json:"against,omitempty"` // empty: absolute
	Op      string  `yaml:"op" json:"op"`                               // <= or >=
	Limit   float64 `yaml:"limit" json:"limit"`
}

// Operators of an objective.
const (
	AtMost  = "<="
	AtLeast = ">="
)

func (o Objective) String() string {
	what := o.policy() + " " + o.Metric
	if o.Against != "" {
		what += " - " + o.Against
	}
	return what + " " + o.Op + " " + strconv.FormatFloat(o.Limit, 'f', -1, 64)
}

func (o Objective) policy() string {
	if o.Policy == "" {
		return PolicyLull
	}
	return o.Policy
}

func checkObjectives(c *checks, at string, list []Objective) {
	c.count(at, len(list), 0, maxObjectives)
	for i, o := range list {
		field := fmt.Sprintf("%s[%d]", at, i)
		c.text(field+".metric", o.Metric, true)
		if strings.HasPrefix(o.Metric, ".") || strings.HasSuffix(o.Metric, ".") {
			c.add(field+".metric", "%q: want keys of a run with dots between them", o.Metric)
		}
		if o.Op != AtMost && o.Op != AtLeast {
			c.add(field+".op", "%q: want %s or %s", o.Op, AtMost, AtLeast)
		}
		c.between(field+".limit", o.Limit, -1e12, 1e12)
		for _, name := range []string{o.Policy, o.Against} {
			if name != "" {
				if _, err := FindPolicy(name); err != nil {
					c.add(field, "%q is no policy", name)
				}
			}
		}
	}
}

// LoadObjectives reads an SLO file: YAML with one key, objectives, as in a
// scenario.
func LoadObjectives(file string) ([]Objective, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	return ParseObjectives(file, text)
}

// ParseObjectives reads the text of an SLO file; file is only named.
func ParseObjectives(file string, text []byte) ([]Objective, error) {
	var s struct {
		Objectives []Objective `yaml:"objectives"`
	}
	err := decode(file, text, &s, func() []problem {
		var c checks
		if len(s.Objectives) == 0 {
			c.add("$.objectives", "there is none")
		}
		checkObjectives(&c, "$.objectives", s.Objectives)
		return c.found
	})
	if err != nil {
		return nil, err
	}
	return s.Objectives, nil
}

// Verdict is what became of an objective.
type Verdict struct {
	Objective
	Status string          `json:"status"`           // one of the statuses below
	Value  *float64        `json:"value"`            // the median over the repeats that count
	Spread *metrics.Spread `json:"spread"`           // quartiles
	By     *float64        `json:"missed_by"`        // how far beyond the limit, in the metric's unit
	Why    string          `json:"why,omitempty"`    // of all but met and missed; there, what was left out
	Paired *metrics.Paired `json:"paired,omitempty"` // with Against and two repeats or more
}

// Statuses of a Verdict.
const (
	Met       = "met"
	Missed    = "missed"
	Undecided = "undecided" // other processes disturbed every repeat
	Unknown   = "unknown"   // not measured, or no such metric
	Skipped   = "skipped"   // its policies did not run
)

// Failed reports whether the objective was in the run and is not met: missed, or
// of a metric that nobody measured, which is a slip in the objective. Undecided
// is neither: the same runs on a quiet machine decide it.
func (v Verdict) Failed() bool { return v.Status == Missed || v.Status == Unknown }

// judge decides an objective by the median over the complete runs. Repeats that
// other processes disturbed are left out; if there is no other, it is undecided.
func judge(o Objective, runs []Run, seed uint64) Verdict {
	v := Verdict{Objective: o}
	if o.Metric == "limit_share" && !played(runs, PolicyNative) {
		v.Status, v.Why = Skipped, "the limit needs a complete run of native"
		return v
	}
	mine, status, why := values(runs, o.policy(), o.Metric)
	var theirs []sample
	if status == "" && o.Against != "" {
		theirs, status, why = values(runs, o.Against, o.Metric)
	}
	if status != "" {
		v.Status, v.Why = status, why
		return v
	}
	if o.Against != "" { // only the pairs: an interrupted last round has one half
		n := min(len(mine), len(theirs))
		mine, theirs = mine[:n], theirs[:n]
	}
	ours, base, disturbed := quietOnes(mine, theirs)
	all := len(ours) == 0
	if all { // the numbers are told, and nothing is concluded
		ours, base = plainValues(mine), plainValues(theirs)
	}
	v.measure(ours, base, seed)
	switch {
	case all:
		v.Status, v.By = Undecided, nil
		v.Why = "other processes disturbed every repeat: run it again on a quiet machine"
	case disturbed > 0:
		v.Why = fmt.Sprintf("by %d of %d repeats: other processes disturbed the rest", len(ours), len(mine))
	}
	return v
}

// measure compares the values, or their differences to base, with the limit.
func (v *Verdict) measure(values, base []float64, seed uint64) {
	xs := slices.Clone(values)
	if v.Against != "" {
		for i := range xs {
			xs[i] -= base[i]
		}
		if p, err := metrics.Pair(base, values, seed); err == nil {
			v.Paired = &p
		}
	}
	spread := metrics.Quartiles(xs)
	v.Spread, v.Value, v.Status = &spread, &spread.Median, Met
	beyond := spread.Median - v.Limit
	if v.Op == AtLeast {
		beyond = -beyond
	}
	if beyond > 0 {
		v.Status, v.By = Missed, &beyond
	}
}

// sample is a metric of one run.
type sample struct {
	value     float64
	disturbed bool // by other processes
}

// quietOnes gives the values of the repeats that nothing disturbed, with those
// of the other policy if there is one, and counts the rest.
func quietOnes(mine, theirs []sample) (ours, base []float64, disturbed int) {
	for i, s := range mine {
		if s.disturbed || theirs != nil && theirs[i].disturbed {
			disturbed++
			continue
		}
		ours = append(ours, s.value)
		if theirs != nil {
			base = append(base, theirs[i].value)
		}
	}
	return ours, base, disturbed
}

func plainValues(list []sample) []float64 {
	var xs []float64
	for _, s := range list {
		xs = append(xs, s.value)
	}
	return xs
}

// values reads a metric of every complete run of a policy, in their order; a
// status says that it can't.
func values(runs []Run, policy, metric string) (list []sample, status, why string) {
	family, _, _ := strings.Cut(metric, ".")
	for i := range runs {
		r := &runs[i]
		if r.Policy != policy || r.Interrupted {
			continue
		}
		if r.Memory == nil && (family == "memory" || family == "embeddings") {
			return nil, Skipped, "nobody remembers in a run of " + policy
		}
		x, why := lookUp(r, metric)
		if why != "" {
			return nil, Unknown, why
		}
		busy := r.OtherCPU != nil && *r.OtherCPU > noisy
		list = append(list, sample{x, busy && family != "embeddings"}) // no noise makes lull embed in combat
	}
	if len(list) == 0 {
		return nil, Skipped, "no complete run of " + policy
	}
	return list, "", ""
}

// lookUp finds a number in the JSON of a run, so that an objective can name
// every key that a report has.
func lookUp(r *Run, metric string) (float64, string) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, err.Error()
	}
	var at any
	if err := json.Unmarshal(text, &at); err != nil {
		return 0, err.Error()
	}
	for key := range strings.SplitSeq(metric, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return 0, metric + " goes beyond a value"
		}
		if at, ok = m[key]; !ok {
			return 0, metric + " is not in a run of " + r.Policy
		}
	}
	switch x := at.(type) {
	case float64:
		return x, ""
	case bool:
		return float64(btoi(x)), ""
	case nil:
		return 0, metric + " was not measured in a run of " + r.Policy
	}
	return 0, metric + " is no number"
}

func played(runs []Run, policy string) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return r.Policy == policy && !r.Interrupted })
}
