package scheduler

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// memoryPlant is memory that game and LLM share. The game asks for G GB/s, the
// LLM for as many as its work of the moment reads:
//
//	D = demand · width · duty     width: 1 with a draft model, else 0.9 at 4, 0.82 at 8, 0.78 at 16
//	over = max(0, G + D - capacity) / capacity
//
// Layers take 1 + feels·over times as long, the game's work 1 + harms·over.
type memoryPlant struct {
	stream           stream // G
	capacity, demand float64
	feels, harms     float64
	noise            stream // of a layer's time, relative; or nil

	drift func(frame int) float64       // or nil: clock of the device, 1 is the one of the baselines
	spoil func(frame int, s *Score)     // or nil: what the sensor's reader makes of it
	calm  func(frame int, p Phase) bool // or nil: the phase's own calm

	shared bool // between both loops; else the contention loop is alone
	sensor *Sensor
	g, cs  float64
}

const (
	plantLayers = 8
	plantLayer  = 500 * time.Microsecond
)

func phone(game stream) *memoryPlant {
	m := &memoryPlant{stream: game, capacity: 77, demand: 40, feels: 1.5, harms: 1, noise: random(0.04, 7)}
	m.sensor = plantSensor()
	return m
}

func plantSensor() *Sensor {
	row := BaselineRow{Draft: true, Width: 1, Threads: 2,
		Layers: slices.Repeat([]time.Duration{plantLayer}, plantLayers+1)}
	s, err := NewSensor("CPU", 30, plantLayers, Baselines{Device: "CPU", Rows: []BaselineRow{row}})
	if err != nil {
		panic(err)
	}
	s.rows[0].known = true
	return s
}

func (m *memoryPlant) over(d Decision, o float64) float64 {
	factor := 1.0
	if d.Draft != DraftModel && d.Draft != DraftModelNGram {
		switch {
		case d.VerifyWidth >= 16:
			factor = 0.78
		case d.VerifyWidth >= 8:
			factor = 0.82
		case d.VerifyWidth >= 4:
			factor = 0.9
		}
	}
	return max(0, m.g+float64(float64(m.demand*factor)*o)-m.capacity) / m.capacity
}

// slows is by how much the game's work is slowed in a frame.
func (m *memoryPlant) slows(d Decision, o float64) float64 {
	m.g = m.stream()
	return float64(m.harms * m.over(d, o))
}

// score feeds the sensor with the layers of one draft token.
func (m *memoryPlant) score(frame int, at Instant, d Decision, phase Phase) Score {
	o := 1.0
	if d.Gate == GatePaced {
		o = duty(d.Pause)
	}
	m.cs = float64(m.feels * m.over(d, o))
	calm := phase.Calm()
	if m.calm != nil {
		calm = m.calm(frame, phase)
	}
	for l := range plantLayers {
		t := float64(plantLayer) * (1 + m.cs)
		if m.noise != nil {
			t *= 1 + m.noise()
		}
		if m.drift != nil {
			t *= m.drift(frame)
		}
		x := LayerSample{Draft: true, First: l, Last: l, Width: 1, Threads: 2, Duration: time.Duration(t)}
		m.sensor.Add(x, at, calm)
	}
	m.sensor.Add(LayerSample{Draft: true, First: plantLayers, Last: plantLayers, Width: 1, Threads: 2,
		Duration: plantLayer}, at, calm)
	s := m.sensor.Score(at)
	if m.spoil != nil {
		m.spoil(frame, &s)
	}
	return s
}

// sereno is the contention loop alone.
func sereno(c *Config) {
	c.Features = memoryFeatures | FeatureBucket
	c.LowPriorityBase, c.StartOpenness = false, 1
	c.Draft, c.MaxVerifyWidth, c.Layers = DraftModelNGram, 16, 30
}

func both(c *Config) { c.Draft, c.MaxVerifyWidth = DraftModelNGram, 16 }

func memoryGame(work float64, m *memoryPlant) plant {
	p := game(constant(work))
	p.kappa, p.memory = 0.02, m
	return p
}

// memoryScenarios: the game contends for memory.
func memoryScenarios() []scenario {
	return slices.Concat(serenoScenarios(), scoreScenarios(), twoLoopScenarios())
}

func serenoScenarios() []scenario {
	return []scenario{
		{
			name: "memory-step", config: sereno, frames: 600,
			about: "the game streams 60 of 77 GB/s from frame 120 to 420; contention loop alone, target 0.15",
			plant: memoryGame(9, phone(step(60, 120).sum(step(-60, 420)))),
			check: func(t *testing.T, r []result) {
				wantSettled(t, r, 150, 420, 0.15) // within 30 frames
				wantPressure(t, r, 0, 120, 0, 0)
				wantPreempted(t, r, 135, 420)
				wantPressure(t, r, 540, 600, 0, 0) // and back within 120
				wantTokens(t, r, 150, 420, 10)
			},
		},
		{
			name: "memory-ramp", config: sereno, frames: 900,
			about: "the stream rises from 0 to 70 GB/s in 300 frames: draft first, then width, then sleep",
			plant: memoryGame(9, phone(ramp(70, 300).delay(60))),
			check: func(t *testing.T, r []result) {
				wantSettled(t, r, 400, 900, 0.15)
				preempt := first(r, preempted)
				wide := first(r, func(d Decision) bool { return d.VerifyWidth == 16 && preempted(d) })
				sleep := first(r, func(d Decision) bool { return d.Sleep > 0 })
				if !(preempt > 60 && preempt <= wide && wide < sleep) {
					t.Errorf("draft dropped at %d, wide at %d, sleep at %d: want this order", preempt, wide, sleep)
				}
			},
		},
		{
			name: "memory-oscillate", config: sereno, frames: 900,
			about: "the stream swings between 20 and 70 GB/s once a second",
			plant: memoryGame(9, phone(constant(45).sum(oscillate(25, 60)))),
			check: func(t *testing.T, r []result) {
				if n := changes(r, preempted); n > 2*900/30 {
					t.Errorf("the draft changed %d times in 900 frames: want no flapping", n)
				}
				wantTokens(t, r, 60, 900, 10)
			},
		},
		{
			name: "memory-outlier", config: sereno, frames: 300,
			about: "every 50th token's score is 2.9, for one frame: chance, no contention",
			plant: func() plant {
				m := phone(constant(0))
				m.spoil = func(i int, s *Score) {
					if i%50 == 49 {
						s.Value = 2.9
					}
				}
				return memoryGame(9, m)
			}(),
			check: func(t *testing.T, r []result) {
				if i := first(r, preempted); i >= 0 {
					t.Errorf("frame %d: the draft was dropped for one odd score", i)
				}
			},
		},
	}
}

func scoreScenarios() []scenario {
	return []scenario{
		{
			name: "memory-sensor-loss", config: sereno, frames: 500,
			about: "contention from frame 60 on; from 150 to 350 the scores are broken in each of the ways there are",
			plant: func() plant {
				m := phone(step(60, 60))
				m.spoil = spoilScore
				return memoryGame(9, m)
			}(),
			check: func(t *testing.T, r []result) {
				for _, why := range []Reason{ReasonScoreMissing, ReasonScoreUnbased, ReasonScoreUnsure, ReasonScoreNaN,
					ReasonScoreNegative, ReasonScoreAbsurd, ReasonScoreOld} {
					if first(r, func(d Decision) bool { return d.Memory == why }) < 0 {
						t.Errorf("no frame says %v", why)
					}
				}
				wantPressure(t, r, 340, 350, 0, 0)
				wantSettled(t, r, 390, 500, 0.15)
			},
		},
		{
			name: "memory-stale", config: sereno, frames: 1200,
			about: "from frame 100 on the hot device is 30 % slower, without contention; " +
				"at 500 comes a menu, where that is measured",
			plant: func() plant {
				m := phone(constant(0))
				m.drift = func(i int) float64 {
					if i >= 100 {
						return 1.3
					}
					return 1
				}
				p := memoryGame(9, m)
				p.phase = func(i int) Phase {
					if i >= 500 && i < 600 {
						return PhaseMenu
					}
					return PhaseExplore
				}
				p.away = func(i int) time.Duration {
					if i == 90 { // so that the baselines are old when the menu comes
						return baselineLife
					}
					return 0
				}
				return p
			}(),
			check: func(t *testing.T, r []result) {
				wantPreempted(t, r, 200, 500)
				for _, x := range r[500:508] {
					if x.decision.LayersPerStop != 1 {
						t.Fatalf("frame %d: %d layers per stop in the menu: want 1, to measure",
							x.frame, x.decision.LayersPerStop)
					}
				}
				if d := r[520].decision; d.LayersPerStop != 0 {
					t.Errorf("frame 520: %d layers per stop: want all, it was measured", d.LayersPerStop)
				}
				wantPressure(t, r, 601, 1200, 0, 0)
			},
		},
		{
			name: "memory-floor", frames: 1500,
			config: func(c *Config) { sereno(c); c.FloorTokensPerSecond, c.FloorSpan = 30, time.Second },
			about:  "contention that never ends, and a floor of 30 tokens a second: relaxed, off, back",
			plant: func() plant {
				m := phone(constant(76))
				p := memoryGame(9, m)
				p.tokenMS = 18
				return p
			}(),
			check: func(t *testing.T, r []result) {
				if first(r, func(d Decision) bool { return d.Memory == ReasonFloorRelax }) < 0 ||
					first(r, func(d Decision) bool { return d.Memory == ReasonFloorOff }) < 0 {
					t.Error("the floor is not visible: want floor-relax, then floor-off")
				}
				wantTokens(t, r, 900, 1500, 28)
			},
		},
	}
}

func twoLoopScenarios() []scenario {
	return []scenario{
		{
			name: "memory-frames", config: both, frames: 900,
			about: "both loops: 11 ms of work, 70 GB/s from frame 100 on; memory gives way first, openness holds",
			plant: func() plant {
				m := phone(step(70, 100))
				m.harms = 2
				p := memoryGame(11, m)
				p.demand = func(i int) bool { return i >= 60 } // so that the game is seen without the LLM
				return p
			}(),
			check: func(t *testing.T, r []result) {
				wantLate(t, r, 100, 160, 8)
				wantLate(t, r, 160, 900, 14) // 1.1 % are paid for, and a burst
				if first(r, func(d Decision) bool { return d.Reason == ReasonMemoryFirst }) < 0 {
					t.Error("no frame says memory-first")
				}
				if first(r, func(d Decision) bool { return d.Bottleneck == BoundMemory }) < 0 {
					t.Error("memory was never named the bottleneck")
				}
				wantTokens(t, r, 160, 900, 8)
			},
		},
		{
			name: "memory-harmless", config: both, frames: 400,
			about: "both loops: 4 ms of work beside 70 GB/s: memory is contended, no frame minds, and nothing is taken",
			plant: memoryGame(4, phone(step(70, 60))),
			check: func(t *testing.T, r []result) {
				wantPressure(t, r, 0, 400, 0, 0)
				wantGate(t, r, 60, 400, GateFree)
				if first(r, func(d Decision) bool { return d.Memory == ReasonHarmless }) < 0 {
					t.Error("no frame says harmless")
				}
			},
		},
		{
			name: "memory-conflict", config: both, frames: 900,
			about: "both loops: memory is contended from frame 60 on; at 400 the game's own work rises to 15.5 ms, " +
				"which shows between two replies, so the CPU counts",
			plant: func() plant {
				m := phone(step(70, 60))
				m.harms = 2
				p := memoryGame(11, m)
				p.work = constant(11).sum(step(4.5, 400))
				p.demand = func(i int) bool { return i >= 60 && (i < 400 || i >= 430) }
				return p
			}(),
			check: func(t *testing.T, r []result) {
				for _, x := range r[460:] {
					if d := x.decision; d.Bottleneck == BoundCPU && d.Memory != ReasonFrameFirst &&
						d.Memory != ReasonContentionLow && d.Memory != ReasonScoreOld &&
						d.Memory != ReasonScoreMissing {
						t.Fatalf("frame %d: bound by CPU, but the contention loop says %v", x.frame, d.Memory)
					}
					if d := x.decision; d.Bottleneck == BoundCPU && d.VerifyWidth > calmWidth(16) {
						t.Fatalf("frame %d: bound by CPU, but verify batches of %d: want the narrow ones",
							x.frame, d.VerifyWidth)
					}
				}
				for _, why := range []Reason{ReasonMemoryFirst, ReasonMemoryHold} {
					if !hasReason(r, why) {
						t.Errorf("no frame says %v", why)
					}
				}
				if first(r, func(d Decision) bool { return d.Memory == ReasonFrameFirst }) < 0 {
					t.Error("no frame says frame-first")
				}
			},
		},
	}
}

func spoilScore(i int, s *Score) {
	if i < 150 || i >= 350 {
		return
	}
	switch (i - 150) / 10 % 7 {
	case 0:
		*s = Score{State: ScoreMissing, Learn: true}
	case 1:
		s.State = ScoreNoBaseline
	case 2:
		s.Confidence = 0.1
	case 3:
		s.Value = math.NaN()
	case 4:
		s.Value = -0.9
	case 5:
		s.Value = 1e300
	case 6:
		s.At = s.At.Add(-time.Minute)
	}
}

func preempted(d Decision) bool { return d.Draft == DraftNGram }

func first(r []result, f func(Decision) bool) int {
	return slices.IndexFunc(r, func(x result) bool { return f(x.decision) })
}

func changes(r []result, f func(Decision) bool) int {
	n := 0
	for i := range r[1:] {
		n += bit(f(r[i].decision) != f(r[i+1].decision))
	}
	return n
}

// wantSettled: the mean contention is near the target or below it.
func wantSettled(t *testing.T, r []result, from, to int, target float64) {
	t.Helper()
	sum, worst := 0.0, 0.0
	for _, x := range r[from:to] {
		sum, worst = sum+x.cs, max(worst, x.cs)
	}
	if mean := sum / float64(to-from); mean > 1.2*target || worst > 3*target {
		t.Errorf("frames %d … %d: contention %.3f on average, %.3f at most: want %.3f", from, to, mean, worst, target)
	}
}

func wantPressure(t *testing.T, r []result, from, to int, low, high float64) {
	t.Helper()
	for _, x := range r[from:to] {
		if p := x.decision.Pressure; p < low || p > high {
			t.Errorf("frame %d: pressure %.3f (%v), want %v … %v in frames %d … %d",
				x.frame, p, x.decision.Memory, low, high, from, to)
			return
		}
	}
}

func wantPreempted(t *testing.T, r []result, from, to int) {
	t.Helper()
	for _, x := range r[from:to] {
		if !preempted(x.decision) {
			t.Errorf("frame %d: draft %v (%v), want it dropped in frames %d … %d",
				x.frame, x.decision.Draft, x.decision.Memory, from, to)
			return
		}
	}
}

// randomMemory is contention of any kind, with a sensor that may be broken.
func randomMemory(rt *rapid.T, seed uint64) *memoryPlant {
	draw := func(name string, low, high float64) float64 { return rapid.Float64Range(low, high).Draw(rt, name) }
	m := phone(constant(draw("stream", 0, 77)).sum(oscillate(draw("stream swing", 0, 40), 61)).limit(0, 90))
	m.feels, m.harms, m.demand = draw("feels", 0, 4), draw("harms", 0, 3), draw("demand", 5, 77)
	m.noise = random(draw("layer noise", 0, 0.5), seed+3)
	broken := chance(draw("broken score", 0, 0.3), 1, seed+4)
	m.spoil = func(i int, s *Score) {
		if broken() > 0 {
			spoilScore(150+10*(i%7), s)
		}
	}
	m.shared = rapid.Bool().Draw(rt, "both loops")
	return m
}
