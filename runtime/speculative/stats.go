package speculative

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
)

// Stats says how it went since New.
type Stats struct {
	// Off says why nothing is tried at all, ModelOff why the draft model is
	// not; empty where it is.
	Off, ModelOff string

	Sources [sources]SourceStats // by Source

	Rounds       uint64  // verify batches
	VerifyTokens uint64  // tokens that they gave out
	PlainTokens  uint64  // tokens decoded one by one
	Expected     float64 // speed-up expected of the rounds, on average; 0 before the first

	// Time of the model's clock, without waiting at the gate.
	VerifyTime, PlainTime, DraftTime time.Duration
}

// SourceStats is the record of one source.
type SourceStats struct {
	Judged, Accepted uint64 // candidates
	Closed           bool   // off now: it did not pay
}

// Acceptance is the share of judged candidates that were right, 0 before the
// first.
func (s SourceStats) Acceptance() float64 {
	if s.Judged == 0 {
		return 0
	}
	return float64(s.Accepted) / float64(s.Judged)
}

// Measured is the speed-up of the rounds as measured: time of a token decoded
// alone by time of a token from a round, drafts included. It is 0 until there
// were both.
func (s Stats) Measured() float64 {
	if s.PlainTokens == 0 || s.VerifyTokens == 0 || s.VerifyTime+s.DraftTime == 0 {
		return 0
	}
	plain := float64(s.PlainTime) / float64(s.PlainTokens)
	return plain * float64(s.VerifyTokens) / float64(s.VerifyTime+s.DraftTime)
}

// Stats returns the record. Safe for concurrent use.
func (s *Speculator) Stats() Stats {
	c := &s.stats
	out := Stats{
		Rounds: c.rounds.Load(), VerifyTokens: c.verifyTokens.Load(), PlainTokens: c.plainTokens.Load(),
		VerifyTime: time.Duration(c.verifyNS.Load()), PlainTime: time.Duration(c.plainNS.Load()),
		DraftTime: time.Duration(c.draftNS.Load()),
	}
	if why := s.off.Load(); why != nil {
		out.Off = *why
	}
	if why := c.modelOff.Load(); why != nil {
		out.ModelOff = *why
	}
	for i := range out.Sources {
		x := &c.sources[i]
		out.Sources[i] = SourceStats{x.judged.Load(), x.accepted.Load(), x.closed.Load()}
	}
	if n := c.expectations.Load(); n > 0 {
		out.Expected = math.Float64frombits(c.expected.Load()) / float64(n)
	}
	return out
}

// counters is Stats as the worker writes it and others read it.
type counters struct {
	modelOff atomic.Pointer[string]
	sources  [sources]struct {
		judged, accepted atomic.Uint64
		closed           atomic.Bool
	}
	rounds, verifyTokens, plainTokens atomic.Uint64
	verifyNS, plainNS, draftNS        atomic.Uint64
	expected, expectations            atomic.Uint64 // expected: the bits of a float64
}

func (c *counters) round(j *llm.Judgement) {
	tokens, ns := &c.plainTokens, &c.plainNS
	if len(j.Drafts) > 0 {
		tokens, ns = &c.verifyTokens, &c.verifyNS
		c.rounds.Add(1)
	}
	tokens.Add(uint64(len(j.Chosen)))
	ns.Add(uint64(busy(j.Work)))
}

func (c *counters) expect(speedup float64) {
	c.expected.Store(math.Float64bits(math.Float64frombits(c.expected.Load()) + speedup))
	c.expectations.Add(1)
}
