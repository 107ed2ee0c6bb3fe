package speculative

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// ErrProfile is wrapped by the reason why a stored profile is not used. Measure
// anew and store that.
var ErrProfile = errors.New("speculative: stored costs are not usable")

const (
	profileMagic   = "lull speculation costs"
	profileVersion = 1

	// maxProfile is 256 KB: all rows and points that Costs may have, at 27
	// bytes a point, and as much again.
	maxProfile = 256 << 10
)

// Key names what costs belong to. A change of any of them makes stored costs
// worthless.
type Key struct {
	Model   string // the model file's hash, or what else names the weights and their quantisation
	Draft   string // that of the draft model; "" is none
	Library string // Info.Library: its version
	CPU     string // processor and kernel variant that the library chose
}

// hash is what is stored of a key: 16 bytes of SHA-256 of each part, so that a
// profile tells nothing of paths or names.
func (k Key) hash() [4][16]byte {
	var out [4][16]byte
	for i, part := range [4]string{k.Model, k.Draft, k.Library, k.CPU} {
		h := sha256.Sum256([]byte(part))
		copy(out[i][:], h[:])
	}
	return out
}

var keyNames = [4]string{"model", "draft model", "library", "processor"}

// stored is the profile as it is written. New fields go last.
type stored struct {
	//lint:ignore U1000 msgpack reads its tag
	_msgpack struct{} `msgpack:",as_array"`

	Magic   string
	Version int
	Key     [4][]byte
	Rows    []storedRow
}

type storedRow struct {
	//lint:ignore U1000 msgpack reads its tag
	_msgpack struct{} `msgpack:",as_array"`

	Threads int
	TokenNS int64
	Draft   float64
	Widths  []int
	Ratios  []float64
}

// Encode appends the stored form of costs to dst.
func Encode(dst []byte, k Key, c Costs) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return dst, err
	}
	s := stored{Magic: profileMagic, Version: profileVersion}
	for i, h := range k.hash() {
		s.Key[i] = h[:]
	}
	for _, r := range c.Rows {
		row := storedRow{Threads: r.Threads, TokenNS: int64(r.Token), Draft: r.Draft}
		for _, p := range r.Verify {
			row.Widths, row.Ratios = append(row.Widths, p.Width), append(row.Ratios, p.Ratio)
		}
		s.Rows = append(s.Rows, row)
	}
	b, err := msgpack.Marshal(&s)
	if err != nil {
		return dst, fmt.Errorf("speculative: store costs: %w", err)
	}
	return append(dst, b...), nil
}

// Decode reads what Encode wrote for the same key. Every other input is an
// error that wraps ErrProfile; none takes more memory than a few times its size.
func Decode(data []byte, k Key) (Costs, error) {
	bad := func(format string, args ...any) (Costs, error) {
		return Costs{}, fmt.Errorf("%w: %s", ErrProfile, fmt.Sprintf(format, args...))
	}
	if len(data) > maxProfile {
		return bad("%d bytes: want %d at most", len(data), maxProfile)
	}
	reader := bytes.NewReader(data)
	in := input{d: msgpack.NewDecoder(reader)}
	s := in.stored()
	if in.err != nil {
		return bad("%v", in.err)
	}
	if s.Magic != profileMagic {
		return bad("they begin with %q, want %q", s.Magic, profileMagic)
	}
	if s.Version != profileVersion {
		return bad("version %d, want %d", s.Version, profileVersion)
	}
	if reader.Len() > 0 {
		return bad("%d bytes after the end", reader.Len())
	}
	for i, h := range k.hash() {
		if !bytes.Equal(s.Key[i], h[:]) {
			return bad("they are of another %s", keyNames[i])
		}
	}
	var c Costs
	for _, r := range s.Rows {
		row := Row{Threads: r.Threads, Token: time.Duration(r.TokenNS), Draft: r.Draft}
		if len(r.Widths) != len(r.Ratios) {
			return bad("%d widths, but %d ratios", len(r.Widths), len(r.Ratios))
		}
		for i, w := range r.Widths {
			row.Verify = append(row.Verify, Point{w, r.Ratios[i]})
		}
		c.Rows = append(c.Rows, row)
	}
	if err := c.Validate(); err != nil {
		return bad("%v", err)
	}
	return c, nil
}

// input reads what stored is written as, field by field: msgpack by itself makes
// room for as many elements or bytes as a length claims, and four bytes may
// claim four billion. The first error stays.
type input struct {
	d   *msgpack.Decoder
	err error
}

func (in *input) stored() stored {
	var s stored
	in.array("profile", 4, 4)
	s.Magic = string(in.bytes(len(profileMagic)))
	s.Version = take(in, in.d.DecodeInt)
	in.array("key", len(s.Key), len(s.Key))
	for i := range s.Key {
		s.Key[i] = in.bytes(len(Key{}.hash()[i]))
	}
	for range in.array("rows", 0, maxThreads) {
		s.Rows = append(s.Rows, in.row())
	}
	return s
}

func (in *input) row() storedRow {
	var r storedRow
	in.array("row", 5, 5)
	r.Threads = take(in, in.d.DecodeInt)
	r.TokenNS = take(in, in.d.DecodeInt64)
	r.Draft = take(in, in.d.DecodeFloat64)
	for range in.array("widths", 0, maxPoints) {
		r.Widths = append(r.Widths, take(in, in.d.DecodeInt))
	}
	for range in.array("ratios", 0, maxPoints) {
		r.Ratios = append(r.Ratios, take(in, in.d.DecodeFloat64))
	}
	return r
}

// bytes reads a string or bytes of exactly n.
func (in *input) bytes(n int) []byte {
	if got := take(in, in.d.DecodeBytesLen); in.err == nil && got != n {
		in.err = fmt.Errorf("a text of %d bytes: want %d", got, n)
	}
	b := make([]byte, n)
	if in.err == nil {
		in.err = in.d.ReadFull(b)
	}
	return b
}

// array reads the length of an array, and gives 0 where it is not least…most.
// A nil array, as msgpack writes an empty one, has the length 0.
func (in *input) array(what string, least, most int) int {
	n := max(0, take(in, in.d.DecodeArrayLen))
	if in.err == nil && (n < least || n > most) {
		in.err = fmt.Errorf("%s: %d elements: want %d…%d", what, n, least, most)
	}
	if in.err != nil {
		return 0
	}
	return n
}

func take[T any](in *input, read func() (T, error)) T {
	var v T
	if in.err == nil {
		v, in.err = read()
	}
	return v
}
