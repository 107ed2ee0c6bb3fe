package harness

import (
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/scheduler"
)

// clock is what the loop knows of time. load.Timer is the real one.
type clock interface {
	Now() int64
	SleepUntil(t int64)
	Check() int64       // a second clock; only differences mean something
	CPU() time.Duration // that this thread used
}

// game is what the loop plays, on the game thread.
type game interface {
	// begin is told that a frame of phase p begins: FrameBegin.
	begin(id uint64, p int, target time.Duration, now int64)
	// work does the frame's own work.
	work(j *load.Job, begin int64) load.Done
	// end is told that the work is done: FrameEnd, Poll.
	end(id uint64, j *load.Job, deadline, now int64)
}

// clockJump is how much two clocks may disagree over one frame. Between two
// readings of them a thread may be preempted, by a few ms on a busy machine; a
// suspended laptop or a clock that somebody set is off by more than this.
const clockJump = int64(50 * time.Millisecond)

// frameRecord is a frame as the loop saw it.
type frameRecord struct {
	metrics.Frame
	End      int64 // end of its work, our own calls included
	Phase    uint16
	Resumed  bool  // the clock jumped before it: it does not follow the frame before
	Woke     bool  // it slept before: WakeErr means something
	WakeErr  int32 // ns from the line of the grid to the first instruction
	Ours     int32 // ns that our calls took
	OursCPU  int32 // of which this thread had a core
	Parts    parts
	Replying bool  // a request waited or ran when it ended
	Gate     uint8 // the gate's mode after FrameEnd
	Decision scheduler.Decision
	CPU, GPU time.Duration
	Streamed int64
	Rate     float32 // GB/s of memory that were asked for
}

// timeline is the phases of a scenario by played time.
type timeline struct {
	names []string
	ends  []time.Duration
	jobs  []load.Source
}

// at finds the phase and the time since it began. Beyond the end it is the
// last one.
func (t *timeline) at(played time.Duration) (p int, since time.Duration) {
	begin := time.Duration(0)
	for i, end := range t.ends {
		if played < end || i == len(t.ends)-1 {
			return i, played - begin
		}
		begin = end
	}
	return 0, played
}

// only says which phases are among the named ones; nil: no names, all of them.
func (t *timeline) only(names []string) (list []bool) {
	if len(names) == 0 {
		return nil
	}
	for _, name := range t.names {
		list = append(list, slices.Contains(names, name))
	}
	return list
}

func (t *timeline) total() time.Duration { return t.ends[len(t.ends)-1] }

// loop plays frames on a fixed grid: a frame begins at a line, has to be done
// by its deadline, and where it is late the next begins at the next free line.
type loop struct {
	clock    clock
	game     game
	timeline *timeline
	grid     *metrics.Grid
	line     time.Duration
	target   time.Duration

	id        uint64
	played    time.Duration // sum of the frames' intervals; jumps of the clock don't count
	phase     int
	inPhase   uint64 // frames of this phase so far
	lastNow   int64
	lastCheck int64
	jumped    bool  // in the frame before
	jumps     int64 // frames that a jump of the clock spoiled
	job       load.Job
}

// newLoop lays the grid. The first frame begins at the next whole millisecond
// or so: at once.
func newLoop(c clock, g game, t *timeline, line, target time.Duration) (*loop, error) {
	l := &loop{clock: c, game: g, timeline: t, line: line, target: target}
	return l, l.anchor(c.Now())
}

// anchor lays the grid anew, beginning at now.
func (l *loop) anchor(now int64) error {
	grid, err := metrics.NewGrid(time.Duration(now), l.line, l.target)
	if err != nil {
		return err
	}
	l.grid, l.lastNow, l.lastCheck = grid, now, l.clock.Check()
	return nil
}

// restart makes the time played zero: the warm-up is over.
func (l *loop) restart() { l.played, l.phase, l.inPhase, l.jumps = 0, 0, 0, 0 }

// next plays one frame and fills in its record. It reports false where the
// clock jumped: the frame then says nothing, and the grid begins anew.
func (l *loop) next(r *frameRecord) (usable bool) {
	line := int64(l.grid.Start())
	before := l.clock.Now()
	l.clock.SleepUntil(line)
	begin := l.clock.Now()
	*r = frameRecord{Resumed: l.jumped, Woke: before < line, WakeErr: clamp32(begin - line)}

	p, since := l.timeline.at(l.played)
	if p != l.phase {
		l.phase, l.inPhase = p, 0
	}
	l.id++
	cpu := -l.clock.CPU()
	l.game.begin(l.id, p, l.grid.Target(), begin)
	began := l.clock.Now()
	cpu += l.clock.CPU()
	l.timeline.jobs[p].Job(l.inPhase, since, &l.job)
	l.inPhase++
	done := l.game.work(&l.job, begin)
	cpu -= l.clock.CPU()
	worked := l.clock.Now()
	l.game.end(l.id, &l.job, int64(l.grid.Deadline()), worked)
	end := l.clock.Now()
	cpu += l.clock.CPU()

	r.Phase, r.End, r.Ours = uint16(p), end, clamp32(began-begin+end-worked)
	r.OursCPU = clamp32(int64(cpu))
	r.CPU, r.GPU, r.Streamed, r.Rate = done.CPU, l.job.GPU, done.Streamed, float32(l.job.Rate)
	check := l.clock.Check()
	l.jumped = end < line || end < l.lastNow || apart(end-l.lastNow, check-l.lastCheck) > clockJump
	l.lastNow, l.lastCheck = end, check
	r.Frame = l.grid.Finish(time.Duration(end), l.timeline.names[p])
	if l.jumped {
		l.jumps++
		_ = l.anchor(end) // the same periods were good before
		l.played += l.target
		return false
	}
	l.played += r.Interval
	return true
}

func apart(a, b int64) int64 {
	if a > b {
		return a - b
	}
	return b - a
}

// clamp32 holds nanoseconds at the ends of int32: two seconds of our own calls
// are as bad as three.
func clamp32(ns int64) int32 { return int32(min(max(ns, -1<<31), 1<<31-1)) }
