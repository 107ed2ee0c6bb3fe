package probe

import "golang.org/x/sys/unix"

// Host is this machine: memory, and on Intel processors how far heat limits the
// clock. Battery and thermal state need frameworks that a library without cgo
// does not reach; a game passes them on itself.
func Host() Source { return &host{} }

type host struct{ now Snapshot }

// Read implements Source.
func (h *host) Read(_ int64, due Due) Snapshot {
	s := &h.now
	if due.Pressure {
		s.Memory = readMemory()
		level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
		s.Pressure.Memory = pressureLevel(level, err)
	}
	if due.Heat {
		level, err := unix.SysctlUint32("machdep.xcpm.cpu_thermal_level")
		s.Headroom = thermalLevel(level, err)
	}
	s.Source = s.source.String()
	return *s
}

func readMemory() Memory {
	var m Memory
	total, err := unix.SysctlUint64("hw.memsize")
	if m.Total = good(float64(total)); err != nil {
		m.Total = bad(outcomeOf(err), err.Error())
	}
	pages, err := unix.SysctlUint32("vm.page_free_count")
	size, err2 := unix.SysctlUint32("hw.pagesize")
	switch {
	case err != nil:
		m.Available = bad(outcomeOf(err), err.Error())
	case err2 != nil:
		m.Available = bad(outcomeOf(err2), err2.Error())
	default:
		m.Available = good(float64(pages) * float64(size))
	}
	return m
}
