package probe

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	// coldest and hottest are what silicon works at, with room: a reading beyond
	// them is a sensor that has none to give (0x80, -273 °C, 255 °C).
	coldest, hottest = -20, 150

	// tripLow and tripHigh bound a trip point that says anything: drivers fill
	// unused ones with 0 or -32768.
	tripLow, tripHigh = 20, 150

	// span is the degrees between headroom 0 and 1, as Android counts.
	span = 30

	// belowCritical is where throttling is taken to begin in a zone that names
	// only the point at which it switches off.
	belowCritical = 10

	// maxZones and maxTrips bound a tree of files that is none of a machine.
	maxZones, maxTrips = 64, 16
)

// zone remembers the last temperatures: some sensors give a random one now and
// then, which the median of three drops.
type zone struct{ recent []float64 }

func (z *zone) median(v float64) float64 {
	if z.recent = append(z.recent, v); len(z.recent) > 3 {
		z.recent = z.recent[1:]
	}
	sorted := slices.Sorted(slices.Values(z.recent))
	return sorted[(len(sorted)-1)/2]
}

// heat reads every zone; one that fails costs the others nothing.
func (t *Tree) heat() ([]Zone, Reading, bool) {
	folders, err := t.entries("sys/class/thermal", "thermal_zone")
	if err != nil {
		return nil, bad(outcomeOf(err), err.Error()), false
	}
	if len(folders) > maxZones {
		folders = folders[:maxZones]
	}
	worst, critical := bad(Absent, "no thermal zones"), false
	var zones []Zone
	for _, f := range folders {
		z := t.zone(f)
		zones = append(zones, z)
		critical = critical || z.Critical
		switch h := z.Headroom; {
		case h.ok() && (!worst.ok() || h.Value > worst.Value):
			worst = h
		case !worst.ok():
			worst = Reading{Outcome: h.Outcome, Detail: z.Name + ": " + h.Detail}
		}
	}
	return zones, worst, critical
}

func (t *Tree) zone(folder string) Zone {
	z := Zone{Name: path.Base(folder)}
	if s, err := t.text(folder + "/type"); err == nil && s != "" {
		z.Name = clip(s)
	}
	z.Celsius = t.number(folder + "/temp")
	if z.Celsius.ok() {
		c := z.Celsius.Value / 1000
		z.Celsius = within(c, coldest, hottest, fmt.Sprintf("%v °C", c))
	}
	critical := 0.0
	z.Trip, critical = t.trip(folder)
	if !z.Celsius.ok() {
		delete(t.zones, folder)
		z.Headroom = z.Celsius
		return z
	}
	past := t.zones[folder]
	if past == nil {
		past = &zone{}
		t.zones[folder] = past
	}
	z.Celsius.Value = past.median(z.Celsius.Value)
	z.Critical = critical > 0 && z.Celsius.Value >= critical
	if z.Headroom = z.Trip; z.Trip.ok() {
		z.Headroom = good(max(0, 1-(z.Trip.Value-z.Celsius.Value)/span))
	}
	return z
}

// trip finds where a zone throttles: its lowest passive trip point, else the hot
// one, else somewhat below the critical one. Active ones only start a fan.
func (t *Tree) trip(folder string) (trip Reading, critical float64) {
	found := map[string]float64{}
	why := bad(Absent, "no trip point at which it throttles")
	for i := range maxTrips {
		base := fmt.Sprintf("%s/trip_point_%d", folder, i)
		kind, err := t.text(base + "_type")
		if err != nil {
			if o := outcomeOf(err); o != Absent {
				why = bad(o, err.Error())
			}
			break
		}
		r := t.number(base + "_temp")
		if r.ok() {
			c := r.Value / 1000
			r = within(c, tripLow, tripHigh, fmt.Sprintf("a %s trip point of %v °C", clip(kind), c))
		}
		if !r.ok() {
			why = r
			continue
		}
		if was, known := found[kind]; !known || r.Value < was {
			found[strings.TrimSpace(kind)] = r.Value
		}
	}
	critical = found["critical"]
	for _, kind := range []string{"passive", "hot"} {
		if v, known := found[kind]; known {
			return good(v), critical
		}
	}
	if critical > 0 {
		return good(critical - belowCritical), critical
	}
	return why, 0
}
