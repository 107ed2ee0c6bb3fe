package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/optimize"

	"github.com/lull-npc/lull/harness/page"
)

// Options say how to fit. The zero value scores the shipped parameters and fits
// nothing.
type Options struct {
	Seconds     float64 // of play of each experiment; 0: 40
	Seed        uint64
	Evaluations int // of the optimiser; 0: score what is shipped
	Folds       int // of the leave-out; 0: none
	FoldEvals   int // evaluations of each fold; 0: as many as Evaluations
	Sensitivity bool

	Progress func(what string) // nil: nobody watches
}

const (
	defaultSeconds = 40
	mostSeconds    = 3600
	// firstStep is the size of the first simplex, in shares of a parameter: most are
	// known to a third. blockSize is how many move together, blockEvals how many
	// evaluations a block has for each of them.
	firstStep             = 0.12
	blockSize, blockEvals = 4, 6
	// farStart is how far from the shipped ones a fold's parameters may begin.
	farStart = 0.3
	// hub is the error from which Huber's loss grows straight: rows that are far off
	// must not pay for all others.
	hub = 0.2
	// brokenOrder is what an ordering that doesn't hold costs: as much as a row of
	// thirty that is off by two thirds.
	brokenOrder = 0.004
	// moved is what a parameter is moved by for its sensitivity.
	moved = 0.1
	// maxError bounds the error of a row that is off altogether.
	maxError = 10.0
)

// Score is a row with what was simulated.
type Score struct {
	Name      string  `json:"name"`
	How       string  `json:"how"`
	Low       float64 `json:"published_low"`
	High      float64 `json:"published_high"`
	Unit      string  `json:"unit"`
	Simulated float64 `json:"simulated"`
	Error     float64 `json:"relative_error"`

	LeftOut *float64 `json:"relative_error_left_out,omitempty"`
}

// Order is an ordering of the facts.
type Order struct {
	Name string `json:"name"`
	How  string `json:"how"`
	OK   bool   `json:"ok"`
}

// Parameter is a fitted number.
type Parameter struct {
	Name    string  `json:"name"`
	Shipped float64 `json:"shipped"`
	Fitted  float64 `json:"fitted"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`

	// What a tenth more does: to the mean error, and the row that moves most.
	Effect *float64 `json:"mean_error_at_a_tenth_more,omitempty"`
	Most   string   `json:"most_moved_row,omitempty"`
	By     *float64 `json:"most_moved_by,omitempty"`
}

// Skipped is a fact that is not scored.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Report says how well the simulation meets the facts.
type Report struct {
	Simulated   bool        `json:"simulated"`
	Rows        []Score     `json:"rows"`
	Orders      []Order     `json:"orders"`
	Parameters  []Parameter `json:"parameters"`
	Skipped     []Skipped   `json:"not_scored"`
	Before      float64     `json:"median_error_shipped"`
	Median      float64     `json:"median_error"`
	Mean        float64     `json:"mean_error"`
	LeftOut     *float64    `json:"median_error_left_out"`
	Folds       int         `json:"folds"`
	Evaluations int         `json:"evaluations"`
	OrdersOK    bool        `json:"orders_ok"`
}

// fitter is a lab with the facts.
type fitter struct {
	o      Options
	lab    *lab
	params []parameter
	rows   []scored
	orders []order
	evals  int
}

type scored struct {
	row
	low, high, scale float64
	unit             string
	most             bool // the fact is a bound from above
}

// Run fits, or scores what is shipped.
func Run(ctx context.Context, facts map[string]Fact, o Options) (*Report, error) {
	f, err := newFitter(facts, o)
	if err != nil {
		return nil, err
	}
	shipped := f.values()
	r := &Report{Simulated: true, Skipped: skipped(facts, f.rows), Folds: o.Folds}
	errs, err := f.errors()
	if err != nil {
		return nil, err
	}
	r.Before = median(errs)
	best := shipped
	if o.Evaluations > 0 {
		if best, err = f.optimise(ctx, shipped, nil, o.Evaluations, "fit"); err != nil {
			return nil, err
		}
	}
	var left []float64
	if o.Folds > 1 {
		if left, err = f.leaveOut(ctx, shipped); err != nil {
			return nil, err
		}
		m := median(left)
		r.LeftOut = &m
	}
	if err := f.fill(r, shipped, best, left); err != nil {
		return nil, err
	}
	if o.Sensitivity {
		if err := f.sensitivity(ctx, r, best); err != nil {
			return nil, err
		}
	}
	r.Evaluations = f.evals
	return r, nil
}

func newFitter(facts map[string]Fact, o Options) (*fitter, error) {
	if o.Seconds == 0 {
		o.Seconds = defaultSeconds
	}
	if !(o.Seconds >= 1 && o.Seconds <= mostSeconds) || o.Evaluations < 0 || o.Folds < 0 || o.FoldEvals < 0 {
		return nil, fmt.Errorf("fit: %v s, %d evaluations, %d folds: want 1 … %d s, and no negative numbers", o.Seconds,
			o.Evaluations, o.Folds, mostSeconds)
	}
	if o.FoldEvals == 0 {
		o.FoldEvals = o.Evaluations
	}
	l, err := newLab(o.Seconds, o.Seed)
	if err != nil {
		return nil, err
	}
	f := &fitter{o: o, lab: l}
	if f.params, err = l.parameters(); err != nil {
		return nil, err
	}
	for _, r := range rows() {
		if s, ok := meet(r, facts); ok {
			f.rows = append(f.rows, s)
			s.get(l) // says what it wants
		}
	}
	for _, x := range orders() {
		if _, ok := facts[x.name]; ok || x.own {
			f.orders = append(f.orders, x)
			x.ok(l)
		}
	}
	if len(f.rows) == 0 {
		return nil, fmt.Errorf("%w: none of its rows can be simulated", ErrFacts)
	}
	if o.Folds > len(f.rows) {
		return nil, fmt.Errorf("fit: %d folds of %d rows: want as many at most", o.Folds, len(f.rows))
	}
	return f, nil
}

// meet joins a row with its fact, or with the two of a pair.
func meet(r row, facts map[string]Fact) (scored, bool) {
	s := scored{row: r, scale: 1}
	if r.unitless {
		s.scale = 100
	}
	if r.pair {
		lo, ok1 := facts[r.name+"_lo"]
		hi, ok2 := facts[r.name+"_hi"]
		s.low, s.high, s.unit = lo.Value, hi.Value, lo.Unit
		return s, ok1 && ok2 && lo.Value <= hi.Value && lo.Value != 0
	}
	x, ok := facts[r.name]
	s.low, s.high, s.unit = x.Value, x.Value, x.Unit
	s.most = x.Relation == "<" || x.Relation == "<="
	return s, ok && x.Value != 0
}

// error is how far a simulated number is off.
func (s *scored) error(x float64) float64 {
	off := 0.0
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return maxError
	case x < s.low && !s.most:
		off = (s.low - x) / math.Abs(s.low)
	case x > s.high:
		off = (x - s.high) / math.Abs(s.high)
	}
	return min(off, maxError)
}

func (f *fitter) values() []float64 {
	xs := make([]float64, len(f.params))
	for i := range f.params {
		xs[i] = f.params[i].to[0].Value
	}
	return xs
}

func (f *fitter) set(xs []float64) {
	for i := range f.params {
		f.params[i].set(xs[i])
	}
}

// errors simulates with the present parameters.
func (f *fitter) errors() ([]float64, error) {
	f.evals++
	if err := f.lab.play(); err != nil {
		return nil, err
	}
	out := make([]float64, len(f.rows))
	for i := range f.rows {
		out[i] = f.rows[i].error(f.rows[i].get(f.lab) * f.rows[i].scale)
	}
	return out, nil
}

// loss is the mean of Huber's over the rows that are not left out.
func loss(errs []float64, out map[int]bool) float64 {
	sum, n := 0.0, 0
	for i, e := range errs {
		if out[i] {
			continue
		}
		n++
		if e <= hub {
			sum += e * e / 2
		} else {
			sum += hub * (e - hub/2)
		}
	}
	return sum / float64(max(1, n))
}

// disorder is the price of orderings that don't hold.
func (f *fitter) disorder() float64 {
	n := 0
	for _, o := range f.orders {
		if !o.ok(f.lab) {
			n++
		}
	}
	return brokenOrder * float64(n)
}

// search is one optimisation: what it has found, and what it may still spend.
type search struct {
	f     *fitter
	out   map[int]bool // rows that are left out
	what  string
	left  int // evaluations
	total int
	best  []float64
	least float64
	err   error
}

// optimise looks for better values, in blocks of a few parameters drawn at random:
// 29 at once are too many for any optimiser that knows no slopes, and most rows
// depend on a few. It leaves the best set.
func (f *fitter) optimise(ctx context.Context, from []float64, out map[int]bool, evals int, what string) ([]float64,
	error) {
	s := &search{f: f, out: out, what: what, left: evals, total: evals, best: slices.Clone(from), least: math.Inf(1)}
	dice := rand.New(rand.NewPCG(f.o.Seed, 0x666974))
	s.try(from)
	for s.left > 0 && s.err == nil && ctx.Err() == nil {
		order := dice.Perm(len(from))
		for at := 0; at < len(order) && s.left > 0 && s.err == nil && ctx.Err() == nil; at += blockSize {
			s.block(order[at:min(at+blockSize, len(order))])
		}
	}
	f.set(s.best)
	switch {
	case s.err != nil:
		return s.best, s.err
	case ctx.Err() != nil:
		return s.best, context.Cause(ctx)
	case math.IsInf(s.least, 1):
		return s.best, errors.New("fit: no evaluation gave a number")
	}
	return s.best, nil
}

// try evaluates values.
func (s *search) try(v []float64) float64 {
	if s.left <= 0 || s.err != nil {
		return math.Inf(1)
	}
	s.left--
	s.f.set(v)
	errs, err := s.f.errors()
	if err != nil {
		s.err = err
		return math.Inf(1)
	}
	l := loss(errs, s.out)
	if s.out == nil { // orderings rest on rows that may be left out
		l += s.f.disorder()
	}
	if l < s.least {
		s.best, s.least = slices.Clone(v), l
	}
	if n := s.total - s.left; n%20 == 0 && s.f.o.Progress != nil {
		s.f.o.Progress(fmt.Sprintf("%s: %d of %d evaluations, loss %.4f", s.what, n, s.total, s.least))
	}
	return l
}

// block moves some parameters, as multiples of what they are, by gonum's
// Nelder-Mead.
func (s *search) block(which []int) {
	from := slices.Clone(s.best)
	problem := optimize.Problem{Func: func(x []float64) float64 {
		v := slices.Clone(from)
		for i, k := range which {
			p := &s.f.params[k]
			v[k] = min(p.high, max(p.low, from[k]*max(0.1, 1+x[i])))
		}
		return s.try(v)
	}}
	settings := &optimize.Settings{FuncEvaluations: min(s.left, blockEvals*len(which)), Concurrent: 1,
		Converger: optimize.NeverTerminate{}}
	// That it has used up its evaluations is how it is meant to end.
	_, err := optimize.Minimize(problem, make([]float64, len(which)), settings,
		&optimize.NelderMead{SimplexSize: firstStep})
	if err != nil && s.left > 0 && s.err == nil && math.IsInf(s.least, 1) {
		s.err = fmt.Errorf("fit: %w", err)
	}
}

// leaveOut predicts each row by a fit to others.
func (f *fitter) leaveOut(ctx context.Context, shipped []float64) ([]float64, error) {
	dice := rand.New(rand.NewPCG(f.o.Seed, 0x666f6c64))
	order := dice.Perm(len(f.rows))
	left := make([]float64, len(f.rows))
	for fold := range f.o.Folds {
		out := map[int]bool{}
		for i := fold; i < len(order); i += f.o.Folds {
			out[order[i]] = true
		}
		from := make([]float64, len(shipped))
		for i, x := range shipped {
			from[i] = min(f.params[i].high, max(f.params[i].low, x*(1+farStart*(2*dice.Float64()-1))))
		}
		what := fmt.Sprintf("fold %d of %d", fold+1, f.o.Folds)
		if _, err := f.optimise(ctx, from, out, max(1, f.o.FoldEvals), what); err != nil {
			return nil, err
		}
		errs, err := f.errors()
		if err != nil {
			return nil, err
		}
		for i := range out {
			left[i] = errs[i]
		}
	}
	return left, nil
}

// fill writes what the best values give.
func (f *fitter) fill(r *Report, shipped, best, left []float64) error {
	f.set(best)
	errs, err := f.errors()
	if err != nil {
		return err
	}
	for i := range f.rows {
		s := &f.rows[i]
		x := Score{Name: s.name, How: s.how, Low: s.low, High: s.high, Unit: s.unit, Error: errs[i],
			Simulated: s.get(f.lab) * s.scale}
		if left != nil {
			x.LeftOut = &left[i]
		}
		r.Rows = append(r.Rows, x)
	}
	r.OrdersOK = true
	for _, o := range f.orders {
		ok := o.ok(f.lab)
		r.Orders = append(r.Orders, Order{o.name, o.how, ok})
		r.OrdersOK = r.OrdersOK && ok
	}
	for i, p := range f.params {
		r.Parameters = append(r.Parameters, Parameter{Name: p.Name, Shipped: shipped[i], Fitted: best[i], Low: p.low,
			High: p.high})
	}
	r.Median, r.Mean = median(errs), mean(errs)
	return nil
}

// sensitivity moves one parameter after the other.
func (f *fitter) sensitivity(ctx context.Context, r *Report, best []float64) error {
	for i := range f.params {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v := slices.Clone(best)
		v[i] = min(f.params[i].high, v[i]*(1+moved))
		f.set(v)
		errs, err := f.errors()
		if err != nil {
			return err
		}
		effect := mean(errs)
		p := &r.Parameters[i]
		p.Effect = &effect
		for k := range f.rows {
			was, now := r.Rows[k].Simulated, f.rows[k].get(f.lab)*f.rows[k].scale
			by := (now - was) / max(math.Abs(was), 1e-9)
			if p.By == nil || math.Abs(by) > math.Abs(*p.By) {
				p.By, p.Most = &by, f.rows[k].name
			}
		}
	}
	f.set(best)
	return nil
}

// skipped lists the outcomes and orderings that have no experiment.
func skipped(facts map[string]Fact, rows []scored) []Skipped {
	used := map[string]bool{}
	for _, r := range rows {
		used[r.name], used[r.name+"_lo"], used[r.name+"_hi"] = true, true, true
	}
	for _, o := range orders() {
		used[o.name] = true
	}
	list := []Skipped{}
	for name, x := range facts {
		if x.Kind != "outcome" && x.Kind != "ordering" || used[name] {
			continue
		}
		why := unscored[name]
		if why == "" {
			why = "no experiment for it: of another machine or method (" + x.Source + ")"
		}
		list = append(list, Skipped{name, why})
	}
	slices.SortFunc(list, func(a, b Skipped) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(max(1, len(xs)))
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := page.NewPrinter(w)
	p.Line("the simulated chip against published figures; simulated: no phone was measured")
	p.Line("")
	t := page.NewTable("row", "published", "simulated", "error %", "left out %", "experiment")
	for _, s := range r.Rows {
		published := fmt.Sprintf("%.4g", s.Low)
		if s.High != s.Low {
			published += fmt.Sprintf(" … %.4g", s.High)
		}
		left := "–"
		if s.LeftOut != nil {
			left = fmt.Sprintf("%.1f", 100**s.LeftOut)
		}
		t.AppendRow([]any{s.Name, published + " " + s.Unit, fmt.Sprintf("%.4g", s.Simulated),
			fmt.Sprintf("%.1f", 100*s.Error), left, s.How})
	}
	p.Table(t)
	p.Line("")
	p.Line("%d rows: median relative error %.1f %% (shipped parameters %.1f %%), mean %.1f %%", len(r.Rows),
		100*r.Median, 100*r.Before, 100*r.Mean)
	if r.LeftOut != nil {
		p.Line("left out, in %d folds from starts up to %.0f %% away: median %.1f %%", r.Folds, 100*farStart,
			100**r.LeftOut)
	}
	for _, o := range r.Orders {
		mark := "holds"
		if !o.OK {
			mark = "BROKEN"
		}
		p.Line("%s: %s (%s)", o.Name, mark, o.How)
	}
	p.Line("")
	t = page.NewTable("fitted parameter", "shipped", "fitted", "bounds", "a tenth more: mean error %", "moves most")
	for _, x := range r.Parameters {
		effect, most := "–", "–"
		if x.Effect != nil {
			effect, most = fmt.Sprintf("%.1f", 100**x.Effect), fmt.Sprintf("%s by %+.1f %%", x.Most, 100**x.By)
		}
		t.AppendRow([]any{x.Name, fmt.Sprintf("%.4g", x.Shipped), fmt.Sprintf("%.4g", x.Fitted),
			fmt.Sprintf("%.4g … %.4g", x.Low, x.High), effect, most})
	}
	p.Table(t)
	p.Line("")
	t = page.NewTable("not scored", "why")
	for _, s := range r.Skipped {
		t.AppendRow([]any{s.Name, s.Why})
	}
	p.Table(t)
	return p.Err()
}
