package speculative_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

const (
	// sampled replies of 3 tokens over a vocabulary of 4, where the last ends
	// the reply, fall into 3³+3²+3+1 = 40 cells.
	sampledTokens = 3
	sampledVocab  = 4

	// With n replies a wrong distribution p·(1±s) has the noncentrality n·s².
	// At n = 30,000 and s = 0.06, which moves 3 % of the mass from one half of
	// the cells to the other, it is 108: the statistic is about 147 ± 23 where
	// 39 degrees of freedom stay below 73 (p = 0.001). So a shift of 3 % is
	// found with a chance of 0.999; the seeds are fixed, so the test never
	// fails by chance.
	sampledReplies = 30_000
	sampledChance  = 0.001
)

// cell is a reply as a number.
func cell(tokens []llm.Token) int {
	n := 0
	for i := range sampledTokens {
		t := sampledVocab - 1
		if i < len(tokens) {
			t = int(tokens[i])
		}
		n = n*sampledVocab + t
	}
	return n
}

// exact walks all replies and returns the chance of each cell.
func exact(m *tiny, s llm.Sampling, prompt []llm.Token) []float64 {
	out := make([]float64, int(math.Pow(sampledVocab, sampledTokens)))
	var walk func(ledger, reply []llm.Token, chance float64)
	walk = func(ledger, reply []llm.Token, chance float64) {
		if len(reply) == sampledTokens {
			out[cell(reply)] += chance
			return
		}
		x := tinySampler{m: m, s: s, recent: reply}
		for t, p := range x.probabilities(m.logits(ledger)) {
			token := llm.Token(t)
			if m.IsEnd(token) {
				out[cell(reply)] += chance * p
				continue
			}
			walk(append(slices.Clone(ledger), token), append(slices.Clone(reply), token), chance*p)
		}
	}
	walk(prompt, nil, 1)
	return out
}

// fit is Pearson's statistic, the degrees of freedom and the share of mass that
// lies elsewhere.
func fit(want []float64, got []int, n int) (chi2, dof, moved float64) {
	dof = -1
	for i, p := range want {
		share := float64(got[i]) / float64(n)
		moved += math.Abs(share-p) / 2
		if p > 0 {
			dof++
			chi2 += float64(n) * (share - p) * (share - p) / p
		} else if got[i] > 0 {
			chi2 = math.Inf(1)
		}
	}
	return chi2, dof, moved
}

// TestSampledDistribution: with candidates that are right now and then, replies
// are distributed as the target's probabilities say. A sampler that is a little
// hotter, by the same way, is found out.
func TestSampledDistribution(t *testing.T) {
	prompt := []llm.Token{0, 1, 2}
	s := llm.Sampling{Temperature: 1, RepeatPenalty: 0.7}
	for _, c := range []struct {
		name        string
		mode        speculative.Mode
		temperature float32
		fits        bool
	}{
		{"draft model", speculative.ModeModel, 1, true},
		{"patterns", speculative.ModeNGram, 1, true},
		{"control: hotter", speculative.ModeNGram, 1.08, false},
	} {
		target, draft := newTiny(sampledVocab), newTiny(sampledVocab)
		target.spread, draft.spread, draft.noise = 2, 2, 0.3
		want := exact(target, s, prompt)
		tb := newTable(t, target, speculative.Options{Mode: c.mode, Draft: draft, Fixed: true, MaxWidth: 3})
		got := make([]int, len(want))
		for seed := range uint32(sampledReplies) {
			hot := s
			hot.Seed, hot.Temperature = seed, c.temperature
			r := llm.Request{Owner: "mira", Prompt: prompt, MaxTokens: sampledTokens, Sampling: hot}
			got[cell(tb.run(r, llm.Grant{}).Reply)]++
		}
		chi2, dof, moved := fit(want, got, sampledReplies)
		limit := distuv.ChiSquared{K: dof}.Quantile(1 - sampledChance)
		t.Logf("%s: χ² %.1f, limit %.1f at %.0f degrees of freedom, %.2f %% of the mass elsewhere",
			c.name, chi2, limit, dof, 100*moved)
		if (chi2 <= limit) != c.fits || dof != 39 {
			t.Errorf("%s: χ² %.1f, limit %.1f at %.0f degrees of freedom", c.name, chi2, limit, dof)
		}
		var all speculative.SourceStats
		for source, x := range tb.spec.Stats().Sources {
			t.Logf("  %-8s %6d judged, %.0f %% accepted", speculative.Source(source), x.Judged, 100*x.Acceptance())
			all.Judged, all.Accepted = all.Judged+x.Judged, all.Accepted+x.Accepted
		}
		if all.Judged < sampledReplies || all.Acceptance() < 0.1 || all.Acceptance() > 0.9 {
			t.Errorf("%s: %d candidates, %.2f accepted: the case does not try it", c.name, all.Judged, all.Acceptance())
		}
	}
}
