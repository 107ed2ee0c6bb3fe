package frames

import (
	"fmt"
	"io"
	"math"
	"time"
)

// maxLoadFrames is how many frames Load keeps, of all streams together: nine
// hours at 60 Hz, or 200 MB. Further ones are counted as OverLimit.
const maxLoadFrames = 2 << 20

// chunkFrames is how many frames are allocated at once, so that a growing
// capture is never copied.
const chunkFrames = 4096

// Frame is a Record without what only a reader needs.
type Frame struct {
	Start, FrameTime, CPUBusy, CPUWait, GPUBusy, AnimationError time.Duration
	Displayed                                                   bool
	Known                                                       Fields
	Segment                                                     int32
	Row                                                         int64
}

// Capture is one stream of a file, in memory. Safe for concurrent use, as long
// as nobody changes it.
type Capture struct {
	*Summary
	Stream Stream // the chosen one
	Choice string // why it was chosen
	chosen int    // its index
	chunks [][]Frame
	n      int
}

// Len is the number of frames.
func (c *Capture) Len() int { return c.n }

// At returns frame i. Valid as long as the capture.
func (c *Capture) At(i int) *Frame { return &c.chunks[i/chunkFrames][i%chunkFrames] }

// All hands out the frames in order.
func (c *Capture) All(yield func(int, *Frame) bool) {
	for i := range c.n {
		if !yield(i, c.At(i)) {
			return
		}
	}
}

// Load reads a capture and keeps one stream: of the process that o names, else
// of the one with the most frames, the swap chain with the most frames. The
// other streams' frames become OtherProcess and OtherSwapChain. What a broken
// capture held before the break is kept, with the error in Notes.
func Load(r io.Reader, o Options) (*Capture, error) {
	var chunks [maxStreams][][]Frame
	kept, over := 0, [maxStreams]int64{}
	sum, err := Read(r, o, func(r *Record) error {
		if kept == maxLoadFrames {
			over[r.Stream]++
			return nil
		}
		kept++
		s := chunks[r.Stream]
		if len(s) == 0 || len(s[len(s)-1]) == chunkFrames {
			s = append(s, make([]Frame, 0, chunkFrames))
		}
		last := &s[len(s)-1]
		*last = append(*last, Frame{
			Start: r.Start, FrameTime: r.FrameTime, CPUBusy: r.CPUBusy, CPUWait: r.CPUWait, GPUBusy: r.GPUBusy,
			AnimationError: r.AnimationError, Displayed: r.Displayed, Known: r.Known, Segment: r.Segment, Row: r.Row,
		})
		chunks[r.Stream] = s
		return nil
	})
	c := &Capture{Summary: sum}
	if err != nil {
		if sum.Frames() == 0 {
			return c, err
		}
		c.Notes = append(c.Notes, err.Error())
	}
	if err := c.choose(o); err != nil {
		return c, err
	}
	c.chunks = chunks[c.chosen]
	c.cut(over[c.chosen])
	for _, chunk := range c.chunks {
		c.n += len(chunk)
	}
	c.checkClock()
	return c, nil
}

func (c *Capture) cut(over int64) {
	if over == 0 {
		return
	}
	c.Rejected[OverLimit] += over
	c.Stream.Frames -= over
	c.Notes = append(c.Notes, fmt.Sprintf("only the first %d frames are analysed", maxLoadFrames))
}

// choose settles on a stream and books the frames of the others.
func (c *Capture) choose(o Options) error {
	best := -1
	frames := map[string]int64{}
	for _, s := range c.Streams {
		frames[s.Process] += s.Frames
	}
	for i, s := range c.Streams {
		if best < 0 {
			best = i
			continue
		}
		b := c.Streams[best]
		if s.Process == b.Process && s.Frames > b.Frames ||
			s.Process != b.Process && frames[s.Process] > frames[b.Process] {
			best = i
		}
	}
	if best < 0 || c.Frames() == 0 {
		return c.noFrames(o)
	}
	c.Stream, c.chosen = c.Streams[best], best
	others := 0
	for i, s := range c.Streams {
		switch {
		case s.Process != c.Stream.Process:
			c.Rejected[OtherProcess] += s.Frames
			others++
		case i != best:
			c.Rejected[OtherSwapChain] += s.Frames
		}
	}
	c.Choice = c.why(o, others, len(frames))
	return nil
}

func (c *Capture) why(o Options, others, processes int) string {
	name := c.Stream.Process
	if name == "" {
		name = "(the capture names no process)"
	}
	switch {
	case o.Process != "":
		name += ": asked for"
	case processes > 1:
		name += fmt.Sprintf(": the process with the most frames of %d (--process chooses another)", processes)
	default:
		name += ": the only process"
	}
	if chains := len(c.Streams) - others; chains > 1 {
		name += fmt.Sprintf("; of its %d swap chains, %s with the most frames", chains, c.Stream.SwapChain)
	}
	return name
}

func (c *Capture) noFrames(o Options) error {
	if o.Process != "" && c.Rejected[OtherProcess] > 0 {
		return fmt.Errorf("%w: %q; it holds %s", ErrNoProcess, o.Process, c.processes())
	}
	return fmt.Errorf("%w: %d rows were read, rejected: %v", ErrNoFrames, c.Rows, c.Rejected.Map())
}

func (c *Capture) processes() string {
	const most = 10 // enough to find a misspelt name
	list, seen := "", map[string]bool{}
	for _, s := range c.Streams {
		if seen[s.Process] {
			continue
		}
		seen[s.Process] = true
		if len(seen) > most {
			return list + ", …"
		}
		if list != "" {
			list += ", "
		}
		list += s.Process
	}
	return list
}

// checkClock compares the frame times with the capture's clock. A sampled log
// (MangoHud with log_interval) has every tenth frame only, say, and most
// metrics of it mean nothing.
func (c *Capture) checkClock() {
	var frames, clock time.Duration
	for i := 1; i < c.n; i++ {
		a, b := c.At(i-1), c.At(i)
		d := b.Start - a.Start
		// A gap is a jump of the clock, which the metrics count.
		if a.Segment == b.Segment && a.Known.Has(FieldStart) && b.Known.Has(FieldStart) && d >= 0 && d < time.Second {
			frames += a.FrameTime
			clock += d
		}
	}
	if clock == 0 {
		return
	}
	covered := float64(frames) / float64(clock)
	if math.Abs(covered-1) > 0.1 { // rounding and one dropped row stay far below
		c.Notes = append(c.Notes, fmt.Sprintf("the frame times cover %.0f %% of the capture's own clock: rows are "+
			"samples (MangoHud's log_interval?) or are missing, so percentiles are of samples and hitches between "+
			"them are lost", 100*covered))
	}
}
