package probe

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32       = windows.NewLazySystemDLL("kernel32.dll")
	memoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
	powerStatus    = kernel32.NewProc("GetSystemPowerStatus")
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                         uint32
	totalPhys, availPhys, totalPage, availPage           uint64
	totalVirtual, availVirtual, availableExtendedVirtual uint64
}

// systemPower is SYSTEM_POWER_STATUS.
type systemPower struct {
	acLine, batteryFlag, lifePercent, saver byte
	lifeTime, fullLifeTime                  uint32
}

// Host is this machine: memory and power source. Windows documents no call that
// tells temperatures or energy to a program without privilege.
func Host() Source { return &host{} }

type host struct{ now Snapshot }

// Read implements Source.
func (h *host) Read(_ int64, due Due) Snapshot {
	s := &h.now
	if due.Pressure {
		s.Memory = readMemory()
	}
	if due.Power {
		var p systemPower
		ok, _, err := powerStatus.Call(uintptr(unsafe.Pointer(&p)))
		s.Battery, s.source = powerOf(ok != 0, fmt.Sprint(err), p.acLine, p.batteryFlag, p.lifePercent, p.saver)
		s.Source = s.source.String()
	}
	return *s
}

func readMemory() Memory {
	m := memoryStatus{}
	m.length = uint32(unsafe.Sizeof(m))
	if ok, _, err := memoryStatusEx.Call(uintptr(unsafe.Pointer(&m))); ok == 0 {
		r := bad(Failed, fmt.Sprint(err))
		return Memory{r, r}
	}
	total := float64(m.totalPhys)
	return Memory{Total: within(total, 1, 1<<50, "no memory"),
		Available: within(float64(m.availPhys), 0, total, "more available than there is")}
}
