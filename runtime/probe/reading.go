package probe

import (
	"errors"
	"io/fs"
	"math"
	"syscall"
)

// Outcome says what came of a reading. The list is closed.
type Outcome uint8

// Outcomes. Only with OK is there a value.
const (
	Unsupported Outcome = iota // this build knows no way to ask this system
	OK
	First     // a rate needs a second reading
	Absent    // the system has no such source
	Forbidden // it has, and this program may not read it
	Failed    // an error of the driver
	Malformed // not in the documented form
	Absurd    // a number that cannot be
	Idle      // nothing to measure: the battery does not drain
	Old       // the source is silent, and the last value is no longer kept
)

var outcomeNames = [...]string{"unsupported", "ok", "first", "absent", "forbidden", "failed", "malformed", "absurd",
	"idle", "old"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown-value"
}

// MarshalText writes the name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Reading is one number of one source. Value is 0 unless Outcome is OK.
type Reading struct {
	Value   float64 `json:"value"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // what was read and why it does not count, for people
}

func good(v float64) Reading { return Reading{Value: v, Outcome: OK} }

func bad(o Outcome, detail string) Reading { return Reading{Outcome: o, Detail: detail} }

// ok reports whether there is a value.
func (r Reading) ok() bool { return r.Outcome == OK }

// within gives v, or says that it can't be.
func within(v, low, high float64, detail string) Reading {
	if math.IsNaN(v) || v < low || v > high {
		return bad(Absurd, detail)
	}
	return good(v)
}

// outcomeOf names an error of reading a file. A driver that has no number to
// give answers ENODATA, EINVAL or EIO, and a kernel without pressure
// information EOPNOTSUPP.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENODEV):
		return Absent
	case errors.Is(err, fs.ErrPermission):
		return Forbidden
	case errors.Is(err, errors.ErrUnsupported):
		return Absent
	}
	return Failed
}
