package scheduler

import (
	"math"
	"testing"
	"time"
)

// TestPI: the output is bounded, an integral that wound up comes back, and
// numbers that are none end at the careful bound.
func TestPI(t *testing.T) {
	c := pi{gain: 5}
	for range 10000 {
		if out, ok := c.next(0.1, 0.5); out > 1 || !ok {
			t.Fatalf("out %v %v", out, ok)
		}
	}
	n := 0
	for out := 1.0; out > 0.5; n++ {
		out, _ = c.next(0, -0.1)
	}
	if n > 20 {
		t.Errorf("%d steps to come back from the bound: want 20 at most", n)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64} {
		if out, ok := c.next(bad, bad); out != 1 || ok {
			t.Errorf("next(%v) = %v, %v: want 1, false", bad, out, ok)
		}
		if out, ok := c.next(0, 0); out != 1 || !ok {
			t.Errorf("after %v: %v, %v: want to go on from 1", bad, out, ok)
		}
	}
}

// TestLoopHoldsTheRate: the law of doc.go. Whatever the chance of a late frame
// is at full openness, the mean rate ends at p* or below.
func TestLoopHoldsTheRate(t *testing.T) {
	cfg := DefaultConfig()
	for _, worst := range []float64{0.005, 0.02, 0.1, 0.5, 1} {
		l := newFrameLoop(&cfg)
		dice := random(0.5, uint64(worst*1000))
		const n, allowed = 20000, 0.009
		late, debt := 0, 0.0
		for range n {
			isLate := dice()+0.5 < worst*l.openness*l.openness
			if isLate {
				late++
				debt++
			}
			debt = max(-debtBanked, debt-allowed)
			l.next(frameError{on: true, late: isLate, busy: 0.7, allowed: allowed, debt: debt})
		}
		if rate, most := float64(late)/n, allowed+1/(cfg.StepBack*n)+0.002; rate > most {
			t.Errorf("chance %v at full openness: %.4f late, want %.4f at most", worst, rate, most)
		}
		if worst <= 0.005 && l.openness < 0.8 {
			t.Errorf("chance %v: openness %.2f: want near 1, that much is allowed", worst, l.openness)
		}
	}
}

func TestBucket(t *testing.T) {
	b := newBucket(2, 3*time.Second)
	b.advance(time.Hour, false)
	if b.level != 6 || b.relax() != 0 || b.off {
		t.Errorf("idle: %+v: want full", b)
	}
	b.advance(time.Second, true)
	b.advance(500*time.Millisecond, true)
	if b.level != 3 || b.relax() != 0 {
		t.Errorf("half: %+v relax %v", b, b.relax())
	}
	b.advance(750*time.Millisecond, true)
	if b.relax() != 0.5 || b.off {
		t.Errorf("a quarter: %+v relax %v: want 0.5", b, b.relax())
	}
	b.advance(time.Minute, true)
	if b.level != 0 || !b.off || b.relax() != 1 {
		t.Errorf("empty: %+v: want off", b)
	}
	b.credit(1)
	if !b.off {
		t.Error("one token of six: want off still")
	}
	b.credit(1)
	if b.off {
		t.Error("two tokens of six: want control again")
	}
	if b.credit(1e9); b.level != 6 {
		t.Errorf("level %v: want the capacity at most", b.level)
	}
}

func TestStreakLength(t *testing.T) {
	for _, c := range []struct {
		late, frames float64
		want         int
	}{{0, 0, 3}, {100, 1000, 3}, {370, 900, 5}, {900, 900, 16}} {
		l := lateness{offLate: c.late, offFrames: c.frames}
		if got := l.streakLength(); got != c.want {
			t.Errorf("own rate %.3f: %d in a row, want %d", l.ownRate(), got, c.want)
		}
	}
}

// TestOwnLateness: a game that is late in a third of its frames by itself is
// not taken for over budget, but the LLM is not charged for that third.
func TestOwnLateness(t *testing.T) {
	p := game(constant(12).sum(chance(0.33, 6, 5)))
	p.kappa = 0.02
	p.demand = func(i int) bool { return i%1000 >= 400 } // replies come and go
	cfg := DefaultConfig()
	cfg.Layers, cfg.LowPriorityBase = 30, true
	c, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := p.run(t, c, 6000)
	if rate := c.lateness.ownRate(); rate < 0.25 || rate > 0.4 || c.lateness.overBudget {
		t.Errorf("own rate %.3f, over budget %v: want 0.33, false", rate, c.lateness.overBudget)
	}
	wantTokens(t, r, 3400, 4000, 20)
}

// TestClockBack: a clock that goes back an hour does not freeze any dwell.
func TestClockBack(t *testing.T) {
	p := game(constant(4))
	p.away = func(i int) time.Duration {
		if i == 100 {
			return -time.Hour
		}
		return 0
	}
	cfg := DefaultConfig()
	cfg.Layers, cfg.MaxThreads = 30, 2
	c, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := p.run(t, c, 300)
	if d := r[100].decision; d.Reason != ReasonClockBack {
		t.Errorf("frame 100: %v, want clock-back", d.Reason)
	}
	wantGate(t, r, 180, 300, GateFree)
	if now := r[299].at; c.act.free.changed > now || c.bound.changed > now || c.lastWorkEnd > now.Add(time.Second) {
		t.Errorf("instants of the old time remain: %+v", c.act)
	}
}

// TestDeterministic: two controllers that see the same give the same.
func TestDeterministic(t *testing.T) {
	for i := range scenarios() {
		a, b := scenarios()[i], scenarios()[i]
		ra, rb := a.run(t), b.run(t)
		for j := range ra {
			if ra[j].decision != rb[j].decision {
				t.Fatalf("%s: frame %d differs", a.name, j)
			}
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reasons {
		n := Reason(r).String()
		if n == "" || seen[n] {
			t.Errorf("reason %d: name %q", r, n)
		}
		seen[n] = true
	}
	for _, s := range []string{Reason(200).String(), Gate(9).String(), Phase(99).String(), Bottleneck(77).String(),
		Verdict(5).String(), DraftMode(9).String(), Stage(44).String(), MarkOutcome(99).String(), Preset(9).String(),
		ThermalStatus(99).String(), PowerSource(9).String(), ScoreState(9).String()} {
		if s != "unknown-value" {
			t.Errorf("a value outside its list is called %q", s)
		}
	}
}

// TestDocNumbers reproduces the example of doc.go.
func TestDocNumbers(t *testing.T) {
	cfg := DefaultConfig()
	var l lateness
	allowed := l.ownRate() + cfg.LateAllowance
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("p*", allowed, 0.011, 1e-9)
	loop := newFrameLoop(&cfg)
	loop.next(frameError{on: true, late: true, allowed: allowed})
	near("a late frame", 0.5-loop.openness, 0.0989, 1e-9)
	before := loop.openness
	loop.next(frameError{on: true, allowed: allowed})
	near("a punctual frame", loop.openness-before, 0.0011, 1e-9)
	near("punctual frames for a late one", 0.0989/0.0011, 90, 0.5)
	near("seconds until one is banked", debtBanked/allowed/60, 1.5, 0.06)

	var a actuators
	s := FrameSample{Target: ms(hz60), End: Instant(ms(11)), Marked: true}
	var d Decision
	a.aim(&cfg, &d, 0.25, &s, ms(11), true)
	near("margin in ms", float64(d.Margin)/1e6, 1.67, 0.01)
	near("window closes at ms", hz60-float64(d.Margin)/1e6, 15, 0.01)
	a.aim(&cfg, &d, 0.75, &s, ms(11), true)
	near("opens after ms", float64(d.OpenAfter)/1e6, 5.5, 0.01)
	w := Window{Gate: GateWindow, Open: Instant(ms(11)), Close: Instant(ms(hz60))}
	if v, _ := Admit(Instant(ms(16.26)), 0, w, ms(0.4), false); v != Go {
		t.Errorf("a group of 0.4 ms at 16.26 ms: %v, want go", v)
	}
	if v, _ := Admit(Instant(ms(16.27)), 0, w, ms(0.4), false); v != WaitUntil {
		t.Errorf("a group of 0.4 ms at 16.27 ms: %v, want wait", v)
	}
}

// TestDocContention reproduces the contention loop's example of doc.go.
func TestDocContention(t *testing.T) {
	cfg := DefaultConfig()
	sereno(&cfg)
	cfg.MaxVerifyWidth = 8
	b := newBandwidthLoop(&cfg)
	var d Decision
	step := func(i int) {
		now := Instant(ms(20)).Add(time.Duration(i) * ms(20))
		b.next(&bandwidthIn{score: Score{Value: 0.25, Confidence: 1, At: now, State: ScoreGood}, now: now,
			target: cfg.ContentionTarget, selected: true, harmed: true}, cfg.Dwell)
		b.aim(&cfg, &d, now, false)
	}
	row := BaselineRow{Layers: []time.Duration{ms(0.8), ms(0.8)}}
	if cs := float64(ms(1.0))/row.base(0, 0, 0) - 1; math.Abs(cs-0.25) > 1e-9 {
		t.Errorf("0.8 ms that take 1.0: %v, want 0.25", cs)
	}
	for i := range 9 {
		step(i)
		want := 0.1 + 0.05*float64(i+1)
		if math.Abs(d.Pressure-want) > 1e-9 {
			t.Errorf("score %d: pressure %v, want %v", i+1, d.Pressure, want)
		}
		if dropped := d.Draft == DraftNGram; dropped != (i >= 2) {
			t.Errorf("score %d: draft %v", i+1, d.Draft)
		}
		if wide := d.VerifyWidth == 8; wide != (i >= 2) {
			t.Errorf("score %d: width %d", i+1, d.VerifyWidth)
		}
	}
	step(9)
	if d.Sleep.Round(time.Microsecond) != ms(1.2) {
		t.Errorf("score 10: sleep %v, want 1.2 ms", d.Sleep)
	}
}

// busyFrame is a frame near its limit with everything measured.
func busyFrame(i int) FrameSample {
	start := Instant(0).Add(time.Duration(i) * ms(hz60))
	return FrameSample{Frame: uint64(i), Start: start, End: start.Add(ms(11 + float64(i%7))), Target: ms(hz60),
		Marked: true, MainBusy: ms(11), RenderBusy: ms(6), GPUBusy: ms(9), PresentWait: ms(1), PresentWaitKnown: true}
}

func TestNoAllocations(t *testing.T) {
	c, err := New(DefaultConfig(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var m Marks
	line, i := make([]byte, 0, 512), 0
	n := testing.AllocsPerRun(2000, func() {
		s := busyFrame(i)
		m.Begin(s.Frame, s.Target, s.Start)
		m.End(s.Frame, 0, s.End)
		c.Report(Work{Stage: StageDecode, Tokens: 1, Generated: 1, Start: s.Start, End: s.End, Pending: 1,
			Contention: Score{Value: 0.2, Confidence: 1, At: s.End, State: ScoreGood}})
		d := c.Step(s)
		m.Plan(d)
		if late, out := m.Timings(s.Frame-4, FrameTimings{GPUBusy: 1}); out == MarkOK {
			c.Late(late)
		}
		line = Trace(line[:0], s, d)
		i++
	})
	if n != 0 {
		t.Errorf("%v allocations a frame, want 0", n)
	}
}

func BenchmarkStep(b *testing.B) {
	c, err := New(DefaultConfig(), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := range b.N {
		s := busyFrame(i)
		c.Report(Work{Stage: StageDecode, Tokens: 1, Generated: 1, Start: s.Start, End: s.End, Pending: 1,
			Contention: Score{Value: 0.2, Confidence: 1, At: s.End, State: ScoreGood}})
		c.Step(s)
	}
}

func BenchmarkTrace(b *testing.B) {
	c, err := New(DefaultConfig(), 0)
	if err != nil {
		b.Fatal(err)
	}
	s := busyFrame(1)
	d, line := c.Step(s), make([]byte, 0, 512)
	b.ReportAllocs()
	for range b.N {
		line = Trace(line[:0], s, d)
	}
}
