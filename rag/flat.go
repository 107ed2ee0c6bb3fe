package rag

import (
	"encoding/binary"
	"math"
	"slices"
)

// flat looks at every vector. Four multiplications are done by one: numbers of 7
// bits stand in lanes of 16 bits, the query's in reverse order, so that the
// product's top lane holds the sum of the four products, and no lane below
// carries into it (3 · 127² < 2¹⁶). The coarse scores that this gives choose
// candidates, whose cosines are then taken from all 8 bits.
type flat struct {
	vectors []vector
	lanes   []byte    // stride bytes a vector, 1…127, of which 64 is zero
	sums    []int32   // of each vector's lanes
	factors []float32 // from a coarse sum to a cosine
	stride  int       // dimension, rounded up to whole words
}

const (
	laneBytes = 16 // lanes that one round of the loop takes
	laneZero  = 64
	laneMost  = 63
)

func newFlat(dimension int) *flat {
	return &flat{stride: (dimension + laneBytes - 1) / laneBytes * laneBytes}
}

func (f *flat) size() int { return len(f.vectors) }

func (f *flat) add(v vector) error {
	lanes, sum := f.coarse(f.lanes, v)
	f.lanes = lanes
	f.vectors = append(f.vectors, v)
	f.sums = append(f.sums, sum)
	f.factors = append(f.factors, v.scale*coarseStep)
	return nil
}

// coarseStep is what one step of a lane is in steps of a vector.
const coarseStep = float32(math.MaxInt8) / laneMost

// coarse appends the lanes of v; padding counts as zero.
func (f *flat) coarse(dst []byte, v vector) ([]byte, int32) {
	sum := int32(0)
	for i := range f.stride {
		lane := byte(laneZero)
		if i < len(v.q) {
			lane = byte(laneZero + math.RoundToEven(float64(v.q[i])*laneMost/math.MaxInt8))
		}
		sum += int32(lane)
		dst = append(dst, lane)
	}
	return dst, sum
}

// spare is how many candidates beyond k are looked at exactly: the coarse
// cosine is off by 0.002 or so, which moves few across the border.
func spare(k int) int { return 2*k + 64 }

func (f *flat) search(query vector, k int, by adjust) ([]hit, error) {
	if k < 1 || len(f.vectors) == 0 {
		return nil, nil
	}
	lanes, sum := f.coarse(nil, query)
	words := reversed(lanes)
	factor := float64(query.scale) * float64(coarseStep)
	// Σ(u-64)(v-64) = Σuv - 64Σu - 64Σv + 64²n
	offset := int64(f.stride)*laneZero*laneZero - laneZero*int64(sum)
	best := top{keep: spare(k)}
	for i := range f.vectors {
		raw := int64(dot(words, f.lanes[i*f.stride:(i+1)*f.stride])) + offset - laneZero*int64(f.sums[i])
		score := float64(raw) * float64(f.factors[i]) * factor
		if !best.wants(score + by.most) {
			continue
		}
		if bonus, ok := by.look(uint32(i)); ok {
			best.add(hit{uint32(i), score + bonus})
		}
	}
	hits := best.sorted()
	for i, h := range hits {
		hits[i].score = f.vectors[h.entry].cosine(query)
		bonus, _ := by.look(h.entry)
		hits[i].score += bonus
	}
	slices.SortFunc(hits, byScore)
	return hits[:min(k, len(hits))], nil
}

// reversed packs lanes for dot: the even lanes of eight in one word, last first,
// the odd ones in the next.
func reversed(lanes []byte) []uint64 {
	out := make([]uint64, 0, len(lanes)/4)
	for ; len(lanes) >= 8; lanes = lanes[8:] {
		for odd := range 2 {
			w := uint64(0)
			for j := range 4 {
				w = w<<16 | uint64(lanes[2*j+odd])
			}
			out = append(out, w)
		}
	}
	return out
}

// dot is the sum of products of a packed query and lanes.
func dot(query []uint64, lanes []byte) uint64 {
	const even = 0x00FF00FF00FF00FF
	var a, b uint64
	for len(query) >= 4 && len(lanes) >= laneBytes {
		w, v := binary.LittleEndian.Uint64(lanes), binary.LittleEndian.Uint64(lanes[8:])
		a += (w & even) * query[0] >> 48
		b += (w >> 8 & even) * query[1] >> 48
		a += (v & even) * query[2] >> 48
		b += (v >> 8 & even) * query[3] >> 48
		query, lanes = query[4:], lanes[laneBytes:]
	}
	return a + b
}

// top keeps the best hits of a stream: it lets twice as many gather and cuts.
type top struct {
	keep  int
	hits  []hit
	least float64 // what a hit must beat once keep are there
	full  bool
}

// wants reports whether a hit of a score may be kept.
func (t *top) wants(score float64) bool { return !t.full || score >= t.least }

func (t *top) add(h hit) {
	if !t.wants(h.score) {
		return
	}
	if t.hits == nil {
		t.hits = make([]hit, 0, 2*t.keep)
	}
	if t.hits = append(t.hits, h); len(t.hits) == 2*t.keep {
		t.cut()
	}
}

func (t *top) cut() {
	slices.SortFunc(t.hits, byScore)
	if len(t.hits) >= t.keep {
		t.hits = t.hits[:t.keep]
		t.least, t.full = t.hits[t.keep-1].score, true
	}
}

func (t *top) sorted() []hit {
	t.cut()
	return t.hits
}
