package fit

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// ErrFacts is wrapped by every error about the file of facts.
var ErrFacts = errors.New("fit: bad facts")

// Fact is a row of published figures.
type Fact struct {
	Name      string
	Value     float64
	Unit      string
	Condition string
	Source    string
	Relation  string // =, ~, <, <=, >=
	Kind      string // outcome, ordering, parameter, …
}

const (
	// maxFacts bounds the file: the known one has 124 rows.
	maxFacts = 10_000
	columns  = 8
)

// ReadFacts reads a CSV file of facts with the header
// name,value,unit,condition,source,relation,kind,note.
func ReadFacts(r io.Reader) (map[string]Fact, error) {
	in := csv.NewReader(io.LimitReader(r, 4<<20))
	in.FieldsPerRecord = columns
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: its first line: %w", ErrFacts, err)
	}
	if want := []string{"name", "value", "unit", "condition", "source", "relation", "kind", "note"}; !slices.Equal(
		header, want) {
		return nil, fmt.Errorf("%w: it begins with %q, want %q", ErrFacts, header, want)
	}
	facts := map[string]Fact{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFacts, err)
		}
		line, _ := in.FieldPos(0)
		v, err := strconv.ParseFloat(row[1], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%w: line %d: value %q of %s: want a number", ErrFacts, line, row[1], row[0])
		}
		if _, ok := facts[row[0]]; ok || row[0] == "" || len(facts) >= maxFacts {
			return nil, fmt.Errorf("%w: line %d: name %q: want a new one, %d at most", ErrFacts, line, row[0], maxFacts)
		}
		facts[row[0]] = Fact{row[0], v, row[2], row[3], row[4], row[5], row[6]}
	}
	if len(facts) == 0 {
		return nil, fmt.Errorf("%w: no rows", ErrFacts)
	}
	return facts, nil
}
