package fit

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const head = "name,value,unit,condition,source,relation,kind,note\n"

func read(t *testing.T, rows string) map[string]Fact {
	t.Helper()
	facts, err := ReadFacts(strings.NewReader(head + rows))
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestReadFacts(t *testing.T) {
	facts := read(t, "a,1.5,x,\"in a, b\",paper,<,outcome,\nb,-2,%,c,paper,=,parameter,n\n")
	if a := facts["a"]; len(facts) != 2 || a.Value != 1.5 || a.Relation != "<" || a.Condition != "in a, b" {
		t.Errorf("%+v", facts)
	}
	for text, want := range map[string]string{
		"":                                      "first line",
		"x,y\n":                                 "first line",
		"a,b,c,d,e,f,g,h\n":                     "begins with",
		head:                                    "no rows",
		head + "a,fast,x,,p,=,o,\n":             `line 2: value "fast"`,
		head + "a,NaN,x,,p,=,o,\n":              "want a number",
		head + "a,1,x\n":                        "wrong number of fields",
		head + "a,1,x,,p,=,o,\na,2,x,,p,=,o,\n": `line 3: name "a"`,
	} {
		_, err := ReadFacts(strings.NewReader(text))
		if !errors.Is(err, ErrFacts) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadFacts(f *testing.F) {
	f.Add(head + "a,1,x,,p,=,o,\n")
	f.Add(head + "\"a\n,1")
	f.Fuzz(func(t *testing.T, text string) {
		facts, err := ReadFacts(strings.NewReader(text))
		if err != nil && !errors.Is(err, ErrFacts) || err == nil && len(facts) == 0 {
			t.Errorf("%d facts, %v", len(facts), err)
		}
	})
}

func TestError(t *testing.T) {
	facts := read(t, "p_lo,2,x,,p,=,outcome,\np_hi,4,x,,p,=,outcome,\none,10,x,,p,=,outcome,\nmost,5,x,,p,<,outcome,\n")
	for name, x := range map[string]struct{ simulated, want float64 }{
		"p": {3, 0}, "one": {12, 0.2}, "most": {1, 0},
	} {
		s, ok := meet(row{name: name, pair: name == "p"}, facts)
		if got := s.error(x.simulated); !ok || math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%s at %v: %v, want %v", name, x.simulated, got, x.want)
		}
	}
	p, _ := meet(row{name: "p", pair: true}, facts)
	most, _ := meet(row{name: "most"}, facts)
	for got, want := range map[float64]float64{p.error(1): 0.5, p.error(5): 0.25, most.error(6): 0.2,
		p.error(math.NaN()): maxError} {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if _, ok := meet(row{name: "none"}, facts); ok {
		t.Error("a row without a fact is scored")
	}
}

// A fit to what other parameters gave comes nearer to it, and never leaves the
// bounds.
func TestFitFindsBack(t *testing.T) {
	facts := read(t, "bw_demand_b8,0.7,ratio,,p,=,outcome,\nbw_demand_b32,0.6,ratio,,p,=,outcome,\n"+
		"latency_powerserve,13,s,,p,=,outcome,\nnobody_simulates,3,x,,p,=,outcome,\n")
	f, err := newFitter(facts, Options{Seconds: 13})
	if err != nil {
		t.Fatal(err)
	}
	f.orders = nil
	f.lab.wanted = []experiment{{idle, "vanilla"}}
	start := f.values()
	before, err := f.errors()
	if err != nil {
		t.Fatal(err)
	}
	best, err := f.optimise(context.Background(), start, nil, 90, "test")
	if err != nil {
		t.Fatal(err)
	}
	after, err := f.errors()
	if err != nil {
		t.Fatal(err)
	}
	if mean(after) > 0.8*mean(before) {
		t.Errorf("mean error %v before the fit, %v after it", mean(before), mean(after))
	}
	for i, p := range f.params {
		if best[i] < p.low || best[i] > p.high {
			t.Errorf("%s: %v is outside %v … %v", p.Name, best[i], p.low, p.high)
		}
	}
}

func TestRunReports(t *testing.T) {
	facts := read(t, "bw_demand_b8,0.82,ratio,,p,=,outcome,\nbw_demand_b32,0.74,ratio,,p,=,outcome,\n"+
		"cpu_prefill_adv_lo,1.27,x,,p,=,outcome,\ncpu_prefill_adv_hi,1.62,x,,p,=,outcome,\n"+
		"overhead_cpu,4.7,percent,,p,=,outcome,\nrefresh,120,Hz,,p,=,parameter,\n")
	r, err := Run(context.Background(), facts, Options{Seconds: 1, Folds: 3, FoldEvals: 1})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 3 || r.Median > 0.05 || r.LeftOut == nil || len(r.Skipped) != 1 || !r.Simulated ||
		r.Skipped[0].Name != "overhead_cpu" || !strings.Contains(text.String(), "simulated: no phone was measured") {
		t.Errorf("%+v\n%s", r, &text)
	}
	for _, o := range []Options{{Seconds: -1}, {Folds: 99}, {Evaluations: -1}} {
		if _, err := Run(context.Background(), facts, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := Run(context.Background(), read(t, "x,1,x,,p,=,outcome,\n"), Options{}); !errors.Is(err, ErrFacts) {
		t.Errorf("no row that can be simulated: %v", err)
	}
}

// TestPublished holds the shipped parameters to the published figures where those
// are at hand: the median of the relative errors is at most 10 %.
func TestPublished(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "reference", "paper-facts.csv"))
	if err != nil {
		t.Skip("the published figures are not part of the project: ", err)
	}
	defer file.Close()
	if os.Getenv("LULL_SOAK") == "" {
		t.Skip("it simulates half an hour of play: set LULL_SOAK=1")
	}
	facts, err := ReadFacts(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), facts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Median > 0.10 {
		t.Errorf("median relative error %.3f over %d rows, want 0.10 at most", r.Median, len(r.Rows))
	}
}
