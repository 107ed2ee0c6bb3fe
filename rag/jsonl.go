package rag

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Line is a memory as JSON: a line of an export. Keys may be added, never
// renamed.
type Line struct {
	ID           ID       `json:"id,omitempty"`
	Owner        string   `json:"owner"`
	Scope        string   `json:"scope"`
	Audience     []string `json:"audience,omitempty"`
	Speaker      string   `json:"speaker,omitempty"`
	Text         string   `json:"text"`
	Scene        string   `json:"scene,omitempty"`
	At           seconds  `json:"at_s"`
	Importance   int      `json:"importance,omitempty"`
	Sources      []ID     `json:"sources,omitempty"`
	Reinforced   int      `json:"reinforced,omitempty"`
	LastUse      *seconds `json:"last_use_s,omitempty"`
	Until        *seconds `json:"until_s,omitempty"`
	SupersededBy ID       `json:"superseded_by,omitempty"`
}

// seconds is a game time in JSON, exact to the nanosecond.
type seconds GameTime

func (s seconds) MarshalJSON() ([]byte, error) {
	sign, n := "", uint64(s)
	if s < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/1e9, n%1e9)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

func (s *seconds) UnmarshalJSON(data []byte) error {
	whole, part, _ := strings.Cut(string(data), ".")
	if n, err := strconv.ParseInt(whole+(part + "000000000")[:9], 10, 64); err == nil && len(part) <= 9 {
		*s = seconds(n)
		return nil
	}
	f, err := strconv.ParseFloat(string(data), 64)
	if f *= 1e9; err != nil || !(math.Abs(f) < math.MaxInt64) {
		return fmt.Errorf("%.40s is no game time: want seconds within ±292 years", data)
	}
	*s = seconds(f)
	return nil
}

// LineOf is m as a line.
func LineOf(m Memory) Line {
	use := seconds(m.LastUse)
	l := Line{ID: m.ID, Owner: m.Owner, Scope: m.Scope.String(), Audience: m.Audience, Speaker: m.Speaker,
		Text: m.Text, Scene: m.Scene, At: seconds(m.At), Importance: m.Importance, Sources: m.Sources,
		Reinforced: m.Reinforced, LastUse: &use}
	if m.Superseded {
		until := seconds(m.Until)
		l.Until, l.SupersededBy = &until, m.SupersededBy
	}
	return l
}

// memory is the memory that a line tells of, checked.
func (l Line) memory() (Memory, error) {
	if l.Scope == "" {
		l.Scope = Own.String()
	}
	scope, err := ParseScope(l.Scope)
	if err != nil {
		return Memory{}, err
	}
	m, err := Memory{Owner: l.Owner, Scope: scope, Audience: l.Audience, Speaker: l.Speaker, Text: l.Text,
		Scene: l.Scene, At: GameTime(l.At), Importance: l.Importance, Sources: l.Sources}.normal()
	if err != nil {
		return m, err
	}
	if l.Reinforced < 0 || l.Reinforced > 1<<31 {
		return m, fmt.Errorf("%w: reinforced %d times", ErrMemory, l.Reinforced)
	}
	m.Reinforced = l.Reinforced
	if l.LastUse != nil {
		m.LastUse = GameTime(*l.LastUse)
	}
	if l.Until != nil {
		m.Superseded, m.Until, m.SupersededBy = true, GameTime(*l.Until), l.SupersededBy
	}
	m.ID = l.ID
	return m, nil
}

// Export writes all memories as JSON Lines, in the order of their ids, whoever
// may know them. Vectors are not in it: they can be made again.
func (s *Store) Export(w io.Writer) (count int, err error) {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	s.All(func(m Memory) bool {
		err = e.Encode(LineOf(m))
		count++
		return err == nil
	})
	return count, errors.Join(err, b.Flush())
}

// maxLine bounds a line of an import: the longest text with each byte escaped.
const maxLine = 6*MaxText + 64<<10

// Imported counts what an import did.
type Imported struct{ Added, Known int }

// Import reads JSON Lines. All lines are checked before the first is kept; on
// error nothing was. A memory that is there already, told at the same time in
// the same words, is counted as known. Ids are given anew; sources and
// superseded_by follow them, and must name lines of the same input.
func (s *Store) Import(r io.Reader) (Imported, error) {
	memories, err := parseLines(r)
	if err != nil {
		return Imported{}, err
	}
	there := map[sameTime]ID{}
	s.All(func(m Memory) bool {
		there[sameTime{keyOf(&m), m.At, m.Superseded}] = m.ID
		return true
	})
	if len(there)+len(memories) > maxMemories {
		return Imported{}, fmt.Errorf("%w: %d are there, %d would come", ErrFull, len(there), len(memories))
	}
	var out Imported
	given := map[ID]ID{}
	for i := range memories {
		m := memories[i].Memory
		was := m.ID
		key := sameTime{keyOf(&m), m.At, m.Superseded}
		id, known := there[key]
		if known {
			out.Known++
		} else {
			if id, err = s.take(m, given); err != nil {
				return out, fmt.Errorf("line %d: %w", memories[i].line, err)
			}
			out.Added++
			there[key] = id
		}
		if was != 0 {
			given[was] = id
		}
		memories[i].now, memories[i].new = id, !known
	}
	return out, s.supersedeImported(memories, given)
}

type sameTime struct {
	key        sameKey
	at         GameTime
	superseded bool
}

// parsed is a memory of an import.
type parsed struct {
	Memory
	line int
	now  ID // its id here
	new  bool
}

func parseLines(r io.Reader) ([]parsed, error) {
	var out []parsed
	seen := map[ID]int{} // id → its line
	at := map[ID]int{}   // id → its place in out
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	line := 0
	for sc.Scan() {
		line++
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var l Line
		d := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		d.DisallowUnknownFields()
		err := inWords(d.Decode(&l))
		if err == nil && d.More() {
			err = errors.New("more than one value on a line")
		}
		m := Memory{}
		if err == nil {
			m, err = l.memory()
		}
		if err == nil && l.ID != 0 && seen[l.ID] > 0 {
			err = fmt.Errorf("id %d stands on line %d too", l.ID, seen[l.ID])
		}
		for _, id := range l.Sources {
			switch {
			case err != nil:
			case seen[id] == 0:
				err = fmt.Errorf("source %d does not stand above it", id)
			case !noWider(&m, &out[at[id]].Memory):
				err = fmt.Errorf("%w: it would tell memory %d to more than may know it", ErrMemory, id)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("rag: import: line %d: %w", line, err)
		}
		if l.ID != 0 {
			seen[l.ID], at[l.ID] = line, len(out)
		}
		if out = append(out, parsed{Memory: m, line: line}); len(out) > maxMemories {
			return nil, fmt.Errorf("rag: import: line %d: %w", line, ErrFull)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("rag: import: line %d: %w (a line has %d bytes at most)", line+1, err, maxLine)
	}
	for _, p := range out {
		if p.SupersededBy != 0 && seen[p.SupersededBy] == 0 {
			return nil, fmt.Errorf("rag: import: line %d: superseded_by %d is no line of it", p.line, p.SupersededBy)
		}
	}
	return out, nil
}

// inWords says what is wrong with a line to who wrote it: the decoder speaks of
// Go.
func inWords(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return errors.New("the JSON object does not end: want one whole object a line")
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("%s stands there: want one JSON object a line", kindOf(kind.Value))
	case errors.As(err, &kind):
		return fmt.Errorf("%s is %s: want %s", kind.Field, kindOf(kind.Value), wanted(kind))
	}
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no key %s: a line may have owner, scope, audience, speaker, text, scene, at_s, "+
			"importance, sources, and what export writes beside", key)
	}
	return err
}

// kindOf is a kind of JSON value for people.
func kindOf(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind {
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "the " + value // "number 1.5"
}

func wanted(e *json.UnmarshalTypeError) string {
	switch key, _, _ := strings.Cut(e.Field, "."); key {
	case "audience":
		return `a list of texts, as ["guild"]`
	case "sources":
		return "a list of ids, as [3, 7]"
	}
	if e.Type.Kind() == reflect.String {
		return "a text"
	}
	return "a whole number from 0"
}

// take keeps one imported memory as it was, under a new id.
func (s *Store) take(m Memory, given map[ID]ID) (ID, error) {
	if err := s.makeRoom(1); err != nil {
		return 0, err
	}
	f := &s.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return 0, f.refuse
	}
	sources := m.Sources
	m.Sources = nil
	for _, id := range sources {
		m.Sources = append(m.Sources, given[id])
	}
	if err := f.cites(&m); err != nil {
		return 0, err
	}
	m.ID = ID(f.next)
	m.Superseded, m.Until, m.SupersededBy = false, 0, 0
	o := &op{kind: kindRemember, mem: m}
	f.made[m.ID] = &o.mem
	if key := keyOf(&m); f.known[key] == 0 {
		f.known[key] = m.ID
	}
	s.push(o)
	s.signal()
	return m.ID, nil
}

// supersedeImported puts the intervals in once all memories are there.
func (s *Store) supersedeImported(memories []parsed, given map[ID]ID) error {
	for _, p := range memories {
		if !p.Superseded || !p.new {
			continue
		}
		if err := s.makeRoom(1); err != nil {
			return err
		}
		f := &s.front
		f.mu.Lock()
		key := keyOf(&p.Memory)
		if f.known[key] == p.now {
			delete(f.known, key)
		}
		s.push(&op{kind: kindSupersede, id: p.now, by: given[p.SupersededBy], at: p.Until})
		f.mu.Unlock()
	}
	s.signal()
	return nil
}
