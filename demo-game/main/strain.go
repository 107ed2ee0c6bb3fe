//go:build windows || cgo

package main

import (
	"runtime"
	"time"

	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/harness/load"
)

const (
	// physicsTime is what the physics of a large game take of each worker in a
	// frame: two thirds of it.
	physicsTime = 11 * time.Millisecond

	// streamRate, in GB/s, is what streaming a world reads: about half of what two
	// cores get from common memory.
	streamRate = 4.0
)

// strain is what F3 puts on the machine besides drawing: worker threads that
// compute, or stream memory, and that the frame waits for.
type strain struct {
	timer *load.Timer
	teams map[play.Strain]*load.Team
	job   load.Job
	frame uint64
}

func newStrain(timer *load.Timer) (*strain, error) {
	return &strain{timer: timer, teams: map[play.Strain]*load.Team{}}, nil
}

// source is the work of a frame.
func source(s play.Strain) load.Source {
	workers := min(runtime.NumCPU(), load.MaxWorkers)
	switch s {
	case play.CPU:
		return &load.Synthetic{Workers: workers, CPU: physicsTime, Jitter: 0.1, Seed: 1}
	case play.Memory:
		return &load.Synthetic{Workers: 1, CPU: time.Millisecond, Rates: []float64{streamRate},
			Period: time.Second / 60, Length: time.Hour, Seed: 1}
	}
	return load.Idle{}
}

// run does what a frame has to do. The threads of a strain start at its first
// frame.
func (s *strain) run(what play.Strain, begin int64) {
	if what != play.CPU && what != play.Memory {
		return
	}
	src := source(what)
	team := s.teams[what]
	if team == nil {
		var err error
		if team, err = load.NewTeam(src.Needs(), s.timer); err != nil {
			return // the strain is a wish: the game goes on without
		}
		s.teams[what] = team
	}
	s.frame++
	src.Job(s.frame, time.Duration(s.frame)*time.Second/60, &s.job)
	team.Run(&s.job, begin)
}

func (s *strain) close() {
	for _, t := range s.teams {
		t.Close()
	}
}
