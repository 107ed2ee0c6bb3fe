package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Spread is a median with quartiles over repeats.
type Spread struct {
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"`
	Q3     float64 `json:"q3"`
}

// Quartiles computes the spread of xs, in any order; all 0 of none. Repeats are
// few, so it interpolates: definition 7 of Hyndman and Fan, "Sample Quantiles
// in Statistical Packages", 1996, which R and NumPy use by default; the median
// is the usual one. Safe for concurrent use.
func Quartiles(xs []float64) Spread {
	s := slices.Clone(xs)
	slices.Sort(s)
	return Spread{Median: interpolated(s, 0.5), Q1: interpolated(s, 0.25), Q3: interpolated(s, 0.75)}
}

func interpolated(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	h := p * float64(len(sorted)-1)
	i := int(math.Floor(h))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	if sorted[i] == sorted[i+1] {
		return sorted[i]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

// Paired compares two policies over the same repeats: b minus a.
type Paired struct {
	N          int     `json:"n"`
	A          Spread  `json:"a"`
	B          Spread  `json:"b"`
	Difference Spread  `json:"difference"` // of b - a, repeat by repeat
	Low        float64 `json:"low"`        // bootstrap interval of the median difference
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

const (
	// resamples: with 2000, the ends of a 95 % interval rest on 50 resamples
	// each; more changes the third digit.
	resamples  = 2000
	confidence = 0.95
	// minPairs: fewer pairs have no spread to resample.
	minPairs = 2
)

// Pair compares a[i] with b[i]. The interval is the percentile bootstrap of
// Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979: with few
// repeats it is narrow, and never wider than the differences seen. The same
// seed gives the same interval. Safe for concurrent use.
func Pair(a, b []float64, seed uint64) (Paired, error) {
	if len(a) != len(b) || len(a) < minPairs {
		return Paired{}, fmt.Errorf("metrics: pair %d with %d values: want as many of both, %d or more",
			len(a), len(b), minPairs)
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
		if math.IsNaN(d[i]) || math.IsInf(d[i], 0) {
			return Paired{}, fmt.Errorf("metrics: pair %d is %v and %v: want finite numbers", i, a[i], b[i])
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x70616972))
	medians, again := make([]float64, resamples), make([]float64, len(d))
	for i := range medians {
		for j := range again {
			again[j] = d[random.IntN(len(d))]
		}
		slices.Sort(again)
		medians[i] = interpolated(again, 0.5)
	}
	slices.Sort(medians)
	return Paired{
		N: len(d), A: Quartiles(a), B: Quartiles(b), Difference: Quartiles(d), Confidence: confidence,
		Low: interpolated(medians, (1-confidence)/2), High: interpolated(medians, (1+confidence)/2),
	}, nil
}
