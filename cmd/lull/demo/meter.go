package demo

import (
	"maps"
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
)

const (
	// window is what "now" means on the screen.
	window = 5 * time.Second

	// settle is left out of the table after a switch: the prompt is computed
	// anew, which takes 0.3 s on two cores, and caches fill.
	settle = time.Second

	// exactFrames bounds what is sorted for the table's quantiles, about a
	// millisecond of work: 2 minutes at 60 Hz. Beyond it they are of a sample.
	exactFrames = 8192

	// maxTTFT bounds what is kept of times to the first token: an hour of
	// replies of a second.
	maxTTFT = 3600

	// refreshEvery is how often the table is computed anew.
	refreshEvery = time.Second
)

// Recent is what the last frames were like.
type Recent struct {
	Frames, Late int
	LateShare    float64
	HitchMsPerS  float64
	FrameP99Ms   float64
}

// Total is what a mode was like.
type Total struct {
	Frames          int64
	Seconds         float64
	LateShare       float64
	HitchMsPerS     float64
	FrameP99Ms      float64
	Tokens          int64
	TokensPerSecond float64
	Replies         int     // times to the first token that TTFTMs is of
	TTFTMs          float64 // median
}

// Meter turns frames into numbers. Call from one goroutine at a time.
type Meter struct {
	recent []Frame

	started   bool
	mode      Mode          // of the newest frame
	since     time.Duration // when that mode began
	last      time.Duration // start of the newest frame
	refreshed time.Duration
	counted   bool // whether the newest frame is in the table
	totals    table

	load time.Duration            // that totals are of
	kept map[time.Duration]*table // of other loads, those that counted a frame
}

// table is what was counted of each mode under one load.
type table [Modes]tally

// any reports whether it holds a frame.
func (t *table) any() bool {
	return slices.ContainsFunc(t[:], func(x tally) bool { return x.shown.Frames > 0 })
}

type tally struct {
	collector *metrics.Collector
	shown     Total
	stale     bool // shown is behind
	tokens    int64
	ttft      []time.Duration
}

// Add takes frames in their order, and the tokens that each engine generated
// meanwhile.
func (m *Meter) Add(frames []Frame, tokens [Modes]int64) {
	for i := range frames {
		m.add(&frames[i])
	}
	if m.counted {
		m.totals[m.mode].tokens += tokens[m.mode]
		m.totals[m.mode].stale = true
	}
	cut, _ := slices.BinarySearchFunc(m.recent, m.last-window, func(f Frame, t time.Duration) int {
		return int(f.Start - t)
	})
	m.recent = slices.Delete(m.recent, 0, cut)
	if m.last-m.refreshed >= refreshEvery {
		m.refreshed = m.last
		m.Refresh()
	}
}

func (m *Meter) add(f *Frame) {
	if f.Start < m.last { // a clock that went back
		m.recent, m.since, m.refreshed = m.recent[:0], f.Start, f.Start
	}
	if !m.started || f.Mode != m.mode {
		m.started, m.mode, m.since = true, f.Mode, f.Start
		if c := m.totals[f.Mode].collector; c != nil {
			c.Restart()
		}
	}
	m.last = f.Start
	m.recent = append(m.recent, *f)
	if m.counted = f.Start-m.since >= settle; m.counted {
		m.collector(f.Mode).Add(f.Frame)
	}
}

func (m *Meter) collector(mode Mode) *metrics.Collector {
	t := &m.totals[mode]
	if t.collector == nil {
		c := metrics.DefaultConfig()
		c.ExactFrames = exactFrames
		t.collector, _ = metrics.New(c) // the default is valid
	}
	return t.collector
}

// Reply takes the time to the first token of a reply.
func (m *Meter) Reply(mode Mode, ttft time.Duration) {
	if t := &m.totals[mode]; len(t.ttft) < maxTTFT {
		t.ttft = append(t.ttft, ttft)
		t.stale = true
	}
}

// Under says that the game's load is another from here on. The table becomes
// that load's, and goes on where it was if it had been played before.
func (m *Meter) Under(load time.Duration) {
	m.Refresh()
	if m.kept == nil {
		m.kept = map[time.Duration]*table{}
	}
	if m.totals.any() {
		old := m.totals
		m.kept[m.load] = &old
	}
	m.totals = table{}
	if old := m.kept[load]; old != nil {
		m.totals = *old
		delete(m.kept, load)
	}
	for i := range m.totals {
		if c := m.totals[i].collector; c != nil {
			c.Restart()
		}
	}
	m.load, m.since, m.counted = load, m.last, false
}

// Loads lists the loads that frames were counted under, from the lowest.
func (m *Meter) Loads() []time.Duration {
	list := slices.Collect(maps.Keys(m.kept))
	if m.totals.any() {
		list = append(list, m.load)
	}
	slices.Sort(list)
	return list
}

// At gives a meter that only has the table of a load, of those in Loads.
func (m *Meter) At(load time.Duration) Meter {
	if old := m.kept[load]; old != nil {
		return Meter{totals: *old, load: load}
	}
	return Meter{totals: m.totals, load: load}
}

// Refresh computes the table now instead of at the next second.
func (m *Meter) Refresh() {
	for i := range m.totals {
		if t := &m.totals[i]; t.collector != nil && t.stale {
			t.refresh()
		}
	}
}

func (t *tally) refresh() {
	t.stale = false
	r := t.collector.Result()
	t.shown = Total{
		Frames: r.Frames, Seconds: r.Seconds, LateShare: r.JankRate, HitchMsPerS: r.HitchMsPerS,
		FrameP99Ms: r.FrameMs.P99, Tokens: t.tokens, Replies: len(t.ttft),
	}
	if r.Seconds > 0 {
		t.shown.TokensPerSecond = float64(t.tokens) / r.Seconds
	}
	if len(t.ttft) > 0 {
		xs := make([]float64, len(t.ttft))
		for i, d := range t.ttft {
			xs[i] = float64(d) / 1e6
		}
		slices.Sort(xs)
		t.shown.TTFTMs = metrics.Quantile(xs, 0.5)
	}
}

// Total is a mode's line of the table as of the last refresh.
func (m *Meter) Total(mode Mode) Total { return m.totals[mode].shown }

// Settling reports whether the newest frames are left out of the table.
func (m *Meter) Settling() bool { return m.started && !m.counted }

// Newest is the last frame.
func (m *Meter) Newest() (f Frame, ok bool) {
	if len(m.recent) == 0 {
		return Frame{}, false
	}
	return m.recent[len(m.recent)-1], true
}

// Recent sums up the last five seconds.
func (m *Meter) Recent() Recent {
	var r Recent
	var late, shown time.Duration
	work := make([]float64, 0, len(m.recent))
	for i := range m.recent {
		f := &m.recent[i]
		r.Frames++
		shown += f.Interval
		work = append(work, float64(f.Work)/1e6)
		if f.Overrun > 0 {
			r.Late++
			late += f.Overrun
		}
	}
	if r.Frames == 0 {
		return r
	}
	slices.Sort(work)
	r.FrameP99Ms = metrics.Quantile(work, 0.99)
	r.LateShare = float64(r.Late) / float64(r.Frames)
	if shown > 0 {
		r.HitchMsPerS = 1000 * float64(late) / float64(shown)
	}
	return r
}
