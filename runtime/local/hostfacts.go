package local

import (
	"github.com/lull-npc/lull/runtime/probe"
	"github.com/lull-npc/lull/scheduler"
)

// startProbe begins to read the machine, where there is a controller to tell and
// nobody has said otherwise. A model that is none of this machine (OpenModel) is
// not told of its heat, unless a source is named.
func (r *Runtime) startProbe(cfg *Config) {
	if r.control == nil || cfg.NoProbe || cfg.OpenModel != nil && cfg.Probe.Source == nil {
		return
	}
	r.probe = probe.Start(cfg.Probe)
}

// hostFacts are those that the game told, and where it told none, those read. Call
// from the game thread.
func (r *Runtime) hostFacts() scheduler.HostSignals {
	h := r.host
	if r.probe == nil {
		return h
	}
	own := r.probe.Signals()
	if h.Thermal == scheduler.ThermalUnknown && !(h.ThermalHeadroom > 0) {
		h.Thermal, h.ThermalHeadroom = own.Thermal, own.ThermalHeadroom
	}
	if !(h.MemoryPressure > 0) {
		h.MemoryPressure = own.MemoryPressure
	}
	if h.Power == scheduler.PowerUnknown {
		h.Power = own.Power
	}
	return h
}

// Machine is the last reading of heat, power, memory and pressure, for screens and
// logs; false where nothing is read. Safe for concurrent use.
func (r *Runtime) Machine() (probe.Snapshot, bool) {
	if r.probe == nil {
		return probe.Snapshot{}, false
	}
	return r.probe.Snapshot(), true
}
