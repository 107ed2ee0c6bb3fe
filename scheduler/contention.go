package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrBaselines is wrapped by every error about stored baselines.
var ErrBaselines = errors.New("scheduler: bad baselines")

// Limits of a sensor.
const (
	// MaxBaselineRows is how many combinations of model, width and threads are
	// told apart; further ones are not scored. A game uses one or two numbers
	// of threads and up to nine widths.
	MaxBaselineRows = 32

	// MaxLayers is the most layers of a model.
	MaxLayers = 4096

	// scoreWindow is how many groups of layers a score rests on at most: two
	// tokens of a small model that stops at every layer.
	scoreWindow = 64

	// scoreFull is how many make it certain. The quartiles of 16 samples lie
	// within the inner half of what they came from in 19 of 20 cases.
	scoreFull = 16

	// draftEnough is how many samples of draft layers make those of the target
	// superfluous: they read memory without computing much.
	draftEnough = 8

	// learnSamples is how many calm times of a layer make its baseline. Their
	// median stands four disturbed ones.
	learnSamples = 9

	// baselineLife is how long a baseline counts as fresh: heat and clock rates
	// change within minutes of play.
	baselineLife = 10 * time.Minute

	// learnRest is the time between two attempts to learn the same row.
	learnRest = time.Minute

	// learnSpan is how long one attempt may take: 100 tokens of a small model,
	// where nine of each width are enough.
	learnSpan = 1500 * time.Millisecond

	// rejectsMost is how many calm moments in a row must say the same slower
	// time before it is believed.
	rejectsMost = 3

	// farPast is by how many tokens two batches must differ for the length of the
	// cache to tell: a layer takes 5 % more after 64 tokens. learnFar samples
	// make a slope: their median over all layers is good to a percent.
	farPast, learnFar = 64, 65

	// maxPast and maxPerToken bound what is believed of a cache: ten million
	// tokens, and a millisecond for each.
	maxPast     = 10_000_000
	maxPerToken = time.Millisecond

	// slower and muchSlower are by how much a new baseline may exceed the old
	// one: in any case, and where the old one is no longer fresh.
	slower, muchSlower = 1.02, 1.5
)

// LayerSample is the run time of a group of layers in one batch.
type LayerSample struct {
	Draft       bool // layers of the draft model, else of the target
	First, Last int  // inclusive; Last == the number of layers is the output head
	Width       int  // tokens in the batch
	Threads     int
	Past        int // tokens in the cache before the batch, of all its sequences
	Duration    time.Duration
	Switched    bool // the thread lost its core meanwhile: that is not memory
}

// BaselineRow holds the undisturbed times of one model's layers, for one width
// of batch and one number of threads.
type BaselineRow struct {
	Draft   bool
	Width   int
	Threads int

	// Layers are the times of each layer, and last the output head, if the gate
	// is asked before and after it, with Past tokens in the cache. The head may
	// be 0: not known, so that a graph that ran whole is not scored.
	Layers []time.Duration
	Past   int

	// PerToken is what a layer takes longer for each further token in the cache.
	// A small model feels its cache: SmolLM2-135M takes 0.36 ms a layer at the
	// begin of a conversation, 0.43 after 270 tokens and 0.66 after 1,040. 0 is
	// not known: then batches of another length are not scored.
	PerToken time.Duration

	// Halt is what each layer of a group after the first takes less, because
	// the gate is not asked and the pool's threads go on: T₀ of the layers i … j
	// is the sum of theirs less (j-i)·Halt.
	Halt time.Duration
}

// Baselines are the undisturbed layer times of one device. Stored, they are a
// part of its device profile.
type Baselines struct {
	Device DeviceID
	Rows   []BaselineRow
}

// Validate reports what is wrong; the error wraps ErrBaselines.
func (b *Baselines) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrBaselines, fmt.Sprintf(format, args...))
	}
	if len(b.Rows) > MaxBaselineRows {
		return bad("%d rows: want %d at most", len(b.Rows), MaxBaselineRows)
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		least := time.Duration(math.MaxInt64)
		for l, t := range r.Layers {
			if t == 0 && l > 0 && l == len(r.Layers)-1 {
				continue
			}
			if t <= 0 || t > absurdSpan {
				return bad("row %d: layer %d takes %v: want more than 0, %v at most", i, l, t, absurdSpan)
			}
			least = min(least, t)
		}
		switch {
		case len(r.Layers) < 2 || len(r.Layers) > MaxLayers+1:
			return bad("row %d: %d layers with the head: want 2…%d", i, len(r.Layers), MaxLayers+1)
		case r.Width < 1 || r.Width > 65536 || r.Threads < 1 || r.Threads > 256:
			return bad("row %d: width %d, %d threads: want 1…65536 and 1…256", i, r.Width, r.Threads)
		case r.Past < 0 || r.Past > maxPast || r.PerToken < 0 || r.PerToken > maxPerToken:
			return bad("row %d: %v a token after %d tokens: want 0…%v, 0…%d",
				i, r.PerToken, r.Past, maxPerToken, maxPast)
		case r.Halt < 0 || r.Halt > least:
			return bad("row %d: a halt of %v: want 0…%v, the shortest layer", i, r.Halt, least)
		}
		for j := range b.Rows[:i] {
			if o := &b.Rows[j]; o.Draft == r.Draft && o.Width == r.Width && o.Threads == r.Threads {
				return bad("rows %d and %d are of the same width and threads", j, i)
			}
		}
	}
	return nil
}

// base is T₀ of the layers first … last after so many tokens, 0 if it is not
// known.
func (r *BaselineRow) base(first, last, past int) float64 {
	far := past - r.Past
	if first < 0 || last < first || last >= len(r.Layers) || r.Layers[last] == 0 ||
		r.PerToken == 0 && abs(far) >= farPast {
		return 0
	}
	sum := time.Duration(0)
	for _, t := range r.Layers[first : last+1] {
		sum += t
	}
	attending := min(last+1, len(r.Layers)-1) - first // the head does not look at the cache
	sum += time.Duration(attending*far)*r.PerToken - time.Duration(last-first)*r.Halt
	return float64(sum)
}

// Base is what the layers of a sample take undisturbed; false if that is not
// known, or if the sample is of the output head and has only a part of the other
// layers.
func (b *Baselines) Base(x LayerSample) (time.Duration, bool) {
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Draft != x.Draft || r.Width != x.Width || r.Threads != x.Threads {
			continue
		}
		if x.Last == len(r.Layers)-1 && x.First > 0 {
			return 0, false
		}
		t := r.base(x.First, x.Last, x.Past)
		return time.Duration(t), t > 0
	}
	return 0, false
}

func abs(n int) int { return max(n, -n) }

// learner gathers calm times of one row.
type learner struct {
	times  [][learnSamples]float32 // ns, by layer
	counts []uint8                 // of each, up to learnSamples
	full   int                     // layers but the head with learnSamples of them
	past   int                     // of the first
}

// row is a BaselineRow in use.
type row struct {
	BaselineRow
	layers  int // of its model, without the head
	fresh   Instant
	known   bool // fresh means something; false: stored, or never learned
	suspect bool // scores were negative: learn anew
	used    Instant
	tried   Instant // the last attempt that was not believed
	rejects int
	learn   *learner
	halts   [learnSamples]float32
	nHalts  int
	slopes  [learnFar]float32
	nSlopes int
	far     bool // a batch was not scored for want of a slope
}

type mark uint8

const (
	markGood mark = iota
	markDropped
	markUnbased
)

// scored is one sample in the window.
type scored struct {
	at    Instant
	cs    float32
	kind  mark
	draft bool
	old   bool // its baseline is not fresh
}

// Sensor turns layer times into a score of contention, and learns in calm
// moments what they are undisturbed. It is pure: time comes in with the
// samples. Call from one goroutine at a time.
type Sensor struct {
	device DeviceID
	layers [2]int // of target and draft model
	rows   []*row
	window [scoreWindow]scored
	next   int
	filled int
	sorted [scoreWindow]float32

	calm   bool    // the last sample was
	asked  Instant // when the last attempt to learn began
	asking bool    // there was one
}

// NewSensor returns a sensor for a model of so many layers on a device, and a
// draft model of draftLayers (0: none). stored are baselines from before; they
// are used until calm moments bring fresh ones. Those of another device, or of
// a model with another number of layers, are an error that wraps ErrBaselines.
func NewSensor(device DeviceID, layers, draftLayers int, stored Baselines) (*Sensor, error) {
	for _, n := range [...]int{layers, draftLayers} {
		if n < 0 || n > MaxLayers {
			return nil, fmt.Errorf("%w: %d layers: want 0…%d", ErrBaselines, n, MaxLayers)
		}
	}
	if err := stored.Validate(); err != nil {
		return nil, err
	}
	s := &Sensor{device: device, layers: [2]int{layers, draftLayers}}
	for i := range stored.Rows {
		r := stored.Rows[i]
		want := s.layers[bit(r.Draft)]
		if stored.Device != device || len(r.Layers) != want+1 {
			return nil, fmt.Errorf("%w: they are of %d layers on %s, this is %d on %s: measure anew", ErrBaselines,
				len(r.Layers)-1, stored.Device, want, device)
		}
		r.Layers = slices.Clone(r.Layers)
		s.rows = append(s.rows, &row{BaselineRow: r, layers: want})
	}
	return s, nil
}

// Add takes one sample that ended at an instant. calm says that nothing else
// wanted memory then: the game was not running, or stood in its menu.
func (s *Sensor) Add(x LayerSample, at Instant, calm bool) {
	n := s.layers[bit(x.Draft)]
	if n == 0 || x.First < 0 || x.Last < x.First || x.Last > n || x.Width < 1 || x.Threads < 1 ||
		x.Past < 0 || x.Past > maxPast || x.Duration <= 0 || x.Duration > absurdSpan {
		return
	}
	r := s.find(&x, n)
	if r == nil {
		s.put(scored{at: at, kind: markUnbased})
		return
	}
	r.used, s.calm = at, calm
	if calm && !x.Switched {
		r.take(&x, at)
	}
	if x.Last == n && x.First > 0 {
		return // the head, alone or with the last layers: another kind of work
	}
	e := scored{at: at, draft: x.Draft, old: !r.isFresh(at)}
	base := r.base(x.First, x.Last, x.Past)
	cs := 0.0
	if base > 0 {
		cs = float64(x.Duration)/base - 1
	}
	switch {
	case x.Switched || cs > scoreMost:
		e.kind = markDropped
	case base <= 0:
		e.kind = markUnbased
		r.far = r.far || len(r.Layers) > 0
	default:
		e.cs = float32(cs)
	}
	s.put(e)
}

func (s *Sensor) put(e scored) {
	s.window[s.next] = e
	s.next = (s.next + 1) % scoreWindow
	s.filled = min(s.filled+1, scoreWindow)
}

// find returns the row of a sample, a new one if there is room, or nil.
func (s *Sensor) find(x *LayerSample, layers int) *row {
	for _, r := range s.rows {
		if r.Draft == x.Draft && r.Width == x.Width && r.Threads == x.Threads {
			return r
		}
	}
	if len(s.rows) == MaxBaselineRows {
		return nil
	}
	r := &row{layers: layers}
	r.Draft, r.Width, r.Threads = x.Draft, x.Width, x.Threads
	s.rows = append(s.rows, r)
	return r
}

// Score is the contention that the samples of the last half second show: the
// mean of their middle half. The median would jump where half of the samples
// meet a burst of the game's, this rises with their share; and like it, it
// stands a quarter of outliers on either side.
func (s *Sensor) Score(now Instant) Score {
	out := Score{Learn: s.wantsCalm(now)}
	drafts, target, dropped, unbased, old := 0, 0, 0, 0, 0
	for i := range s.window[:s.filled] {
		e := &s.window[i]
		switch {
		case now.Sub(e.at) > scoreOld || e.at > now:
		case e.kind == markDropped:
			dropped++
		case e.kind == markUnbased:
			unbased++
		case e.draft:
			drafts++
		default:
			target++
		}
	}
	n, only := 0, drafts >= draftEnough
	for i := range s.window[:s.filled] {
		e := &s.window[i]
		if now.Sub(e.at) > scoreOld || e.at > now || e.kind != markGood || only && !e.draft {
			continue
		}
		s.sorted[n] = e.cs
		n++
		old += bit(e.old)
		if out.At = max(out.At, e.at); n == 1 {
			out.At = e.at
		}
	}
	switch {
	case n == 0 && dropped > 0:
		out.State = ScoreDisturbed
	case n == 0 && unbased > 0:
		out.State = ScoreNoBaseline
	case n > 0:
		out.State = ScoreGood
		out.Value, out.Samples = midmean(s.sorted[:n]), n
		out.Confidence = min(1, float64(n)/scoreFull) * float64(drafts+target) / float64(drafts+target+dropped)
		if 2*old > n {
			out.State = ScoreOldBaseline
			out.Confidence /= 2
		}
		if out.Value < scoreNegative && out.Confidence >= confident {
			s.suspect()
		}
	}
	return out
}

// suspect marks the rows in use: no disturbance makes layers faster.
func (s *Sensor) suspect() {
	for _, r := range s.rows {
		r.suspect = r.suspect || len(r.Layers) > 0
	}
}

// midmean sorts xs and returns the mean of its middle half.
func midmean(xs []float32) float64 {
	slices.Sort(xs)
	cut := len(xs) / 4
	sum := 0.0
	for _, x := range xs[cut : len(xs)-cut] {
		sum += float64(x)
	}
	return sum / float64(len(xs)-2*cut)
}

// wantsCalm reports whether a row that was used lately should be learned: for
// learnSpan at most, then not for learnRest. Learning looks at the gate after
// each layer, which costs a menu's reply a fifth of its speed.
func (s *Sensor) wantsCalm(now Instant) bool {
	for _, r := range s.rows {
		if now.Sub(r.used) >= learnRest || !r.wants(now) || r.Width > 2*scoreFull {
			continue
		}
		if !s.calm {
			return true // a wish, which costs nothing before there is a calm moment
		}
		if since := now.Sub(s.asked); !s.asking || since < 0 || since >= learnRest {
			s.asked, s.asking = now, true
		}
		return now.Sub(s.asked) < learnSpan
	}
	return false
}

func (r *row) isFresh(now Instant) bool {
	return r.known && !r.suspect && now.Sub(r.fresh) < baselineLife && r.fresh.Sub(now) < baselineLife
}

// wants reports whether calm times would be of use now.
func (r *row) wants(now Instant) bool {
	if len(r.Layers) == 0 || r.far && r.PerToken == 0 {
		return true
	}
	return !r.isFresh(now) && (r.rejects == 0 || now.Sub(r.tried) >= learnRest)
}

// take learns from a calm sample: layers that ran alone give their times, the
// whole graph at once says what the halts between them took.
func (r *row) take(x *LayerSample, at Instant) {
	far := abs(x.Past-r.Past) >= farPast
	switch {
	case x.First == x.Last && far && r.isFresh(at) && x.Last < r.layers:
		r.takeSlope(x)
	case x.First == x.Last && (!r.isFresh(at) && r.wants(at)):
		r.takeLayer(x, at)
	case x.Last > x.First && r.base(x.First, x.Last, x.Past) > 0 && !far:
		r.takeHalt(x)
	}
}

// takeSlope learns from a layer of a longer or shorter conversation.
func (r *row) takeSlope(x *LayerSample) {
	r.slopes[r.nSlopes] = float32(x.Duration-r.Layers[x.First]) / float32(x.Past-r.Past)
	if r.nSlopes++; r.nSlopes == learnFar {
		r.nSlopes = 0
		slices.Sort(r.slopes[:])
		r.PerToken = min(max(time.Duration(r.slopes[learnFar/2]), 1), maxPerToken)
	}
}

func (r *row) takeLayer(x *LayerSample, at Instant) {
	if r.learn == nil {
		r.learn = &learner{times: make([][learnSamples]float32, r.layers+1), counts: make([]uint8, r.layers+1),
			past: x.Past}
	}
	l := r.learn
	if abs(x.Past-l.past) >= farPast { // another conversation: what was gathered does not fit
		r.learn = nil
		return
	}
	if int(l.counts[x.First]) == learnSamples {
		return
	}
	l.times[x.First][l.counts[x.First]] = float32(x.Duration)
	if l.counts[x.First]++; int(l.counts[x.First]) == learnSamples && x.First < r.layers {
		l.full++
	}
	if l.full == r.layers {
		r.settle(at)
	}
}

// settle takes what was learned, or not: a menu that is busy itself must not
// become the measure of calm.
func (r *row) settle(at Instant) {
	l := r.learn
	found := make([]time.Duration, len(l.times))
	was, is := time.Duration(0), time.Duration(0)
	for i := range l.times {
		n := l.counts[i] // of the head there may be few: it is long, so a busy machine cuts it
		if n == 0 {
			continue
		}
		slices.Sort(l.times[i][:n])
		found[i] = time.Duration(l.times[i][n/2])
		if i == r.layers {
			continue
		}
		is += found[i]
		if len(r.Layers) > 0 {
			was += r.Layers[i]
		}
	}
	r.learn = nil
	if was > 0 { // as it would be after as many tokens
		was += time.Duration(r.layers*(l.past-r.Past)) * r.PerToken
	}
	limit := slower
	if !r.isFresh(at) {
		limit = muchSlower
	}
	if was > 0 && float64(is) > limit*float64(was) {
		r.tried = at
		if r.rejects++; r.rejects < rejectsMost {
			return
		}
	}
	if len(r.Layers) > 0 && found[r.layers] == 0 {
		found[r.layers] = r.Layers[r.layers]
	}
	r.Layers, r.Halt, r.Past = found, min(r.Halt, slices.Min(found[:r.layers])/2), l.past
	r.fresh, r.known, r.suspect, r.rejects = at, true, false, 0
}

func (r *row) takeHalt(x *LayerSample) {
	sum := time.Duration(r.base(x.First, x.Last, x.Past)) + time.Duration(x.Last-x.First)*r.Halt
	r.halts[r.nHalts] = float32(sum-x.Duration) / float32(x.Last-x.First)
	if r.nHalts++; r.nHalts == learnSamples {
		r.nHalts = 0
		slices.Sort(r.halts[:])
		most := float32(slices.Min(r.Layers[:r.layers]) / 2)
		r.Halt = time.Duration(min(max(r.halts[learnSamples/2], 0), most))
	}
}

// Baselines returns a copy of what is known, to be stored.
func (s *Sensor) Baselines() Baselines {
	b := Baselines{Device: s.device}
	for _, r := range s.rows {
		if len(r.Layers) > 0 {
			c := r.BaselineRow
			c.Layers = slices.Clone(c.Layers)
			b.Rows = append(b.Rows, c)
		}
	}
	return b
}
