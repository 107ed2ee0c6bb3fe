package local

import (
	"fmt"

	"github.com/lull-npc/lull/scheduler"
)

// Steer says who moves the gate.
type Steer uint8

const (
	SteerController Steer = iota // the scheduler's controller: what games use
	SteerNone                    // nobody: the model runs whenever it has work
	SteerWindows                 // fixed windows from FrameEnd to the deadline, to compare with
	SteerChunkSleep              // each batch whole, then a fixed rest, to compare with
	SteerDuty                    // after each layer a rest as long, to compare with
)

// Spec says how the engine is built, apart from the model. A policy of the
// harness is a Spec and a controller's configuration. The zero value is lull as
// a game wants it, apart from LowPriority and Speculation, which DefaultSpec sets.
type Spec struct {
	// Plain takes llama.cpp as it comes: its own threads, which poll, and no
	// layer gate. It goes with SteerNone.
	Plain bool

	// LowPriority puts the worker's thread and the pool's into the class that
	// runs only when nobody else wants the core.
	LowPriority bool

	Threads int // of the pool, and of each batch unless the controller says fewer; 0: one a core
	Steer   Steer

	// Speculation says whether tokens are guessed ahead.
	Speculation Speculation

	// Scheduler is the controller's configuration. LowPriorityBase, MaxThreads,
	// Layers, MaxPrefillChunk, Draft, MaxVerifyWidth and Devices are filled in
	// from what there is.
	Scheduler scheduler.Config
}

// DefaultSpec is what a game uses.
func DefaultSpec() Spec {
	return Spec{LowPriority: true, Speculation: SpeculateElastic, Scheduler: scheduler.DefaultConfig()}
}

func (s Spec) validate() error {
	if s.Plain && s.Steer != SteerNone {
		return fmt.Errorf("local: a plain engine has no gate to steer: use SteerNone")
	}
	if s.Steer > SteerDuty {
		return fmt.Errorf("local: steer %d is unknown", s.Steer)
	}
	return nil
}
