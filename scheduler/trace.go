package scheduler

import (
	"strconv"
	"time"
)

// Trace appends one line about a frame and the decision after it, without a
// newline, for people to read:
//
//	123 combat 11.2/16.7ms -5.5 | window 0.62 after 5.1ms thr 2 lps 3 chunk 32 | cpu 0.84 | return
//
// That is: frame, phase, work/target and overrun in ms, then gate, openness
// and what goes with the gate, then bottleneck with its confidence, then the
// reason. Where there are devices to choose between, " on CPU>HTP0 fastest" says
// on which the stages run, and by which rule. Where layers are timed, the contention loop stands before it:
//
//	| cs 0.31 press 0.45 sleep 1.2ms preempt |
//
// its score, its pressure and its rule. It allocates only if dst is too small.
func Trace(dst []byte, s FrameSample, d Decision) []byte {
	dst = strconv.AppendUint(dst, s.Frame, 10)
	dst = append(append(dst, ' '), s.Phase.String()...)
	dst = appendMS(append(dst, ' '), s.End.Sub(s.Start))
	dst = appendMS(append(dst, '/'), s.Target)
	dst = append(dst, "ms "...)
	over := overrun(&s)
	if over > 0 {
		dst = append(dst, '+')
	}
	dst = appendMS(dst, over)
	dst = append(dst, " | "...)
	dst = appendDecision(dst, &d)
	switch d.Memory {
	case ReasonStart, ReasonMemoryOff, ReasonPhaseFree:
		return append(append(dst, " | "...), d.Reason.String()...)
	}
	if d.Memory != ReasonScoreMissing || d.Pressure > 0 {
		dst = strconv.AppendFloat(append(dst, " | cs "...), d.Contention, 'f', 2, 64)
		dst = strconv.AppendFloat(append(dst, " press "...), d.Pressure, 'f', 2, 64)
		if d.Sleep > 0 {
			dst = append(appendMS(append(dst, " sleep "...), d.Sleep), "ms"...)
		}
		dst = append(append(dst, ' '), d.Memory.String()...)
	}
	return append(append(dst, " | "...), d.Reason.String()...)
}

func appendDecision(dst []byte, d *Decision) []byte {
	dst = append(append(dst, d.Gate.String()...), ' ')
	dst = strconv.AppendFloat(dst, d.Openness, 'f', 2, 64)
	switch {
	case d.Gate == GatePaced:
		dst = append(appendMS(append(dst, " pause "...), d.Pause), "ms"...)
	case d.Gate == GateWindow && d.OpenAfter != AtFrameEnd:
		dst = append(appendMS(append(dst, " after "...), d.OpenAfter), "ms"...)
	case d.Gate == GateWindow:
		dst = append(appendMS(append(dst, " margin "...), d.Margin), "ms"...)
	}
	dst = strconv.AppendInt(append(dst, " thr "...), int64(d.Threads), 10)
	dst = strconv.AppendInt(append(dst, " lps "...), int64(d.LayersPerStop), 10)
	dst = strconv.AppendInt(append(dst, " chunk "...), int64(d.PrefillChunk), 10)
	if d.Draft != DraftOff {
		dst = append(append(dst, " draft "...), d.Draft.String()...)
		dst = strconv.AppendInt(append(dst, " width "...), int64(d.VerifyWidth), 10)
	}
	if d.Place != PlaceOnly {
		dst = append(append(dst, " on "...), d.Prefill...)
		if d.Offload || d.Decode != d.Prefill {
			dst = append(append(dst, '>'), d.Decode...)
		}
		dst = append(append(dst, ' '), d.Place.String()...)
	}
	if d.IndexTime > 0 {
		dst = append(appendMS(append(dst, " index "...), d.IndexTime), "ms"...)
	}
	dst = append(append(append(dst, " | "...), d.Bottleneck.String()...), ' ')
	return strconv.AppendFloat(dst, d.Confidence, 'f', 2, 64)
}

// appendMS appends tenths of a millisecond, rounded down to them in integers so
// that a trace is the same on every machine.
func appendMS(dst []byte, d time.Duration) []byte {
	const tenth = 100 * time.Microsecond
	n := int64(d / tenth)
	if d < 0 && d%tenth != 0 {
		n-- // towards -∞: an overrun of -0.05 ms is no overrun
	}
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	dst = strconv.AppendInt(dst, n/10, 10)
	return append(dst, '.', byte('0'+n%10))
}
