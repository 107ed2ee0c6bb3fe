package probe

import (
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lull-npc/lull/scheduler"
)

var update = flag.Bool("update", false, "write the golden files")

// files makes a tree of "path: content" lines.
func files(lines ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, l := range lines {
		name, text, _ := strings.Cut(l, ": ")
		m[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "|", "\n") + "\n")}
	}
	return m
}

// broken answers some paths with an error, as drivers do.
type broken struct {
	fs.FS
	errs map[string]error
}

func (b broken) Open(name string) (fs.File, error) {
	if err := b.errs[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return b.FS.Open(name)
}

// laptop is a machine on which everything can be read.
var laptop = []string{
	"proc/pressure/cpu: some avg10=1.00 avg60=0 avg300=0 total=1000",
	"proc/pressure/memory: some avg10=0 avg60=0 avg300=0 total=500|full avg10=0 avg60=0 avg300=0 total=9",
	"proc/pressure/io: some avg10=0 avg60=0 avg300=0 total=0",
	"proc/meminfo: MemTotal:       16000000 kB|MemFree: 1 kB|MemAvailable:    8000000 kB",
	"sys/class/thermal/thermal_zone0/type: x86_pkg_temp",
	"sys/class/thermal/thermal_zone0/temp: 86000",
	"sys/class/thermal/thermal_zone0/trip_point_0_type: passive",
	"sys/class/thermal/thermal_zone0/trip_point_0_temp: 95000",
	"sys/class/power_supply/BAT0/type: Battery",
	"sys/class/power_supply/BAT0/status: Discharging",
	"sys/class/power_supply/BAT0/capacity: 55",
	"sys/class/power_supply/BAT0/current_now: 1500000",
	"sys/class/power_supply/BAT0/voltage_now: 12000000",
	"sys/class/power_supply/AC/type: Mains",
	"sys/class/power_supply/AC/online: 0",
	"sys/class/powercap/intel-rapl:0/name: package-0",
	"sys/class/powercap/intel-rapl:0/energy_uj: 262143000000",
	"sys/class/powercap/intel-rapl:0/max_energy_range_uj: 262143328850",
	"sys/class/powercap/intel-rapl:0:0/name: core",
	"sys/class/powercap/intel-rapl:0:0/energy_uj: 77",
	"sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq: 4000000",
	"sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq: 3000000",
	"sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq: 4000000",
}

// change is the laptop with some files changed; an empty text removes the file.
func change(lines ...string) fstest.MapFS {
	m := files(laptop...)
	for name, f := range files(lines...) {
		m[name] = f
		if len(f.Data) == 1 {
			delete(m, name)
		}
	}
	return m
}

const second = int64(time.Second)

// twice reads a tree, changes it, and reads it a second later.
func twice(root fs.FS, m fstest.MapFS, later ...string) (Snapshot, *Tree) {
	t := NewTree(root)
	t.Read(second, All)
	for name, f := range files(later...) {
		m[name] = f
	}
	return t.Read(2*second, All), t
}

// TestSources is the table of what a machine may answer, and the outcome of each.
func TestSources(t *testing.T) {
	zone, bat := "sys/class/thermal/thermal_zone0/", "sys/class/power_supply/BAT0/"
	rapl, cpu := "sys/class/powercap/intel-rapl:0/", "sys/devices/system/cpu/cpufreq/policy0/"
	headroom := func(s *Snapshot) Reading { return s.Headroom }
	drain := func(s *Snapshot) Reading { return s.Battery.Drain }
	power := func(s *Snapshot) Reading { return s.Power }
	pressure := func(s *Snapshot) Reading { return s.Pressure.Memory }
	memory := func(s *Snapshot) Reading { return s.Memory.Available }
	clock := func(s *Snapshot) Reading { return s.Clocks.Share }
	var out strings.Builder
	for _, c := range []struct {
		name  string
		first []string // changes to the laptop
		later []string // changes between the two readings
		err   error    // of the file named by at
		at    string
		what  func(*Snapshot) Reading
	}{
		{name: "zone 86 °C of 95", what: headroom},
		{name: "zone gives ENODATA", err: syscall.ENODATA, at: zone + "temp", what: headroom},
		{name: "zone gives EINVAL", err: syscall.EINVAL, at: zone + "temp", what: headroom},
		{name: "zone forbidden", err: fs.ErrPermission, at: zone + "temp", what: headroom},
		{name: "zone of -273 °C", first: []string{zone + "temp: -273150"}, what: headroom},
		{name: "zone of 255 °C", first: []string{zone + "temp: 255000"}, what: headroom},
		{name: "zone with words", first: []string{zone + "temp: warm"}, what: headroom},
		{name: "trip point -32768000", first: []string{zone + "trip_point_0_temp: -32768000"}, what: headroom},
		{name: "trip point 0", first: []string{zone + "trip_point_0_temp: 0"}, what: headroom},
		{name: "only a fan's trip point", first: []string{zone + "trip_point_0_type: active"}, what: headroom},
		{name: "only critical at 105", first: []string{zone + "trip_point_0_type: critical",
			zone + "trip_point_0_temp: 105000"}, what: headroom},
		{name: "bad first, good second trip", first: []string{zone + "trip_point_0_temp: -32768000",
			zone + "trip_point_1_type: hot", zone + "trip_point_1_temp: 90000"}, what: headroom},
		{name: "no thermal class", first: []string{zone + "temp: ", zone + "type: ", zone + "trip_point_0_type: ",
			zone + "trip_point_0_temp: "}, what: headroom},
		{name: "thermal class forbidden", err: fs.ErrPermission, at: "sys/class/thermal", what: headroom},

		{name: "current µA", what: drain},
		{name: "current mA", first: []string{bat + "current_now: 1500"}, what: drain},
		{name: "current negative", first: []string{bat + "current_now: -1500000"}, what: drain},
		{name: "current mA, negative, voltage mV", first: []string{bat + "current_now: -1500",
			bat + "voltage_now: 12000"}, what: drain},
		{name: "current is the least int32", first: []string{bat + "current_now: -2147483648"}, what: drain},
		{name: "current is the least int64", first: []string{bat + "current_now: -9223372036854775808"}, what: drain},
		{name: "current of 99 A", first: []string{bat + "current_now: 99000000"}, what: drain},
		{name: "no voltage", first: []string{bat + "voltage_now: "}, what: drain},
		{name: "voltage 0", first: []string{bat + "voltage_now: 0"}, what: drain},
		{name: "power_now instead", first: []string{bat + "power_now: 9500000"}, what: drain},
		{name: "charging", first: []string{bat + "status: Charging"}, what: drain},
		{name: "status unknown", first: []string{bat + "status: Unknown"}, what: drain},
		{name: "not present", first: []string{bat + "present: 0"}, what: drain},
		{name: "a mouse's battery", first: []string{bat + "scope: Device"}, what: drain},

		{name: "energy 15 J in 1 s", later: []string{rapl + "energy_uj: 262143015000"},
			first: []string{rapl + "energy_uj: 262128015000"}, what: power},
		{name: "energy wraps", later: []string{rapl + "energy_uj: 9671151"}, what: power},
		{name: "energy wraps, range unknown", first: []string{rapl + "max_energy_range_uj: "},
			later: []string{rapl + "energy_uj: 5"}, what: power},
		{name: "energy beyond its range", first: []string{rapl + "energy_uj: 999999999999"},
			later: []string{rapl + "energy_uj: 5"}, what: power},
		{name: "energy of 2 kW", first: []string{rapl + "energy_uj: 0"},
			later: []string{rapl + "energy_uj: 2000000000"}, what: power},
		{name: "energy stands still", what: power},
		{name: "energy range of a moment", first: []string{rapl + "max_energy_range_uj: 1000"}, what: power},
		{name: "energy for root only", err: fs.ErrPermission, at: rapl + "energy_uj", what: power},
		{name: "one of two packages for root only", first: []string{"sys/class/powercap/intel-rapl:1/name: package-1",
			"sys/class/powercap/intel-rapl:1/energy_uj: 5"}, err: fs.ErrPermission,
			at: "sys/class/powercap/intel-rapl:1/energy_uj", what: power},

		{name: "waited 0.1 s of 1", later: []string{"proc/pressure/memory: some total=100500"}, what: pressure},
		{name: "waited more than time", later: []string{"proc/pressure/memory: some total=9000000000"}, what: pressure},
		{name: "waiting went back", later: []string{"proc/pressure/memory: some total=1"}, what: pressure},
		{name: "pressure without some", first: []string{"proc/pressure/memory: full total=1"}, what: pressure},
		{name: "pressure total is negative", first: []string{"proc/pressure/memory: some total=-1"}, what: pressure},
		{name: "pressure switched off", err: syscall.EOPNOTSUPP, at: "proc/pressure/memory", what: pressure},
		{name: "pressure behind SELinux", err: syscall.EACCES, at: "proc/pressure/memory", what: pressure},

		{name: "half of the memory", what: memory},
		{name: "old kernel's memory", first: []string{
			"proc/meminfo: MemTotal: 1000 kB|MemFree: 100 kB|Buffers: 50 kB|Cached: 50 kB"}, what: memory},
		{name: "more memory than there is", first: []string{
			"proc/meminfo: MemTotal: 1000 kB|MemAvailable: 2000 kB"}, what: memory},
		{name: "no memory", first: []string{"proc/meminfo: MemFree: 1 kB"}, what: memory},

		{name: "3 of 4 GHz", what: clock},
		{name: "clock 0", first: []string{cpu + "scaling_cur_freq: 0"}, what: clock},
		{name: "clock in Hz", first: []string{cpu + "scaling_cur_freq: 3000000000"}, what: clock},
		{name: "clock unknown", first: []string{cpu + "scaling_cur_freq: <unknown>"}, what: clock},
	} {
		m := change(c.first...)
		root := fs.FS(m)
		if c.err != nil {
			root = broken{m, map[string]error{c.at: c.err}}
		}
		s, _ := twice(root, m, c.later...)
		r := c.what(&s)
		if r.Outcome != OK && (r.Value != 0 || r.Detail == "") {
			t.Errorf("%s: %+v: a reading without a value says why, and nothing else", c.name, r)
		}
		fmt.Fprintf(&out, "%-36s %-11s %.4g\n", c.name, r.Outcome, r.Value)
	}
	golden(t, "sources.txt", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the error numbers of drivers are Linux's")
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look, then -update. Got:\n%s", file, got)
	}
}

// TestOneZoneFails: nine good zones decide, whatever the tenth does.
func TestOneZoneFails(t *testing.T) {
	m := files(laptop...)
	for i := range 10 {
		zone := fmt.Sprintf("sys/class/thermal/thermal_zone%d/", i)
		for name, f := range files(zone+"type: z", fmt.Sprintf("%stemp: %d", zone, 50000+i*1000),
			zone+"trip_point_0_type: passive", zone+"trip_point_0_temp: 80000") {
			m[name] = f
		}
	}
	for name, err := range map[string]error{"EIO": syscall.EIO, "gone": fs.ErrNotExist, "forbidden": fs.ErrPermission} {
		s := NewTree(broken{m, map[string]error{"sys/class/thermal/thermal_zone4/temp": err}}).Read(second, All)
		if !s.Headroom.ok() || math.Abs(s.Headroom.Value-0.3) > 1e-9 || len(s.Zones) != 10 || s.Zones[4].Celsius.ok() {
			t.Errorf("%s: %+v of %d zones: want 0.3 from the hottest of the other nine", name, s.Headroom, len(s.Zones))
		}
	}
}

// TestMedian: one random temperature between two good ones changes nothing.
func TestMedian(t *testing.T) {
	m := files(laptop...)
	tree := NewTree(m)
	var last Snapshot
	for i, temp := range []int{60000, 61000, 140000, 61000, 62000} {
		m["sys/class/thermal/thermal_zone0/temp"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", temp)}
		last = tree.Read(int64(i)*second, All)
		if c := last.Zones[0].Celsius.Value; c > 62 {
			t.Errorf("reading %d: %v °C", i, c)
		}
	}
}

func TestSignals(t *testing.T) {
	s, _ := twice(files(laptop...), nil)
	h := s.Signals()
	if h.Power != scheduler.PowerBattery || h.Thermal != scheduler.ThermalLight || h.ThermalHeadroom < 0.69 ||
		h.ThermalHeadroom > 0.71 {
		t.Errorf("%+v", h)
	}
	hot := change("sys/class/thermal/thermal_zone0/trip_point_1_type: critical",
		"sys/class/thermal/thermal_zone0/trip_point_1_temp: 86000", "sys/class/power_supply/AC/online: 1",
		"sys/class/power_supply/BAT0/status: Full")
	s, _ = twice(hot, hot)
	if h := s.Signals(); h.Thermal != scheduler.ThermalCritical || h.Power != scheduler.PowerMains {
		t.Errorf("at the critical trip point, on mains: %+v", h)
	}
	saver := change("sys/firmware/acpi/platform_profile: low-power")
	s, _ = twice(saver, saver)
	if h := s.Signals(); h.Power != scheduler.PowerSaver {
		t.Errorf("low-power profile: %+v", h)
	}
	s, _ = twice(fstest.MapFS{}, fstest.MapFS{})
	if h := s.Signals(); h != (scheduler.HostSignals{}) {
		t.Errorf("an empty machine: %+v: want nothing known", h)
	}
}

func TestHeadroom(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		raw  []float64
		want Outcome
		v    float64
	}{
		"a number":        {[]float64{0.5}, OK, 0.5},
		"above severe":    {[]float64{1.3}, OK, 1.3},
		"one NaN kept":    {[]float64{0.5, nan}, OK, 0.5},
		"NaN for long":    {[]float64{0.5, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}, Old, 0},
		"first is NaN":    {[]float64{nan}, First, 0},
		"NaN at first":    {[]float64{nan, 0.4}, OK, 0.4},
		"NaN twice":       {[]float64{nan, nan}, Unsupported, 0},
		"late but sound":  {[]float64{nan, nan, 0.4}, OK, 0.4},
		"negative":        {[]float64{-1}, Absurd, 0},
		"infinite":        {[]float64{math.Inf(1)}, Absurd, 0},
		"absurd, kept":    {[]float64{0.6, 99}, OK, 0.6},
		"minus infinite":  {[]float64{0.6, math.Inf(-1)}, OK, 0.6},
		"back from a gap": {[]float64{0.5, nan, 0.7}, OK, 0.7},
	} {
		var h Headroom
		var r Reading
		for i, raw := range c.raw {
			r = h.Add(int64(i)*second, raw)
		}
		if r.Outcome != c.want || r.Value != c.v {
			t.Errorf("%s: %+v: want %v %v", name, r, c.want, c.v)
		}
	}
}

func TestOtherSystems(t *testing.T) {
	for name, c := range map[string]struct {
		ac, flag, percent, saver byte
		source                   scheduler.PowerSource
		level, drain             Outcome
	}{
		"mains":           {1, 8, 80, 0, scheduler.PowerMains, OK, Idle},
		"battery":         {0, 1, 80, 0, scheduler.PowerBattery, OK, Unsupported},
		"saver":           {0, 1, 80, 1, scheduler.PowerSaver, OK, Unsupported},
		"desktop":         {1, 128, 255, 0, scheduler.PowerMains, Absent, Absent},
		"nothing known":   {255, 255, 255, 0, scheduler.PowerUnknown, Absent, Unsupported},
		"level unknown":   {0, 1, 255, 0, scheduler.PowerBattery, Absent, Unsupported},
		"level of 130":    {0, 1, 130, 0, scheduler.PowerBattery, Absurd, Unsupported},
		"an unknown line": {7, 1, 50, 0, scheduler.PowerUnknown, OK, Unsupported},
	} {
		b, source := powerOf(true, "", c.ac, c.flag, c.percent, c.saver)
		if source != c.source || b.Level.Outcome != c.level || b.Drain.Outcome != c.drain {
			t.Errorf("%s: %v %+v", name, source, b)
		}
	}
	b, source := powerOf(false, "refused", 1, 1, 1, 1)
	if source != scheduler.PowerUnknown || b.Level.Outcome != Failed {
		t.Errorf("a call that fails: %v %+v", source, b)
	}
	for level, want := range map[uint32]Reading{1: good(0), 2: good(0.2), 4: good(0.5)} {
		if got := pressureLevel(level, nil); got != want {
			t.Errorf("pressure level %d: %+v", level, got)
		}
	}
	if got := pressureLevel(3, nil); got.Outcome != Absurd {
		t.Errorf("pressure level 3: %+v", got)
	}
	if got := thermalLevel(50, nil); got != good(0.5) {
		t.Errorf("thermal level: %+v", got)
	}
	if got := thermalLevel(101, nil); got.Outcome != Absurd {
		t.Errorf("thermal level 101: %+v", got)
	}
	if a, b := pressureLevel(0, fs.ErrNotExist), thermalLevel(0, fs.ErrPermission); a.Outcome != Absent ||
		b.Outcome != Forbidden {
		t.Errorf("without the numbers: %+v %+v", a, b)
	}
}
