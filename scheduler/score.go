package scheduler

import (
	"math"
	"time"
)

// ScoreState says what a Score rests on.
type ScoreState uint8

// States of a score.
const (
	ScoreMissing     ScoreState = iota // no layer was timed lately, or nobody times them
	ScoreGood                          // layers were timed and their undisturbed times are known
	ScoreOldBaseline                   // the same, but the undisturbed times are old: they count half
	ScoreNoBaseline                    // layers were timed, but their undisturbed times are not known
	ScoreDisturbed                     // every sample was cut by a context switch, or absurd
)

var scoreNames = [...]string{"missing", "good", "old-baseline", "no-baseline", "disturbed"}

func (s ScoreState) String() string { return name(scoreNames[:], int(s)) }

// Score is the contention of memory as the model's layers feel it:
//
//	CS = (T - T₀) / T₀
//
// where T is what layers take now and T₀ what they take undisturbed. Sensor
// makes it; any other source may. The zero value is "no score".
type Score struct {
	Value      float64 // CS; 0 undisturbed, 0.25 a quarter slower
	Confidence float64 // [0,1]: how full the window of samples is, and how clean
	At         Instant // of the newest sample in it
	Samples    int     // groups of layers in it
	State      ScoreState
	Learn      bool // calm moments should time the layers one by one
}

// Age is how long ago the newest sample was taken.
func (s Score) Age(now Instant) time.Duration { return max(0, now.Sub(s.At)) }

const (
	// scoreOld is the age from which a score says nothing of now: thirty frames
	// at 60 Hz. A token of a slow model takes a fifth of a second.
	scoreOld = 500 * time.Millisecond

	// confident is the confidence below which a score is not acted on: a
	// quarter of a full and clean window, or half of one with old baselines.
	confident = 0.25

	// scoreNegative is the score below which the baseline must be wrong: no
	// disturbance makes layers faster. Noise of the median stays above it.
	scoreNegative = -0.2

	// scoreMost is the score beyond which it is no matter of memory. Memory
	// stalls grew 3 to 4 times on phones under the heaviest load, which is a
	// score of 3 if a layer did nothing but wait; a thread that lost its core
	// takes ten times as long.
	scoreMost = 3.0
)

// judge names what is wrong with a score, or ReasonStart if nothing is.
func (s *Score) judge(now Instant) Reason {
	switch {
	case s.State == ScoreMissing || s.State > ScoreDisturbed:
		return ReasonScoreMissing
	case s.State == ScoreNoBaseline:
		return ReasonScoreUnbased
	case math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || math.IsNaN(s.Confidence):
		return ReasonScoreNaN
	case s.State == ScoreDisturbed || s.Confidence < confident:
		return ReasonScoreUnsure
	case s.Value > scoreMost || s.Confidence > 1:
		return ReasonScoreAbsurd
	case s.Value < scoreNegative:
		return ReasonScoreNegative
	case s.Age(now) > scoreOld || s.At.Sub(now) > scoreOld:
		return ReasonScoreOld
	}
	return ReasonStart
}
