package bench

import (
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/local"
)

// A short run fills every part of the report. What the numbers are is not a
// test's business.
func TestEngineReport(t *testing.T) {
	library, model := testassets.Locate(t)
	if err := llamacpp.Load(library); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Model: model, Admit: local.Admit, Rounds: 2, Tokens: 4, Prefill: 16, Stops: 3, Seed: 1}
	r, err := Engine(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rounds != 2 || len(r.Rows) != len(candidates()) || r.Best == "" {
		t.Errorf("%d rounds, %d rows, best %q", r.Rounds, len(r.Rows), r.Best)
	}
	for _, row := range r.Rows {
		if row.Decode.Median <= 0 || row.Prefill.Median <= 0 || row.Ratio.Median <= 0 || row.RatioLow > row.RatioHigh {
			t.Errorf("%s: %+v", row.Name, row)
		}
	}
	stages := []string{"decode", "prefill", "decode, free gate", "decode, free gate, whole head"}
	if len(r.Stops) != len(stages) {
		t.Fatalf("stops of %d stages, want %q", len(r.Stops), stages)
	}
	for i, s := range r.Stops {
		if s.Stage != stages[i] || s.N != 3 || s.P50 <= 0 || s.P50 > s.P99 || s.P99 > s.Max {
			t.Errorf("%+v", s)
		}
	}
}
