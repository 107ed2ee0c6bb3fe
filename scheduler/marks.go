package scheduler

import (
	"math"
	"time"
)

// markRing is how many frames a late timing may lag behind. Unity's come 4
// frames later, three swap-chain images with frame generation 6; a frame that
// has left the ring answers MarkUnknownFrame.
const markRing = 16

// shutOpen and shutClose are a window that is never open.
const shutOpen, shutClose = math.MinInt64 + 1, math.MinInt64

// deadlineFar is the number of periods after which a deadline is absurd.
// Triple buffering needs 3.
const deadlineFar = 8

// WindowLife is how long a window holds without another mark, or, where frames
// begin and none ends any more, from the first that did not end. A frame of half a
// second is no frame that anyone plays: the game loads, hangs, or waits at a
// breakpoint, and the reply may as well go on. So it may where nobody tells when
// the work of frames is done, which would leave the gate shut for ever.
const WindowLife = 500 * time.Millisecond

// FrameTimings are facts of one frame that may arrive later than its end. A
// busy time of 0 means "not measured".
type FrameTimings struct {
	MainBusy, RenderBusy, GPUBusy time.Duration
	PresentWait                   time.Duration // counts only if known
	PresentWaitKnown              bool
}

// MarkOutcome says what became of a mark.
type MarkOutcome uint8

// Outcomes of a mark.
const (
	MarkOK           MarkOutcome = iota
	MarkGap                      // ids were skipped: taken
	MarkNoEnd                    // the frame before was never ended: taken, that one is lost
	MarkRestarted                // the ids began anew: taken, older frames are forgotten
	MarkClockBack                // the clock went back: taken, windows stay shut for this frame
	MarkBadDeadline              // the deadline is absurd: taken with begin + target
	MarkEarly                    // timings before the frame's end: kept for its sample
	MarkDuplicate                // the mark was made before: ignored
	MarkOutOfOrder               // an id below the current one: ignored
	MarkNoBegin                  // an end without a begin: ignored
	MarkUnknownFrame             // timings of a frame that is not in the ring: ignored
)

var markNames = [...]string{"ok", "gap", "no-end", "restarted", "clock-back", "bad-deadline", "early", "duplicate",
	"out-of-order", "no-begin", "unknown-frame"}

func (o MarkOutcome) String() string { return name(markNames[:], int(o)) }

// Taken reports whether the mark counted.
func (o MarkOutcome) Taken() bool { return o <= MarkBadDeadline }

type markFrame struct {
	sample FrameSample
	begun  bool
	ended  bool
}

// Marks turns a game's marks into samples and windows:
//
//	FrameBegin: publish m.Begin(id, target, now)
//	FrameEnd:   s := m.End(id, deadline, now); d := controller.Step(s); publish m.Plan(d)
//	late facts: s := m.Timings(id, t); controller.Late(s)
//
// The window of FrameEnd ends where the game is expected to begin its next
// frame: at the deadline, or at the next line of the grid where the frame is
// late already; and earlier by as much as the game was seen to begin before
// that. The zero value is ready. Call from one goroutine at a time.
type Marks struct {
	// Delay is how long after FrameEnd a window opens; set it before the first mark.
	Delay time.Duration

	ring    [markRing]markFrame
	current uint64
	any     bool

	last  Instant       // the latest mark
	alive Instant       // the same, but of frames in a row that were not ended it is the first one's begin
	line  Instant       // where the next frame is expected to begin at the latest; 0: unknown
	early time.Duration // how long before line the game begins, rises at once, falls slowly

	gate      Gate
	margin    time.Duration
	openAfter time.Duration
	pause     time.Duration
	stands    Window // returned last
}

// Begin takes a FrameBegin and returns the window to publish at once. In
// GateWindow it is shut, unless the last decision lets layers begin before the
// end of the game's work. A mark that is ignored leaves the window that stands.
func (m *Marks) Begin(id uint64, target time.Duration, now Instant) (Window, MarkOutcome) {
	out := m.beginOutcome(id, now)
	if !out.Taken() {
		return m.stands, out
	}
	if out == MarkRestarted {
		m.ring = [markRing]markFrame{}
	}
	if prev := &m.ring[m.current%markRing]; m.any && prev.ended && m.line != 0 && out == MarkOK {
		seen := min(max(m.line.Sub(now), 0), max(prev.sample.Target, 0))
		m.early = max(seen, m.early-(m.early-seen)/8)
	}
	f := &m.ring[id%markRing]
	*f = markFrame{begun: true}
	f.sample = FrameSample{Frame: id, Start: now, Target: target, Marked: true}
	m.current, m.any, m.last, m.line = id, true, now, 0
	if out != MarkNoEnd {
		m.alive = now
	}
	if m.openAfter == AtFrameEnd || target <= 0 || out == MarkClockBack {
		return m.window(shutOpen, shutClose), out
	}
	return m.window(now.Add(m.openAfter), now.Add(target-m.early-m.margin)), out
}

func (m *Marks) beginOutcome(id uint64, now Instant) MarkOutcome {
	if !m.any {
		return MarkOK
	}
	cur := &m.ring[m.current%markRing]
	switch {
	case id == m.current:
		return MarkDuplicate
	case id < m.current && m.current-id < markRing:
		return MarkOutOfOrder
	case id < m.current:
		return MarkRestarted
	case now < m.last:
		return MarkClockBack
	case !cur.ended:
		return MarkNoEnd
	case id != m.current+1:
		return MarkGap
	}
	return MarkOK
}

// End takes a FrameEnd: the game's own work is done, and the frame has to be
// shown at the deadline (0: begin + target). The sample lacks Phase and Host,
// which the caller adds. It is worth a Step only if the outcome is Taken.
func (m *Marks) End(id uint64, deadline, now Instant) (FrameSample, MarkOutcome) {
	f := &m.ring[id%markRing]
	switch {
	case !m.any || !f.begun || f.sample.Frame != id:
		return FrameSample{}, MarkNoBegin
	case f.ended:
		return FrameSample{}, MarkDuplicate
	case id != m.current:
		return FrameSample{}, MarkOutOfOrder
	}
	s, out := &f.sample, MarkOK
	if now < m.last {
		out = MarkClockBack
	}
	grid := s.Start.Add(s.Target)
	if far := max(s.Target, 0).Seconds() * deadlineFar; deadline != 0 &&
		(deadline.Sub(s.Start).Seconds() > far || s.Start.Sub(deadline).Seconds() > far) {
		deadline, out = 0, MarkBadDeadline
	}
	if deadline == 0 {
		deadline = grid
	}
	f.ended = true
	s.Deadline, s.End = deadline, now
	m.last, m.alive, m.line = now, now, nextLine(deadline, s.Target, now)
	return *s, out
}

// nextLine is the first line of the grid line + k·target, k ≥ 0, after now.
func nextLine(line Instant, target time.Duration, now Instant) Instant {
	if now < line || target <= 0 {
		return line
	}
	return now.Add(target - now.Sub(line)%target)
}

// Plan keeps the decision for the next FrameBegin and returns the window to
// publish now, between FrameEnd and the next FrameBegin.
func (m *Marks) Plan(d Decision) Window {
	m.gate, m.margin, m.openAfter, m.pause = d.Gate, max(d.Margin, 0), max(d.OpenAfter, 0), d.Pause
	if m.line == 0 {
		return m.window(shutOpen, shutClose)
	}
	return m.window(m.last.Add(m.Delay), m.line.Add(-m.early).Add(-m.margin))
}

func (m *Marks) window(open, close Instant) Window {
	m.stands = Window{Gate: m.gate, Pause: m.pause, Expires: m.alive.Add(WindowLife)}
	if m.gate == GateWindow {
		m.stands.Open, m.stands.Close, m.stands.Pause = open, close, 0
	}
	return m.stands
}

// Timings joins late facts to their frame by its id and returns the completed
// sample, for Controller.Late. A value of 0 leaves what was known. Timings of a
// frame that has not ended yet are MarkEarly and come out with its end.
func (m *Marks) Timings(id uint64, t FrameTimings) (FrameSample, MarkOutcome) {
	f := &m.ring[id%markRing]
	if !f.begun || f.sample.Frame != id {
		return FrameSample{}, MarkUnknownFrame
	}
	s := &f.sample
	for _, v := range [...]struct {
		to   *time.Duration
		from time.Duration
	}{{&s.MainBusy, t.MainBusy}, {&s.RenderBusy, t.RenderBusy}, {&s.GPUBusy, t.GPUBusy}} {
		if v.from != 0 {
			*v.to = v.from
		}
	}
	if t.PresentWaitKnown {
		s.PresentWait, s.PresentWaitKnown = t.PresentWait, true
	}
	if !f.ended {
		return FrameSample{}, MarkEarly
	}
	return *s, MarkOK
}
