package scheduler

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wildGame marks its frames as no game should, and its reply runs wherever the gate
// lets it, in groups of 0.4 ms, ten to a token.
type wildGame struct {
	t   drawn
	c   *Controller
	m   Marks
	now Instant
	w   Window

	inWork  bool    // between a Begin that was taken and its End
	opens   Instant // the end of the last frame and Delay
	apart   bool    // the last decision keeps layers out of the game's work
	lastRun Instant
	groups  int

	id, seed uint64
}

// drawn is a test whose failures rapid makes small.
type drawn struct {
	testing.TB
	t *rapid.T
}

func (d drawn) Fatalf(format string, args ...any) { d.t.Fatalf(format, args...) }

const wildGroup = 400 * time.Microsecond

// run lets the reply run until an instant, and looks at what the gate lets in.
func (g *wildGame) run(to Instant) {
	at, last := g.now, g.lastRun
	for at < to {
		v, until := Admit(at, last, g.w, wildGroup, false)
		if v == WaitUntil {
			if until <= at {
				g.t.Fatalf("wait until %d at %d: would spin", until, at)
			}
			at = min(until, to)
			continue
		}
		free := g.w.Gate == GateFree || g.w.Expires != 0 && at >= g.w.Expires
		switch {
		case free:
		case g.w.Gate == GateClosed:
			g.t.Fatalf("a group begins in a closed gate at %d: %+v", at, g.w)
		case g.w.Gate == GateWindow && g.inWork && g.apart:
			g.t.Fatalf("a group begins in the game's work at %d: %+v", at, g.w)
		case g.w.Gate == GateWindow && !g.inWork && (at < g.opens || at.Add(wildGroup) > g.w.Close):
			g.t.Fatalf("a group begins at %d, outside %+v that opens at %d", at, g.w, g.opens)
		}
		at = at.Add(wildGroup)
		last = at
		if g.groups++; g.groups%10 == 0 {
			g.c.Report(Work{Stage: StageDecode, Tokens: 1, Generated: 1, Threads: 1, Start: at.Add(-10 * wildGroup),
				End: at, Pending: 1})
		}
		g.lastRun = at
	}
	g.now = to
}

func (g *wildGame) begin(id uint64, target time.Duration) {
	if w, out := g.m.Begin(id, target, g.now); out.Taken() {
		g.w, g.inWork = w, true
	}
}

func (g *wildGame) end(id uint64, deadline Instant, phase Phase, quiet bool) {
	s, out := g.m.End(id, deadline, g.now)
	if !out.Taken() {
		return
	}
	s.Phase, s.Quiet = phase, quiet
	d := g.c.Step(s)
	checkBounds(g.t, d)
	g.w, g.inWork = g.m.Plan(d), false
	g.opens, g.apart = g.now.Add(g.m.Delay), d.OpenAfter == AtFrameEnd
}

func (g *wildGame) dice(n int) int {
	g.seed = g.seed*6364136223846793005 + 1442695040888963407
	return int(g.seed>>33) % n
}

// frame plays one frame with something odd about it, until the next line of its grid.
func (g *wildGame) frame(odd int, target time.Duration, share float64, phase Phase, mute bool) {
	span := min(max(target, time.Millisecond), time.Second)
	start := g.now
	g.begin(g.id, target)
	g.run(g.now.Add(time.Duration(float64(span) * share)))
	deadline := start.Add(target)
	if odd == 3 {
		deadline = Instant(g.seed)
	}
	switch {
	case odd == 4 || mute: // never ends
	case odd == 5: // ends after the next has begun
		g.begin(g.id+1, target)
		g.run(g.now.Add(span / 3))
		g.end(g.id, deadline, phase, false)
		g.id++
	default:
		g.end(g.id, deadline, phase, g.dice(2) == 0)
		if odd == 6 {
			g.end(g.id, deadline, phase, false)
		}
	}
	g.run(max(g.now, nextLine(start.Add(span), span, g.now)))
	g.id++
}

// TestWildGames: with frames of any period that changes each frame, marks that are
// missing, late, twice, or of a clock that goes back, phases that change each frame,
// and minutes in the background, nothing runs where it should not, and no reply
// stands still for longer than its floor allows.
func TestWildGames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := DefaultConfig().WithPreset(Preset(rapid.IntRange(0, int(LLMFirst)).Draw(rt, "preset")))
		cfg.LowPriorityBase = rapid.Bool().Draw(rt, "base")
		cfg.Layers = rapid.SampledFrom([]int{0, 1, 30}).Draw(rt, "layers")
		cfg.MaxThreads = rapid.IntRange(1, 4).Draw(rt, "threads")
		cfg.TakeBack = time.Duration(rapid.Int64Range(0, 100e6).Draw(rt, "take back"))
		c, err := New(cfg, 0)
		if err != nil {
			rt.Fatal(err)
		}
		g := &wildGame{t: drawn{t, rt}, c: c, now: Instant(rapid.Int64Range(0, 1<<50).Draw(rt, "start"))}
		g.lastRun = g.now
		g.m.Delay = time.Duration(rapid.SampledFrom([]int64{0, 100e3, 3e6, 50e6}).Draw(rt, "delay"))
		g.c.Report(Work{Pending: 1})
		targets := rapid.SampledFrom([]int64{4_166_667, 6_944_444, 16_666_667, 33_333_333, 0, 1, 3600e9, -1, 1e6, 1e9})
		target := time.Duration(targets.Draw(rt, "target"))
		vary, share := rapid.Bool().Draw(rt, "vary"), rapid.Float64Range(0, 1.5).Draw(rt, "share")
		trouble := rapid.SampledFrom([]int{0, 1, 5, 100}).Draw(rt, "trouble")
		mute := rapid.SampledFrom([]int{0, 50, 400}).Draw(rt, "ends no frame from")
		phases := rapid.Bool().Draw(rt, "phases")
		phase := Phase(rapid.IntRange(0, 6).Draw(rt, "phase"))
		g.seed = rapid.Uint64().Draw(rt, "seed")
		dice := g.dice
		for frame := range 400 {
			if vary {
				target = time.Duration(1e6 + dice(33e6))
			}
			if phases {
				phase = Phase(dice(7))
			}
			odd := 9
			if dice(100) < trouble {
				odd = dice(9)
			}
			switch odd {
			case 0:
				g.now = g.now.Add(10 * time.Minute)
				g.lastRun = g.now
			case 1:
				g.now = max(0, g.now-Instant(dice(1<<40)))
				g.lastRun, g.opens = g.now, 0
			case 2:
				g.id += 1 << 62
			}
			g.frame(odd, target, share, phase, frame >= mute)
			if still := g.now.Sub(g.lastRun); still > cfg.FloorSpan+2*time.Second {
				rt.Fatalf("no group has begun for %v: %+v, decision %+v", still, g.w, c.Decision())
			}
		}
		roomy := !cfg.LowPriorityBase || cfg.TakeBack < 10*time.Millisecond
		if roomy && !phases && trouble == 0 { // else debts are forgiven in minutes
			checkRecovers(g.t, c)
		}
	})
}
