package scheduler

import (
	"cmp"
	"testing"
	"time"
)

// plant is a game and an LLM on one machine, as simple as can be:
//
// The game's frame takes W ms of work alone. While it works, the gate is open
// for a share o of that time (free: 1; window: from Open on; paced: the duty
// q/(q+pause); closed: 0). The LLM beside it slows it by kappa: the work ends
// after
//
//	F = W·(1 + kappa·o) + stall·o
//
// where stall is a stream of rare delays, such as a thread that lost its core.
// Frames start on the grid of their target; a late one takes the next free
// line. The LLM computes during all the time the gate is open, at full speed
// in the idle part of the frame and at the share beside in the game's part. A
// token takes tokenMS of full speed, so
//
//	tokens = (idle time open + beside·o·F) / tokenMS
type plant struct {
	work    stream // W, ms
	target  stream // ms
	kappa   float64
	stall   stream // ms, or nil
	beside  float64
	idle    float64 // speed in the idle time, 0: full
	tokenMS float64

	memory *memoryPlant // or nil: no contention of memory, and nobody times layers

	marked bool                            // the game marks its frames; else one sample per frame
	phase  func(frame int) Phase           // or nil: explore
	demand func(frame int) bool            // or nil: always
	away   func(frame int) time.Duration   // or nil: gap before the frame
	spoil  func(frame int, s *FrameSample) // or nil: what the sensor makes of the sample
}

// result is one frame of a run.
type result struct {
	cs float64 // true contention

	frame    int
	at       Instant // of its begin
	sample   FrameSample
	decision Decision
	late     bool // by the grid, whatever the controller was told
	tokens   float64
	closed   bool    // the gate was closed while the frame ran
	ran      float64 // ms that the LLM computed
}

// run drives a controller through frames.
func (p plant) run(t testing.TB, c *Controller, frames int) []result {
	var (
		m       Marks
		now     Instant = 1_000_000_000
		banked  float64 // computed ms that are no whole token yet
		results []result
	)
	ms := func(x float64) time.Duration { return time.Duration(x * 1e6) }
	for i := range frames {
		target := ms(p.target())
		if p.away != nil {
			now = now.Add(p.away(i))
		}
		before := Window{Gate: c.last.Gate, Pause: c.last.Pause}
		if p.marked {
			before, _ = m.Begin(uint64(i+1), target, now)
		}
		w := max(p.work(), 0)
		o := openShare(before, c.last.Gate, now, ms(w))
		f := float64(w * (1 + float64(p.kappa*o)))
		if p.memory != nil {
			f = float64(f * (1 + p.memory.slows(c.last, o)))
		}
		if p.stall != nil {
			f += float64(p.stall() * o)
		}
		end, deadline := now.Add(ms(f)), now.Add(target)
		s := FrameSample{Frame: uint64(i + 1), Start: now, End: end, Target: target}
		if p.marked {
			s, _ = m.End(uint64(i+1), deadline, end)
		}
		if p.phase != nil {
			s.Phase = p.phase(i)
		}
		next := nextLine(deadline, target, end)
		if !p.marked {
			s.End, s.MainBusy = next, ms(f)
			s.PresentWait, s.PresentWaitKnown = next.Sub(end), true
		}
		if p.spoil != nil {
			p.spoil(i, &s)
		}
		wasClosed := c.last.Gate == GateClosed
		d := c.Step(s)
		after := Window{Gate: d.Gate, Pause: d.Pause}
		if p.marked {
			after = m.Plan(d)
		}
		ran := float64(p.beside*o*f) + float64(cmp.Or(p.idle, 1)*openTime(after, end, next))
		tokens := 0.0
		if p.demand == nil || p.demand(i) {
			banked += ran
			tokens = float64(int(banked / p.tokenMS))
			banked -= float64(tokens * p.tokenMS)
			work := Work{Stage: StageDecode, Tokens: int(tokens), Generated: int(tokens), Threads: d.Threads,
				Start: now, End: now.Add(ms(tokens * p.tokenMS)), Pending: 1}
			if p.memory != nil {
				work.Contention = p.memory.score(i, end, c.last, s.Phase)
			}
			c.Report(work)
		} else {
			banked = 0
			c.Report(Work{})
		}
		results = append(results, result{p.contention(), i, now, s, d, end > deadline, tokens, wasClosed, ran})
		now = next
	}
	return results
}

func (p plant) contention() float64 {
	if p.memory == nil {
		return 0
	}
	return p.memory.cs
}

// openShare is o.
func openShare(w Window, gate Gate, now Instant, work time.Duration) float64 {
	switch {
	case gate == GateFree:
		return 1
	case gate == GatePaced:
		return duty(w.Pause)
	case gate == GateWindow && w.Close > w.Open && work > 0:
		return float64(min(max(now.Add(work).Sub(w.Open), 0), work)) / float64(work)
	}
	return 0
}

// openTime is how many ms the gate is open between the game's end of work and
// its next frame.
func openTime(w Window, from, to Instant) float64 {
	const ms = float64(time.Millisecond)
	switch w.Gate {
	case GateFree:
		return float64(to.Sub(from)) / ms
	case GatePaced:
		return duty(w.Pause) * float64(to.Sub(from)) / ms
	case GateWindow:
		return float64(max(min(w.Close, to).Sub(max(w.Open, from)), 0)) / ms
	}
	return 0
}

// duty is the share of time that groups of 1 ms run with a pause between them.
func duty(pause time.Duration) float64 {
	return float64(time.Millisecond) / float64(time.Millisecond+pause)
}
