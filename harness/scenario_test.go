package harness

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestShippedScenarios(t *testing.T) {
	want := "capped cpu-bound-120 cpu-bound-60 game idle light-app memory-stream-heavy memory-stream over-budget tavern"
	if got := strings.Join(Names(), " "); got != want {
		t.Errorf("shipped: %s, want %s", got, want)
	}
	for _, name := range Names() {
		s, err := LoadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name != name {
			t.Errorf("%s calls itself %q", name, s.Name)
		}
		if len(s.NPCs) == 0 || len(s.Objectives) == 0 {
			t.Errorf("%s has %d NPCs and %d objectives", name, len(s.NPCs), len(s.Objectives))
		}
		if _, _, err := newTimeline(s, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The loads that the project's issues name.
func TestShippedLoads(t *testing.T) {
	for name, want := range map[string]Load{
		"cpu-bound-60": {Workers: 2, CPUMs: 11}, "cpu-bound-120": {Workers: 2, CPUMs: 5.5}, "idle": {},
	} {
		s, err := LoadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Phases[0].Load; got.Workers != want.Workers || got.CPUMs != want.CPUMs || got.Jitter != 0 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	tavern, err := LoadScenario("tavern")
	if err != nil {
		t.Fatal(err)
	}
	var phases []string
	for _, p := range tavern.Phases {
		phases = append(phases, p.Phase)
	}
	if got := strings.Join(phases, " "); got != "loading explore dialogue combat menu" || tavern.Seconds() != 120 {
		t.Errorf("tavern: %s in %v s", got, tavern.Seconds())
	}
	capped, err := LoadScenario("capped")
	if err != nil {
		t.Fatal(err)
	}
	if capped.target() != time.Second/30 || capped.line() != time.Second/60 {
		t.Errorf("capped: frames of %v on lines of %v", capped.target(), capped.line())
	}
}

const minimal = "name: x\ndescription: y\ntarget_hz: 60\nphases:\n  - {phase: combat, seconds: 3}\n"

func TestScenarioErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "x.yaml: "},
		"no mapping":   {"- 1\n", "x.yaml:1:"},
		"unknown key":  {minimal + "colour: red\n", `x.yaml:6:1: unknown field "colour"`},
		"twice":        {minimal + "name: z\n", "x.yaml:6:1: "},
		"wrong type":   {strings.Replace(minimal, "60", "fast", 1), "x.yaml:3:12: "},
		"range":        {strings.Replace(minimal, "60", "0", 1), "x.yaml:3:12: target_hz: 0: want 0.2 … 1000"},
		"not a number": {strings.Replace(minimal, "60", ".nan", 1), "x.yaml:3:12: target_hz: NaN"},
		"phase":        {strings.Replace(minimal, "combat", "fight", 1), `phases[0].phase: "fight" is no phase`},
		"no phases":    {"name: x\ndescription: y\ntarget_hz: 60\nphases: []\n", "x.yaml:4:9: phases: 0: want 1 … 64"},
		"missing":      {"description: y\ntarget_hz: 60\n", "name: missing or empty"},
		"half a load":  {strings.Replace(minimal, "3}", "3, load: {cpu_ms: 3}}", 1), "workers 0 and cpu_ms 3"},
		"jitter": {strings.Replace(minimal, "3}", "3, load: {workers: 1, cpu_ms: 3, jitter: 1}}", 1),
			"jitter: 1: want"},
		"fill alone": {strings.Replace(minimal, "3}", "3, load: {fill: 0.6}}", 1), "scale and fill are for a trace"},
		"too long": {strings.Replace(minimal, "3}", "86400}\n  - {phase: menu, seconds: 86400}", 1),
			"more than 4194304 frames"},
		"alias":        {minimal + "npcs: &a []\n", "anchors"},
		"brackets":     {strings.Repeat("[", 40), "brackets"},
		"not UTF-8":    {"name: \xff\n", "UTF-8"},
		"npc ways":     {minimal + "npcs:\n  - {name: a, ask: [b]}\n", `"a" is asked in 0 ways`},
		"npc two ways": {minimal + "npcs:\n  - {name: a, ask: [b], continuous: true, every_s: 3}\n", "in 2 ways"},
		"npc time":     {minimal + "npcs:\n  - {name: a, ask: [b], at_s: [2, 1]}\n", "npcs[0].at_s[1]: 1: want 2 … 3"},
		"npc late":     {minimal + "npcs:\n  - {name: a, ask: [b], at_s: [4]}\n", "at_s[0]: 4: want 0 … 3"},
		"npc twice": {minimal + "npcs:\n  - {name: a, ask: [b], every_s: 3}\n" +
			"  - {name: a, ask: [b], every_s: 3}\n", "twice"},
		"operator": {minimal + "objectives:\n  - {metric: a, op: '<', limit: 3}\n", `op: "<": want <= or >=`},
		"no policy": {minimal + "objectives:\n  - {metric: a, op: '<=', policy: best, limit: 3}\n",
			`"best" is no policy`},
		"display":       {minimal + "display_hz: 30\n", "display_hz: 30: want 60 … 1000"},
		"trace and cpu": {strings.Replace(minimal, "3}", "3, load: {trace: a.csv, cpu_ms: 3}}", 1), "the capture says"},
	} {
		_, err := ParseScenario("x.yaml", []byte(c.text))
		if err == nil || !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", name, err, c.want)
		}
	}
}

func TestScenarioErrorShowsTheLines(t *testing.T) {
	_, err := ParseScenario("x.yaml", []byte(strings.Replace(minimal, "60", "0", 1)))
	var f *FileError
	if !errors.As(err, &f) || f.Line != 3 || f.Column != 12 || !strings.Contains(f.Excerpt, ">  3 | target_hz: 0") {
		t.Errorf("%+v", err)
	}
}

func TestLoadScenario(t *testing.T) {
	if _, err := LoadScenario("tavren"); err == nil || !strings.Contains(err.Error(), "tavern") {
		t.Errorf("a slip: %v", err)
	}
	if _, err := LoadScenario("./nowhere.yaml"); !errors.Is(err, ErrScenario) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	text := strings.Replace(minimal, "3}", "3, load: {trace: game.csv, fill: 0.5}}", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := LoadScenario(file)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = newTimeline(s, 1)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "phase 1 (combat)") {
		t.Errorf("no capture: %v", err)
	}
	csv := "Application,CPUStartTime,FrameTime,CPUBusy,CPUWait\na,0,10,4,6\na,10,10,4,6\n"
	if err := os.WriteFile(filepath.Join(dir, "game.csv"), []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	tl, notes, err := newTimeline(s, 1) // relative to the scenario's folder
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "PresentMon 2") || tl.needs().Workers != 1 {
		t.Errorf("%v, %v, %v", tl, notes, err)
	}
}

func TestWithSeconds(t *testing.T) {
	tavern, err := LoadScenario("tavern")
	if err != nil {
		t.Fatal(err)
	}
	s, err := tavern.WithSeconds(12)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(s.Seconds()-12) > 1e-9 || s.Phases[0].Seconds != 1 || math.Abs(s.NPCs[0].AtS[0]-4.6) > 1e-9 ||
		s.NPCs[1].EveryS != 12 {
		t.Errorf("%v s, %+v, %+v", s.Seconds(), s.Phases, s.NPCs[0].AtS)
	}
	if tavern.Seconds() != 120 || tavern.NPCs[0].AtS[0] != 46 {
		t.Error("the original was changed")
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), 1e9} {
		if _, err := tavern.WithSeconds(bad); !errors.Is(err, ErrScenario) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestWithTraceLeavesLoading(t *testing.T) {
	tavern, err := LoadScenario("tavern")
	if err != nil {
		t.Fatal(err)
	}
	s := tavern.WithTrace("a.csv", 2, 0, 1)
	for _, p := range s.Phases {
		if (p.Phase == "loading") == (p.Load.Trace != "") {
			t.Errorf("%s: %+v", p.Phase, p.Load)
		}
	}
	if tavern.Phases[1].Load.Trace != "" {
		t.Error("the original was changed")
	}
}

func TestObjectivesFile(t *testing.T) {
	list, err := ParseObjectives("slo.yaml", []byte("objectives:\n  - {metric: big_jank, op: '<=', limit: 0}\n"))
	if err != nil || len(list) != 1 || list[0].policy() != PolicyLull {
		t.Errorf("%+v, %v", list, err)
	}
	for _, bad := range []string{"", "objectives: []\n", "name: x\n",
		"objectives:\n  - {metric: .a, op: '<=', limit: 0}\n"} {
		if _, err := ParseObjectives("slo.yaml", []byte(bad)); !errors.Is(err, ErrScenario) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := LoadObjectives("nowhere.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Whatever a file holds, it is a scenario within the limits or an error that
// names the file.
func FuzzScenario(f *testing.F) {
	f.Add(minimal)
	for _, name := range Names() {
		text, err := shipped.ReadFile("scenarios/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("name: [\n")
	f.Add("phases: {a: &x 1, b: *x}\n")
	f.Add(minimal + "npcs:\n  - {name: a, ask: [b], at_s: [1e400]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScenario("f.yaml", []byte(text))
		if err != nil {
			if !errors.Is(err, ErrScenario) || !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Fatalf("%v", err)
			}
			return
		}
		if n := s.Seconds() * s.rate(); !(n > 0 && n <= maxFrames) {
			t.Fatalf("%v frames", n)
		}
		if s.target() <= 0 || s.line() <= 0 {
			t.Fatalf("frames of %v on lines of %v", s.target(), s.line())
		}
		if _, err := s.WithSeconds(1); err != nil && s.rate() < maxFrames {
			t.Fatal(err)
		}
	})
}

func TestPolicies(t *testing.T) {
	for _, p := range Policies() {
		if p.Description == "" {
			t.Errorf("%s has no description", p.Name)
		}
		found, err := FindPolicy(p.Name)
		if err != nil || found.Name != p.Name {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	list, err := ParsePolicies(" native, lull ,idle-2,")
	if err != nil || len(list) != 3 || list[0].Spec != nil || !list[1].Tuned || !list[2].Spec.LowPriority {
		t.Errorf("%+v, %v", list, err)
	}
	for _, bad := range []string{"", ",", "best", "native,native"} {
		if _, err := ParsePolicies(bad); !errors.Is(err, ErrPolicy) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTuning(t *testing.T) {
	lull, _ := FindPolicy(PolicyLull)
	idle, _ := FindPolicy("idle-2")
	without, err := parseTuning("window,lowprio", "ui-first")
	if err != nil {
		t.Fatal(err)
	}
	tuned := lull.tuned(without)
	if tuned.Spec.LowPriority ||
		fmt.Sprint(tuned.Spec.Scheduler.Features) != "threads,probe,feedback,bucket,"+
			"contention,preempt,ngram,batching,sleep" ||
		tuned.Spec.Scheduler.LateAllowance >= lull.Spec.Scheduler.LateAllowance {
		t.Errorf("%+v", tuned.Spec)
	}
	if !lull.Spec.LowPriority {
		t.Error("the original was changed")
	}
	if got := idle.tuned(without); got.Spec != idle.Spec {
		t.Error("a fixed policy was tuned")
	}
	for name, want := range map[string]string{
		"lull-no-bucket": "window,lowprio,threads,probe,feedback,contention,preempt,ngram,batching,sleep",
		"sereno":         "bucket,contention,preempt,ngram,batching,sleep",
	} {
		p, err := FindPolicy(name)
		if err != nil || fmt.Sprint(p.Spec.Scheduler.Features) != want {
			t.Errorf("%s: %v %v, want %s", name, err, p.Spec.Scheduler.Features, want)
		}
	}
	sereno, _ := FindPolicy("sereno")
	if s := sereno.tuned(without).Spec.Scheduler; s.StartOpenness != 1 ||
		s.ContentionTarget >= sereno.Spec.Scheduler.ContentionTarget {
		t.Errorf("sereno with preset ui-first: openness %v, target %v: want 1 and a lower target",
			s.StartOpenness, s.ContentionTarget)
	}
}
