package meter

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

const period = time.Second / 60

// played gives a meter frames whose work takes so long.
func played(t *testing.T, frames ...Frame) *Meter {
	t.Helper()
	m, err := New(period)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := metrics.NewGrid(0, period, period)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		phase := f.Phase
		if phase == "" {
			phase = "explore"
		}
		f.Frame = grid.Finish(grid.Start()+f.Work, phase)
		m.Add(f, scheduler.Decision{Gate: scheduler.GateWindow, Reason: scheduler.ReasonReturn}, true)
	}
	return m
}

func frame(work time.Duration, ours time.Duration, ran bool, phase string) Frame {
	return Frame{Frame: metrics.Frame{Work: work, Phase: phase}, Ours: ours, Ran: ran, Policy: "lull"}
}

// Each late frame has the cause that the package comment says.
func TestCauses(t *testing.T) {
	const ms = time.Millisecond
	m := played(t, frame(10*ms, 0, true, ""), frame(20*ms, 0, false, ""), frame(20*ms, 0, true, ""),
		frame(17*ms, 2*ms, true, ""), frame(99*ms, 0, true, metrics.Loading))
	want := [ui.Causes]int{ui.Punctual: 1, ui.LateGame: 1, ui.LateModel: 1, ui.LateOurs: 1}
	if d := cmp.Diff(want, m.Late("lull")); d != "" {
		t.Errorf("late frames by cause (-want +got):\n%s", d)
	}
	r := m.Run("lull", 1, 3, 0, []float64{100, 300, 200})
	if r.Frames != 4 || r.LoadingFrames != 1 || r.JankRate != 0.75 || *r.TTFT.P50 != 200 {
		t.Errorf("%d frames, %d loading, jank %v, TTFT %v", r.Frames, r.LoadingFrames, r.JankRate, r.TTFT)
	}
	if r.Reasons["return"] != 1 {
		t.Errorf("reasons %v", r.Reasons)
	}
}

// Replying is the time in which somebody waits for words, loading left out.
func TestReplying(t *testing.T) {
	const ms = time.Millisecond
	quiet, replying := frame(10*ms, 0, false, ""), frame(10*ms, 0, true, "")
	loading := frame(10*ms, 0, true, metrics.Loading)
	replying.Replying, loading.Replying = true, true
	m := played(t, quiet, replying, loading, replying, quiet)
	m.Observe(llm.Work{Stage: llm.Decode, Generated: 4})
	r := m.Run("lull", 1, 1, 0, nil)
	// The rate is of whole frames: two of a sixtieth of a second.
	if got := r.Replying; math.Abs(got.Seconds-2.0/60) > 1e-6 || math.Abs(*got.TokensPerSecond-120) > 1e-3 {
		t.Errorf("replying for %.4f s at %v tokens/s, want 0.0333 s at 120", got.Seconds, *got.TokensPerSecond)
	}
	if r.TokensPerSecond >= *r.Replying.TokensPerSecond {
		t.Errorf("%v tokens/s of all time, %v of replying", r.TokensPerSecond, *r.Replying.TokensPerSecond)
	}
	if r := played(t, quiet).Run("lull", 1, 0, 0, nil); r.Replying.TokensPerSecond != nil {
		t.Errorf("nobody was asked, and the rate is %v", *r.Replying.TokensPerSecond)
	}
}

// After F2 the HUD counts for the other policy, and goes on where the first one
// comes back.
func TestLateByPolicy(t *testing.T) {
	const ms = time.Millisecond
	under := func(policy string, f Frame) Frame {
		f.Policy = policy
		return f
	}
	late, punctual := frame(20*ms, 0, true, ""), frame(10*ms, 0, true, "")
	frames := []Frame{under("vanilla", late), under("vanilla", late), under("", late), under("lull", punctual)}
	g, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	texts := g.Texts["en"]
	for _, c := range []struct {
		more       []Frame
		on         string
		head, late string
	}{
		{nil, "lull", "late 0.0%", "model 0"},
		{nil, "", "late 0.0%", "model 0"},
		{[]Frame{under("vanilla", punctual), under("vanilla", punctual)}, "vanilla", "late 50.0%", "model 2"},
	} {
		h := played(t, append(frames, c.more...)...).HUD(texts, State{On: c.on, Wanted: "lull"})
		if !strings.HasSuffix(h.Head, c.head) || h.Late[ui.LateModel] != c.late {
			t.Errorf("%q is on: %q, %q; want %q, %q", c.on, h.Head, h.Late[ui.LateModel], c.head, c.late)
		}
	}
}

// What the engine does is counted in the phase in which it ends.
func TestTokens(t *testing.T) {
	m := played(t, frame(time.Millisecond, 0, false, "explore"))
	m.Observe(llm.Work{Stage: llm.Decode, Generated: 3, Start: 0, End: 10e6, Waited: 4e6})
	m.Observe(llm.Work{Stage: llm.Idle, Generated: 99})
	r := m.Run("lull", 1, 0, 0, nil)
	if r.Tokens != 3 || r.Phases["explore"].Tokens != 3 {
		t.Errorf("%d tokens, phases %v", r.Tokens, r.Phases)
	}
	g, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	h := m.HUD(g.Texts["en"], State{On: "lull", Stats: talk.Stats{Steered: true}, Now: 10e6})
	if text := strings.Join(h.Lines, "\n"); !strings.Contains(text, "1.5 tokens/s") {
		t.Errorf("the HUD says\n%s", text)
	}
}
