package probe

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lull-npc/lull/scheduler"
)

const (
	// milliBelow: a current below 10,000 can't be µA of a device that runs a
	// game, that would be 10 mA. It is mA.
	milliBelow = 10_000

	// milliVolts: a voltage below 100,000 can't be µV of a cell.
	milliVolts = 100_000

	// drainLow and drainHigh are W: a watch's screen, and beyond what a battery
	// gives a laptop.
	drainLow, drainHigh = 0.05, 400
)

// supplies reads battery and mains.
func (t *Tree) supplies() (Battery, scheduler.PowerSource) {
	folders, err := t.entries("sys/class/power_supply", "")
	if err != nil {
		r := bad(outcomeOf(err), err.Error())
		return Battery{Level: r, Drain: r}, scheduler.PowerUnknown
	}
	none := bad(Absent, "no battery")
	b, source := Battery{Level: none, Drain: none}, scheduler.PowerUnknown
	mains := false
	for _, f := range folders {
		kind, _ := t.text(f + "/type")
		scope, _ := t.text(f + "/scope")
		switch {
		case scope == "Device": // a mouse or a pen
		case kind == "Battery":
			if present := t.number(f + "/present"); present.ok() && present.Value == 0 {
				continue
			}
			if b.Level.Outcome == Absent && !b.Draining {
				b = t.battery(f)
			}
		case kind == "Mains" || strings.HasPrefix(kind, "USB"):
			online := t.number(f + "/online")
			mains = mains || online.ok() && online.Value >= 1
		}
	}
	switch {
	case b.Draining:
		source = scheduler.PowerBattery
		if profile, err := t.text("sys/firmware/acpi/platform_profile"); err == nil && profile == "low-power" {
			source = scheduler.PowerSaver
		}
	case mains || b.Drain.Outcome == Idle:
		source = scheduler.PowerMains
	}
	return b, source
}

// battery reads one. Whether it drains is what status says: the sign of the
// current is no evidence, since drivers differ in it.
func (t *Tree) battery(f string) Battery {
	b := Battery{Level: t.number(f + "/capacity")}
	if b.Level.ok() {
		b.Level = within(b.Level.Value/100, 0, 1, fmt.Sprintf("a level of %v %%", b.Level.Value))
	}
	status, err := t.text(f + "/status")
	switch {
	case err != nil:
		b.Drain = bad(outcomeOf(err), err.Error())
		return b
	case status == "Charging" || status == "Full" || status == "Not charging":
		b.Drain = bad(Idle, "the battery does not drain: "+status)
		return b
	case status != "Discharging":
		b.Drain = bad(Malformed, "status is "+clip(status))
		return b
	}
	b.Draining = true
	b.Drain = t.drain(f)
	return b
}

// drain is the power in W: power_now in µW, or current times voltage.
func (t *Tree) drain(f string) Reading {
	if p := t.number(f + "/power_now"); p.ok() {
		w := math.Abs(p.Value) / 1e6
		return within(w, drainLow, drainHigh, fmt.Sprintf("power_now is %v µW", p.Value))
	}
	current, voltage := t.number(f+"/current_now"), t.number(f+"/voltage_now")
	if !current.ok() {
		return current
	}
	if !voltage.ok() {
		return voltage
	}
	return Drain(current.Value, voltage.Value)
}

// Drain is the power in W that a battery gives, from its current and voltage.
// Documented are µA and µV; many drivers give mA or mV instead, and no sign or
// the other one, so the size tells the unit and the sign is dropped.
func Drain(current, voltage float64) Reading {
	a, v := math.Abs(current)/1e6, math.Abs(voltage)/1e6
	if math.Abs(current) < milliBelow {
		a = math.Abs(current) / 1e3
	}
	if math.Abs(voltage) < milliVolts {
		v = math.Abs(voltage) / 1e3
	}
	detail := fmt.Sprintf("current %v and voltage %v give %.3g W", current, voltage, a*v)
	if v < 2 || v > 60 { // a single cell at its end … an electric bicycle
		return bad(Absurd, detail)
	}
	return within(a*v, drainLow, drainHigh, detail)
}

const (
	// packageMost is W: more than any processor package takes.
	packageMost = 1000

	// wrapMargin: a counter that could have gone round at packageMost/2 in the
	// time between two readings may have done so twice.
	wrapMargin = packageMost / 2

	// counterStep is s: the counters move every millisecond, so one that has not
	// moved in a tenth of a second belongs to a virtual machine.
	counterStep = 0.1
)

// counter is an energy counter in µJ that goes round at its range.
type counter struct {
	last float64
	at   int64
	seen bool
}

// next gives the J since the last reading and the W meanwhile.
func (c *counter) next(now int64, energy, most float64) (joules float64, watts Reading) {
	was, at, seen := c.last, c.at, c.seen
	c.last, c.at, c.seen = energy, now, true
	gone := time.Duration(now - at).Seconds()
	used := energy - was
	switch {
	case !seen || gone <= 0:
		return 0, bad(First, "power needs a second reading")
	case used < 0 && most <= 0:
		return 0, bad(Absurd, "the counter went back and its range is not known")
	case most > 0 && gone*wrapMargin*1e6 > most:
		return 0, bad(Old, "the counter may have gone round more than once")
	case used < 0 && (was > most || energy > most):
		return 0, bad(Absurd, "the counter is beyond its range")
	case used < 0:
		used += most + 1
	case used == 0 && gone >= counterStep:
		return 0, bad(Absurd, "the counter stands still")
	}
	watts = within(used/1e6/gone, 0, packageMost, fmt.Sprintf("%.0f W", used/1e6/gone))
	if !watts.ok() {
		return 0, watts
	}
	return used / 1e6, watts
}

// packages adds up the processor packages; what lies below one is part of it.
// One that cannot be read makes the sum unknown.
func (t *Tree) packages(now int64) (watts, joules Reading) {
	folders, err := t.entries("sys/class/powercap", "intel-rapl:")
	if err != nil {
		r := bad(outcomeOf(err), err.Error())
		return r, r
	}
	sum, used, failed := 0.0, 0, bad(Absent, "no energy counters")
	for _, f := range folders {
		name, err := t.text(f + "/name")
		if err == nil && !strings.HasPrefix(name, "package") {
			continue
		}
		used++
		energy := t.number(f + "/energy_uj")
		if !energy.ok() {
			failed = energy
			continue
		}
		c := t.rapl[f]
		if c == nil {
			c = &counter{}
			t.rapl[f] = c
		}
		most := 0.0
		if r := t.number(f + "/max_energy_range_uj"); r.ok() {
			most = r.Value
		}
		j, w := c.next(now, energy.Value, most)
		if !w.ok() {
			failed = w
			continue
		}
		t.joules += j
		sum += w.Value
		used--
	}
	// A sum without one of the packages would look like a machine that saves.
	if used > 0 || len(folders) == 0 || failed.Outcome != Absent {
		return failed, failed
	}
	return good(sum), good(t.joules)
}
