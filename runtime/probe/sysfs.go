package probe

import (
	"io"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// maxFile bounds what is read of a file: /proc/meminfo has 1.6 KB.
const maxFile = 16 << 10

// Tree reads a Linux or Android machine from its files below a root. Call from
// one goroutine at a time.
type Tree struct {
	root     fs.FS
	now      Snapshot
	pressure [3]share
	zones    map[string]*zone
	rapl     map[string]*counter
	joules   float64 // of all packages since the first reading
}

// NewTree reads below root; os.DirFS("/") is this machine.
func NewTree(root fs.FS) *Tree {
	return &Tree{root: root, zones: map[string]*zone{}, rapl: map[string]*counter{}}
}

// text reads a small file without the blanks around.
func (t *Tree) text(name string) (string, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return strings.TrimSpace(string(data)), err
}

// number reads a file that holds one integer.
func (t *Tree) number(name string) Reading {
	s, err := t.text(name)
	if err != nil {
		return bad(outcomeOf(err), path.Base(name)+": "+err.Error())
	}
	return parse(path.Base(name), s)
}

// parse reads one integer. Drivers without a value give the least there is.
func parse(what, s string) Reading {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return bad(Malformed, what+" is "+strconv.Quote(clip(s))+", want an integer")
	case n == math.MinInt32 || n == math.MinInt64:
		return bad(Absent, what+" says that it has no value")
	}
	return good(float64(n))
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// entries lists a folder. An error is that of the folder.
func (t *Tree) entries(folder, prefix string) ([]string, error) {
	list, err := fs.ReadDir(t.root, folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, path.Join(folder, e.Name()))
		}
	}
	return names, nil
}

// memory reads /proc/meminfo.
func (t *Tree) memory() Memory {
	s, err := t.text("proc/meminfo")
	if err != nil {
		r := bad(outcomeOf(err), err.Error())
		return Memory{r, r}
	}
	field := map[string]float64{}
	for line := range strings.Lines(s) {
		name, rest, _ := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if len(words) == 2 && words[1] == "kB" {
			if v, err := strconv.ParseUint(words[0], 10, 50); err == nil {
				field[name] = float64(v) * 1024
			}
		}
	}
	total, known := field["MemTotal"]
	if !known || total == 0 {
		r := bad(Malformed, "meminfo has no MemTotal")
		return Memory{r, r}
	}
	m := Memory{Total: good(total)}
	available, known := field["MemAvailable"]
	if !known { // kernels before 3.14
		available = field["MemFree"] + field["Buffers"] + field["Cached"]
	}
	m.Available = within(available, 1, total, "MemAvailable is not between 1 and MemTotal")
	return m
}

// clocks reads the policies of cpufreq. The fastest core's limit is 1, so that
// on processors with small cores the mean stays below it.
func (t *Tree) clocks() Clocks {
	policies, err := t.entries("sys/devices/system/cpu/cpufreq", "policy")
	if err != nil || len(policies) == 0 {
		r := bad(Absent, "no clock policies")
		if err != nil {
			r.Outcome = outcomeOf(err)
		}
		return Clocks{r, r}
	}
	const least, most = 10e3, 20e6 // kHz: 10 MHz … 20 GHz
	var top, present, allowed, limits float64
	var n int
	why := bad(Absent, "no policy gives a clock")
	for _, p := range policies {
		limit, now := t.number(p+"/cpuinfo_max_freq"), t.number(p+"/scaling_cur_freq")
		cap := t.number(p + "/scaling_max_freq")
		for _, r := range []*Reading{&limit, &now, &cap} {
			if r.ok() {
				*r = within(r.Value, least, most, "a clock of "+strconv.FormatFloat(r.Value, 'f', -1, 64)+" kHz")
			}
		}
		switch {
		case !limit.ok():
			why = limit
			continue
		case !now.ok():
			why = now
			continue
		case !cap.ok():
			cap = limit
		}
		top = max(top, limit.Value)
		present += now.Value
		allowed += min(cap.Value, limit.Value)
		limits += limit.Value
		n++
	}
	if n == 0 {
		return Clocks{why, why}
	}
	return Clocks{Share: good(min(1, present/(top*float64(n)))), Cap: good(allowed / limits)}
}
