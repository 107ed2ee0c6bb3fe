package probe

import "github.com/lull-npc/lull/scheduler"

// Zone is one thermal zone.
type Zone struct {
	Name     string  `json:"name"`     // what the driver calls it
	Celsius  Reading `json:"celsius"`  // median of the last three
	Trip     Reading `json:"trip"`     // °C at which it throttles
	Headroom Reading `json:"headroom"` // 0 cold, 1 where it throttles
	Critical bool    `json:"critical"` // at its critical trip point
}

// Pressure is the share of time in which tasks waited for each resource, [0,1].
type Pressure struct {
	CPU    Reading `json:"cpu"`
	Memory Reading `json:"memory"`
	IO     Reading `json:"io"`
}

// Battery is the energy store of the device.
type Battery struct {
	Level    Reading `json:"level"`       // [0,1]
	Drain    Reading `json:"drain_watts"` // of the whole device; idle while it charges
	Draining bool    `json:"draining"`
}

// Memory is that of the whole machine, in bytes.
type Memory struct {
	Total     Reading `json:"total_bytes"`
	Available Reading `json:"available_bytes"` // without swapping
}

// Clocks are those of the processor, as shares of the fastest core's limit.
type Clocks struct {
	Share Reading `json:"share"` // mean of the present clocks
	Cap   Reading `json:"cap"`   // what the system allows now; below 1 it throttles or saves
}

// Snapshot is everything that is known at one moment.
type Snapshot struct {
	Pressure Pressure `json:"pressure"`
	Zones    []Zone   `json:"zones"`
	Headroom Reading  `json:"headroom"` // of the worst zone, or what the system says
	Battery  Battery  `json:"battery"`
	Power    Reading  `json:"package_watts"` // of the processor packages
	Energy   Reading  `json:"package_joules"`
	Memory   Memory   `json:"memory"`
	Clocks   Clocks   `json:"clocks"`
	Source   string   `json:"power_source"` // scheduler's name of it

	source   scheduler.PowerSource
	critical bool // a zone is at its critical trip point
}

const (
	// severeAt is by definition where throttling begins. The bounds below are
	// parts of the way to it: 9 and 3 degrees before.
	severeAt   = 1.0
	lightAt    = 0.7
	moderateAt = 0.9
)

// Signals are the facts that the scheduler takes. What has no value is unknown
// there.
func (s *Snapshot) Signals() scheduler.HostSignals {
	h := scheduler.HostSignals{Power: s.source}
	if s.Pressure.Memory.ok() {
		h.MemoryPressure = s.Pressure.Memory.Value
	}
	if s.Headroom.ok() {
		// 0 means unknown to the scheduler, and a cold machine is known to be cold.
		h.ThermalHeadroom = max(s.Headroom.Value, 0.01)
		h.Thermal = thermalStatus(s.Headroom.Value)
	}
	if s.critical {
		h.Thermal = scheduler.ThermalCritical
	}
	return h
}

func thermalStatus(headroom float64) scheduler.ThermalStatus {
	switch {
	case headroom >= severeAt:
		return scheduler.ThermalSevere
	case headroom >= moderateAt:
		return scheduler.ThermalModerate
	case headroom >= lightAt:
		return scheduler.ThermalLight
	}
	return scheduler.ThermalNone
}
