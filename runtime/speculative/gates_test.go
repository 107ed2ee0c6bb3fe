package speculative

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// documented is the device of the package comment.
func documented() Costs {
	return Costs{Rows: []Row{{
		Threads: 2, Token: 10 * time.Millisecond, Draft: 0.25,
		Verify: []Point{{1, 1}, {2, 1.4}, {4, 2.0}, {8, 3.3}},
	}}}
}

// TestWorkedExample holds the numbers of the package comment.
func TestWorkedExample(t *testing.T) {
	r := documented().Row(2)
	steady := func(a float64, k int) []float64 { return slices.Repeat([]float64{a}, k) }
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.005 {
			t.Errorf("%s: %.4f, want %.2f", name, got, want)
		}
	}
	near("copy, B = 4", Tokens(steady(0.9, 3))/r.Ratio(4), 1.72)
	near("copy, B = 8", Tokens(steady(0.9, 7))/r.Ratio(8), 1.73)
	k, s := r.Choose(steady(0.9, 7))
	near("copy", s, 1.77)
	if k != 5 {
		t.Errorf("copy: %d candidates, want 5", k)
	}
	near("talk, B = 2", Tokens(steady(0.3, 1))/r.Ratio(2), 0.93)
	if k, s := r.Choose(steady(0.3, 7)); k != 0 || s != 1 {
		t.Errorf("talk: %d candidates for %v, want none", k, s)
	}
	k, s = r.ChooseDraft(0.8, 7)
	near("model", s, 1.11)
	if k != 2 {
		t.Errorf("model: %d candidates, want 2", k)
	}
	for _, c := range []struct {
		width int
		model bool
		want  float64
	}{{4, false, 0.54}, {8, false, 0.72}, {4, true, 0.75}} {
		a, ok := r.BreakEven(c.width, c.model)
		near("break-even", a, c.want)
		if !ok {
			t.Errorf("width %d never pays", c.width)
		}
	}
}

func TestCliffs(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   Row
		flat  int
		even2 float64
		never bool
	}{
		{"nothing known", Row{}, 1, 1, true},
		{"an NPU: flat", Row{Verify: []Point{{8, 1.1}}}, 8, 0.0143, false},
		{"a cliff after 4", Row{Verify: []Point{{2, 1.1}, {4, 1.3}, {5, 6}, {8, 6.5}}}, 4, 0.1, false},
		{"no gain at any width", Row{Verify: []Point{{2, 2.1}, {8, 9}}}, 1, 1, true},
		{"width 1 is 1 whatever was measured", Row{Verify: []Point{{1, 3}, {2, 1.5}}}, 2, 0.5, false},
	} {
		if got := c.row.Widest(8); got != c.flat {
			t.Errorf("%s: flat up to %d, want %d", c.name, got, c.flat)
		}
		a, ok := c.row.BreakEven(2, false)
		if ok == c.never || math.Abs(a-c.even2) > 0.001 {
			t.Errorf("%s: break-even at 2 is %v, %v; want %v, never %v", c.name, a, ok, c.even2, c.never)
		}
	}
	text := documented().String()
	for _, want := range []string{"2 threads", "width  4:  2.00", "54 %", "75 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestCostsValidate(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]Costs{
		"threads 0":        {Rows: []Row{{}}},
		"threads not rise": {Rows: []Row{{Threads: 2}, {Threads: 2}}},
		"NaN ratio":        {Rows: []Row{{Threads: 1, Verify: []Point{{2, nan}}}}},
		"zero ratio":       {Rows: []Row{{Threads: 1, Verify: []Point{{2, 0}}}}},
		"infinite":         {Rows: []Row{{Threads: 1, Verify: []Point{{2, math.Inf(1)}}}}},
		"widths not rise":  {Rows: []Row{{Threads: 1, Verify: []Point{{4, 2}, {2, 1}}}}},
		"NaN draft":        {Rows: []Row{{Threads: 1, Draft: nan}}},
		"negative token":   {Rows: []Row{{Threads: 1, Token: -1}}},
		"many rows":        {Rows: make([]Row, maxThreads+1)},
		"many points":      {Rows: []Row{{Threads: 1, Verify: make([]Point, maxPoints+1)}}},
	} {
		if c.Validate() == nil {
			t.Errorf("%s is no error", name)
		}
	}
	c := documented()
	c.Rows = append(c.Rows, Row{Threads: 8})
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for threads, want := range map[int]int{-1: 2, 0: 2, 2: 2, 5: 2, 6: 8, 100: 8} {
		if got := c.Row(threads).Threads; got != want {
			t.Errorf("row for %d threads is that of %d, want %d", threads, got, want)
		}
	}
}

// TestChooseIsBest: no number of candidates is better than the one chosen, and
// what is expected at it is the formula.
func TestChooseIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Row{Threads: 1, Draft: rapid.Float64Range(0, 2).Draw(t, "draft")}
		for w, n := 1, rapid.IntRange(0, 6).Draw(t, "points"); n > 0; n-- {
			w += rapid.IntRange(1, 4).Draw(t, "step")
			r.Verify = append(r.Verify, Point{w, rapid.Float64Range(0.5, 10).Draw(t, "ratio")})
		}
		accept := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 20).Draw(t, "accept")
		k, s := r.Choose(accept)
		a := rapid.Float64Range(0, 1).Draw(t, "a")
		kd, sd := r.ChooseDraft(a, len(accept))
		if k > 0 && s != Tokens(accept[:k])/r.Ratio(k+1) || s < 1 || sd < 1 || math.IsNaN(s+sd) {
			t.Fatalf("chose %d for %v, %d for %v", k, s, kd, sd)
		}
		for i := range accept {
			if x := Tokens(accept[:i+1]) / r.Ratio(i+2); x > s {
				t.Fatalf("chose %d for %v, but %d gives %v", k, s, i+1, x)
			}
			if x := steadyTokens(a, i+1) / (r.Ratio(i+2) + float64(i+1)*r.Draft); x > sd {
				t.Fatalf("chose %d drafts for %v, but %d give %v", kd, sd, i+1, x)
			}
		}
	})
}

// TestGateScenario is the life of a source that loses, loses its trial, and
// then pays for a while.
func TestGateScenario(t *testing.T) {
	var g Gate
	now := int64(0)
	use := func(rounds int, won, paid float64) (used int) {
		for range rounds {
			now += int64(50 * time.Millisecond)
			if open, _ := g.Open(now); open {
				g.Settle(now, won, paid)
				used++
			}
		}
		return used
	}
	if n := use(40, 0.2, 0.5); n != trial {
		t.Errorf("a source that loses was used %d times in its first 2 s, want %d", n, trial)
	}
	if closed, until := g.Closed(); !closed || until != int64(trial*50*time.Millisecond+coolFirst) {
		t.Errorf("closed %v until %v", closed, time.Duration(until))
	}
	now += int64(coolFirst)
	if open, again := g.Open(now); !open || !again {
		t.Errorf("after the cool-down: open %v, again %v", open, again)
	}
	if n := use(200, 0.2, 0.5); n > 3*trial { // 10 s: cool-downs of 4 s and 8 s
		t.Errorf("used %d times in 10 s, want %d at most", n, 3*trial)
	}
	// In the long run less than one round in a hundred is a trial.
	used := use(100_000, 0.2, 0.5)
	if used > 1000 || used < 100 {
		t.Errorf("used %d of 100,000 rounds, want 100…1000", used)
	}
	now += int64(coolMost)
	if n := use(100, 2, 0.5); n != 100 {
		t.Errorf("a source that pays was used %d times of 100", n)
	}
	rounds := 0
	for closed, _ := g.Closed(); !closed && rounds < 1000; closed, _ = g.Closed() {
		rounds += use(1, 0, 1)
	}
	if _, until := g.Closed(); rounds > 100 || until-now != int64(coolFirst) {
		t.Errorf("after it paid, closed after %d rounds for %v; want the short cool-down",
			rounds, time.Duration(until-now))
	}
}

func TestRate(t *testing.T) {
	r := newRate(0.5)
	for i := range 4000 {
		r.Add(i%4 == 0)
	}
	if v := r.Value(); v < 0.2 || v > 0.3 {
		t.Errorf("one in four is %v", v)
	}
	for range 2 * rateMemory {
		r.Add(true)
	}
	if v := r.Value(); v < 0.85 || v > 1 {
		t.Errorf("after a change to always: %v", v)
	}
}
