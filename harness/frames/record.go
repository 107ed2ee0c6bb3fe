package frames

import (
	"errors"
	"time"
)

// Errors. Causes are wrapped with the position and what to do.
var (
	// ErrNoCapture means that nothing in the input looks like a frame capture.
	ErrNoCapture = errors.New("frames: not a frame capture")
	// ErrBroken means that the input began as a capture and can't be read on.
	ErrBroken = errors.New("frames: the capture is broken")
	// ErrNoFrames means that a capture was read and no frame of it is usable.
	ErrNoFrames = errors.New("frames: no usable frame")
	// ErrNoProcess means that no row belongs to the process that was asked for.
	ErrNoProcess = errors.New("frames: no such process in the capture")
)

// Reason says why a row or a value can't be used.
type Reason uint8

const (
	OK             Reason = iota
	NA                    // the tool wrote that it does not know
	Empty                 // nothing between two separators
	NotANumber            // text where a number should be, NaN and infinity included
	Negative              // a duration below zero
	Zero                  // zero where a frame or a busy time can't be zero: not measured
	Underflow             // an unsigned subtraction went below zero: about ±1.8e15
	Absurd                // more than an hour
	NotDisplayed          // the frame never reached the screen, so it has no displayed time
	NoPrevious            // derived from the frame before, which is missing or unusable
	MissingColumn         // the capture, or this segment of it, has no such column
	UnknownUnit           // a clock column whose unit can't be told from the frame times
	BadRow                // more or fewer fields than the header names
	CutLastLine           // the file ends inside this line
	LineTooLong           // more than maxLineBytes
	GeneratedFrame        // interpolated by driver or SDK: no frame of the game
	OtherProcess          // belongs to a process that was not chosen
	OtherSwapChain        // belongs to another swap chain of the chosen process
	TooManyStreams        // the file mixes more than maxStreams swap chains
	OverLimit             // beyond the stated number of frames
	numReasons
)

var reasonNames = [numReasons]string{
	"ok", "na", "empty", "not-a-number", "negative", "zero", "underflow", "absurd", "not-displayed",
	"no-previous-frame", "missing-column", "unknown-unit", "bad-row", "cut-last-line", "line-too-long",
	"generated-frame", "other-process", "other-swap-chain", "too-many-streams", "over-limit",
}

func (r Reason) String() string { return reasonNames[r] }

// Counts holds how often each reason was met.
type Counts [numReasons]int64

// Map returns the reasons that were met by name. OK is not among them.
func (c *Counts) Map() map[string]int64 {
	m := map[string]int64{}
	for r := NA; r < numReasons; r++ {
		if c[r] != 0 {
			m[r.String()] = c[r]
		}
	}
	return m
}

// Sum is the number of times that something could not be used.
func (c *Counts) Sum() (n int64) {
	for _, v := range c[NA:] {
		n += v
	}
	return n
}

// Add adds what o counted.
func (c *Counts) Add(o *Counts) {
	for i := range c {
		c[i] += o[i]
	}
}

// Field names a value of a Record.
type Field uint8

const (
	FieldFrameTime Field = iota
	FieldStart
	FieldCPUBusy
	FieldCPUWait
	FieldGPUTime
	FieldGPUBusy
	FieldDisplayedTime
	FieldAnimationError
	NumFields
)

func (f Field) String() string {
	return [...]string{"frame_time", "start", "cpu_busy", "cpu_wait", "gpu_time", "gpu_busy",
		"displayed_time", "animation_error"}[f]
}

// Fields is a set of Field.
type Fields uint16

// Has reports whether f is in the set.
func (s Fields) Has(f Field) bool { return s&(1<<f) != 0 }

// Record is one frame. A value whose Field is not in Known is 0 and unknown.
type Record struct {
	Row     int64  // row of data in the file, from 1
	Frame   uint64 // index among the usable frames of its stream, from 0
	Stream  int32  // index into Summary.Streams
	Segment int32  // index of the segment, from 0

	Start          time.Duration // when the frame began, since the origin of the capture's own clock
	FrameTime      time.Duration // always known, > 0
	CPUBusy        time.Duration // from the end of the last Present to the begin of this one
	CPUWait        time.Duration // inside Present
	GPUTime        time.Duration // from the GPU's first to its last work of the frame
	GPUBusy        time.Duration // of which with an engine active
	DisplayedTime  time.Duration // how long an image stood on the screen: PresentMon 2 this frame's, 1 the last one's
	AnimationError time.Duration // signed: step of the simulation minus step of the screen

	Known     Fields
	Displayed bool // false only where the capture says that the frame was dropped
}

// Stream is one swap chain of one process.
type Stream struct {
	Process   string
	ProcessID string
	SwapChain string
	Rows      int64             // rows that belong to it
	Frames    int64             // of those, usable
	Dropped   int64             // of the usable, not displayed
	Rejected  Counts            // rows that are not usable
	Values    [NumFields]Counts // values of usable rows that are not
}

// Summary is what reading a capture found besides its records.
type Summary struct {
	Format     Format
	Derivation string   // how the times were obtained
	Notes      []string // what a reader of the numbers should know
	Segments   int
	Rows       int64    // rows of data, usable or not
	Streams    []Stream // in the order of appearance
	Rejected   Counts   // rows that are not usable, those of no stream included
	Missing    []string // values that the capture, or a segment of it, has no column for
}

// Frames is the number of usable rows of all streams.
func (s *Summary) Frames() (n int64) {
	for i := range s.Streams {
		n += s.Streams[i].Frames
	}
	return n
}

// Format is a kind of capture.
type Format uint8

const (
	FormatUnknown Format = iota
	PresentMon1
	PresentMon2
	MangoHud
	CapFrameX
)

func (f Format) String() string {
	return [...]string{"unknown", "PresentMon 1 CSV", "PresentMon 2 CSV", "MangoHud CSV", "CapFrameX JSON"}[f]
}
