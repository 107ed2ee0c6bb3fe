package harness

import (
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// maxLayerSamples bounds what is kept for the contention score: 30 layers of
// 100 tokens a second for ten minutes.
const maxLayerSamples = 2 << 20

// workRecord is one step of the engine.
type workRecord struct {
	start, end, waited int64
	stage              llm.Stage
	generated          int32
	stopped            bool
}

// layerRecord is one group of layers that was not preempted.
type layerRecord struct {
	at                          int64 // end of its batch
	ns                          float32
	past                        int32
	first, last, width, threads int16
	draft                       bool
}

// observer keeps what the engine did. observe runs on the worker's thread; the
// rest is read when the worker has ended.
type observer struct {
	works  []workRecord
	layers []layerRecord
}

func newObserver() *observer { return &observer{works: make([]workRecord, 0, 1<<16)} }

func (o *observer) observe(w llm.Work) {
	if w.Stage == llm.Idle {
		return
	}
	o.works = append(o.works,
		workRecord{w.Start, w.End, int64(w.Waited), w.Stage, int32(w.Generated), w.Stopped})
	if w.Stage == llm.Prefill {
		return
	}
	for i := range w.Samples {
		s := &w.Samples[i]
		if s.Switched || s.Last < s.First || s.Duration <= 0 || len(o.layers) >= maxLayerSamples {
			continue
		}
		o.layers = append(o.layers, layerRecord{
			at: w.End, ns: float32(s.Duration), past: int32(w.Past),
			first: s.First, last: s.Last, width: s.Width, threads: s.Threads, draft: w.Stage == llm.Draft,
		})
	}
}

// stopped counts the drafts that were stopped in the middle.
func (o *observer) stopped(begin, end int64) (n int) {
	for _, w := range o.works {
		if w.stage == llm.Draft && w.stopped && w.end >= begin && w.start <= end {
			n++
		}
	}
	return n
}

// layerKey tells what layer times may be compared where no baseline is known.
type layerKey struct {
	width, threads, layers int16
	draft                  bool
}

// scoredLayer is a group of layers with its contention.
type scoredLayer struct {
	at int64
	cs float64
}

// contention is SERENO's score (T - T0)/T0 of each group of layers. T0 is what
// the same layers take undisturbed; where that was not measured, the run's own
// fastest twentieth of groups of this size stands for it.
func (o *observer) contention(b scheduler.Baselines) []scoredLayer {
	scores := make([]scoredLayer, 0, len(o.layers))
	for i := range o.layers {
		r := &o.layers[i]
		base, ok := b.Base(r.sample())
		if ok {
			scores = append(scores, scoredLayer{r.at, float64(r.ns)/float64(base) - 1})
		}
	}
	if len(scores) > 0 {
		return scores
	}
	by := map[layerKey][]float32{}
	for i := range o.layers {
		r := &o.layers[i]
		by[r.key()] = append(by[r.key()], r.ns)
	}
	fastest := map[layerKey]float64{}
	for key, xs := range by {
		fastest[key] = quantile32(xs, 0.05)
	}
	for i := range o.layers {
		r := &o.layers[i]
		scores = append(scores, scoredLayer{r.at, float64(r.ns)/fastest[r.key()] - 1})
	}
	return scores
}

func (r *layerRecord) sample() scheduler.LayerSample {
	return scheduler.LayerSample{
		Draft: r.draft, First: int(r.first), Last: int(r.last), Width: int(r.width), Threads: int(r.threads),
		Past: int(r.past),
	}
}

func (r *layerRecord) key() layerKey { return layerKey{r.width, r.threads, r.last - r.first, r.draft} }

func quantile32(xs []float32, p float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	return float64(s[min(int(p*float64(len(s))), len(s)-1)])
}

// span is a stretch of frames in which gate and phase stayed the same.
type span struct {
	begin, end int64
	gate       uint8
	phase      string
}

// spanGap is what may lie between two frames that follow each other: nothing,
// but for rounding. A jump of the clock leaves more.
const spanGap = int64(time.Millisecond)

// spans joins the frames of a run.
func spans(frames []frameRecord) (list []span) {
	for i := range frames {
		f := &frames[i]
		begin, end := int64(f.Start), int64(f.Start+f.Interval)
		if n := len(list); n > 0 {
			last := &list[n-1]
			if last.gate == f.Gate && last.phase == f.Frame.Phase && begin-last.end < spanGap {
				last.end = end
				continue
			}
		}
		list = append(list, span{begin, end, f.Gate, f.Frame.Phase})
	}
	return list
}

// spent sums up what the engine did between two instants.
type spent struct {
	run    map[llm.Stage]int64 // ns of computing
	wait   map[scheduler.Gate]int64
	tokens map[string]int // by phase
}

// total is the time of computing, of all stages.
func (s *spent) total() (ns int64) {
	for _, n := range s.run {
		ns += n
	}
	return ns
}

// spend attributes steps to phases and waits to gates. A step reports how long
// it waited in all; where the gate changed meanwhile, the wait is split by how
// long each gate that can hold a step stood there.
func spend(works []workRecord, list []span, begin, end int64) spent {
	s := spent{run: map[llm.Stage]int64{}, wait: map[scheduler.Gate]int64{}, tokens: map[string]int{}}
	first := 0
	for _, w := range works {
		if w.end < begin || w.start > end {
			continue
		}
		from, to := max(w.start, begin), min(w.end, end)
		part := 1.0
		if w.end > w.start {
			part = float64(to-from) / float64(w.end-w.start)
		}
		s.run[w.stage] += int64(float64(w.end-w.start-w.waited) * part)
		for first < len(list)-1 && list[first].end <= from {
			first++
		}
		s.waits(list[first:], from, to, int64(float64(w.waited)*part))
		if w.generated > 0 && w.end >= begin && w.end <= end {
			s.tokens[phaseAt(list[first:], w.end)] += int(w.generated)
		}
	}
	return s
}

func phaseAt(list []span, at int64) string {
	for i := range list {
		if at < list[i].end || i == len(list)-1 {
			return list[i].phase
		}
	}
	return ""
}

func (s *spent) waits(list []span, from, to, waited int64) {
	if waited <= 0 {
		return
	}
	var by [4]int64
	total := int64(0)
	for i := range list {
		if list[i].begin >= to {
			break
		}
		n := min(to, list[i].end) - max(from, list[i].begin)
		g := scheduler.Gate(list[i].gate)
		if n > 0 && g != scheduler.GateFree && g <= scheduler.GateClosed {
			by[g] += n
			total += n
		}
	}
	if total == 0 { // it waited for a window that was published within the frame
		s.wait[scheduler.GateWindow] += waited
		return
	}
	for g, n := range by {
		s.wait[scheduler.Gate(g)] += int64(float64(waited) * float64(n) / float64(total))
	}
}

// milliseconds sorts durations for quantiles.
func milliseconds(ds []time.Duration) []float64 {
	xs := make([]float64, 0, len(ds))
	for _, d := range ds {
		xs = append(xs, float64(d)/1e6)
	}
	slices.Sort(xs)
	return xs
}

// quantile is a pointer to a quantile of sorted values, nil of none.
func quantile(sorted []float64, p float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	x := metrics.Quantile(sorted, p)
	return &x
}
