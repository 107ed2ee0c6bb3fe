package frames

import (
	"fmt"
	"strings"
	"time"
)

// Limits. At each of them reading goes on and the count says what was left out.
const (
	maxStreams   = 256 // swap chains in one file; further ones are TooManyStreams
	maxNotes     = 16
	maxNameBytes = 256 // of a process name; longer ones are cut
)

// values is a row before it is judged: milliseconds, and why a value is none.
type values struct {
	frameMs    float64
	startMs    float64
	startIsEnd bool // the clock was read at the end of the frame's interval
	ms         [NumFields]float64
	reason     [NumFields]Reason
	deriveCPU  bool // CPU busy = frame time - CPU wait of the frame before
	dropped    bool
	generated  bool
}

// builder turns values into records and counts what it can't use. Call from
// one goroutine at a time.
type builder struct {
	sum     *Summary
	emit    func(*Record) error
	match   matcher
	streams []*streamState
	byKey   map[string]*streamState
	last    *streamState
	key     []byte
	current int32
	gaps    int64
	record  Record
}

// streamState is what must be remembered of a stream between two rows.
type streamState struct {
	index    int32
	wanted   bool
	stat     Stream
	segment  int32
	gaps     int64
	waitMs   float64 // CPU wait of the row before
	waitGood bool

	process, id, chain string
}

// broken forgets the row before: it was not usable.
func (s *streamState) broken() { s.waitGood = false }

func newBuilder(o Options, emit func(*Record) error) *builder {
	return &builder{
		sum: &Summary{}, emit: emit, match: newMatcher(o.Process),
		byKey: map[string]*streamState{}, current: -1,
	}
}

func (b *builder) note(format string, args ...any) {
	n := fmt.Sprintf(format, args...)
	if len(b.sum.Notes) < maxNotes {
		for _, old := range b.sum.Notes {
			if old == n {
				return
			}
		}
		b.sum.Notes = append(b.sum.Notes, n)
	}
}

// segment begins a stretch with a header of its own.
func (b *builder) segment(f Format) {
	b.current++
	b.sum.Segments++
	if b.sum.Format != FormatUnknown && b.sum.Format != f {
		b.note("the file mixes %s and %s", b.sum.Format, f)
	}
	if b.sum.Format == FormatUnknown {
		b.sum.Format = f
	}
	d := derivations[f]
	if !strings.Contains(b.sum.Derivation, d) {
		if b.sum.Derivation != "" {
			b.sum.Derivation += " "
		}
		b.sum.Derivation += d
	}
}

func (b *builder) missing(f Field) {
	for _, m := range b.sum.Missing {
		if m == f.String() {
			return
		}
	}
	b.sum.Missing = append(b.sum.Missing, f.String())
}

// reject counts a row that belongs to nobody knows which stream. So no stream
// knows any more whether its rows follow each other.
func (b *builder) reject(r Reason) {
	b.sum.Rejected[r]++
	b.gaps++
}

func (b *builder) rejectIn(s *streamState, r Reason) {
	b.sum.Rejected[r]++
	s.stat.Rejected[r]++
}

// stream finds the state of a row's swap chain; nil means too many.
func (b *builder) stream(process, id, chain []byte) *streamState {
	if s := b.last; s != nil && s.chain == string(chain) && s.id == string(id) && s.process == string(process) {
		return s
	}
	b.key = append(append(append(append(append(b.key[:0], process...), 0), id...), 0), chain...)
	s := b.byKey[string(b.key)]
	if s == nil {
		if len(b.streams) == maxStreams {
			return nil
		}
		s = &streamState{index: int32(len(b.streams)), process: string(process), id: string(id), chain: string(chain)}
		s.stat = Stream{Process: name(process), ProcessID: name(id), SwapChain: name(chain)}
		s.wanted = b.match.fits(s.stat.Process, s.stat.ProcessID)
		b.streams = append(b.streams, s)
		b.byKey[string(b.key)] = s
	}
	b.last = s
	return s
}

func name(b []byte) string {
	b = trim(b)
	if len(b) > maxNameBytes {
		b = b[:maxNameBytes]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// add judges one row and hands its record out.
func (b *builder) add(v *values, process, id, chain []byte) error {
	b.sum.Rows++
	s := b.stream(process, id, chain)
	if s == nil {
		b.reject(TooManyStreams)
		return nil
	}
	s.stat.Rows++
	if !s.wanted {
		b.rejectIn(s, OtherProcess)
		return nil
	}
	if v.generated {
		b.rejectIn(s, GeneratedFrame)
		return nil
	}
	if s.segment != b.current || s.gaps != b.gaps {
		s.segment, s.gaps = b.current, b.gaps
		s.broken()
	}
	b.record = Record{Row: b.sum.Rows, Frame: uint64(s.stat.Frames), Stream: s.index, Segment: b.current,
		Displayed: !v.dropped}
	r := v.reason[FieldFrameTime]
	if r == OK {
		b.record.FrameTime, r = positive(v.frameMs)
	}
	if r != OK {
		b.rejectIn(s, r)
		s.broken()
		return nil
	}
	b.record.Known = 1 << FieldFrameTime
	b.fill(s, v)
	s.stat.Frames++
	if v.dropped {
		s.stat.Dropped++
	}
	return b.emit(&b.record)
}

func (b *builder) fill(s *streamState, v *values) {
	rec := &b.record
	if v.deriveCPU {
		b.deriveCPU(s, v)
	}
	b.set(s, v, FieldStart, &rec.Start, func(float64) (time.Duration, Reason) {
		d, r := instant(v.startMs)
		if r == OK && v.startIsEnd {
			d -= rec.FrameTime
		}
		return d, r
	})
	b.set(s, v, FieldCPUBusy, &rec.CPUBusy, positive)
	b.set(s, v, FieldCPUWait, &rec.CPUWait, unsigned)
	b.set(s, v, FieldGPUTime, &rec.GPUTime, positive)
	b.set(s, v, FieldGPUBusy, &rec.GPUBusy, positive)
	b.set(s, v, FieldDisplayedTime, &rec.DisplayedTime, positive)
	b.set(s, v, FieldAnimationError, &rec.AnimationError, signed)
}

func unsigned(ms float64) (time.Duration, Reason) { return duration(ms, false) }
func signed(ms float64) (time.Duration, Reason)   { return duration(ms, true) }

func (b *builder) set(s *streamState, v *values, f Field, to *time.Duration,
	convert func(float64) (time.Duration, Reason)) {
	r := v.reason[f]
	if r == OK {
		*to, r = convert(v.ms[f])
	}
	if r == OK {
		b.record.Known |= 1 << f
		return
	}
	*to = 0
	s.stat.Values[f][r]++
}

// deriveCPU: PresentMon 1 has no CPU busy. Its frame time ends where Present
// begins, and the CPU works from the end of the Present before to there.
func (b *builder) deriveCPU(s *streamState, v *values) {
	if s.waitGood {
		v.ms[FieldCPUBusy], v.reason[FieldCPUBusy] = v.frameMs-s.waitMs, OK
	} else {
		v.reason[FieldCPUBusy] = NoPrevious
	}
	_, r := duration(v.ms[FieldCPUWait], false)
	s.waitGood = r == OK && v.reason[FieldCPUWait] == OK
	s.waitMs = v.ms[FieldCPUWait]
}

// finish hands the streams' counts over.
func (b *builder) finish() *Summary {
	for _, s := range b.streams {
		b.sum.Streams = append(b.sum.Streams, s.stat)
	}
	return b.sum
}

var derivations = [...]string{
	PresentMon1: "PresentMon 1: frame time = MsBetweenPresents; CPU wait = MsInPresentAPI; CPU busy = " +
		"MsBetweenPresents - MsInPresentAPI of the frame before (from the end of one Present to the begin of the " +
		"next, blocking outside Present included); GPU busy = msGPUActive where recorded, else unknown: " +
		"MsUntilRenderComplete says when the GPU ended, not when it began.",
	PresentMon2: "PresentMon 2: frame time = MsBetweenAppStart or FrameTime, else CPUBusy + CPUWait, else " +
		"MsBetweenPresents; CPU busy, CPU wait, GPU time and GPU busy as recorded.",
	MangoHud: "MangoHud: frame time as recorded; GPU busy = frame time x gpu_load, a sensor slower than frames, so " +
		"only averages of it mean something; CPU busy is unknown (cpu_load is a mean over all cores).",
	CapFrameX: "CapFrameX: frame time = MsBetweenPresents; CPU busy and CPU wait = CPUBusy (CpuActive) and CPUWait " +
		"where recorded, else CPU wait = MsInPresentAPI and CPU busy = MsBetweenPresents - MsInPresentAPI of the " +
		"frame before; GPU busy = GpuActive where recorded, else unknown.",
}
