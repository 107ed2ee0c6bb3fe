package rag

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// clustered are vectors as texts have them: around a few directions.
func clustered(r *rand.Rand, n, dimension int) [][]float32 {
	centres := make([][]float32, 1+n/50)
	for i := range centres {
		centres[i] = gaussian(r, nil, dimension, 1)
	}
	out := make([][]float32, n)
	for i := range out {
		out[i] = gaussian(r, centres[r.IntN(len(centres))], dimension, 0.7)
	}
	return out
}

func gaussian(r *rand.Rand, around []float32, dimension int, spread float64) []float32 {
	x := make([]float32, dimension)
	for i := range x {
		x[i] = float32(r.NormFloat64() * spread)
		if around != nil {
			x[i] += around[i]
		}
	}
	return x
}

func exact(vectors [][]float32, query []float32, k int) []uint32 {
	hits := make([]hit, len(vectors))
	for i, v := range vectors {
		var sum, a, b float64
		for j := range v {
			sum += float64(v[j]) * float64(query[j])
			a += float64(v[j]) * float64(v[j])
			b += float64(query[j]) * float64(query[j])
		}
		hits[i] = hit{uint32(i), sum / math.Sqrt(a*b)}
	}
	slices.SortFunc(hits, byScore)
	out := make([]uint32, k)
	for i := range out {
		out[i] = hits[i].entry
	}
	return out
}

func quantised(t testing.TB, x []float32) vector {
	t.Helper()
	v, err := quantise(x, len(x))
	must(t, err)
	return v
}

// Eight bits find what 32 find: of the first ten of clustered vectors, 98 % and
// more are the same.
func TestQuantised(t *testing.T) {
	r := rand64(1)
	vectors := clustered(r, 2000, 384)
	f := newFlat(384)
	for _, x := range vectors {
		must(t, f.add(quantised(t, x)))
	}
	same := 0
	const queries, k = 40, 10
	for range queries {
		q := gaussian(r, vectors[r.IntN(len(vectors))], 384, 0.5)
		hits, err := f.search(quantised(t, q), k, adjust{})
		must(t, err)
		want := exact(vectors, q, k)
		for _, h := range hits {
			if slices.Contains(want, h.entry) {
				same++
			}
		}
	}
	if share := float64(same) / (queries * k); share < 0.98 {
		t.Errorf("%.3f of the exact first ten were found", share)
	}
}

// The two indexes answer alike, whatever is left out or preferred.
func TestIndexesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dimension := rapid.IntRange(2, 70).Draw(t, "dimension")
		n := rapid.IntRange(0, 80).Draw(t, "n")
		k := rapid.IntRange(1, 100).Draw(t, "k")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		c, err := newChromem()
		if err != nil {
			t.Fatal(err)
		}
		f := newFlat(dimension)
		var all []vector
		for range n {
			v, err := quantise(gaussian(r, nil, dimension, 1), dimension)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.add(v), f.add(v)); err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		q, err := quantise(gaussian(r, nil, dimension, 1), dimension)
		if err != nil {
			t.Fatal(err)
		}
		leave := rapid.IntRange(2, 5).Draw(t, "leave out each")
		bonus := rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "bonus")
		by := adjust{bonus, func(e uint32) (float64, bool) { return bonus * float64(e%2), int(e)%leave != 0 }}
		var want []hit
		for i, v := range all {
			if b, ok := by.look(uint32(i)); ok {
				want = append(want, hit{uint32(i), v.cosine(q) + b})
			}
		}
		slices.SortFunc(want, byScore)
		want = want[:min(k, len(want))]
		for name, x := range map[string]index{"chromem": c, "flat": f} {
			got, err := x.search(q, k, by)
			if err != nil || len(got) != len(want) || x.size() != n {
				t.Fatalf("%s: %d hits, want %d, %v", name, len(got), len(want), err)
			}
			for i := range got {
				if math.Abs(got[i].score-want[i].score) > 1e-5 {
					t.Fatalf("%s: hit %d is %+v, want %+v", name, i, got[i], want[i])
				}
			}
		}
	})
}

func TestIndexWithoutVectorsFindsNothing(t *testing.T) {
	c, err := newChromem()
	must(t, err)
	for _, x := range []index{c, newFlat(3)} {
		if hits, err := x.search(quantised(t, []float32{1, 0, 0}), 5, adjust{}); err != nil || len(hits) != 0 {
			t.Errorf("%T: %v, %v", x, hits, err)
		}
	}
}

func TestQuantiseRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, x := range [][]float32{{0, 0, 0}, {1, nan, 0}, {inf, 0, 0}, {1, 2}, {}, {1, 2, 3, 4}} {
		if _, err := quantise(x, 3); !errors.Is(err, ErrVector) {
			t.Errorf("%v: %v", x, err)
		}
	}
	for _, x := range [][]float32{{1e-38, 0, 0}, {3e38, -3e38, 1}, {1e-45, 1e-45, 0}} {
		v, err := quantise(x, 3)
		if err != nil || math.Abs(v.cosine(v)-1) > 1e-6 {
			t.Errorf("%v: %v, %v", x, v, err)
		}
	}
}

// A store that grows past the switch finds the same before and after.
func TestSwitchOfIndexIsNotSeen(t *testing.T) {
	e := newEmbedder()
	cfg := inMemory(e)
	cfg.ChromemMost = 10
	s := openStore(t, cfg)
	plain := openStore(t, inMemory(newEmbedder()))
	for i := range 30 {
		text := fmt.Sprintf("the %dth tale of dragon number %d", i, i*i)
		remember(t, s, own(text))
		remember(t, plain, own(text))
		s.Work(1e12)
		plain.Work(1e12)
		q := Query{Knower: mara, Text: "tale of dragon number 49", ReadOnly: true, Limit: 5}
		if a, b := texts(recall(t, s, q)), texts(recall(t, plain, q)); a != b {
			t.Fatalf("with %d memories:\n%s\nwant\n%s", i+1, a, b)
		}
	}
	_, flat := s.state.shelves[0].vec.(*flat)
	_, small := plain.state.shelves[0].vec.(*chromemIndex)
	if !flat || !small {
		t.Errorf("the indexes are %T and %T", s.state.shelves[0].vec, plain.state.shelves[0].vec)
	}
}

func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{100, 300, 1000, 3000, 10000, 100000} {
		vectors := clustered(rand64(n), n, 384)
		q := quantised(b, gaussian(rand64(5), vectors[0], 384, 0.5))
		for _, name := range []string{"chromem", "flat"} {
			var x index = newFlat(384)
			if name == "chromem" {
				c, err := newChromem()
				must(b, err)
				x = c
			}
			for _, v := range vectors {
				must(b, x.add(quantised(b, v)))
			}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := x.search(q, 100, adjust{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
