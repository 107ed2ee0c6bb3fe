package rag

import (
	"math"
	"slices"
)

// vocabulary numbers terms, for all shelves of a store.
type vocabulary map[string]uint32

func (v vocabulary) number(term string) uint32 {
	n, ok := v[term]
	if !ok {
		n = uint32(len(v))
		v[term] = n
	}
	return n
}

// lexical is an inverted index for BM25 that grows by one text at a time: a
// text is found as soon as add returns. Nothing is ever removed. Texts are
// numbered from 0.
type lexical struct {
	postings map[uint32][]posting
	lengths  []uint32 // terms of each text
	total    uint64
}

type posting struct {
	text, times uint32
}

// add takes the terms of the next text. Counts is scratch, and is left empty.
func (x *lexical) add(terms []uint32, counts map[uint32]uint32) {
	if x.postings == nil {
		x.postings = map[uint32][]posting{}
	}
	n := uint32(len(x.lengths))
	x.lengths = append(x.lengths, uint32(len(terms)))
	x.total += uint64(len(terms))
	for _, t := range terms {
		counts[t]++
	}
	for _, t := range terms {
		if times := counts[t]; times > 0 {
			x.postings[t] = append(x.postings[t], posting{n, times})
			delete(counts, t)
		}
	}
}

// corpus is what BM25 needs to know of all texts that a query looks at.
type corpus struct {
	texts  float64
	length float64 // mean terms of a text
}

// idf is how much a term tells that occurs in n texts. It is never negative.
func (c corpus) idf(n int) float64 {
	return math.Log(1 + (c.texts-float64(n)+0.5)/(float64(n)+0.5))
}

// score adds to scores, one for each text, what term is worth in it.
func (x *lexical) score(scores []float64, term uint32, idf float64, c corpus, k1, b float64) {
	for _, p := range x.postings[term] {
		f := float64(p.times)
		norm := float64(k1 * (1 - b + b*float64(x.lengths[p.text])/c.length))
		scores[p.text] += float64(idf*f*(k1+1)) / (f + norm)
	}
}

// unique is a sorted copy of terms without doubles: the order of additions, and
// so the last bits of a score, must not depend on the query's.
func unique(terms []uint32) []uint32 {
	out := slices.Clone(terms)
	slices.Sort(out)
	return slices.Compact(out)
}
