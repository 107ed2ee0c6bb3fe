package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/speculative"
)

// A short run with a draft model fills every part of the report. What the
// numbers are is not a test's business.
func TestSpeculateReport(t *testing.T) {
	library, model := testassets.Locate(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	draft, err := assets.Locate(assets.Options{Model: "smollm2-135m-instruct-q4_1"})
	if err != nil {
		t.Skipf("no draft model: %v", err)
	}
	steps := map[string]int{}
	cfg := SpeculateConfig{Target: model, Draft: draft.Model.Path, Admit: local.Admit, Rounds: 1, Tokens: 10, Stops: 3,
		Seed: 1, Progress: func(what string, _, _ int) { steps[what]++ }}
	r, err := Speculate(t.Context(), cfg)
	if errors.Is(err, speculative.ErrBusy) {
		t.Skipf("nothing can be measured: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Rounds != 1 || len(r.Rows) != 6 || len(r.Costs) != 1 || len(r.Costs[0].Widths) != 6 || r.Costs[0].Draft <= 0 {
		t.Errorf("%+v", r)
	}
	for _, row := range r.Rows {
		if row.Rate.Median <= 0 || row.Predicted <= 0 {
			t.Errorf("%s %s: %+v", row.Kind, row.Method, row)
		}
	}
	if r.Replies.Compared != 22 {
		t.Errorf("%d replies compared, want two methods on 11 conversations", r.Replies.Compared)
	}
	if p := r.Preemption; p == nil || p.N != 3 || p.LayerMs <= 0 || p.P50 > p.P99 {
		t.Errorf("preemption %+v", p)
	}
	for _, what := range []string{"costs", "replies", "preemptions"} {
		if steps[what] == 0 {
			t.Errorf("no progress of %s", what)
		}
	}
	if c := r.Checks[len(r.Checks)-1]; !strings.Contains(c.Claim, "near-ties") || c.Answer != "yes" {
		t.Errorf("%+v; differences %+v", c, r.Replies.Differences)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cfg.Draft = ""
	cfg.Progress = func(what string, done, _ int) {
		if what == "replies" {
			cancel()
		}
	}
	r, err = Speculate(ctx, cfg)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, speculative.ErrBusy) {
		t.Errorf("interrupted: %v", err)
	}
	if err == context.Canceled && (!r.Interrupted || len(r.Costs) != 1) {
		t.Errorf("after the interruption %+v", r)
	}
}

func TestSpeculateRefuses(t *testing.T) {
	for name, cfg := range map[string]SpeculateConfig{
		"tokens": {Tokens: 513}, "rounds": {Rounds: -1}, "threads": {Threads: 1000}, "stops": {Stops: -5},
	} {
		if _, err := Speculate(t.Context(), cfg); err == nil || !strings.Contains(strings.ToLower(err.Error()), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the data says is what the checks say.
func TestChecks(t *testing.T) {
	pays := speculative.Row{Threads: 1, Token: 1, Verify: []speculative.Point{{Width: 2, Ratio: 1.2}}}
	never := speculative.Row{Threads: 1, Token: 1, Verify: []speculative.Point{{Width: 2, Ratio: 2.5}}}
	row := func(kind string, median, low, high float64) SpeculateRow {
		return SpeculateRow{Kind: kind, Method: NGram, Ratio: metrics.Spread{Median: median}, Low: low, High: high}
	}
	for _, c := range []struct {
		costs speculative.Row
		r     SpeculateReport
		want  string
	}{
		{pays, SpeculateReport{Rows: []SpeculateRow{row(natural, 1, 0.98, 1.01)}}, "yes"},
		{pays, SpeculateReport{Rows: []SpeculateRow{row(natural, 0.97, 0.96, 1.01)}}, "undecided"},
		{pays, SpeculateReport{Rows: []SpeculateRow{row(natural, 0.9, 0.88, 0.93)}}, "no"},
		{pays, SpeculateReport{Rows: []SpeculateRow{row(natural, 1, 0, 0)}}, "undecided"}, // one round has no interval
		{pays, SpeculateReport{Rows: []SpeculateRow{row(copying, 1.4, 1.2, 1.5)}}, "yes"},
		{never, SpeculateReport{Rows: []SpeculateRow{row(copying, 1, 1, 1)}}, "does not apply"},
		{pays, SpeculateReport{Preemption: &Preemption{N: 9, P99: 0.5, LayerMs: 0.4}}, "yes"},
		{pays, SpeculateReport{Preemption: &Preemption{N: 9, P99: 0.7, LayerMs: 0.4}}, "no"},
		{pays, SpeculateReport{Replies: Replies{Compared: 3, Equal: 2, LargestGap: 0.02,
			Differences: []Difference{{}}}}, "yes"},
		{pays, SpeculateReport{Replies: Replies{Compared: 3, Equal: 2, LargestGap: 3,
			Differences: []Difference{{}}}}, "no"},
	} {
		got := checks(&c.r, c.costs)
		if len(got) != 1 || got[0].Answer != c.want {
			t.Errorf("%+v: %+v, want %q", c.r, got, c.want)
		}
	}
}
