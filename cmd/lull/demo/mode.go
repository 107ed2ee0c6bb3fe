package demo

import (
	"fmt"
	"runtime"
	"time"

	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/local"
)

// Mode is what runs beside the game.
type Mode uint8

const (
	Off   Mode = iota // the game alone
	Plain             // llama.cpp as it comes
	Lull              // the frame-aware scheduler
)

// Modes is the number of modes, for tables indexed by Mode.
const Modes = 3

// Policy is the name that package harness has for the mode.
func (m Mode) Policy() string {
	return [Modes]string{harness.PolicyNative, harness.PolicyVanilla, harness.PolicyLull}[m]
}

// String is the name on the screen.
func (m Mode) String() string { return [Modes]string{"LLM off", "llama.cpp default", "lull"}[m] }

// Spec is how the mode's engine is built; nil: it has none. It is the harness's
// policy, so that both show the same.
func (m Mode) Spec() *local.Spec {
	p, err := harness.FindPolicy(m.Policy())
	if err != nil {
		return nil // the names are the harness's own constants
	}
	return p.Spec
}

// Setting is the game that is played.
type Setting struct {
	Hz      float64       // frames a second, MinHz … MaxHz
	Load    time.Duration // CPU time of each worker in each frame, 0 … MaxLoad
	Workers int           // threads that burn it, 1 … load.MaxWorkers
}

// Limits of a setting: 10 Hz is a slide show, 480 Hz the fastest screen that is
// sold. A load of 200 ms makes every frame late at any rate.
const (
	MinHz, MaxHz = 10.0, 480.0
	MaxLoad      = 200 * time.Millisecond
)

// DefaultSetting is the harness's scenario cpu-bound-60 on this machine: every
// core is busy for two thirds of each frame.
func DefaultSetting() Setting {
	return Setting{Hz: 60, Load: 11 * time.Millisecond, Workers: min(runtime.NumCPU(), load.MaxWorkers)}
}

// Validate says what is wrong with s.
func (s Setting) Validate() error {
	switch {
	case !(s.Hz >= MinHz && s.Hz <= MaxHz):
		return fmt.Errorf("demo: %v Hz: want %v…%v", s.Hz, MinHz, MaxHz)
	case s.Load < 0 || s.Load > MaxLoad:
		return fmt.Errorf("demo: a load of %v a frame: want 0…%v", s.Load, MaxLoad)
	case s.Workers < 1 || s.Workers > load.MaxWorkers:
		return fmt.Errorf("demo: %d workers: want 1…%d", s.Workers, load.MaxWorkers)
	}
	return nil
}

// Period is the time of one frame.
func (s Setting) Period() time.Duration { return time.Duration(float64(time.Second) / s.Hz) }
