package world

import (
	"time"

	"github.com/lull-npc/lull/scheduler"
)

// Bounds of what a host may say about a frame. The scheduler takes care of the
// merely strange; these are mistakes of unit.
const (
	minTarget = 100 * time.Microsecond
	maxTarget = 10 * time.Second
)

func checkInstant(name string, t int64) error {
	if t < 0 {
		return Errorf(InvalidArgument, "%s is %d: want nanoseconds of lull_time_ns, or 0", name, t)
	}
	return nil
}

func checkTarget(target time.Duration) error {
	if target < minTarget || target > maxTarget {
		return Errorf(InvalidArgument, "target_ns is %d: want %d ... %d, such as 16666667 for 60 frames a second",
			target, minTarget, maxTarget)
	}
	return nil
}

func orNow(t int64) int64 {
	if t == 0 {
		return Clock.Now()
	}
	return t
}

// FrameBegin tells that the game's work of a frame begins.
func (w *World) FrameBegin(frame uint64, target time.Duration, now int64) error {
	if err := checkTarget(target); err != nil {
		return err
	}
	if err := checkInstant("now_ns", now); err != nil {
		return err
	}
	if r := w.Runtime(); r != nil {
		r.FrameBegin(frame, target, orNow(now))
	}
	return nil
}

// FrameEnd tells that the game's work of a frame is done.
func (w *World) FrameEnd(frame uint64, deadline, now int64) (scheduler.Decision, error) {
	if err := checkInstant("deadline_ns", deadline); err != nil {
		return scheduler.Decision{}, err
	}
	if err := checkInstant("now_ns", now); err != nil {
		return scheduler.Decision{}, err
	}
	w.frames++
	if r := w.Runtime(); r != nil {
		return r.FrameEnd(frame, deadline, orNow(now)), nil
	}
	return scheduler.Decision{}, nil
}

// FrameTimings tells late facts of a frame.
func (w *World) FrameTimings(frame uint64, t scheduler.FrameTimings) error {
	if err := checkBusy(t.MainBusy, t.RenderBusy, t.GPUBusy, t.PresentWait); err != nil {
		return err
	}
	if r := w.Runtime(); r != nil {
		r.FrameTimings(frame, t)
	}
	return nil
}

func checkBusy(times ...time.Duration) error {
	for _, t := range times {
		if t < 0 {
			return Errorf(InvalidArgument, "a time of the frame is %d ns: want 0 or more", t)
		}
	}
	return nil
}

// FrameSample is a whole frame at once.
func (w *World) FrameSample(s scheduler.FrameSample) (scheduler.Decision, error) {
	if err := checkTarget(s.Target); err != nil {
		return scheduler.Decision{}, err
	}
	if err := checkInstant("begin_ns", int64(s.Start)); err != nil {
		return scheduler.Decision{}, err
	}
	if s.End < s.Start {
		return scheduler.Decision{}, Errorf(InvalidArgument, "end_ns is %d, before begin_ns %d", s.End, s.Start)
	}
	if err := checkBusy(s.MainBusy, s.RenderBusy, s.GPUBusy, s.PresentWait); err != nil {
		return scheduler.Decision{}, err
	}
	w.frames++
	if r := w.Runtime(); r != nil {
		return r.Frame(s), nil
	}
	return scheduler.Decision{}, nil
}

// Decision is the last one.
func (w *World) Decision() (scheduler.Decision, error) {
	if r := w.Runtime(); r != nil {
		return r.Decision(), nil
	}
	return scheduler.Decision{}, Errorf(NotReady, "the model is not loaded yet: wait for LULL_EVENT_WORLD_READY")
}

// SetPhase tells what the game does now. What is said before the model is
// loaded holds from then on.
func (w *World) SetPhase(p int32) error {
	if p < 0 || p > int32(scheduler.PhaseBackground) {
		return Errorf(InvalidArgument, "phase is %d: want one of enum lull_phase", p)
	}
	w.phase = scheduler.Phase(p)
	if r := w.Runtime(); r != nil {
		r.SetPhase(w.phase)
	}
	if w.talk != nil {
		w.talk.SetPhase(w.phase)
	}
	return nil
}

// SetHost tells facts of the device.
func (w *World) SetHost(thermal, power int32, headroom, pressure float32) error {
	if thermal < 0 || thermal > int32(scheduler.ThermalShutdown) {
		return Errorf(InvalidArgument, "thermal is %d: want one of enum lull_thermal", thermal)
	}
	if power < 0 || power > int32(scheduler.PowerSaver) {
		return Errorf(InvalidArgument, "power is %d: want one of enum lull_power", power)
	}
	w.host = scheduler.HostSignals{
		Thermal: scheduler.ThermalStatus(thermal), ThermalHeadroom: float64(headroom),
		MemoryPressure: float64(pressure), Power: scheduler.PowerSource(power),
	}
	if r := w.Runtime(); r != nil {
		r.SetHost(w.host)
	}
	return nil
}
