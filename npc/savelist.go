package npc

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// list is an array of a save that is refused while it is read: millions of empty
// objects in a few megabytes would take gigabytes before anybody looked at them.
type list[T any, R listRule[T]] []T

// listRule says what may stand in a list.
type listRule[T any] interface {
	limit() (most int, what string)
	check(i int, v *T) error
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T, R]) UnmarshalJSON(data []byte) error {
	var rule R
	most, what := rule.limit()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return fmt.Errorf("%.40q: want an array, each a %s", data, what)
	}
	*l = list[T, R]{}
	for i := 0; d.More(); i++ {
		if i == most {
			return fmt.Errorf("%s %d: want %d at most", what, i, most)
		}
		var v T
		err := d.Decode(&v)
		if err == nil {
			err = rule.check(i, &v)
		}
		if err != nil {
			return fmt.Errorf("%s %d: %w", what, i, err)
		}
		*l = append(*l, v)
	}
	return nil
}

type (
	turnRule  struct{}
	agentRule struct{}
	entryRule struct{}
	factRule  struct{}
	questRule struct{}
)

func (turnRule) limit() (int, string)  { return maxTurns, "turn" }
func (agentRule) limit() (int, string) { return MaxAgents, "character" }
func (entryRule) limit() (int, string) { return maxEntries, "entry" }
func (factRule) limit() (int, string)  { return MaxFacts, "fact" }
func (questRule) limit() (int, string) { return MaxQuests, "quest" }

func (turnRule) check(i int, t *saveTurn) error   { return t.check(speaker(i)) }
func (agentRule) check(_ int, a *saveAgent) error { return a.check() }
func (entryRule) check(_ int, e *Entry) error     { return e.check() }
func (factRule) check(_ int, f *Fact) error       { return f.check() }
func (questRule) check(_ int, q *Quest) error     { return q.check() }
