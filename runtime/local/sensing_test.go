package local

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/calibrate"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// contended is a scripted model whose memory is as contended as the test says.
func contended(t *testing.T, share *float64) (llm.Model, llm.Clock) {
	t.Helper()
	cost := scripted.SmolLM2()
	cost.Contention = func(int64) float64 { return *share }
	clock := scripted.NewClock(1e9)
	m, err := scripted.New(scripted.Config{Layers: 12, Threads: 2, Clock: clock, Cost: cost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, clock
}

// What layers take is learned from a model at rest; then contention of half of
// the reading shows as the third that it makes of a layer.
func TestSenseContention(t *testing.T) {
	share := 0.0
	m, clock := contended(t, &share)
	s, err := scheduler.NewSensor("CPU", 12, 0, scheduler.Baselines{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Spec: Spec{Threads: 2}, Clock: clock, OpenModel: func(context.Context, llm.Clock,
		llm.AdmitFunc) (llm.Model, error) {
		return m, nil
	}}
	if err := cfg.sense(context.Background(), s, m, nil, everything); err != nil {
		t.Fatal(err)
	}
	if rows := s.Baselines().Rows; len(rows) != 2 || len(rows[0].Layers) != 13 || rows[0].PerToken < 1 {
		t.Fatalf("learned %+v: want rows of 1 and 2 threads, with 12 layers, a head and a slope", rows)
	}
	x := &sensing{sensor: s}
	game := scheduler.FrameSample{Phase: scheduler.PhaseExplore, End: scheduler.Instant(clock.Now())}
	seq, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	var score scheduler.Score
	for _, share = range []float64{0, 0.5, 0} {
		m.Gate().Publish(llm.Window{LayersPerStop: 3})
		for range 40 {
			var b llm.Batch
			b.Add(seq, 1, true)
			past := len(seq.Tokens())
			w, err := m.Decode(&b, llm.Grant{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			w.Stage, w.Past = llm.Decode, past
			game.End = scheduler.Instant(clock.Now())
			x.played(&game)
			score = x.score(&w)
		}
		want := share * 260 / 410
		if score.State != scheduler.ScoreGood || math.Abs(score.Value-want) > 0.01 {
			t.Errorf("contention of %v: %+v, want %.3f", share, score, want)
		}
	}
	if got := x.score(&llm.Work{Stage: llm.Prefill}); got != (scheduler.Score{}) {
		t.Errorf("prefill was scored: %+v", got)
	}
}

// A runtime that is contended tells its controller so.
func TestControllerSeesContention(t *testing.T) {
	share := 0.5
	m, clock := contended(t, &share)
	spec := DefaultSpec()
	spec.Threads = 1
	r, err := Open(context.Background(), Config{Spec: spec, Clock: clock,
		OpenModel: func(context.Context, llm.Clock, llm.AdmitFunc) (llm.Model, error) { return m, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.sense == nil {
		t.Fatal("no sensor though the controller wants scores")
	}
	spec.Scheduler.Features &^= scheduler.FeatureContention
	cfg := Config{Spec: spec}
	if x, err := cfg.newSensing(context.Background(), m, nil); x != nil || err != nil {
		t.Errorf("without the feature: %v, %v: want no sensor", x, err)
	}
	x := r.sense
	w := llm.Work{Stage: llm.Decode, Start: 5e9, End: 5e9 + 1, Samples: []llm.LayerSample{
		{First: 0, Last: 0, Width: 1, Threads: 1, Duration: 400 * time.Microsecond}}}
	if got := x.score(&w); got.State != scheduler.ScoreNoBaseline || !got.Learn {
		t.Errorf("a first sample: %+v", got)
	}
}

func TestBaselineFile(t *testing.T) {
	f := baselineFile{path: filepath.Join(t.TempDir(), "profile", "layers.msgpack"), key: "a model"}
	if _, err := f.read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is kept: %v", err)
	}
	b := scheduler.Baselines{Device: "CPU", Rows: []scheduler.BaselineRow{
		{Width: 1, Threads: 2, Layers: []time.Duration{4e5, 4e5, 2e6}, PerToken: 280}}}
	for range 2 { // the second finds what it would write
		if err := f.write(b); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.read()
	if err != nil || !cmp.Equal(got, b) {
		t.Errorf("%v %s", err, cmp.Diff(b, got))
	}
	f.key = "another model"
	if _, err := f.read(); !errors.Is(err, calibrate.ErrStored) || !strings.Contains(err.Error(), f.path) {
		t.Errorf("another model's: %v: want ErrStored that names the file", err)
	}
	if err := os.WriteFile(f.path, []byte("no profile"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(); !errors.Is(err, calibrate.ErrStored) {
		t.Errorf("a broken file: %v", err)
	}
}

// The rivals steer too: a reply goes on, with rests between its layers.
func TestRivalsRest(t *testing.T) {
	for name, steer := range map[string]Steer{"chunk-sleep": SteerChunkSleep, "duty": SteerDuty} {
		r := openScripted(t, Spec{Steer: steer})
		r.learnGroup(&llm.Work{Start: 0, End: 1_800_000, Waited: 300 * time.Microsecond, Stops: 3})
		id, err := r.Engine.Submit(request(t, r, "Hi"))
		if err != nil {
			t.Fatal(err)
		}
		if text, end := reply(r, id); text != "Hi" || end.Kind != llm.EventDone {
			t.Errorf("%s: %q, %v %v", name, text, end.Kind, end.Err)
		}
		d := r.Decision()
		if d.Gate != scheduler.GatePaced || d.Pause <= 0 || (d.LayersPerStop == 1) != (steer == SteerDuty) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	r := &Runtime{spec: Spec{Steer: SteerDuty}}
	r.learnGroup(&llm.Work{Start: 0, End: 1_800_000, Waited: 300 * time.Microsecond, Stops: 3})
	r.duty()
	if r.decision.Pause != 500*time.Microsecond {
		t.Errorf("layers of 0.5 ms: a rest of %v, want as long", r.decision.Pause)
	}
	r.learnGroup(&llm.Work{Start: 5, End: 1})
	r.learnGroup(&llm.Work{End: 1e12, Stops: 1})
	if r.duty(); r.decision.Pause != dutyMost {
		t.Errorf("absurd layers: a rest of %v, want %v at most", r.decision.Pause, dutyMost)
	}
}
