package probe

import (
	"fmt"

	"github.com/lull-npc/lull/scheduler"
)

// Values of SYSTEM_POWER_STATUS, as documented.
const (
	acOffline, acOnline      = 0, 1
	batteryNone              = 128 // a flag
	batteryUnknown           = 255
	percentUnknown           = 255
	batteryCharging     byte = 8 // a flag
)

// powerOf reads what GetSystemPowerStatus filled in.
func powerOf(ok bool, why string, ac, flag, percent, saver byte) (Battery, scheduler.PowerSource) {
	watts := bad(Unsupported, "no documented call tells the power")
	if !ok {
		return Battery{Level: bad(Failed, why), Drain: watts}, scheduler.PowerUnknown
	}
	b := Battery{Drain: watts}
	switch {
	case flag == batteryUnknown:
		b.Level = bad(Absent, "the state of the battery is unknown")
	case flag&batteryNone != 0:
		b.Level, b.Drain = bad(Absent, "no battery"), bad(Absent, "no battery")
	case percent == percentUnknown:
		b.Level = bad(Absent, "the level is unknown")
	default:
		b.Level = within(float64(percent)/100, 0, 1, fmt.Sprintf("a level of %d %%", percent))
	}
	if flag != batteryUnknown && flag&batteryCharging != 0 {
		b.Drain = bad(Idle, "the battery charges")
	}
	switch {
	case ac == acOnline:
		return b, scheduler.PowerMains
	case ac == acOffline && saver == 1:
		b.Draining = true
		return b, scheduler.PowerSaver
	case ac == acOffline:
		b.Draining = true
		return b, scheduler.PowerBattery
	}
	return b, scheduler.PowerUnknown
}
