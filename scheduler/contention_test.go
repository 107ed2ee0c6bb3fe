package scheduler

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// feed adds n tokens of single layers that take base·(1+cs), and the head.
func feed(s *Sensor, at *Instant, n, layers int, cs float64, calm bool) {
	for range n {
		for l := range layers + 1 {
			t := float64(400+10*l) * (1 + cs) * 1e3
			*at = at.Add(time.Duration(t))
			s.Add(LayerSample{First: l, Last: l, Width: 1, Threads: 2, Duration: time.Duration(t)}, *at, calm)
		}
	}
}

func newSensor(t testing.TB) *Sensor {
	s, err := NewSensor("CPU", 30, 0, Baselines{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSensor: no baseline, learned in calm moments, then a score; layers that
// differ by a third are each measured by their own time.
func TestSensor(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	if got := s.Score(at); got.State != ScoreMissing || got.Learn {
		t.Errorf("before any layer: %+v", got)
	}
	feed(s, &at, 2, 30, 0, false)
	if got := s.Score(at); got.State != ScoreNoBaseline || !got.Learn {
		t.Errorf("nothing learned: %+v: want no-baseline, and the wish for calm", got)
	}
	feed(s, &at, learnSamples, 30, 0, true)
	feed(s, &at, 3, 30, 0.25, false)
	got := s.Score(at)
	if got.State != ScoreGood || math.Abs(got.Value-0.25) > 1e-4 || got.Confidence != 1 || got.Learn ||
		got.Age(at) > ms(1) {
		t.Errorf("a quarter slower: %+v", got)
	}
	if got = s.Score(at.Add(time.Second)); got.State != ScoreMissing {
		t.Errorf("a second later: %+v: want missing", got)
	}
}

// TestSensorDropsSwitched: context switches are no contention.
func TestSensorDropsSwitched(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	feed(s, &at, learnSamples, 30, 0, true)
	for l := range 30 {
		at = at.Add(ms(1))
		s.Add(LayerSample{First: l, Last: l, Width: 1, Threads: 2, Duration: ms(5), Switched: l%2 == 0}, at, false)
	}
	if got := s.Score(at); got.Value > 0.01 || got.Confidence > 0.6 {
		t.Errorf("half switched, half absurd: %+v: want them dropped and doubted", got)
	}
	at = at.Add(time.Second)
	s.Add(LayerSample{Last: 0, Width: 1, Threads: 2, Duration: ms(5), Switched: true}, at, false)
	if got := s.Score(at); got.State != ScoreDisturbed {
		t.Errorf("only switched: %+v", got)
	}
}

// TestSensorGroups: groups of any size are measured by the same baselines.
func TestSensorGroups(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	feed(s, &at, learnSamples, 30, 0, true)
	sum := func(first, last int) (t time.Duration) {
		for l := first; l <= last; l++ {
			t += time.Duration(400+10*l) * time.Microsecond
		}
		return t - time.Duration(last-first)*40*time.Microsecond // what a halt takes
	}
	for range learnSamples { // the whole graph, in a menu
		at = at.Add(ms(15))
		s.Add(LayerSample{Last: 30, Width: 1, Threads: 2, Duration: sum(0, 30)}, at, true)
	}
	at = at.Add(time.Second)
	for i := range 40 {
		first := i % 20
		last := min(29, first+i%7)
		at = at.Add(ms(2))
		d := time.Duration(1.1 * float64(sum(first, last)))
		s.Add(LayerSample{First: first, Last: last, Width: 1, Threads: 2, Duration: d}, at, false)
	}
	if got := s.Score(at); math.Abs(got.Value-0.1) > 0.005 {
		t.Errorf("groups a tenth slower: %+v", got)
	}
}

// TestSensorLongConversation: layers that take longer because the conversation
// is longer are no contention, once that was seen; before it, they say nothing.
func TestSensorLongConversation(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	tokens := func(n, past int, cs float64, calm bool) {
		for range n {
			for l := range 30 {
				d := time.Duration((360_000 + 280*float64(past)) * (1 + cs))
				at = at.Add(d)
				s.Add(LayerSample{First: l, Last: l, Width: 1, Threads: 2, Past: past, Duration: d}, at, calm)
			}
			at = at.Add(ms(2))
			s.Add(LayerSample{First: 30, Last: 30, Width: 1, Threads: 2, Past: past, Duration: ms(2)}, at, calm)
		}
	}
	tokens(learnSamples, 10, 0, true)
	tokens(4, 1000, 0, false)
	if got := s.Score(at); got.State != ScoreNoBaseline || !got.Learn {
		t.Errorf("a long conversation before one was seen in calm: %+v: want no-baseline, and the wish for calm", got)
	}
	tokens(3, 300, 0, true)
	tokens(4, 1000, 0.2, false)
	if got := s.Score(at); got.State != ScoreGood || math.Abs(got.Value-0.2) > 0.01 || got.Learn {
		t.Errorf("a fifth slower after 1000 tokens: %+v", got)
	}
	b := s.Baselines()
	x := LayerSample{First: 3, Last: 4, Width: 1, Threads: 2, Past: 1000}
	if base, ok := b.Base(x); !ok || math.Abs(float64(base)/(2*640e3)-1) > 0.01 {
		t.Errorf("two layers after 1000 tokens take %v, %v: want 1.28 ms", base, ok)
	}
	for _, odd := range []LayerSample{{First: 3, Last: 30, Width: 1, Threads: 2}, {Width: 2, Threads: 2},
		{First: -1, Last: 2, Width: 1, Threads: 2}, {First: 2, Last: 31, Width: 1, Threads: 2}} {
		if base, ok := b.Base(odd); ok {
			t.Errorf("%+v: %v, want no baseline", odd, base)
		}
	}
	at = at.Add(time.Second)
	for range 20 {
		at = at.Add(ms(2))
		four := time.Duration(4 * (360_000 + 280*500) * 1.1)
		s.Add(LayerSample{First: 4, Last: 7, Width: 1, Threads: 2, Past: 500, Duration: four}, at, false)
	}
	if got := s.Score(at); math.Abs(got.Value-0.1) > 0.01 {
		t.Errorf("groups a tenth slower after 500 tokens: %+v", got)
	}
}

// TestSensorRelearns: a slower machine is believed when the baseline is old, a
// busy menu is not at first.
func TestSensorRelearns(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	feed(s, &at, learnSamples, 30, 0, true)
	before := s.Baselines()
	at = at.Add(baselineLife)
	feed(s, &at, 1, 30, 0, false)
	if got := s.Score(at); got.State != ScoreOldBaseline || got.Confidence != 0.5 || !got.Learn {
		t.Errorf("ten minutes later: %+v", got)
	}
	feed(s, &at, learnSamples, 30, 1, true)
	if !slices.Equal(s.Baselines().Rows[0].Layers, before.Rows[0].Layers) {
		t.Error("a menu that takes twice as long became the baseline")
	}
	for range rejectsMost {
		at = at.Add(learnRest)
		feed(s, &at, learnSamples, 30, 1, true)
	}
	if slices.Equal(s.Baselines().Rows[0].Layers, before.Rows[0].Layers) {
		t.Error("what three calm moments say was not believed")
	}
	feed(s, &at, 2, 30, 0, false)
	if got := s.Score(at); got.Value > -0.4 {
		t.Errorf("twice as fast as the baseline: %+v", got)
	}
	if got := s.Score(at); !got.Learn {
		t.Error("a negative score does not ask for another baseline")
	}
}

// TestSensorWithoutHead: a busy machine cuts every sample of the long output
// head. Layers are scored nevertheless, whole graphs are not.
func TestSensorWithoutHead(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	for range learnSamples + 1 {
		for l := range 31 {
			at = at.Add(ms(0.5))
			s.Add(LayerSample{First: l, Last: l, Width: 1, Threads: 1, Duration: ms(0.5), Switched: l == 30}, at, true)
		}
	}
	if got := s.Score(at); got.State != ScoreGood || math.Abs(got.Value) > 1e-6 {
		t.Errorf("%+v", got)
	}
	b := s.Baselines()
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	if base, ok := b.Base(LayerSample{Last: 30, Width: 1, Threads: 1}); ok {
		t.Errorf("a whole graph takes %v, though its head is not known", base)
	}
}

// TestSensorPrefersDrafts: draft layers read memory, verify batches compute.
func TestSensorPrefersDrafts(t *testing.T) {
	row := func(draft bool, layers int) BaselineRow {
		return BaselineRow{Draft: draft, Width: 1, Threads: 1, Layers: slices.Repeat([]time.Duration{ms(1)}, layers+1)}
	}
	stored := Baselines{Device: "NPU", Rows: []BaselineRow{row(true, 8), row(false, 30)}}
	s, err := NewSensor("NPU", 30, 8, stored)
	if err != nil {
		t.Fatal(err)
	}
	at := Instant(0)
	for i := range 40 {
		at = at.Add(ms(1))
		s.Add(LayerSample{Draft: true, First: i % 8, Last: i % 8, Width: 1, Threads: 1, Duration: ms(1.5)}, at, false)
		s.Add(LayerSample{First: i % 30, Last: i % 30, Width: 1, Threads: 1, Duration: ms(1)}, at, false)
	}
	if got := s.Score(at); math.Abs(got.Value-0.5) > 1e-6 {
		t.Errorf("drafts say 0.5, the target 0: %+v", got)
	}
	_, err = NewSensor("CPU", 30, 8, stored)
	if !errors.Is(err, ErrBaselines) || !strings.Contains(err.Error(), "NPU") {
		t.Errorf("another device's baselines: %v", err)
	}
}

func TestBaselinesValidate(t *testing.T) {
	good := BaselineRow{Width: 1, Threads: 1, Layers: []time.Duration{ms(1), ms(2)}}
	for want, change := range map[string]func(*Baselines){
		"rows":     func(b *Baselines) { b.Rows = make([]BaselineRow, MaxBaselineRows+1) },
		"layer 0":  func(b *Baselines) { b.Rows[0].Layers[0] = 0 },
		"layer 1":  func(b *Baselines) { b.Rows[0].Layers[1] = -1 },
		"1 layers": func(b *Baselines) { b.Rows[0].Layers = b.Rows[0].Layers[:1] },
		"width":    func(b *Baselines) { b.Rows[0].Width = 0 },
		"threads":  func(b *Baselines) { b.Rows[0].Threads = 1000 },
		"token":    func(b *Baselines) { b.Rows[0].PerToken = -1 },
		"halt":     func(b *Baselines) { b.Rows[0].Halt = ms(1.5) },
		"same":     func(b *Baselines) { b.Rows = append(b.Rows, b.Rows[0]) },
	} {
		row := good
		row.Layers = slices.Clone(good.Layers)
		b := Baselines{Device: "CPU", Rows: []BaselineRow{row}}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&b)
		if err := b.Validate(); !errors.Is(err, ErrBaselines) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestSensorProperties: whatever samples come, a score is finite and in bounds,
// and what was learned is valid and can be stored.
func TestSensorProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewSensor("CPU", 4, 2, Baselines{})
		if err != nil {
			t.Fatal(err)
		}
		odd := rapid.OneOf(rapid.IntRange(-1, 5), rapid.SampledFrom([]int{math.MaxInt, math.MinInt}))
		length := rapid.OneOf(rapid.Int64Range(1e5, 3e6), rapid.Int64())
		at := Instant(0)
		for range rapid.IntRange(0, 400).Draw(t, "n") {
			at = at.Add(time.Duration(rapid.OneOf(rapid.Int64Range(0, 5e6), rapid.Int64()).Draw(t, "gap")))
			x := LayerSample{Draft: rapid.Bool().Draw(t, "draft"), First: odd.Draw(t, "first"), Width: 1, Threads: 2,
				Duration: time.Duration(length.Draw(t, "duration")), Switched: rapid.Bool().Draw(t, "switched")}
			x.Last = x.First + rapid.IntRange(0, 1).Draw(t, "more")
			x.Past = rapid.OneOf(rapid.IntRange(0, 2000), rapid.Int()).Draw(t, "past")
			s.Add(x, at, rapid.Bool().Draw(t, "calm"))
			got := s.Score(at)
			if math.IsNaN(got.Value) || got.Value < -1 || got.Value > scoreMost ||
				!(got.Confidence >= 0 && got.Confidence <= 1) ||
				got.Samples > 0 && got.At > at || got.Samples > scoreWindow {
				t.Fatalf("%+v", got)
			}
		}
		b := s.Baselines()
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		if _, err := NewSensor("CPU", 4, 2, b); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSensorAllocates: nothing, once it knows its rows.
func TestSensorAllocates(t *testing.T) {
	s, at := newSensor(t), Instant(0)
	feed(s, &at, learnSamples+1, 30, 0, true)
	if n := testing.AllocsPerRun(100, func() {
		feed(s, &at, 1, 30, 0.1, false)
		s.Score(at)
	}); n != 0 {
		t.Errorf("%v allocations a token, want 0", n)
	}
}

func BenchmarkSensor(b *testing.B) {
	s, at := newSensor(b), Instant(0)
	feed(s, &at, learnSamples+1, 30, 0, true)
	b.ReportAllocs()
	for range b.N { // a token: 31 samples and a score
		feed(s, &at, 1, 30, 0.1, false)
		s.Score(at)
	}
}
