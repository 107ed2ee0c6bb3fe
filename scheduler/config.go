package scheduler

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// ErrConfig is wrapped by every error about a Config, a preset or a feature.
var ErrConfig = errors.New("scheduler: bad config")

// Preset is a named set of wishes. Custom keeps what stands in the Config.
type Preset uint8

// Presets.
const (
	Balanced Preset = iota
	UIFirst         // the game before everything
	LLMFirst        // the reply before some frames
	Custom
)

var presetNames = [...]string{"balanced", "ui-first", "llm-first", "custom"}

func (p Preset) String() string { return name(presetNames[:], int(p)) }

// ParsePreset finds a preset by its name.
func ParsePreset(s string) (Preset, error) {
	for i, n := range presetNames {
		if n == s {
			return Preset(i), nil
		}
	}
	return 0, fmt.Errorf("%w: no preset %q: want one of %s", ErrConfig, s, strings.Join(presetNames[:], ", "))
}

// Features are the parts that can be switched off one by one, to see what each
// is worth.
type Features uint16

// Features, each a bit.
const (
	FeatureWindow   Features = 1 << iota // windows in the frame's idle time; without: the gate paces
	FeatureLowPrio                       // a low-priority base; without: LowPriorityBase counts as false
	FeatureThreads                       // fewer threads under pressure; without: always MaxThreads
	FeatureProbe                         // the active probe; without: lateness is always the LLM's
	FeatureFeedback                      // the frame loop; without: openness stays at StartOpenness
	FeatureBucket                        // the floor; without: a reply may starve

	FeatureContention // the contention loop; without: nothing moves for memory's sake
	FeaturePreempt    // it stops drafts of the draft model; without: they go on
	FeatureNGram      // drafts filled from patterns; without: only the draft model drafts
	FeatureBatching   // it widens verify batches; without: they are as wide as the engine can
	FeatureSleep      // it rests between groups of layers; without: it doesn't

	AllFeatures Features = 1<<iota - 1
)

var featureNames = [...]string{"window", "lowprio", "threads", "probe", "feedback", "bucket",
	"contention", "preempt", "ngram", "batching", "sleep"}

// ContentionOnly are the features of the contention loop with its floor, and
// none of the frame loop.
const ContentionOnly = memoryFeatures | FeatureBucket

// memoryFeatures are those of the contention loop, frameFeatures of the frame
// loop.
const (
	memoryFeatures = FeatureContention | FeaturePreempt | FeatureNGram | FeatureBatching | FeatureSleep
	frameFeatures  = FeatureWindow | FeatureLowPrio | FeatureThreads | FeatureProbe | FeatureFeedback
)

// Has reports whether all of g are in f.
func (f Features) Has(g Features) bool { return f&g == g }

// String lists the names in f, split by commas.
func (f Features) String() string {
	var names []string
	for i, n := range featureNames {
		if f.Has(1 << i) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// FeatureNames lists the names that ParseFeatures knows, in a fixed order.
func FeatureNames() []string { return append([]string(nil), featureNames[:]...) }

// ParseFeatures reads a list of names split by commas. Empty is none; spaces
// around a name are ignored.
func ParseFeatures(s string) (Features, error) {
	var f Features
	for _, field := range strings.Split(s, ",") {
		field = strings.TrimSpace(field)
		if field == "" {
			continue
		}
		bit := Features(0)
		for i, n := range featureNames {
			if n == field {
				bit = 1 << i
			}
		}
		if bit == 0 {
			return 0, fmt.Errorf("%w: no feature %q: want some of %v", ErrConfig, field, AllFeatures)
		}
		f |= bit
	}
	return f, nil
}

// DeviceTable says where the LLM can run. With one device every stage runs
// there.
type DeviceTable struct {
	Default DeviceID

	// Profile lets the controller choose between devices; nil, or one device,
	// leaves everything on Default.
	Profile *PlacementProfile
}

// place chooses the devices of the two stages.
func (t DeviceTable) place() (prefill, decode DeviceID) { return t.Default, t.Default }

// Config says what there is and what is wanted. DefaultConfig is complete.
type Config struct {
	Preset   Preset
	Features Features

	// What there is.
	LowPriorityBase bool        // the LLM's threads run only where nobody else wants the core (SCHED_IDLE, EcoQoS)
	MaxThreads      int         // threads of the LLM's pool, 1 … 256
	Layers          int         // of the model, 0 … 4096; 0: unknown, the gate is asked after each
	MaxPrefillChunk int         // tokens the model takes in one batch, 1 … 65536
	MinPrefillChunk int         // below it a batch hardly takes less time, 0 … MaxPrefillChunk; at least 8
	Draft           DraftMode   // the sources that the engine has
	MaxVerifyWidth  int         // tokens in one verify batch, 1 … 256
	Devices         DeviceTable // where it can run

	// What is wanted. A preset other than Custom sets these by WithPreset.
	LateAllowance        float64 // share of frames that the LLM may make late, beyond the game's own; 0.0005 … 0.5
	FloorTokensPerSecond float64 // of a running reply, however the game fares; 0.1 … 1000
	StartOpenness        float64 // where the axis begins, [0,1]
	ContentionTarget     float64 // score of contention that is tolerated, 0.01 … 2

	// TakeBack is for how long the low-priority base may keep a core though one of
	// the game's threads waits, 0 … 100 ms. Layers run beside the game's work only
	// where frames have as much room; 0: anywhere.
	TakeBack time.Duration

	// How the loop moves. Seldom changed.
	Headroom    float64       // share of the reference that should stay free, 0 … 0.5
	StepBack    float64       // openness lost by one late frame, 0.001 … 1
	MarginMax   float64       // widest margin before the deadline, share of Target, 0 … 0.9
	StopQuantum time.Duration // run time between two looks at the gate, 50 µs … 100 ms
	FloorSpan   time.Duration // how long a reply may stand still before control is off, 100 ms … 1 min
	Dwell       time.Duration // no actuator takes more again sooner than this after a change, 0 … 10 s
}

// takeBack is what Linux takes, at the 250 Hz that distributions build it with. A
// thread of the lowest class that has got a core keeps it until the timer's next
// tick, since the kernel owes it its three thousandths of the core; the game's
// thread waits there for 2.4 to 4 ms (traced with perf beside cpu-bound-60 and -120,
// in every thirtieth frame). A millisecond more is for what the frame loses besides.
const takeBack = 5 * time.Millisecond

// leastChunk is how many tokens of a prompt go into one batch at least.
func (c *Config) leastChunk() int { return max(chunkMin, c.MinPrefillChunk) }

// DefaultConfig is the balanced preset for a model whose size is unknown, on a
// pool of one thread without a low-priority base.
func DefaultConfig() Config {
	return Config{
		Features:        AllFeatures,
		MaxThreads:      1,
		MaxPrefillChunk: 512,
		MaxVerifyWidth:  1,
		Devices:         DeviceTable{Default: "CPU"},

		// A tenth of the reference: Unreal's dynamic resolution keeps the same
		// share free (r.DynamicRes.TargetedGPUHeadRoomPercentage).
		Headroom: 0.1,
		// One late frame takes a tenth of the axis. At an allowance of 0.6 % it
		// is won back in 90 frames. Twice as much makes openness wander
		// by a quarter of the axis at rest, half as much takes 20 s to settle.
		StepBack: 0.1,
		// 3.3 ms at 60 Hz: eight layers of SmolLM2-135M on one thread.
		MarginMax: 0.2,
		// A group that overshoots its window by this much moves a 60 Hz frame by
		// 12 %; each halt wakes the pool anew. Beside cpu-bound-60 on 2 cores 4 ms
		// gave as many late frames as 1 ms and a tenth more tokens; 2 ms leaves
		// room for slower wakes elsewhere.
		StopQuantum: 2 * time.Millisecond,
		// Long enough for a scene's worst second, short enough that nobody
		// thinks the character has left.
		FloorSpan: 3 * time.Second,
		// 30 frames at 60 Hz: the windows of the classifier forget in 16.
		Dwell: 500 * time.Millisecond,
	}.WithPreset(Balanced)
}

// WithPreset returns c with the wishes of p. Custom changes nothing but the
// name.
func (c Config) WithPreset(p Preset) Config {
	c.Preset = p
	switch p {
	case Balanced:
		// Late frames are counted beyond the game's own: 0.6 % leaves room for
		// error below the 1 % that players of paired runs accept.
		c.LateAllowance, c.FloorTokensPerSecond, c.StartOpenness = 0.006, 2, 0.5
		// A core that streams 10 GB/s beside the model scored 0.2 on the 2-core
		// machine this was written on, and 5 GB/s next to nothing: 0.15 acts
		// between them.
		c.ContentionTarget = 0.15
		c.TakeBack = takeBack
	case UIFirst:
		c.LateAllowance, c.FloorTokensPerSecond, c.StartOpenness = 0.002, 1, 0.25
		c.ContentionTarget = 0.08 // about twice the noise of the score
		c.TakeBack = takeBack
	case LLMFirst:
		c.LateAllowance, c.FloorTokensPerSecond, c.StartOpenness = 0.03, 6, 0.9
		c.ContentionTarget = 0.4 // only where the reply itself loses a third of its speed
		c.TakeBack = 0           // each core for as long as the system leaves it
	}
	return c
}

// Validate reports the first field that is out of range; the error wraps
// ErrConfig.
func (c Config) Validate() error {
	for _, f := range []struct {
		name         string
		v, low, high float64
	}{
		{"Preset", float64(c.Preset), 0, float64(Custom)},
		{"Features", float64(c.Features), 0, float64(AllFeatures)},
		{"MaxThreads", float64(c.MaxThreads), 1, 256},
		{"Layers", float64(c.Layers), 0, 4096},
		{"MaxPrefillChunk", float64(c.MaxPrefillChunk), 1, 65536},
		{"MinPrefillChunk", float64(c.MinPrefillChunk), 0, float64(c.MaxPrefillChunk)},
		{"Draft", float64(c.Draft), 0, float64(DraftModelNGram)},
		{"MaxVerifyWidth", float64(c.MaxVerifyWidth), 1, 256},
		{"LateAllowance", c.LateAllowance, 0.0005, 0.5},
		{"FloorTokensPerSecond", c.FloorTokensPerSecond, 0.1, 1000},
		{"StartOpenness", c.StartOpenness, 0, 1},
		{"ContentionTarget", c.ContentionTarget, 0.01, 2},
		{"Headroom", c.Headroom, 0, 0.5},
		{"StepBack", c.StepBack, 0.001, 1},
		{"MarginMax", c.MarginMax, 0, 0.9},
	} {
		if math.IsNaN(f.v) || f.v < f.low || f.v > f.high {
			return fmt.Errorf("%w: %s %v: want %v … %v", ErrConfig, f.name, f.v, f.low, f.high)
		}
	}
	for _, f := range []struct {
		name         string
		v, low, high time.Duration
	}{
		{"StopQuantum", c.StopQuantum, 50 * time.Microsecond, 100 * time.Millisecond},
		{"TakeBack", c.TakeBack, 0, 100 * time.Millisecond},
		{"FloorSpan", c.FloorSpan, 100 * time.Millisecond, time.Minute},
		{"Dwell", c.Dwell, 0, 10 * time.Second},
	} {
		if f.v < f.low || f.v > f.high {
			return fmt.Errorf("%w: %s %v: want %v … %v", ErrConfig, f.name, f.v, f.low, f.high)
		}
	}
	return nil
}
