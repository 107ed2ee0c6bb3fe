package npc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// maxRecords is how many turns of a character can be explained, the last ones.
// Each holds its prompt, some KB.
const maxRecords = 4

// maxDecisions bounds what is noted about one turn.
const maxDecisions = 32

// Explanation is why a character said what it said.
type Explanation struct {
	Agent     AgentID
	Turn      TurnID
	Kind      string // "reply", "cue", "resume", "choose"
	Line      string // what it answers
	Text      string // what it said, or the call that it chose
	Thoughts  string
	Reason    string // why it ended
	Plan      Plan   // the parts of the prompt, and the prompt
	Notes     []Note // what could have come to its mind, memories with their scores
	Sampling  llm.Sampling
	Usage     llm.Usage
	Decisions []string // in order
	Prepared  bool
	Err       error

	goOn []llm.Token
}

func (t *turn) decide(format string, args ...any) {
	if len(t.record.Decisions) < maxDecisions {
		t.record.Decisions = append(t.record.Decisions, fmt.Sprintf(format, args...))
	}
	t.record.Line = t.line
}

func (x *Explanation) fill(j *job) {
	x.Prepared, x.Plan, x.Notes, x.goOn = true, j.plan, j.in.Notes, j.in.Go
}

// keep notes an explanation, in the place of the oldest.
func (a *agent) keep(x *Explanation) {
	if len(a.records) == maxRecords {
		a.records = append(a.records[:0], a.records[1:]...)
	}
	a.records = append(a.records, x)
}

// Explain tells about the last turns of a character, the newest last. What it
// returns must not be changed.
func (w *World) Explain(id AgentID) []*Explanation {
	if a := w.agents[id]; a != nil {
		return slices.Clone(a.records)
	}
	return nil
}

// String shows it for people. Safe for concurrent use.
func (x *Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d of %s: %s to %q\n", x.Turn, x.Agent, x.Kind, x.Line)
	fmt.Fprintf(&b, "said      %q\n", x.Text)
	if x.Thoughts != "" {
		fmt.Fprintf(&b, "thought   %q\n", cutText(x.Thoughts, 200))
	}
	if x.Err != nil {
		fmt.Fprintf(&b, "error     %v\n", x.Err)
	}
	s, u := x.Sampling, x.Usage
	fmt.Fprintf(&b, "ended     %s\n", x.Reason)
	fmt.Fprintf(&b, "sampling  temperature %v, top_p %v, min_p %v, top_k %d, repeat_penalty %v, seed %d, "+
		"grammar %d bytes\n", s.Temperature, s.TopP, s.MinP, s.TopK, s.RepeatPenalty, s.Seed, len(s.Grammar))
	fmt.Fprintf(&b, "cost      %d tokens of prompt: %d reused (%d of another's), %d computed; %d chosen, %d forced\n",
		u.Prompt, u.Reused, u.Shared, u.Prefilled, u.Generated, u.Forced)
	b.WriteString("decisions\n")
	for _, d := range x.Decisions {
		fmt.Fprintf(&b, "    %s\n", d)
	}
	if len(x.Notes) > 0 {
		b.WriteString("on its mind\n")
	}
	for _, n := range x.Notes {
		fmt.Fprintf(&b, "    %-6s %.3f %s\n", n.From, n.Score, n.Text)
	}
	b.WriteString("prompt\n")
	for line := range strings.Lines(x.Plan.Explain()) {
		b.WriteString("    " + line)
	}
	return b.String()
}
