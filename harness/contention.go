package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// contentionSlice is how long memory is streamed at one rate before the next
	// is drawn: some 60 tokens. Shorter slices lose more to the change, longer
	// ones leave fewer for the machine's drift to even out in.
	contentionSlice = time.Second

	// contentionSettle is left out at the begin of a slice: the tokens that began
	// at the rate before.
	contentionSettle = 100 * time.Millisecond

	// contentionTick is how often the stream looks at the clock: bursts of 1 ms
	// are about two layers long, so each layer meets its share of them.
	contentionTick = time.Millisecond

	// contentionCalm is the time in which layers are timed at rest, at first. It
	// is prolonged up to calmMost until calmTokens were decoded: nine make a
	// baseline, and a conversation longer by 64 the slope.
	contentionCalm = 4 * time.Second
	calmMost       = 40 * time.Second
	calmTokens     = 120

	// contentionWarm is time for page faults, clocks and the first prompt.
	contentionWarm = time.Second

	// MinContentionRates is how many rates a correlation should rest on.
	MinContentionRates = 6

	// DefaultContentionSamples is how many groups of layers it should rest on.
	DefaultContentionSamples = 10_000

	// contentionMax bounds a run to an hour.
	contentionMax = 3600.0

	// normal95 is the 97.5 % quantile of the normal distribution.
	normal95 = 1.959964
)

// ContentionOptions say what Contention measures.
type ContentionOptions struct {
	Rates      []float64 // GB/s that one thread is asked to stream; nil: 0 … 10
	Seconds    float64   // of all slices together; 0: 96
	Seed       uint64    // order of the rates
	Threads    int       // of the model; 0: 1, so that a second core is the stream's
	MinSamples int       // below it Enough is false; 0: 10,000

	Model    local.Config // Spec, Observe and Clock are set here
	Open     func(ctx context.Context, cfg local.Config) (*local.Runtime, error)
	Version  string
	Progress func(Progress)
}

func (o *ContentionOptions) complete() error {
	if o.Rates == nil {
		o.Rates = []float64{0, 1.5, 3, 4.5, 6, 7.5, 9, 10}
	}
	if o.Seconds == 0 {
		o.Seconds = 96
	}
	if o.Threads == 0 {
		o.Threads = 1
	}
	if o.MinSamples == 0 {
		o.MinSamples = DefaultContentionSamples
	}
	if o.Open == nil {
		o.Open = local.Open
	}
	if len(o.Rates) < 2 || len(o.Rates) > 100 {
		return fmt.Errorf("harness: %d rates: want 2…100", len(o.Rates))
	}
	for i, r := range o.Rates {
		if !(r >= 0 && r <= load.MaxRate) {
			return fmt.Errorf("harness: a rate of %v GB/s: want 0…%v", r, load.MaxRate)
		}
		if slices.Contains(o.Rates[:i], r) {
			return fmt.Errorf("harness: the rate %v stands twice", r)
		}
	}
	least := contentionSlice.Seconds() * float64(len(o.Rates))
	if !(o.Seconds >= least && o.Seconds <= contentionMax) {
		return fmt.Errorf("harness: %v seconds: want %v (one for each rate) … %v", o.Seconds, least, contentionMax)
	}
	if o.Threads < 1 || o.Threads > 256 || o.MinSamples < 1 {
		return fmt.Errorf("harness: %d threads, %d samples: want 1…256 and 1 or more", o.Threads, o.MinSamples)
	}
	return nil
}

// Correlation is Pearson's r with its 95 % interval by Fisher's z.
type Correlation struct {
	R    *float64 `json:"r"` // null: fewer than four points, or no spread
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	N    int      `json:"n"`
}

func correlate(x, y []float64) Correlation {
	c := Correlation{N: len(x)}
	if len(x) < 4 {
		return c
	}
	r := stat.Correlation(x, y, nil)
	if math.IsNaN(r) {
		return c
	}
	z, half := math.Atanh(min(max(r, -1+1e-12), 1-1e-12)), normal95/math.Sqrt(float64(len(x)-3))
	low, high := math.Tanh(z-half), math.Tanh(z+half)
	c.R, c.Low, c.High = &r, &low, &high
	return c
}

// ContentionSlice is one stretch at one rate.
type ContentionSlice struct {
	Begin    float64  `json:"t_s"`
	Asked    float64  `json:"asked_gb_per_s"`
	Streamed float64  `json:"streamed_gb_per_s"`
	Score    *float64 `json:"score"` // mean of the middle half; null: no layers
	N        int      `json:"n"`     // groups of layers
}

// ContentionRate joins the slices of one rate.
type ContentionRate struct {
	Asked    float64  `json:"asked_gb_per_s"`
	Streamed float64  `json:"streamed_gb_per_s"`
	Slices   int      `json:"slices"`
	N        int      `json:"n"`
	Score    *float64 `json:"score"`
	P25      *float64 `json:"p25"`
	P50      *float64 `json:"p50"`
	P75      *float64 `json:"p75"`
}

// ContentionReport is what Contention found; its JSON keys stay.
type ContentionReport struct {
	Host        Host              `json:"host"`
	Seed        uint64            `json:"seed"`
	Threads     int               `json:"threads"`
	Seconds     float64           `json:"seconds"`
	Rates       []ContentionRate  `json:"rates"`
	Samples     int               `json:"samples"`
	Enough      bool              `json:"enough"` // samples and rates
	Pearson     Correlation       `json:"pearson"`
	BySlice     Correlation       `json:"pearson_by_slice"`
	Slices      []ContentionSlice `json:"slices"`
	OtherCPU    *float64          `json:"other_cpu_share"`
	Notes       []string          `json:"notes"`
	Interrupted bool              `json:"interrupted,omitempty"`
}

// Contention streams memory beside a model that decodes, at rates in random
// order, and compares the layers' contention score with the bytes that were
// really read. When ctx ends it returns what there is with the cause. One at a
// time: it measures the process.
func Contention(ctx context.Context, o ContentionOptions) (*ContentionReport, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	defer quiet(load.Needs{Stream: true})()
	x := &contention{o: o, clock: llm.NewClock(), works: newObserver()}
	x.report = &ContentionReport{
		Host: Host{CPU: CPUName(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Lull: o.Version},
		Seed: o.Seed, Threads: o.Threads, Rates: []ContentionRate{}, Slices: []ContentionSlice{}, Notes: []string{},
	}
	cfg := o.Model
	cfg.Spec = local.Spec{Threads: o.Threads, Steer: local.SteerNone}
	cfg.Clock = x.clock
	cfg.Observe = func(w llm.Work) {
		x.works.observe(w)
		if w.Stage == llm.Decode {
			x.steps.Add(1)
		}
	}
	rt, err := o.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	info := rt.Model.Info()
	x.report.Host.Model, x.report.Host.Llama = info.Name, info.Library
	rt.Model.Gate().Publish(llm.Window{LayersPerStop: 1})
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine: its timer was changed
		done <- x.play(ctx, rt)
	}()
	err = errors.Join(<-done, rt.Close())
	if err == nil {
		err = x.conclude(info)
	}
	if ctx.Err() != nil {
		x.report.Interrupted = true
		return x.report, context.Cause(ctx)
	}
	return x.report, err
}

// contention is one Contention. play runs on a thread of its own.
type contention struct {
	o      ContentionOptions
	clock  llm.Clock
	works  *observer
	steps  atomic.Int64 // of decoding
	report *ContentionReport

	calm   [2]int64 // when layers were timed at rest
	slices []slice
}

type slice struct {
	begin, end int64 // without the time to settle
	asked      float64
	bytes      int64
}

func (x *contention) play(ctx context.Context, rt *local.Runtime) error {
	timer, err := load.NewTimer(x.clock)
	if err != nil {
		return err
	}
	defer timer.Close()
	team, err := load.NewTeam(load.Needs{Stream: true}, timer)
	if err != nil {
		return err
	}
	defer team.Close()
	talk, err := newTalker(rt)
	if err != nil {
		return err
	}
	p := &streamer{timer: timer, team: team, talk: talk}
	order := x.order()
	total := contentionWarm + contentionCalm + time.Duration(len(order))*contentionSlice
	tell := func(what string, i int, done time.Duration) {
		if x.o.Progress != nil {
			x.o.Progress(Progress{What: what, Repeat: i, Of: len(order), Done: done, Total: total})
		}
	}
	tell("at rest", 0, 0)
	if _, _, err = p.stream(ctx, 0, contentionWarm); err != nil {
		return err
	}
	if err = x.rest(ctx, p); err != nil {
		return err
	}
	cpu, machine := processCPU(), readMachine()
	for i, rate := range order {
		if ctx.Err() != nil {
			break
		}
		tell(fmt.Sprintf("%.4g GB/s", rate), i+1, contentionWarm+contentionCalm+time.Duration(i)*contentionSlice)
		if _, _, err = p.stream(ctx, rate, contentionSettle); err != nil {
			return err
		}
		begin := x.clock.Now()
		bytes, whole, err := p.stream(ctx, rate, contentionSlice-contentionSettle)
		if err != nil {
			return err
		}
		if whole {
			x.slices = append(x.slices, slice{begin, x.clock.Now(), rate, bytes})
		}
	}
	x.others(processCPU()-cpu, readMachine().since(machine))
	return nil
}

// rest times layers while nothing is streamed.
func (x *contention) rest(ctx context.Context, p *streamer) error {
	x.calm[0] = x.clock.Now()
	until := x.steps.Load() + calmTokens
	for {
		_, whole, err := p.stream(ctx, 0, contentionCalm)
		x.calm[1] = x.clock.Now()
		if err != nil || !whole || x.steps.Load() >= until || x.calm[1]-x.calm[0] >= int64(calmMost) {
			return err
		}
	}
}

// order draws the rates: all of them in each round, so that a drift of the
// machine meets all alike.
func (x *contention) order() []float64 {
	r := rand.New(rand.NewPCG(x.o.Seed, 0x6c756c6c))
	rounds := int(x.o.Seconds / contentionSlice.Seconds() / float64(len(x.o.Rates)))
	var order []float64
	for range rounds {
		round := slices.Clone(x.o.Rates)
		r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		order = append(order, round...)
	}
	return order
}

// others notes what other processes used.
func (x *contention) others(cpu time.Duration, m machineTime) {
	if len(x.slices) == 0 || !m.known || m.busy+m.idle <= 0 {
		return
	}
	wall := float64(m.busy + m.idle)
	share := max(0, (float64(m.busy)-float64(cpu))/wall)
	x.report.OtherCPU = &share
	if share > noisy {
		x.report.note("other processes used %.0f %% of the cores: their memory traffic is in the scores, "+
			"repeat on a quiet machine", 100*share)
	}
}

func (r *ContentionReport) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// learn makes baselines of the layers that ran at rest.
func (x *contention) learn(layers int) (scheduler.Baselines, error) {
	s, err := scheduler.NewSensor("CPU", layers, 0, scheduler.Baselines{})
	if err != nil {
		return scheduler.Baselines{}, err
	}
	for i := range x.works.layers {
		if r := &x.works.layers[i]; r.at >= x.calm[0] && r.at <= x.calm[1] {
			sample := r.sample()
			sample.Duration = time.Duration(r.ns)
			s.Add(sample, scheduler.Instant(r.at), true)
		}
	}
	b := s.Baselines()
	if len(b.Rows) == 0 {
		return b, errors.New("harness: too few layers ran at rest to say what they take: " +
			"other programs keep the machine busy, repeat when they don't")
	}
	return b, nil
}

// conclude computes the scores.
func (x *contention) conclude(info llm.Info) error {
	r := x.report
	if len(x.slices) == 0 {
		return nil
	}
	base, err := x.learn(info.Layers)
	if err != nil {
		return err
	}
	values := make([][]float64, len(x.slices))
	k, unknown := 0, 0
	for i := range x.works.layers {
		l := &x.works.layers[i]
		for k < len(x.slices) && l.at > x.slices[k].end {
			k++
		}
		if k == len(x.slices) {
			break
		}
		if l.at < x.slices[k].begin || int(l.last) == info.Layers {
			continue
		}
		t, ok := base.Base(l.sample())
		if !ok {
			unknown++
			continue
		}
		values[k] = append(values[k], float64(l.ns)/float64(t)-1)
	}
	if unknown > 0 {
		r.note("%d groups of layers were left out: what they take at rest after so long a conversation is not known",
			unknown)
	}
	x.tabulate(values)
	return nil
}

// tabulate fills the report in from the scores of each slice.
func (x *contention) tabulate(values [][]float64) {
	r := x.report
	var rates, scores, sliceRates, sliceScores []float64
	for i, s := range x.slices {
		streamed := float64(s.bytes) / float64(s.end-s.begin) // bytes a nanosecond are GB/s
		c := ContentionSlice{Begin: float64(s.begin-x.slices[0].begin) / 1e9, Asked: s.asked, Streamed: streamed,
			N: len(values[i])}
		for _, v := range values[i] {
			rates, scores = append(rates, streamed), append(scores, v)
		}
		if c.N > 0 {
			score := midmean(slices.Clone(values[i]))
			c.Score = &score
			sliceRates, sliceScores = append(sliceRates, streamed), append(sliceScores, score)
		}
		r.Slices = append(r.Slices, c)
		r.Seconds += contentionSlice.Seconds()
	}
	for _, asked := range slices.Sorted(slices.Values(x.o.Rates)) {
		r.Rates = append(r.Rates, x.rate(asked, values))
	}
	r.Samples, r.Pearson, r.BySlice = len(scores), correlate(rates, scores), correlate(sliceRates, sliceScores)
	r.Enough = r.Samples >= x.o.MinSamples && len(x.o.Rates) >= MinContentionRates
	if r.Samples < x.o.MinSamples {
		r.note("%d groups of layers: want %d or more, give it more --seconds", r.Samples, x.o.MinSamples)
	}
	if len(x.o.Rates) < MinContentionRates {
		r.note("%d rates: want %d or more", len(x.o.Rates), MinContentionRates)
	}
	if x.o.Threads >= runtime.NumCPU() {
		r.note("%d threads of the model on %d cores leave none to the stream: layers wait for cores, not only "+
			"for memory", x.o.Threads, runtime.NumCPU())
	}
}

func (x *contention) rate(asked float64, values [][]float64) ContentionRate {
	out := ContentionRate{Asked: asked}
	var all []float64
	var bytes, length int64
	for i, s := range x.slices {
		if s.asked == asked {
			out.Slices++
			bytes, length = bytes+s.bytes, length+s.end-s.begin
			all = append(all, values[i]...)
		}
	}
	if length > 0 {
		out.Streamed = float64(bytes) / float64(length)
	}
	if out.N = len(all); out.N > 0 {
		score := midmean(all) // sorts
		out.Score, out.P25, out.P50, out.P75 = &score, quantile(all, 0.25), quantile(all, 0.5), quantile(all, 0.75)
	}
	return out
}
