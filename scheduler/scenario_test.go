package scheduler

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden traces anew")

const hz60 = 1000.0 / 60

type scenario struct {
	name   string
	about  string // first line of the golden
	config func(*Config)
	plant  plant
	frames int
	check  func(*testing.T, []result)
}

func (sc scenario) run(t testing.TB) []result {
	cfg := DefaultConfig()
	cfg.Layers, cfg.MaxThreads, cfg.LowPriorityBase = 30, 2, true
	if sc.config != nil {
		sc.config(&cfg)
	}
	c, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	return sc.plant.run(t, c, sc.frames)
}

// game is a plant whose marks are given, with an LLM like SmolLM2 on 2 cores:
// 11 ms a token.
func game(work stream) plant {
	return plant{work: work, target: constant(hz60), kappa: 0.25, beside: 0.5, tokenMS: 11, marked: true}
}

func scenarios() []scenario {
	return slices.Concat(loadScenarios(), boundScenarios(), sensorScenarios(), limitScenarios(), playScenarios(),
		memoryScenarios())
}

// loadScenarios: the game's work changes, and everything is measured.
func loadScenarios() []scenario {
	return []scenario{
		{
			name:  "steady",
			about: "a light game: 4 ms of work in 16.7 ms; the gate becomes free at once and stays so",
			plant: game(constant(4)), frames: 600,
			check: func(t *testing.T, r []result) {
				wantLate(t, r, 0, 600, 0)
				wantGate(t, r, 60, 600, GateFree)
			},
		},
		{
			name:  "step",
			about: "work steps from 4 to 14.5 ms at frame 200: beside a free gate that is 18.1 ms, every frame late",
			plant: game(constant(4).sum(step(10.5, 200))), frames: 1200,
			check: func(t *testing.T, r []result) {
				wantGate(t, r, 60, 200, GateFree)
				wantLate(t, r, 200, 260, 8)   // settles within 60 frames …
				wantLate(t, r, 260, 1200, 19) // … to a rate that the p* of 1.1 % pays for, and a streak
				wantTokens(t, r, 260, 1200, 1)
			},
		},
		{
			name:  "ramp",
			about: "work rises from 4 to 14.5 ms in 300 frames from frame 100 on",
			plant: game(constant(4).sum(ramp(10.5, 300).delay(100))), frames: 1200,
			check: func(t *testing.T, r []result) {
				wantLate(t, r, 0, 250, 0)
				wantLate(t, r, 250, 1200, 20)
			},
		},
		{
			name:  "oscillate",
			about: "work swings between 5 and 14 ms, twice a second",
			plant: game(constant(9.5).sum(oscillate(4.5, 30))), frames: 1200,
			check: func(t *testing.T, r []result) {
				wantLate(t, r, 60, 1200, 15)
			},
		},
		{
			name:  "outlier",
			about: "one frame of 100 ms at frame 200 in a light game: the LLM loses little",
			plant: game(constant(4).sum(outlier(96, 200))), frames: 600,
			check: func(t *testing.T, r []result) {
				wantLate(t, r, 0, 600, 1)
				wantGate(t, r, 60, 200, GateFree)
				for _, x := range r[200:600] {
					if x.decision.Gate == GateClosed || x.decision.Openness < 0.8 {
						t.Fatalf("frame %d: gate %v, openness %.2f: want no more than a step back",
							x.frame, x.decision.Gate, x.decision.Openness)
					}
				}
				wantGate(t, r, 400, 600, GateFree)
			},
		},
	}
}

// boundScenarios: the game fills its frames, by itself or by a cap.
func boundScenarios() []scenario {
	return []scenario{
		{
			name:  "cpu-bound",
			about: "11 ms of work; the low-priority LLM beside it stalls one frame in 40 by 7 ms",
			plant: func() plant {
				p := game(constant(11).sum(random(0.3, 1)))
				p.kappa, p.stall = 0.03, chance(0.025, 7, 2)
				return p
			}(),
			frames: 3600,
			check: func(t *testing.T, r []result) {
				wantLate(t, r, 0, 3600, 50) // 1.4 %: without feedback it would be 2.5 %, or 90
				wantTokens(t, r, 0, 3600, 25)
			},
		},
		{
			name:  "cap",
			about: "capped at 30: 8 ms of work, then the game waits for its display; no marks, no windows",
			plant: func() plant {
				p := game(constant(8))
				p.target, p.marked = constant(2*hz60), false
				return p
			}(),
			frames: 400,
			check: func(t *testing.T, r []result) {
				wantGate(t, r, 90, 400, GateFree)
				if b := r[399].decision.Bottleneck; b != BoundPresent {
					t.Errorf("bottleneck %v: want present-limited", b)
				}
			},
		},
		{
			name:  "over-budget",
			about: "20 ms of work in 16.7 ms: late without the LLM too, which must not starve",
			plant: game(constant(20).sum(random(0.2, 3))), frames: 1800,
			check: func(t *testing.T, r []result) {
				if !hasReason(r, ReasonProbeOwn) {
					t.Error("no probe found that the game is late by itself")
				}
				wantTokens(t, r, 300, 1800, 8)
				if ref := r[600].decision.Reference; ref < 19*time.Millisecond {
					t.Errorf("reference %v: want the game's own 20 ms", ref)
				}
			},
		},
	}
}

// sensorScenarios: what the game tells is broken.
func sensorScenarios() []scenario {
	return []scenario{
		{
			name:  "sensor-loss",
			about: "from frame 150 to 250 every sample is broken: bad times, no target, a clock that went back",
			plant: func() plant {
				p := game(constant(8))
				p.spoil = func(i int, s *FrameSample) {
					switch {
					case i < 150 || i >= 250:
					case i%3 == 0:
						s.End = s.Start - 1
					case i%3 == 1:
						s.Target = 0
					default:
						*s = FrameSample{}
					}
				}
				return p
			}(),
			frames: 500,
			check: func(t *testing.T, r []result) {
				for _, x := range r[185:250] {
					if x.decision.Reason != ReasonSensorLost || x.decision.Gate != GatePaced {
						t.Fatalf("frame %d: %v, gate %v: want sensor-lost, paced",
							x.frame, x.decision.Reason, x.decision.Gate)
					}
				}
				wantTokens(t, r, 185, 250, 5) // 60 frames: paced, not starved
				if o := r[499].decision.Openness; o < windowShare {
					t.Errorf("frame 500: openness %.2f: want back in half the axis", o)
				}
			},
		},
		{
			name:  "absurd",
			about: "absurd values in single fields, every tenth frame",
			plant: func() plant {
				p := game(constant(8))
				p.spoil = absurd
				return p
			}(),
			frames: 400,
			check: func(t *testing.T, r []result) {
				for _, x := range r {
					if x.decision.Gate == GateClosed {
						t.Fatalf("frame %d: the gate closed for a broken sample", x.frame)
					}
				}
				wantTokens(t, r, 0, 400, 40)
			},
		},
	}
}

// limitScenarios: the floor is all that keeps a reply going.
func limitScenarios() []scenario {
	return []scenario{
		{
			name:  "never-yields",
			about: "frames of 40 ms of a game that asks for 16.7 and never waits; any overlap costs it",
			plant: func() plant {
				p := game(constant(hz60 * 2.4))
				p.kappa, p.beside, p.tokenMS = 0.5, 0.05, 11
				p.spoil = func(_ int, s *FrameSample) { s.Marked = false } // and it does not mark its idle time
				return p
			}(),
			frames: 300,
			check: func(t *testing.T, r []result) {
				wantTokens(t, r, 50, 300, 1.9) // the floor is 2 a second
				if !hasReason(r, ReasonFloorRelax) {
					t.Error("no decision says that the floor decided")
				}
			},
		},
		{
			name:  "starved",
			about: "the same beside an idle-class LLM that gets 1 % of a core: control goes off, the reply goes on",
			plant: func() plant {
				p := game(constant(hz60 * 2.4))
				p.kappa, p.beside, p.tokenMS = 0.02, 0.01, 11
				p.spoil = func(_ int, s *FrameSample) { s.Marked = false }
				p.idle = 0.01
				return p
			}(),
			frames: 600,
			check: func(t *testing.T, r []result) {
				wantTokens(t, r, 100, 600, 0.8) // all that 1 % of a core yields is 0.9
				if !hasReason(r, ReasonFloorOff) {
					t.Error("no decision says that control was off")
				}
				for _, x := range r[200:] {
					if x.decision.Gate != GateFree {
						t.Fatalf("frame %d: gate %v (%v): want free until the reply moves",
							x.frame, x.decision.Gate, x.decision.Reason)
					}
				}
			},
		},
	}
}

// playScenarios: what happens around the frames.
func playScenarios() []scenario {
	return []scenario{
		{
			name:  "phases",
			about: "200 frames each: loading, explore, combat, dialogue, cutscene, menu, explore; 9 ms of work",
			plant: func() plant {
				p := game(constant(9))
				order := []Phase{PhaseLoading, PhaseExplore, PhaseCombat, PhaseDialogue, PhaseCutscene, PhaseMenu,
					PhaseExplore}
				p.phase = func(i int) Phase { return order[i/200] }
				return p
			}(),
			frames: 1400,
			check:  checkPhases,
		},
		{
			name:  "resume",
			about: "the game was in the background for 5 s before frame 200",
			plant: func() plant {
				p := game(constant(6))
				p.away = func(i int) time.Duration {
					if i == 200 {
						return 5 * time.Second
					}
					return 0
				}
				return p
			}(),
			frames: 400,
			check: func(t *testing.T, r []result) {
				for _, x := range r[200:210] {
					if x.decision.Reason != ReasonResume || x.decision.Openness > carefulOpenness {
						t.Fatalf("frame %d: %v, openness %.2f: want resume, careful",
							x.frame, x.decision.Reason, x.decision.Openness)
					}
				}
				wantGate(t, r, 300, 400, GateFree)
			},
		},
		{
			name:  "hot",
			about: "throttling is near from frame 100 to 300, and critical from 200 to 230",
			plant: func() plant {
				p := game(constant(6))
				p.spoil = func(i int, s *FrameSample) {
					if i >= 100 && i < 300 {
						s.Host.ThermalHeadroom = 0.97
					}
					if i >= 200 && i < 230 {
						s.Host.Thermal = ThermalCritical
					}
				}
				return p
			}(),
			frames: 600,
			check: func(t *testing.T, r []result) {
				for _, x := range r[100:300] {
					if d := x.decision; d.Bottleneck != BoundThermal || d.Threads != 1 || d.Openness > carefulOpenness {
						t.Fatalf("frame %d: %v, %d threads, openness %.2f: want thermal, 1, careful",
							x.frame, d.Bottleneck, d.Threads, d.Openness)
					}
				}
				wantGate(t, r, 200, 230, GateClosed)
				wantGate(t, r, 340, 600, GateFree)
			},
		},
	}
}

func absurd(i int, s *FrameSample) {
	if i%10 != 0 {
		return
	}
	switch i / 10 % 8 {
	case 0:
		s.MainBusy = -1
	case 1:
		s.GPUBusy = math.MaxInt64
	case 2:
		s.Host.ThermalHeadroom, s.Host.MemoryPressure = math.NaN(), math.Inf(1)
	case 3:
		s.Target = -time.Second
	case 4:
		s.Deadline = math.MinInt64
	case 5:
		s.End = math.MaxInt64
	case 6:
		s.Phase, s.Host.Thermal = 200, 200
	case 7:
		s.PresentWait, s.PresentWaitKnown = math.MinInt64, true
	}
}

func checkPhases(t *testing.T, r []result) {
	for _, x := range r {
		switch d := x.decision; x.sample.Phase {
		case PhaseLoading, PhaseMenu:
			if d.Gate != GateFree || d.LayersPerStop != 0 || d.IndexTime != indexFree {
				t.Fatalf("frame %d %v: gate %v, lps %d, index %v: want all there is",
					x.frame, x.sample.Phase, d.Gate, d.LayersPerStop, d.IndexTime)
			}
		case PhaseCombat, PhaseCutscene:
			if d.IndexTime != 0 {
				t.Fatalf("frame %d %v: index %v: want none", x.frame, x.sample.Phase, d.IndexTime)
			}
		default:
			if d.IndexTime > indexSlice {
				t.Fatalf("frame %d %v: index %v: want a slice", x.frame, x.sample.Phase, d.IndexTime)
			}
		}
	}
	if d := r[750].decision; d.IndexTime == 0 {
		t.Errorf("dialogue: no index time in a calm frame: %+v", d)
	}
}

func wantLate(t *testing.T, r []result, from, to, most int) {
	t.Helper()
	n := 0
	for _, x := range r[from:to] {
		if x.late {
			n++
		}
	}
	if n > most {
		t.Errorf("frames %d … %d: %d late, want at most %d", from, to, n, most)
	}
}

func wantTokens(t *testing.T, r []result, from, to int, perSecond float64) {
	t.Helper()
	n := 0.0
	for _, x := range r[from:to] {
		n += x.tokens
	}
	seconds := r[to-1].at.Sub(r[from].at).Seconds()
	if n < perSecond*seconds {
		t.Errorf("frames %d … %d: %.0f tokens in %.1f s, want %.1f a second", from, to, n, seconds, perSecond)
	}
}

func wantGate(t *testing.T, r []result, from, to int, g Gate) {
	t.Helper()
	for _, x := range r[from:to] {
		if x.decision.Gate != g {
			t.Errorf("frame %d: gate %v (%v), want %v in frames %d … %d",
				x.frame, x.decision.Gate, x.decision.Reason, g, from, to)
			return
		}
	}
}

func hasReason(r []result, why Reason) bool {
	for _, x := range r {
		if x.decision.Reason == why {
			return true
		}
	}
	return false
}

// TestScenarios runs each scenario, checks its requirement and what holds in
// all of them, and compares the trace with the golden.
func TestScenarios(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			r := sc.run(t)
			sc.check(t, r)
			checkAlways(t, r)
			got := goldenTrace(sc, r)
			path := "testdata/" + sc.name + ".golden"
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v: run go test ./scheduler -update", err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from this run%s\nrun go test ./scheduler -update and look at the diff",
					path, firstDifference(got, want))
			}
		})
	}
}

// checkAlways holds in every scenario: bounds, a bounded closed time, and no
// flapping within the dwell.
func checkAlways(t *testing.T, r []result) {
	t.Helper()
	closed, lastFree, lastThreads := 0, -1000, -1000
	for i, x := range r {
		checkBounds(t, x.decision)
		closed++
		if x.decision.Gate != GateClosed || x.decision.Reason == ReasonThermalStop {
			closed = 0
		}
		if closed > closedFrames {
			t.Fatalf("frame %d: closed for %d frames", x.frame, closed)
		}
		if i == 0 || x.sample.Phase != r[i-1].sample.Phase {
			continue
		}
		was, is := r[i-1].decision, x.decision
		const dwell = 28 // frames in half a second, less what a late frame takes
		if was.Gate == GateFree && is.Gate != GateFree && was.Reason != ReasonFloorOff {
			lastFree = i
		}
		if is.Gate == GateFree && was.Gate != GateFree && is.Reason != ReasonFloorOff && i-lastFree < dwell/2 {
			t.Fatalf("frame %d: free again %d frames after it was not (%v)", x.frame, i-lastFree, is.Reason)
		}
		if is.Threads > was.Threads && i-lastThreads < dwell {
			t.Fatalf("frame %d: threads rise %d frames after the last change", x.frame, i-lastThreads)
		}
		if is.Threads != was.Threads {
			lastThreads = i
		}
	}
}

func checkBounds(t testing.TB, d Decision) {
	t.Helper()
	if !(d.Openness >= 0 && d.Openness <= 1) || !(d.Confidence >= 0 && d.Confidence <= 1) ||
		d.Gate > GateClosed || d.Margin < 0 || d.OpenAfter < 0 || d.Pause < 0 || d.Pause > pauseMax ||
		d.Threads < 1 || d.LayersPerStop < 0 || d.VerifyWidth < 1 || d.PrefillChunk < 1 ||
		d.IndexTime < 0 || d.IndexTime > indexFree || d.Reference < 0 ||
		int(d.Reason) >= Reasons || int(d.Bottleneck) >= len(boundNames) || d.Decode == "" || d.Prefill == "" {
		t.Fatalf("decision out of bounds: %+v", d)
	}
}

// goldenTrace prints the frames whose decision differs from the last printed
// one, as far as a reader cares: openness by a tenth, no margins and durations.
func goldenTrace(sc scenario, r []result) []byte {
	type key struct {
		gate                   Gate
		threads, layers, chunk int
		bound                  Bottleneck
		why, memory            Reason
		width                  int
		sleeps                 bool
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n", sc.name, sc.about)
	b.WriteString("# frame phase work/target overrun | gate openness … | " +
		"bottleneck confidence | reason; changes only\n")
	var last key
	late, tokens, openness := 0, 0.0, 0.0
	for i, x := range r {
		d := x.decision
		k := key{d.Gate, d.Threads, d.LayersPerStop, d.PrefillChunk, d.Bottleneck, d.Reason, d.Memory, d.VerifyWidth,
			d.Sleep > 0}
		if i == 0 || k != last || math.Abs(d.Openness-openness) >= 0.1 {
			openness = d.Openness
			b.Write(append(Trace(nil, x.sample, d), '\n'))
		}
		last = k
		if x.late {
			late++
		}
		tokens += x.tokens
	}
	fmt.Fprintf(&b, "# %d frames, %d late, %.0f tokens\n", len(r), late, tokens)
	return b.Bytes()
}

func firstDifference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			return fmt.Sprintf(" in line %d:\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf(": %d lines, want %d", len(g), len(w))
}
