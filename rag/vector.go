package rag

import (
	"errors"
	"fmt"
	"math"
)

// ErrVector is wrapped by what is wrong with a vector.
var ErrVector = errors.New("rag: not a usable vector")

// vector is a direction in 8 bits a number: x ≈ scale·q, of length 1. It takes
// a quarter of the room of float32 and finds the same (see TestQuantised). Its
// numbers are never changed, so vectors are shared.
type vector struct {
	q     []int8
	scale float32 // 1 over the length of q
}

// quantise makes a vector of length 1 of x. Zero and numbers that are not finite
// have no direction: such a vector would be the best match of everything or
// spoil each sum.
func quantise(x []float32, dimension int) (vector, error) {
	if len(x) != dimension {
		return vector{}, fmt.Errorf("%w: %d numbers, want %d", ErrVector, len(x), dimension)
	}
	largest := float32(0)
	for i, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return vector{}, fmt.Errorf("%w: number %d is %v", ErrVector, i, v)
		}
		largest = max(largest, v, -v)
	}
	if largest == 0 {
		return vector{}, fmt.Errorf("%w: all numbers are 0", ErrVector)
	}
	q := make([]int8, len(x))
	for i, v := range x {
		q[i] = int8(math.RoundToEven(float64(v) / float64(largest) * math.MaxInt8))
	}
	return vector{q, scaleOf(q)}, nil
}

// scaleOf is 1 over the length of q; 0 if q has none.
func scaleOf(q []int8) float32 {
	sum := 0
	for _, v := range q {
		sum += int(v) * int(v)
	}
	if sum == 0 {
		return 0
	}
	return float32(1 / math.Sqrt(float64(sum)))
}

// floats appends the numbers of v.
func (v vector) floats(dst []float32) []float32 {
	for _, q := range v.q {
		dst = append(dst, float32(q)*v.scale)
	}
	return dst
}

// cosine is the exact similarity of two quantised directions, the same on each
// machine: the sum is one of whole numbers.
func (v vector) cosine(w vector) float64 {
	sum := 0
	for i, q := range v.q {
		sum += int(q) * int(w.q[i])
	}
	return float64(sum) * float64(v.scale) * float64(w.scale)
}

// hit is one entry of an index that is like the query.
type hit struct {
	entry uint32
	score float64 // cosine plus bonus
}

// byScore orders hits: the best first, the older one where two are equal.
func byScore(a, b hit) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	}
	return int(int64(a.entry) - int64(b.entry))
}

// adjust says what an entry gets on top of its cosine, and whether it counts. A
// nil of leaves cosines as they are. Looking at an entry costs a cache miss, so
// an index asks only about those that most could lift into the result.
type adjust struct {
	most float64 // no bonus is larger in size; 0 if there are none
	of   func(entry uint32) (bonus float64, ok bool)
}

func (a adjust) look(entry uint32) (bonus float64, ok bool) {
	if a.of == nil {
		return 0, true
	}
	return a.of(entry)
}

// index finds the vectors that are most like a query. Entries are numbered from
// 0 in the order in which they were added. Call from one goroutine at a time.
type index interface {
	// add takes the next vector; it has the index's dimension.
	add(v vector) error
	// search gives at most k hits, in the order of byScore.
	search(query vector, k int, by adjust) ([]hit, error)
	size() int
}
