package load

import (
	"fmt"
	"time"
)

// Limits of a job, so that a slip of the pen in a scenario cannot stop a
// machine for minutes.
const (
	MaxWorkers = 64              // threads of a team; more than the cores of any player
	MaxCPU     = 5 * time.Second // of one worker in one frame
	MaxRate    = 1000.0          // GB/s of memory: beyond any machine
)

// Job is what one frame does.
type Job struct {
	Workers int           // threads that burn CPU time, each CPU of it
	CPU     time.Duration // CPU time of worker 0; the others differ by the jitter
	Spread  [MaxWorkers]float32
	Bytes   int64         // memory that the streaming worker reads
	GPU     time.Duration // how long the GPU is busy, from the begin of the frame
	Rate    float64       // GB/s that Bytes stands for, for reports
	Draw    bool          // a window draws a frame of a real game
}

// cpu is the CPU time of worker w.
func (j *Job) cpu(w int) time.Duration {
	return time.Duration(float64(j.CPU) * (1 + float64(j.Spread[w])))
}

// Source says what each frame of a phase does. Safe for concurrent use.
type Source interface {
	// Job fills in what frame number i of the phase does, which begins at a time
	// since the phase began. It must not allocate.
	Job(i uint64, at time.Duration, j *Job)
	// Needs is what a team must have for it.
	Needs() Needs
}

// Needs is what a source asks of a team.
type Needs struct {
	Workers int
	Stream  bool
	Window  bool
}

// Idle is a game that does nothing but show frames.
type Idle struct{}

// Job implements Source.
func (Idle) Job(_ uint64, _ time.Duration, j *Job) { *j = Job{} }

// Needs implements Source.
func (Idle) Needs() Needs { return Needs{} }

// Synthetic burns the same time in every frame, but for the jitter.
type Synthetic struct {
	Workers int           // threads
	CPU     time.Duration // of each, in each frame
	Jitter  float64       // a frame's time is CPU·(1 ± Jitter), evenly spread; [0, 1)
	Seed    uint64

	Rates  []float64     // GB/s of memory streamed; the phase is cut into as many equal steps
	Period time.Duration // of a frame: turns a rate into bytes
	Length time.Duration // of the phase
}

// Validate says what is wrong with s.
func (s *Synthetic) Validate() error {
	switch {
	case s.Workers < 0 || s.Workers > MaxWorkers:
		return fmt.Errorf("load: %d workers: want 0…%d", s.Workers, MaxWorkers)
	case s.CPU < 0 || s.CPU > MaxCPU:
		return fmt.Errorf("load: %v of CPU time: want 0…%v", s.CPU, MaxCPU)
	case !(s.Jitter >= 0 && s.Jitter < 1):
		return fmt.Errorf("load: jitter %v: want 0 or more and less than 1", s.Jitter)
	case len(s.Rates) > 0 && s.Period <= 0:
		return fmt.Errorf("load: a memory rate needs the period of a frame")
	}
	for _, r := range s.Rates {
		if !(r >= 0 && r <= MaxRate) {
			return fmt.Errorf("load: memory at %v GB/s: want 0…%v", r, MaxRate)
		}
	}
	return nil
}

// Job implements Source.
func (s *Synthetic) Job(i uint64, at time.Duration, j *Job) {
	*j = Job{Workers: s.Workers, CPU: s.CPU}
	if s.Jitter > 0 {
		for w := range s.Workers {
			j.Spread[w] = float32(s.Jitter * (2*unit(s.Seed, i, uint64(w)) - 1))
		}
	}
	if n := len(s.Rates); n > 0 {
		step := 0
		if s.Length > 0 {
			step = int(float64(at) / float64(s.Length) * float64(n))
		}
		j.Rate = s.Rates[min(max(step, 0), n-1)]
		j.Bytes = int64(j.Rate * float64(s.Period)) // GB/s are bytes a nanosecond
	}
}

// Needs implements Source.
func (s *Synthetic) Needs() Needs { return Needs{Workers: s.Workers, Stream: len(s.Rates) > 0} }

// unit draws a number in [0, 1) from a seed, a frame and a worker: splitmix64
// of Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
// 2014. A generator with a state would make a frame depend on those before it.
func unit(seed, frame, worker uint64) float64 {
	x := mix(mix(seed^0x6c756c6c) + frame*0x9e3779b97f4a7c15 + worker*0xd1b54a32d192ed03)
	return float64(x>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
