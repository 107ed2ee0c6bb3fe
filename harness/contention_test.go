package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/scripted"
)

// madeContention is an experiment whose layers feel gain for each GB/s, in
// conversations of all lengths.
func madeContention(t *testing.T, gain, noise float64, seconds float64) *contention {
	t.Helper()
	o := ContentionOptions{Seconds: seconds, Seed: 5, MinSamples: 20_000}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	x := &contention{o: o, works: newObserver(), report: &ContentionReport{Notes: []string{}}}
	dice := rand.New(rand.NewPCG(1, 2))
	now := int64(0)
	decode := func(until int64, rate float64) {
		for past := 40; now < until; past = 40 + (past+1-40)%180 {
			var w llm.Work
			for l := range 11 {
				slower := 1 + gain*rate + noise*dice.NormFloat64()
				d := time.Duration((300e3 + float64(20_000*l) + 280*float64(past)) * slower)
				w.Samples = append(w.Samples, llm.LayerSample{First: int16(l), Last: int16(l), Width: 1, Threads: 1,
					Duration: d})
				now += int64(d)
			}
			w.Samples[10].Duration = 2 * time.Millisecond // the head
			w.Stage, w.End, w.Past = llm.Decode, now, past
			x.works.observe(w)
		}
	}
	decode(int64(contentionCalm), 0)
	x.calm = [2]int64{0, now}
	for _, rate := range x.order() {
		begin := now
		decode(begin+1e9, rate)
		x.slices = append(x.slices, slice{begin, now, rate, int64(rate * float64(now-begin))})
	}
	if err := x.conclude(llm.Info{Layers: 10}); err != nil {
		t.Fatal(err)
	}
	return x
}

// The score follows the bandwidth where layers do, and does not where they
// don't.
func TestContentionExperiment(t *testing.T) {
	r := madeContention(t, 0.02, 0.05, 64).report
	if r.BySlice.R == nil || *r.BySlice.R < 0.99 || *r.Pearson.R < 0.7 || *r.Pearson.R > 0.9 || !r.Enough ||
		len(r.Notes) > 0 {
		t.Errorf("%v, %v, enough %v, notes %v", r.BySlice.text(), r.Pearson.text(), r.Enough, r.Notes)
	}
	if len(r.Rates) != 8 || r.Rates[7].Asked != 10 || math.Abs(*r.Rates[7].Score-0.2) > 0.02 ||
		r.Rates[0].Slices != 8 || math.Abs(*r.Rates[0].Score) > 0.02 || *r.Rates[3].P25 > *r.Rates[3].P50 {
		t.Errorf("%+v", r.Rates)
	}
	if !(*r.BySlice.Low < *r.BySlice.R && *r.BySlice.R < *r.BySlice.High) || r.Pearson.N != r.Samples {
		t.Errorf("%+v %+v", r.BySlice, r.Pearson)
	}
	none := madeContention(t, 0, 0.05, 64).report
	if math.Abs(*none.BySlice.R) > 0.4 || *none.BySlice.Low > 0 || *none.BySlice.High < 0 {
		t.Errorf("layers that feel nothing: %v", none.BySlice.text())
	}
	few := madeContention(t, 0.02, 0, 8).report
	if few.Enough || !strings.Contains(strings.Join(few.Notes, "\n"), "want 20000 or more") {
		t.Errorf("a few samples are enough: %v %v", few.Samples, few.Notes)
	}
}

// All rates come in each round, in another order with another seed.
func TestContentionOrder(t *testing.T) {
	order := func(seed uint64) []float64 {
		o := ContentionOptions{Seconds: 25, Seed: seed}
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		return (&contention{o: o}).order()
	}
	a := order(1)
	if len(a) != 24 || !slices.Equal(a, order(1)) || slices.Equal(a, order(2)) {
		t.Errorf("%v", a)
	}
	for i := 0; i < 24; i += 8 {
		if round := slices.Sorted(slices.Values(a[i : i+8])); round[0] != 0 || round[7] != 10 {
			t.Errorf("round %v", round)
		}
	}
}

func TestContentionReport(t *testing.T) {
	r := madeContention(t, 0.02, 0.05, 64).report
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"asked GB/s", "95 % interval", "n = 64", "●", "GB/s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	for file, magic := range map[string]string{"a.png": "\x89PNG", "b.SVG": "<?xml"} {
		if got, err := r.Plot(file); err != nil || !bytes.HasPrefix(got, []byte(magic)) {
			t.Errorf("%s: %v, %d bytes", file, err, len(got))
		}
	}
	if _, err := r.Plot("c.gif"); err == nil || !strings.Contains(err.Error(), ".svg") {
		t.Errorf("gif: %v", err)
	}
	var m map[string]any
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	wants(t, "contention report", m, "host seed threads seconds rates samples enough pearson pearson_by_slice slices "+
		"other_cpu_share notes")
	empty := &ContentionReport{}
	if err := empty.WriteText(&text); err != nil {
		t.Error(err)
	}
	if _, err := empty.Plot("d.png"); err == nil {
		t.Error("nothing was drawn")
	}
}

func TestContentionRefuses(t *testing.T) {
	for want, o := range map[string]ContentionOptions{
		"1 rates":      {Rates: []float64{1}},
		"stands twice": {Rates: []float64{1, 2, 1}},
		"NaN":          {Rates: []float64{1, math.NaN()}},
		"7 seconds":    {Seconds: 7},
		"-1 threads":   {Threads: -1},
	} {
		if _, err := Contention(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v: want %q", o, err, want)
		}
	}
	broken := errors.New("no such file")
	_, err := Contention(t.Context(), ContentionOptions{Model: local.Config{OpenModel: func(context.Context, llm.Clock,
		llm.AdmitFunc) (llm.Model, error) {
		return nil, broken
	}}})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

// A real stream beside a scripted model, interrupted in its third slice: what
// there is comes back.
func TestContentionInterrupted(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := ContentionOptions{Rates: []float64{0, 0.1}, Seconds: 60, Model: local.Config{OpenModel: func(_ context.Context,
		clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
		return scripted.New(scripted.Config{Clock: clock, Admit: admit, Layers: 4,
			Cost: scripted.Cost{LayerNS: 400e3, TailNS: 100e3}})
	}}}
	o.Progress = func(p Progress) {
		if p.Repeat == 3 {
			cancel(cause)
		}
	}
	r, err := Contention(ctx, o)
	if !errors.Is(err, cause) || r == nil || !r.Interrupted || len(r.Slices) != 2 || r.Enough {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, s := range r.Slices {
		if (s.Asked > 0) != (s.Streamed > 0) {
			t.Errorf("%+v", s)
		}
	}
}
