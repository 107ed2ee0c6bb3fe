package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lull-npc/lull/harness/metrics"
)

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
	return fmt.Sprintf("%s %s %v", what, o.Op, o.Limit)
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
	Status string          `json:"status"`           // met, missed, unknown (not measured), skipped (not in the run)
	Value  *float64        `json:"value"`            // the median over the repeats
	Spread *metrics.Spread `json:"spread"`           // quartiles
	By     *float64        `json:"missed_by"`        // how far beyond the limit, in the metric's unit
	Why    string          `json:"why,omitempty"`    // of unknown and skipped
	Paired *metrics.Paired `json:"paired,omitempty"` // with Against and two repeats or more
}

// Statuses of a Verdict.
const (
	Met     = "met"
	Missed  = "missed"
	Unknown = "unknown"
	Skipped = "skipped"
)

// Failed reports whether the objective was in the run and is not shown to be
// met.
func (v Verdict) Failed() bool { return v.Status == Missed || v.Status == Unknown }

// judge decides an objective by the median over the complete runs.
func judge(o Objective, runs []Run, seed uint64) Verdict {
	v := Verdict{Objective: o}
	mine, why := values(runs, o.policy(), o.Metric)
	if o.Metric == "limit_share" && !played(runs, PolicyNative) {
		v.Status, v.Why = Skipped, "the limit needs a complete run of native"
		return v
	}
	if why != "" {
		v.Status, v.Why = Unknown, why
		if len(mine) == 0 && why == noRuns {
			v.Status, v.Why = Skipped, "no complete run of "+o.policy()
		}
		return v
	}
	xs := mine
	if o.Against != "" {
		theirs, why := values(runs, o.Against, o.Metric)
		switch {
		case why == noRuns:
			v.Status, v.Why = Skipped, "no complete run of "+o.Against
			return v
		case why != "":
			v.Status, v.Why = Unknown, why
			return v
		}
		n := min(len(mine), len(theirs)) // an interrupted last round
		xs = nil
		for i := range n {
			xs = append(xs, mine[i]-theirs[i])
		}
		if p, err := metrics.Pair(theirs[:n], mine[:n], seed); err == nil {
			v.Paired = &p
		}
	}
	spread := metrics.Quartiles(xs)
	v.Spread, v.Value, v.Status = &spread, &spread.Median, Met
	beyond := spread.Median - o.Limit
	if o.Op == AtLeast {
		beyond = -beyond
	}
	if beyond > 0 {
		v.Status, v.By = Missed, &beyond
	}
	return v
}

const noRuns = "no runs"

// values reads a metric of every complete run of a policy, in their order.
func values(runs []Run, policy, metric string) (xs []float64, why string) {
	for i := range runs {
		if runs[i].Policy != policy || runs[i].Interrupted {
			continue
		}
		x, why := lookUp(&runs[i], metric)
		if why != "" {
			return nil, why
		}
		xs = append(xs, x)
	}
	if len(xs) == 0 {
		return nil, noRuns
	}
	return xs, ""
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
