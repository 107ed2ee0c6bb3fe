package metrics

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const target = time.Second / 60

func collector(t testing.TB, c Config) *Collector {
	t.Helper()
	col, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return col
}

// run adds frame times as a capture without gaps.
func run(c *Collector, frames ...time.Duration) {
	at := time.Duration(0)
	for _, ft := range frames {
		c.Add(FromCapture(at, ft, target))
		at += ft
	}
}

func steady(n int, ft time.Duration) []time.Duration {
	s := make([]time.Duration, n)
	for i := range s {
		s[i] = ft
	}
	return s
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// The example of the package comment.
func TestGridOfTheDoc(t *testing.T) {
	g, err := NewGrid(0, target, target)
	if err != nil {
		t.Fatal(err)
	}
	c := collector(t, DefaultConfig())
	var shown []time.Duration
	for _, work := range []time.Duration{11, 20, 11} {
		f := g.Finish(g.Start()+work*time.Millisecond, "combat")
		if o := c.Add(f); o != Used {
			t.Fatal(o)
		}
		shown = append(shown, g.Start())
	}
	if want := []time.Duration{target, 3 * target, 4 * target}; !reflect.DeepEqual(shown, want) {
		t.Errorf("shown at %v, want %v", shown, want)
	}
	r := c.Result()
	if !near(r.JankRate, 1.0/3) || math.Abs(r.HitchMsPerS-50) > 0.01 || r.FrameMs.P99 != 20 {
		t.Errorf("jank %v, hitch %v, p99 %v", r.JankRate, r.HitchMsPerS, r.FrameMs.P99)
	}
}

func TestGridCappedAt30(t *testing.T) {
	g, err := NewGrid(0, target, time.Second/30)
	if err != nil {
		t.Fatal(err)
	}
	f := g.Finish(g.Deadline()+time.Millisecond, "")
	if f.Overrun != time.Millisecond || g.Start() != 3*target {
		t.Errorf("overrun %v, shown %v: a late frame takes the next line of the screen", f.Overrun, g.Start())
	}
	if _, err := NewGrid(0, 0, target); err == nil || !strings.Contains(err.Error(), "1ms…10s") {
		t.Errorf("grid without lines: %v", err)
	}
}

// However frames end, the grid never goes back and stays on its lines.
func TestGridProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := time.Duration(rapid.Int64Range(int64(minPeriod), int64(maxPeriod)).Draw(t, "line"))
		want := time.Duration(rapid.Int64Range(int64(minPeriod), int64(maxPeriod)).Draw(t, "target"))
		g, err := NewGrid(0, line, want)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			start := g.Start()
			work := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "work"))
			f := g.Finish(start+work, "")
			if g.Start()%line != 0 || g.Start() < start+g.Target() || f.Interval != g.Start()-start {
				t.Fatalf("frame %+v ends on %v from %v", f, g.Start(), start)
			}
			if g.Start() < start+work {
				t.Fatalf("shown at %v before its work ended at %v", g.Start(), start+work)
			}
		}
	})
}

// One stall of 100 ms moves these metrics and no others.
func TestStallMovesExactlyTheExpected(t *testing.T) {
	smooth, stalled := collector(t, DefaultConfig()), collector(t, DefaultConfig())
	frames := steady(640, 16*time.Millisecond)
	run(smooth, frames...)
	frames[300] = 100 * time.Millisecond
	run(stalled, frames...)
	a, b := smooth.Result(), stalled.Result()
	moved := map[string]bool{}
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		if !cmp.Equal(va.Field(i).Interface(), vb.Field(i).Interface()) {
			moved[va.Type().Field(i).Name] = true
		}
	}
	want := map[string]bool{
		"Seconds": true, "AverageFPS": true, "JankRate": true, "ClearJankRate": true, "HitchMsPerS": true,
		"Low1FPS": true, "PerfDogJank": true, "StutterShare": true, "UnrealHitches": true, "HitchesPerMin": true,
		"Chrome": true,
	} // one frame is no percentile of 640, and its 100 ms are less than 1 % of the 10.3 s
	if d := cmp.Diff(want, moved); d != "" {
		t.Errorf("moved metrics (-want +got):\n%s", d)
	}
	if b.PerfDogJank != 1 || b.BigJank != 0 || b.UnrealHitches != 1 || !near(b.JankRate, 1.0/640) {
		t.Errorf("%+v", b)
	}
	if c := b.Chrome; c.Windows != 10 || c.MissedSumWorst != 5 || c.MissedMostFrame != 5 || c.DelayedWorst != 1.0/64 {
		t.Errorf("100 ms is 5 periods and a bit beyond its deadline: %+v", c)
	}
}

func TestMultiplierZeroMakesEveryFrameJanky(t *testing.T) {
	c := collector(t, Config{JankMultiplier: 0})
	run(c, steady(100, time.Millisecond)...)
	if r := c.Result(); r.JankRate != 1 {
		t.Errorf("jank rate %v", r.JankRate)
	}
	c = collector(t, Config{JankMultiplier: 2})
	run(c, 2*target, 2*target+1)
	if r := c.Result(); r.JankRate != 0.5 {
		t.Errorf("with multiplier 2, jank rate %v", r.JankRate)
	}
}

func TestClockJumps(t *testing.T) {
	c := collector(t, DefaultConfig())
	ft := 16 * time.Millisecond
	for i, start := range []time.Duration{0, ft, 2 * ft, 5 * time.Second, 5*time.Second + ft, 0, ft} {
		want := Used
		switch i {
		case 3:
			want = ClockGap
		case 5:
			want = ClockBackwards
		}
		if o := c.Add(FromCapture(start, ft, target)); o != want {
			t.Errorf("frame %d at %v: %v, want %v", i, start, o, want)
		}
	}
	c.Add(FromCapture(2*ft, -1, target))
	c.Add(FromCapture(2*ft, 0, target))
	c.Add(FromCapture(2*ft, ft, 0))
	want := map[string]int64{"clock-gap": 1, "clock-backwards": 1, "negative": 1, "zero": 1, "no-target": 1}
	r := c.Result()
	if d := cmp.Diff(want, r.Unusable); d != "" || r.Frames != 5 {
		t.Errorf("%d frames; unusable (-want +got):\n%s", r.Frames, d)
	}
	c.Restart()
	if o := c.Add(FromCapture(0, ft, target)); o != Used {
		t.Errorf("after Restart the clock may be anywhere: %v", o)
	}
}

// A long frame is no jump of the clock: the game was at work.
func TestLongFrameIsUsed(t *testing.T) {
	c := collector(t, DefaultConfig())
	run(c, target, 3*time.Second, target)
	if r := c.Result(); r.Frames != 3 || len(r.Unusable) != 0 {
		t.Errorf("%d frames, %v", r.Frames, r.Unusable)
	}
}

func TestLoadingStaysOut(t *testing.T) {
	c := collector(t, DefaultConfig())
	at := time.Duration(0)
	for i := range 200 {
		f := FromCapture(at, 10*time.Millisecond, target)
		f.Phase = "combat"
		if i >= 100 {
			f = FromCapture(at, 500*time.Millisecond, target)
			f.Phase = Loading
		}
		c.Add(f)
		at += f.Interval
	}
	r := c.Result()
	if r.Frames != 100 || r.LoadingFrames != 100 || r.JankRate != 0 || r.FrameMs.P99 != 10 || r.BigJank != 0 {
		t.Errorf("%+v", r)
	}
	if l := r.Phases[Loading]; l.Frames != 100 || l.JankRate != 1 || l.FrameMs.P50 != 500 {
		t.Errorf("loading: %+v", l)
	}
}

func TestPerfDog(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name      string
		frames    []time.Duration
		jank, big int64
	}{
		{"steady 100 ms is never jank", steady(50, 100*ms), 0, 0},
		{"too few before it", []time.Duration{16 * ms, 16 * ms, 200 * ms}, 0, 0},
		{"83 ms is not above two film frames", append(steady(3, 16*ms), 83*ms), 0, 0},
		{"84 ms is", append(steady(3, 16*ms), 84*ms), 1, 0},
		{"125 ms is not above three", append(steady(3, 16*ms), 125*ms), 1, 0},
		{"126 ms is", append(steady(3, 16*ms), 126*ms), 1, 1},
		{"twice the mean, not more", append(steady(3, 60*ms), 120*ms), 0, 0},
	} {
		col := collector(t, DefaultConfig())
		run(col, c.frames...)
		if r := col.Result(); r.PerfDogJank != c.jank || r.BigJank != c.big {
			t.Errorf("%s: %d jank, %d big; want %d, %d", c.name, r.PerfDogJank, r.BigJank, c.jank, c.big)
		}
	}
}

func TestUnrealHitches(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name   string
		frames []time.Duration
		want   int64
	}{
		{"59 ms is none", []time.Duration{16 * ms, 59 * ms}, 0},
		{"60 ms is one", []time.Duration{16 * ms, 60 * ms}, 1},
		{"within 200 ms of the last it is none", []time.Duration{16 * ms, 60 * ms, 16 * ms, 70 * ms}, 1},
		{"after 200 ms it is", append(append([]time.Duration{16 * ms, 60 * ms}, steady(10, 16*ms)...), 60*ms), 2},
		{"a slow frame after a slow one is none", []time.Duration{50 * ms, 70 * ms}, 0},
	} {
		col := collector(t, DefaultConfig())
		run(col, c.frames...)
		if r := col.Result(); r.UnrealHitches != c.want {
			t.Errorf("%s: %d, want %d", c.name, r.UnrealHitches, c.want)
		}
	}
}

func TestAndroidNeedsAMinute(t *testing.T) {
	col := collector(t, DefaultConfig())
	run(col, steady(600, 100*time.Millisecond)...)
	if r := col.Result(); r.SlowSession != nil {
		t.Errorf("60 s are only the warm-up: %v", *r.SlowSession)
	}
	col = collector(t, DefaultConfig())
	ms := time.Millisecond
	run(col, append(steady(600, 100*ms), 50*ms, 51*ms, 34*ms)...)
	r := col.Result()
	if r.SlowSession == nil || !near(*r.Slow20FPSShare, 1.0/3) || !near(*r.Slow30FPSShare, 2.0/3) || !*r.SlowSession {
		t.Errorf("%+v", r)
	}
}

// 1000 frames, 990 of 10 ms and 10 of 50 ms: 10.4 s.
func TestLow1(t *testing.T) {
	col := collector(t, DefaultConfig())
	run(col, append(steady(990, 10*time.Millisecond), steady(10, 50*time.Millisecond)...)...)
	r := col.Result()
	// The 99 % quantile is still 10 ms, so the average low is over all; 1 % of
	// the frames reach 50 ms; 1 % of 10.4 s is 104 ms: the third of 50 ms.
	if !near(r.Low1FPS, 1000/10.4) || r.Low1P1FPS != 20 || r.Low1IntegralFPS != 20 || !near(r.AverageFPS, 1000/10.4) {
		t.Errorf("%v %v %v %v", r.Low1FPS, r.Low1P1FPS, r.Low1IntegralFPS, r.AverageFPS)
	}
}

func TestSampleBeyondTheLimit(t *testing.T) {
	c := collector(t, Config{JankMultiplier: 1, ExactFrames: 500, Seed: 7})
	frames := make([]time.Duration, 10_000)
	for i := range frames {
		frames[i] = time.Duration(1+i%100) * time.Millisecond
	}
	run(c, frames...)
	r := c.Result()
	if r.Exact || r.KeptFrames != 500 || r.Frames != 10_000 || !near(r.Seconds, 505) || !near(r.JankRate, 0.84) {
		t.Errorf("%+v", r)
	}
	if r.FrameMs.P50 < 40 || r.FrameMs.P50 > 60 {
		t.Errorf("the sample's median %v, want about 50", r.FrameMs.P50)
	}
	again := collector(t, Config{JankMultiplier: 1, ExactFrames: 500, Seed: 7})
	run(again, frames...)
	if !cmp.Equal(again.Result(), r) {
		t.Error("the same seed gave another result")
	}
}

func TestPhasesAreBounded(t *testing.T) {
	c := collector(t, DefaultConfig())
	for i := range 1000 {
		f := FromCapture(time.Duration(i)*target, target, target)
		f.Phase = string(rune('a'+i%26)) + string(rune('a'+i/26%26))
		c.Add(f)
	}
	r := c.Result()
	var n int64
	for _, p := range r.Phases {
		n += p.Frames
	}
	if len(r.Phases) > maxPhases+1 || n != 1000 || r.Phases["other"].Frames == 0 {
		t.Errorf("%d phases with %d frames", len(r.Phases), n)
	}
}

// Whatever comes in, no metric is NaN, infinite or outside its range.
func TestAnyFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(Config{JankMultiplier: 1, ExactFrames: 50})
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, 200).Draw(t, "n")
		d := rapid.Int64Range(-int64(time.Hour), int64(time.Hour))
		for range n {
			c.Add(Frame{
				Start: time.Duration(d.Draw(t, "start")), Interval: time.Duration(d.Draw(t, "interval")),
				Work: time.Duration(d.Draw(t, "work")), Overrun: time.Duration(d.Draw(t, "overrun")),
				Target: time.Duration(rapid.Int64Range(-1, int64(time.Second)).Draw(t, "target")),
				Phase:  rapid.SampledFrom([]string{"", "combat", Loading}).Draw(t, "phase"),
			})
		}
		r := c.Result()
		if _, err := json.Marshal(r); err != nil {
			t.Fatalf("not a number somewhere: %v", err)
		}
		var bad int64
		for _, v := range r.Unusable {
			bad += v
		}
		if r.Frames+r.LoadingFrames+bad != int64(n) {
			t.Fatalf("%d + %d + %d frames of %d", r.Frames, r.LoadingFrames, bad, n)
		}
		shares := []float64{r.JankRate, r.ClearJankRate, r.StutterShare, r.MissedVSync}
		for i, x := range shares {
			if x < 0 || x > 1 {
				t.Fatalf("share %d is %v", i, x)
			}
		}
		o := r.Overrun
		if o.P50 > o.P90 || o.P90 > o.P95 || o.P95 > o.P99 || r.Low1FPS > r.AverageFPS*(1+1e-9) && r.Exact {
			t.Fatalf("out of order: %+v", r)
		}
	})
}

func TestEveryMetricIsDefined(t *testing.T) {
	defined := map[string]bool{}
	for _, d := range Definitions() {
		if d.Name == "" || d.Unit == "" || d.Text == "" || d.Source == "" || defined[d.Name] {
			t.Errorf("incomplete or twice: %+v", d)
		}
		defined[d.Name] = true
	}
	bookkeeping := map[string]bool{
		"frames": true, "seconds": true, "phases": true, "unusable_frames": true, "exact": true, "kept_frames": true,
	}
	rt := reflect.TypeFor[Result]()
	for i := range rt.NumField() {
		key, _, _ := strings.Cut(rt.Field(i).Tag.Get("json"), ",")
		if !defined[key] && !bookkeeping[key] {
			t.Errorf("%s has no definition", key)
		}
		delete(defined, key)
	}
	for name := range defined {
		t.Errorf("%s is defined and not reported", name)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{JankMultiplier: -1}, {JankMultiplier: math.NaN()}, {ExactFrames: -1}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "want 0") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestQuartiles(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{3, 1, 2}, Spread{2, 1.5, 2.5}},
		{[]float64{4, 1, 2, 3}, Spread{2.5, 1.75, 3.25}},
	} {
		if got := Quartiles(c.xs); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.xs, got, c.want)
		}
	}
}

func TestPair(t *testing.T) {
	a := []float64{1, 2, 3, 4, 5}
	b := []float64{2, 4, 4, 5, 6}
	p, err := Pair(a, b, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Difference.Median != 1 || p.Low != 1 || p.High != 2 || p.N != 5 || p.Confidence != 0.95 {
		t.Errorf("%+v", p)
	}
	if again, _ := Pair(a, b, 1); again != p {
		t.Error("the same seed gave another interval")
	}
	for _, bad := range [][2][]float64{
		{{1}, {1}}, {{1, 2}, {1}}, {{1, math.NaN()}, {1, 2}}, {{1, 2}, {1, math.Inf(1)}},
	} {
		if _, err := Pair(bad[0], bad[1], 1); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestPairProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		g := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), n, n)
		p, err := Pair(g.Draw(t, "a"), g.Draw(t, "b"), rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		if p.Low > p.High || p.Difference.Q1 > p.Difference.Median || p.Difference.Median > p.Difference.Q3 {
			t.Fatalf("%+v", p)
		}
	})
}
