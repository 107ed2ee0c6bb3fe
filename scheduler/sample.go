package scheduler

import "time"

// Phase is what the game does now, as the game names it.
type Phase uint8

const (
	PhaseExplore    Phase = iota // the player plays; also when the game names no phase
	PhaseDialogue                // the player talks and waits for an answer
	PhaseCombat                  // every frame counts
	PhaseCutscene                // every frame counts, nobody acts
	PhaseMenu                    // the world stands still
	PhaseLoading                 // nobody looks at frames
	PhaseBackground              // the game is not in front
)

var phaseNames = [...]string{"explore", "dialogue", "combat", "cutscene", "menu", "loading", "background"}

func (p Phase) String() string { return name(phaseNames[:], int(p)) }

// free reports whether frames of this phase are nobody's concern, so that the
// LLM and memory work get all there is.
func (p Phase) free() bool { return p == PhaseMenu || p == PhaseLoading || p == PhaseBackground }

// Calm reports whether the game itself wants little of the machine in this
// phase, so that undisturbed times can be measured. Loading streams assets.
func (p Phase) Calm() bool { return p == PhaseMenu || p == PhaseBackground }

// Guarded reports whether every frame of this phase counts, so that no memory
// work runs in it.
func (p Phase) Guarded() bool { return p == PhaseCombat || p == PhaseCutscene }

// ThermalStatus is how hot the device says it is. The order is Android's.
type ThermalStatus uint8

// Thermal states, cold to hot.
const (
	ThermalUnknown  ThermalStatus = iota
	ThermalNone                   // no throttling
	ThermalLight                  // not felt yet
	ThermalModerate               // felt by heavy work
	ThermalSevere                 // clocks fall
	ThermalCritical               // everything that can be dropped is dropped
	ThermalShutdown               // the device is about to switch itself off
)

var thermalNames = [...]string{"unknown", "none", "light", "moderate", "severe", "critical", "shutdown"}

func (s ThermalStatus) String() string { return name(thermalNames[:], int(s)) }

// PowerSource is where the energy comes from.
type PowerSource uint8

// Power sources.
const (
	PowerUnknown PowerSource = iota
	PowerMains
	PowerBattery
	PowerSaver // on battery, and the user asked to save it
)

var powerNames = [...]string{"unknown", "mains", "battery", "saver"}

func (p PowerSource) String() string { return name(powerNames[:], int(p)) }

// HostSignals are facts of the whole device. They change in seconds, not
// frames; a probe thread fills them in. NaN, negative and absurd numbers count
// as unknown.
type HostSignals struct {
	Thermal         ThermalStatus
	ThermalHeadroom float64 // 0 cold, 1 where severe throttling begins, more beyond it; 0 or NaN: unknown
	MemoryPressure  float64 // share of time in which some task waited for memory, [0,1]; 0 or NaN: unknown
	Power           PowerSource
}

// FrameSample is one frame as the game measured it. A busy time of 0 means
// "not measured".
type FrameSample struct {
	Frame      uint64
	Start, End Instant       // of the game's own work; with PresentWait known, End may stand after the wait
	Deadline   Instant       // when the work had to be done; 0: Start + Target, with 2 % of tolerance
	Target     time.Duration // the frame period wanted now; it may change with every frame

	MainBusy, RenderBusy, GPUBusy time.Duration
	PresentWait                   time.Duration // of End-Start, spent blocked in present; counts only if known
	PresentWaitKnown              bool

	// Marked says that the game marks FrameBegin and FrameEnd, so that windows
	// can be published. Without it the gate paces instead.
	Marked bool

	// Quiet says that the gate saw no layer run between Start and End. If such a
	// frame is late, that is the game's doing. False: one ran, or nobody knows.
	Quiet bool

	Phase Phase
	Host  HostSignals
}

// Stage is what the engine's step was for. The first values are llm.Stage's.
type Stage uint8

// Stages.
const (
	StageIdle Stage = iota
	StagePrefill
	StageDecode
	StageVerify
	StageDraft
	StageIndex // memory work: embedding, index insertion, summaries
)

var stageNames = [...]string{"idle", "prefill", "decode", "verify", "draft", "index"}

func (s Stage) String() string { return name(stageNames[:], int(s)) }

// Work is what the engine did since the last report, or only that it now has
// or no longer has something to do.
type Work struct {
	Stage      Stage
	Tokens     int // tokens computed and kept
	Generated  int // tokens of a reply chosen: progress that the player sees
	Threads    int
	Start, End Instant
	Waited     time.Duration // of End-Start, spent at the gate
	Stopped    bool          // nothing was kept
	Pending    int           // requests running or queued after this step; 0: the engine idles

	// Contention is what a Sensor makes of the layer times until then. The zero
	// value keeps the last one.
	Contention Score
}

// DeviceID names a device as the engine underneath does: "CPU", "Vulkan0".
type DeviceID string

// DraftMode says where draft tokens may come from.
type DraftMode uint8

// Sources of drafts.
const (
	DraftOff DraftMode = iota
	DraftNGram
	DraftModel
	DraftModelNGram
)

var draftNames = [...]string{"off", "ngram", "model", "model+ngram"}

func (m DraftMode) String() string { return name(draftNames[:], int(m)) }

// Decision is what the LLM may do until the next one.
type Decision struct {
	Bottleneck      Bottleneck
	Confidence      float64     // of Bottleneck, [0,1]: the share of recent frames that say the same
	Prefill, Decode DeviceID    // may differ
	Offload         bool        // Placement.Offload
	Place           PlaceReason // the rule that chose the devices
	Threads         int         // CPU threads, ≥ 1
	Gate            Gate
	Openness        float64       // from yielding all (0) to taking all (1); 0.5 is the whole idle time
	Margin          time.Duration // GateWindow: it closes this long before the deadline, ≥ 0
	OpenAfter       time.Duration // GateWindow: it opens this long after FrameBegin, or AtFrameEnd
	Pause           time.Duration // GatePaced: rest after each group of layers
	LayersPerStop   int           // layers between two looks at the gate; 0 is all of them
	Draft           DraftMode
	Preempted       bool          // memory is contended: the draft model is left out of Draft
	VerifyWidth     int           // tokens in one verify batch; 1 without drafts
	Sleep           time.Duration // rest between groups of layers for memory's sake, part of Pause or Margin; 0: none
	PrefillChunk    int           // tokens in one prefill batch
	IndexTime       time.Duration // what memory work may use until the next decision
	Reference       time.Duration // what a frame is measured by: Target, or the game's own time where that is longer
	Contention      float64       // the score that was used, 0 without one
	Pressure        float64       // of the contention loop: from giving nothing (0) to giving all (1)
	Memory          Reason        // the rule of the contention loop
	Reason          Reason        // the rule that decided
}

// AtFrameEnd as Decision.OpenAfter keeps the window shut until the game says
// that its work is done.
const AtFrameEnd = time.Duration(1<<63 - 1)

// Reason is the rule that decided. The list is closed.
type Reason uint8

const (
	ReasonStart       Reason = iota // nothing is known yet
	ReasonPhaseFree                 // menu, loading or background: full speed
	ReasonReturn                    // no frame was late: openness creeps back
	ReasonHeadroom                  // the frame has much room and no lateness is owed: openness returns quickly
	ReasonLate                      // a frame was late while the LLM ran: one step back
	ReasonBackOff                   // several late frames in a row: openness is halved
	ReasonNear                      // the game's work nears its limit: openness gives way before frames are late
	ReasonFull                      // openness is as high as it may, and nothing speaks against it
	ReasonHold                      // nothing was learned from this frame: the last decision stands
	ReasonProbe                     // the gate is closed for a few frames to see whether lateness goes away
	ReasonProbeOwn                  // the probe says: late without the LLM too; the reference rises if nearly always
	ReasonProbeGuilty               // the probe says: the LLM's doing
	ReasonClosed                    // yielding all did not help: closed, for a bounded time
	ReasonFloorRelax                // the reply falls behind its floor: the target is relaxed
	ReasonFloorOff                  // the floor is empty: control is off until the reply has moved
	ReasonThermal                   // hot: fewer threads, half the axis
	ReasonThermalStop               // critical heat: closed but for the floor
	ReasonOpenLoop                  // feedback is switched off: openness stays where the preset put it
	ReasonResume                    // back after seconds without frames: careful, nothing learned
	ReasonNoTarget                  // the sample has no usable frame period: the last decision stands
	ReasonBadTimes                  // end before start, or an absurd duration: the last decision stands
	ReasonClockBack                 // the clock went back: the last decision stands
	ReasonSensorLost                // many unusable samples in a row: careful, paced

	// Of the contention loop.
	ReasonMemoryOff     // it is switched off
	ReasonContention    // the score is above its target: the loop gives way
	ReasonPreempt       // several scores in a row were: no draft model meanwhile
	ReasonContentionLow // the score is at its target or below: the loop returns
	ReasonHarmless      // the score is above its target, but frames are punctual: nothing is taken for it
	ReasonScoreMissing  // nobody times layers, or none ran lately
	ReasonScoreUnbased  // layers were timed, but not what they take undisturbed
	ReasonScoreUnsure   // too few samples, or too many cut by context switches
	ReasonScoreNaN      // the score is no number
	ReasonScoreNegative // layers are faster than undisturbed: the baseline is wrong
	ReasonScoreAbsurd   // beyond what memory can do
	ReasonScoreOld      // the newest sample is too old

	// Where the two loops want different things.
	ReasonMemoryFirst // a frame was late and memory is what it waits for: the contention loop gives way, openness holds
	ReasonMemoryHold  // no frame was late, but memory is contended: openness does not return yet
	ReasonFrameFirst  // memory is contended, but frames wait for CPU or GPU: only the frame loop moves
	ReasonNarrow      // memory wants a wide verify batch, the frame a short burst: the frame wins
	ReasonMemoryApart // the score is above its target, but layers run only where the game does not
)

var reasonNames = [...]string{"start", "phase-free", "return", "headroom", "late", "back-off", "near", "full", "hold",
	"probe", "probe-own", "probe-guilty", "closed", "floor-relax", "floor-off", "thermal", "thermal-stop", "open-loop",
	"resume", "no-target", "bad-times", "clock-back", "sensor-lost",
	"memory-off", "contention", "preempt", "contention-low", "harmless", "score-missing", "score-unbased",
	"score-unsure", "score-nan", "score-negative", "score-absurd", "score-old",
	"memory-first", "memory-hold", "frame-first", "narrow", "memory-apart"}

func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// Reasons is the number of reasons, for tables of counts indexed by Reason.
const Reasons = int(ReasonMemoryApart) + 1

var _ = [1]int{}[len(reasonNames)-Reasons] // each reason has a name

// Bottleneck is what the game's frame waits for.
type Bottleneck uint8

// Bottlenecks.
const (
	BoundUnknown Bottleneck = iota
	BoundNone               // everything has room
	BoundCPU
	BoundGPU
	BoundMemory
	BoundThermal
	BoundPresent // a frame cap or the display: no bottleneck, the time is free
)

var boundNames = [...]string{"unknown", "none", "cpu", "gpu", "memory", "thermal", "present-limited"}

func (b Bottleneck) String() string { return name(boundNames[:], int(b)) }
