//go:build cgo

package llamacpp

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
)

// The rule stands twice: scheduler.Admit, and lull_admit in C. Both must pass
// the same table, and agree on everything else.
func TestAdmitTwins(t *testing.T) {
	f, err := os.Open("../../scheduler/testdata/admit.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	modes := map[string]llm.GateMode{"free": 0, "paced": 1, "window": 2, "closed": 3}
	cases := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		var mode, verdict string
		var now, lastEnd, open, shut, pause, expires, next, tentative, until int64
		_, err := fmt.Sscanf(line, "%s %d %d %d %d %d %d %d %d => %s %d",
			&mode, &now, &lastEnd, &open, &shut, &pause, &expires, &next, &tentative, &verdict, &until)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		w := llm.Window{Mode: modes[mode], Open: open, Close: shut, Pause: time.Duration(pause), Expires: expires}
		v, at := admitC(now, lastEnd, w, time.Duration(next), tentative == 1)
		if v.String() != verdict || at != until {
			t.Errorf("%s\n got %s %d", line, v, at)
		}
		cases++
	}
	if cases < 40 {
		t.Errorf("%d cases, want at least 40", cases)
	}
}

func TestAdmitTwinsAgreeEverywhere(t *testing.T) {
	instant := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-10, 10),
		rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}))
	rapid.Check(t, func(t *rapid.T) {
		w := llm.Window{
			Mode:  llm.GateMode(rapid.IntRange(0, 3).Draw(t, "mode")),
			Open:  instant.Draw(t, "open"),
			Close: instant.Draw(t, "close"),
			Pause: time.Duration(instant.Draw(t, "pause")), Expires: instant.Draw(t, "expires"),
		}
		now, last, next := instant.Draw(t, "now"), instant.Draw(t, "last"), time.Duration(instant.Draw(t, "next"))
		tentative := rapid.Bool().Draw(t, "tentative")
		v, at := admit(now, last, w, next, tentative)
		if cv, cat := admitC(now, last, w, next, tentative); cv != v || cat != at {
			t.Errorf("Go says %s %d, C says %s %d", v, at, cv, cat)
		}
	})
}
