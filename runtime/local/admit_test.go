package local

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
)

// The rule stands in scheduler, for models without one in llm, and in C (which
// llamacpp tests). They agree everywhere.
func TestRulesAgree(t *testing.T) {
	instant := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-10, 10),
		rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}))
	rapid.Check(t, func(t *rapid.T) {
		w := llm.Window{
			Mode: llm.GateMode(rapid.IntRange(0, 3).Draw(t, "mode")),
			Open: instant.Draw(t, "open"), Close: instant.Draw(t, "close"),
			Pause: time.Duration(instant.Draw(t, "pause")), Expires: instant.Draw(t, "expires"),
		}
		now, last, next := instant.Draw(t, "now"), instant.Draw(t, "last"), time.Duration(instant.Draw(t, "next"))
		tentative := rapid.Bool().Draw(t, "tentative")
		v, until := Admit(now, last, w, next, tentative)
		if pv, puntil := llm.PlainAdmit(now, last, w, next, tentative); pv != v || puntil != until {
			t.Fatalf("scheduler says %s %d, llm %s %d", v, until, pv, puntil)
		}
	})
}
