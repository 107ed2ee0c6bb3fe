package harness

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A part is over the frames that have it: who is asked once in a hundred frames
// does not make the other ninety-nine look cheap.
func TestPartsOfOurCalls(t *testing.T) {
	var frames []frameRecord
	for i := range 100 {
		p := parts{marks: 5_000, poll: 2_000}
		if i%2 == 0 {
			p.wake = 10_000
		}
		if i == 99 {
			p.submit = 40_000
		}
		frames = append(frames, frameRecord{Parts: p})
	}
	got := gameThreadParts(frames)
	want := map[string]float64{"marks": 5, "wake": 10, "poll": 2, "submit": 40}
	for name, µs := range want {
		if p := got[name]; p.P50 == nil || *p.P50 != µs || *p.P99 != µs {
			t.Errorf("%s: %v, want %v µs", name, p, µs)
		}
	}
	r := Report{Runs: []Run{
		{Policy: PolicyNative},
		{Policy: "lull", GameThreadParts: got, IdleUse: &IdleUse{}},
		{Policy: "idle-2", GameThreadParts: got}, // nobody steers it
	}}
	r.Summary = summarise(r.Runs, 1)
	lines := []string{"lull: our calls, µs a frame (p50 / p99): marks 5 / 5, wake 10 / 10, poll 2 / 2, submit 40 / 40"}
	if got := r.callLines(); !slices.Equal(got, lines) {
		t.Error(cmp.Diff(lines, got))
	}
}
