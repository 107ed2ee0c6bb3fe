// Package probe reads what a machine says of itself: pressure on its resources,
// temperatures, battery, power, memory and clocks. It makes the slow facts that
// the scheduler takes beside each frame.
//
// # A reading
//
// Every source may be absent, forbidden, absurd, or of another unit or sign than
// its documentation says, and one bad source must not cost the others. So each
// reading is a value with an outcome; a value counts only where the outcome is
// OK. Nothing is guessed in its place.
//
//	ok           the value can be used
//	first        a rate needs a second reading
//	absent       the system has no such source
//	forbidden    it has, and this program may not read it
//	failed       reading it ended in an error of the driver
//	malformed    what was read is not in the documented form
//	absurd       a number that cannot be
//	unsupported  this build knows no way to ask this system
//	idle         there is nothing to measure, such as the drain of a battery that charges
//	old          the source is silent now, and the last value is no longer kept
//
// # Sources on Linux and Android
//
//	/proc/pressure/{cpu,memory,io}   time in which some task waited, from differences of total
//	/sys/class/thermal               zones with their trip points, the median of three readings each
//	/sys/class/power_supply          battery and mains
//	/sys/class/powercap              energy counters of processor packages
//	/proc/meminfo                    memory
//	/sys/devices/system/cpu/cpufreq  clocks
//
// They are read below a root, so that tests and foreign machines are trees of
// files. On Windows and macOS the documented calls stand in for those they cover
// and the rest is unsupported.
//
// # Headroom
//
// A zone's headroom is its distance to the trip point at which it throttles, on
// Android's scale, where 30 degrees lie between 0 and 1:
//
//	headroom = max(0, 1 - (trip - temperature)/30 °C)
//
// Example: a passive trip point of 95 °C, 86 °C measured: 1 - 9/30 = 0.7. The
// machine's headroom is that of its worst zone. A number that comes from the
// game's system instead (Android's own) goes through Headroom, which bridges the
// NaN that such calls give when they are asked too often.
//
// # Polling
//
// A Poller reads on a goroutine of its own: pressure and memory twice a second,
// heat, energy and clocks each second, the battery every five. The game thread
// takes the last signals with one atomic load. Where a driver does not answer, they
// are unknown after ten seconds.
//
// Out of scope: what to do about it (scheduler), GPU load, which no system tells
// in the same way as another.
package probe
