package frames

import (
	"math"
	"strconv"
	"time"
)

const (
	// underflowMs: 2^64 ticks of 100 ns are 1.8e12 s, or 1.8e15 ms; of 1 ns still
	// 1.8e13 ms. No true value comes near 1e12 ms, which is 31 years.
	underflowMs = 1e12
	// absurdMs: an hour. A frame of a minute may be a loading screen; one of an
	// hour is a broken clock.
	absurdMs = 3_600_000
	// maxNumberBytes: the longest number that any tool writes has 24 bytes.
	maxNumberBytes = 48
)

// decimal is the mark between the whole and the fraction. One capture has one;
// the first number that has a mark decides.
type decimal byte

const (
	undecided decimal = 0
	point     decimal = '.'
	comma     decimal = ','
)

// parse reads a number with at most one sign, one decimal mark and one
// exponent. Thousands separators, hexadecimal, NaN and infinity are no numbers.
func (d *decimal) parse(b []byte) (float64, Reason) {
	b = trim(b)
	if len(b) == 0 {
		return 0, Empty
	}
	if isNA(b) {
		return 0, NA
	}
	if len(b) > maxNumberBytes {
		return 0, NotANumber
	}
	s, simple, r := d.scan(b)
	if r != OK {
		return 0, r
	}
	if simple {
		return s, OK
	}
	return d.parseSlow(b)
}

// pow10 are the powers that a float64 holds exactly, as far as digits go.
var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// scan checks the alphabet and computes numbers of up to 15 digits: both the
// digits and the power of ten are exact then, so one division rounds right.
func (d *decimal) scan(b []byte) (v float64, simple bool, r Reason) {
	var mantissa uint64
	digits, fraction, marks, exponent := 0, 0, 0, false
	negative := false
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			if !exponent {
				mantissa = mantissa*10 + uint64(c-'0')
				digits++
				fraction += marks
			}
		case c == '.' || c == ',':
			if *d == undecided {
				*d = decimal(c)
			}
			if decimal(c) != *d || marks == 1 || exponent {
				return 0, false, NotANumber
			}
			marks = 1
		case (c == '-' || c == '+') && i == 0:
			negative = c == '-'
		case (c == 'e' || c == 'E') && digits > 0 && !exponent:
			exponent = true
		case (c == '-' || c == '+') && exponent && (b[i-1] == 'e' || b[i-1] == 'E'):
		default:
			return 0, false, NotANumber
		}
	}
	if digits == 0 {
		return 0, false, NotANumber
	}
	if exponent || digits > 15 {
		return 0, false, OK
	}
	v = float64(mantissa) / pow10[fraction]
	if negative {
		v = -v
	}
	return v, true, OK
}

func (d *decimal) parseSlow(b []byte) (float64, Reason) {
	s := make([]byte, 0, maxNumberBytes)
	for _, c := range b {
		if c == ',' {
			c = '.'
		}
		s = append(s, c)
	}
	v, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, NotANumber
	}
	return v, OK
}

func isNA(b []byte) bool {
	switch len(b) {
	case 2:
		return (b[0] == 'N' || b[0] == 'n') && (b[1] == 'A' || b[1] == 'a')
	case 3:
		return b[1] == '/' && (b[0] == 'N' || b[0] == 'n') && (b[2] == 'A' || b[2] == 'a')
	}
	return false
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// duration turns milliseconds into a duration, or says why it is none. Zero is
// for the caller to judge.
func duration(ms float64, signed bool) (time.Duration, Reason) {
	switch {
	case math.IsNaN(ms) || math.IsInf(ms, 0):
		return 0, NotANumber
	case math.Abs(ms) >= underflowMs:
		return 0, Underflow
	case ms < 0 && !signed:
		return 0, Negative
	case math.Abs(ms) > absurdMs:
		return 0, Absurd
	}
	return time.Duration(math.Round(ms * 1e6)), OK
}

// instant turns milliseconds into a clock reading. Clocks count from a boot or
// an epoch, so more than an hour is fine.
func instant(ms float64) (time.Duration, Reason) {
	const maxMs = math.MaxInt64 / 1e6
	switch {
	case math.IsNaN(ms) || math.IsInf(ms, 0):
		return 0, NotANumber
	case math.Abs(ms) >= maxMs:
		return 0, Underflow
	case ms < 0:
		return 0, Negative
	}
	return time.Duration(math.Round(ms * 1e6)), OK
}

// positive is duration for values where zero means that nothing was measured.
func positive(ms float64) (time.Duration, Reason) {
	d, r := duration(ms, false)
	if r == OK && d == 0 {
		return 0, Zero
	}
	return d, r
}
