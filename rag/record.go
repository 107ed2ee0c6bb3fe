package rag

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
)

// ErrRecord is wrapped by what is wrong with stored bytes.
var ErrRecord = errors.New("rag: not a record")

// kind is what a record says. Numbers are never used again.
type kind uint8

const (
	kindHead      kind = 1 // of a journal or a snapshot
	kindRemember  kind = 2
	kindReinforce kind = 3
	kindSupersede kind = 4
	kindUsed      kind = 5
	kindVector    kind = 6
	kindIdentity  kind = 7
	kindKept      kind = 8 // a memory of a snapshot, with its vectors
	kindEnd       kind = 9 // of a snapshot
	kindSave      kind = 0 // a save to be made: in the queue only, never written
)

// formatVersion is written into each head. New fields go last, with a new
// version.
const formatVersion = 1

// head opens a journal or a snapshot.
type head struct {
	version    int
	generation uint64 // of the snapshot that a journal continues
	branch     uint64 // of this future
	parent     uint64 // branch that it forked from, 0 for none …
	fork       uint64 // … at this position
	position   uint64 // the last change that a snapshot holds
	next       uint64 // the next position to give
	identity   Identity
	count      int // memories of a snapshot
}

// op is one change: what waits in the queue, stands in the journal and makes
// the state.
type op struct {
	kind   kind
	seq    uint64 // position; the id of a memory is where it was made
	mem    Memory
	id, by ID
	at     GameTime
	level  int // importance
	ids    []ID
	vecs   []vector // all of one memory
	model  Identity
	save   *saveJob
	stamp  time.Duration // play time when it was queued; not stored
}

const (
	maxUsed   = maxDepth // memories that one recall returns at most
	maxPieces = 8        // vectors of one memory: 8 kB of text, the rest is found by words
	// maxPayload bounds a frame: the text, the names, the sources and the vectors
	// of the largest memory, and room for what msgpack adds.
	maxPayload = MaxText + (MaxAudience+3)*(MaxName+8) + MaxSources*9 + maxPieces*(maxDimension+16) + 1024
)

// encoder writes records; a bytes.Buffer never fails.
type encoder struct {
	buf bytes.Buffer
	e   *msgpack.Encoder
}

func newEncoder() *encoder {
	e := &encoder{}
	e.e = msgpack.NewEncoder(&e.buf)
	return e
}

func (e *encoder) begin(k kind, fields int) {
	e.buf.Reset()
	_ = e.e.EncodeArrayLen(fields + 1)
	e.uint(uint64(k))
}

func (e *encoder) uint(v uint64) { _ = e.e.EncodeUint(v) }
func (e *encoder) int(v int64)   { _ = e.e.EncodeInt(v) }
func (e *encoder) text(s string) { _ = e.e.EncodeString(s) }
func (e *encoder) array(n int)   { _ = e.e.EncodeArrayLen(n) }
func (e *encoder) bool(b bool)   { _ = e.e.EncodeBool(b) }

func (e *encoder) ids(ids []ID) {
	e.array(len(ids))
	for _, id := range ids {
		e.uint(uint64(id))
	}
}

func (e *encoder) vector(v vector) {
	raw := make([]byte, len(v.q))
	for i, q := range v.q {
		raw[i] = byte(q)
	}
	_ = e.e.EncodeBytes(raw)
}

func (e *encoder) vectors(vs []vector) {
	e.array(len(vs))
	for _, v := range vs {
		e.vector(v)
	}
}

func (e *encoder) identity(i Identity) {
	e.text(i.Model)
	e.text(i.Pooling)
	e.uint(uint64(i.Dimension))
}

const memoryFields = 16

func (e *encoder) memory(m *Memory) {
	e.uint(uint64(m.ID))
	e.text(m.Owner)
	e.uint(uint64(m.Scope))
	e.array(len(m.Audience))
	for _, name := range m.Audience {
		e.text(name)
	}
	e.text(m.Text)
	e.text(m.Speaker)
	e.text(m.Scene)
	e.int(int64(m.At))
	e.uint(uint64(m.Importance))
	e.ids(m.Sources)
	e.uint(uint64(m.Reinforced))
	e.int(int64(m.LastUse))
	e.bool(m.Superseded)
	e.int(int64(m.Until))
	e.uint(uint64(m.SupersededBy))
	e.uint(0) // room for what comes next without a new version
}

func (e *encoder) head(h head) []byte {
	e.begin(kindHead, 11)
	e.uint(uint64(h.version))
	for _, v := range []uint64{h.generation, h.branch, h.parent, h.fork, h.position, h.next} {
		e.uint(v)
	}
	e.identity(h.identity)
	e.uint(uint64(h.count))
	return e.buf.Bytes()
}

// op gives the payload of one change, valid until the next call.
func (e *encoder) op(o *op) []byte {
	switch o.kind {
	case kindRemember:
		e.begin(o.kind, 1+memoryFields)
		e.uint(o.seq)
		e.memory(&o.mem)
	case kindReinforce:
		e.begin(o.kind, 4)
		e.uint(o.seq)
		e.uint(uint64(o.id))
		e.int(int64(o.at))
		e.uint(uint64(o.level))
	case kindSupersede:
		e.begin(o.kind, 4)
		e.uint(o.seq)
		e.uint(uint64(o.id))
		e.uint(uint64(o.by))
		e.int(int64(o.at))
	case kindUsed:
		e.begin(o.kind, 3)
		e.uint(o.seq)
		e.int(int64(o.at))
		e.ids(o.ids)
	case kindVector:
		e.begin(o.kind, 3)
		e.uint(o.seq)
		e.uint(uint64(o.id))
		e.vectors(o.vecs)
	case kindIdentity:
		e.begin(o.kind, 4)
		e.uint(o.seq)
		e.identity(o.model)
	}
	return e.buf.Bytes()
}

func (e *encoder) kept(it *item) []byte {
	e.begin(kindKept, memoryFields+1)
	e.memory(&it.m)
	e.vectors(it.vectors)
	return e.buf.Bytes()
}

func (e *encoder) end(count int) []byte {
	e.begin(kindEnd, 1)
	e.uint(uint64(count))
	return e.buf.Bytes()
}

// decoder reads records field by field: msgpack by itself makes room for as much
// as a length claims, and five bytes may claim four billion. The first error
// stays.
type decoder struct {
	r   *bytes.Reader
	d   *msgpack.Decoder
	err error
}

func newDecoder(payload []byte) *decoder {
	r := bytes.NewReader(payload)
	return &decoder{r: r, d: msgpack.NewDecoder(r)}
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrRecord, fmt.Sprintf(format, args...))
	}
}

func take[T any](d *decoder, read func() (T, error)) T {
	var zero T
	if d.err != nil {
		return zero
	}
	v, err := read()
	if err != nil {
		d.err = fmt.Errorf("%w: %w", ErrRecord, err)
		return zero
	}
	return v
}

func (d *decoder) uint(most uint64) uint64 {
	v := take(d, d.d.DecodeUint64)
	if v > most {
		d.fail("number %d: want %d at most", v, most)
		return 0
	}
	return v
}

func (d *decoder) int() int64 { return take(d, d.d.DecodeInt64) }

// bytes reads text or bytes of at most most, and never more than there are.
func (d *decoder) bytes(most int) []byte {
	n := take(d, d.d.DecodeBytesLen)
	if n = max(n, 0); n > most || n > d.r.Len() {
		d.fail("%d bytes of text: want %d at most, %d are left", n, most, d.r.Len())
	}
	if d.err != nil {
		return nil
	}
	b := make([]byte, n)
	if err := d.d.ReadFull(b); err != nil {
		d.err = fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return b
}

func (d *decoder) text(most int) string {
	b := d.bytes(most)
	if !utf8.Valid(b) {
		d.fail("text that is not UTF-8")
	}
	return string(b)
}

func (d *decoder) array(least, most int) int {
	n := max(0, take(d, d.d.DecodeArrayLen))
	if n < least || n > most {
		d.fail("%d elements: want %d…%d", n, least, most)
	}
	if d.err != nil {
		return 0
	}
	return n
}

func (d *decoder) ids(most int) []ID {
	var out []ID
	for range d.array(0, most) {
		out = append(out, ID(d.uint(maxSeq)))
	}
	return out
}

func (d *decoder) identity() Identity {
	i := Identity{Model: d.text(MaxName), Pooling: d.text(MaxName), Dimension: int(d.uint(maxDimension))}
	if d.err == nil && i != (Identity{}) {
		if err := i.Validate(); err != nil {
			d.fail("%v", err)
		}
	}
	return i
}

func (d *decoder) vector() vector {
	raw := d.bytes(maxDimension)
	q := make([]int8, len(raw))
	for i, b := range raw {
		q[i] = max(int8(b), -127)
	}
	v := vector{q, scaleOf(q)}
	if v.scale == 0 {
		d.fail("a vector without direction")
	}
	return v
}

func (d *decoder) vectors(least int) []vector {
	var out []vector
	for range d.array(least, maxPieces) {
		out = append(out, d.vector())
	}
	return out
}

// maxSeq leaves room to count on from any stored position.
const maxSeq = 1 << 62

func (d *decoder) memory() Memory {
	m := Memory{ID: ID(d.uint(maxSeq)), Owner: d.text(MaxName), Scope: Scope(d.uint(uint64(scopes - 1)))}
	for range d.array(0, MaxAudience) {
		m.Audience = append(m.Audience, d.text(MaxName))
	}
	m.Text = d.text(MaxText)
	m.Speaker = d.text(MaxName)
	m.Scene = d.text(MaxName)
	m.At = GameTime(d.int())
	m.Importance = int(d.uint(10))
	m.Sources = d.ids(MaxSources)
	m.Reinforced = int(d.uint(1 << 31))
	m.LastUse = GameTime(d.int())
	m.Superseded = take(d, d.d.DecodeBool)
	m.Until = GameTime(d.int())
	m.SupersededBy = ID(d.uint(maxSeq))
	d.uint(0)
	if d.err != nil {
		return m
	}
	again, err := m.normal()
	switch {
	case err != nil:
		d.fail("%v", err)
	case m.ID == 0 || m.Importance != again.Importance || !slices.Equal(m.Audience, again.Audience):
		d.fail("memory %d is not as it is written", m.ID)
	}
	return m
}

// payload reads the array and the kind that each record begins with.
func (d *decoder) begin() (k kind, fields int) {
	fields = d.array(1, 64)
	return kind(d.uint(255)), fields - 1
}

func (d *decoder) fields(got, want int) {
	if got != want {
		d.fail("%d fields: want %d", got, want)
	}
}

func (d *decoder) finish() error {
	if d.err == nil && d.r.Len() > 0 {
		d.fail("%d bytes after its end", d.r.Len())
	}
	return d.err
}

func decodeHead(payload []byte) (head, error) {
	d := newDecoder(payload)
	k, n := d.begin()
	if k != kindHead {
		d.fail("record of kind %d: want a head", k)
	}
	d.fields(n, 11)
	var h head
	if h.version = int(d.uint(1 << 30)); h.version != formatVersion {
		d.fail("format %d: this program reads %d", h.version, formatVersion)
	}
	for _, v := range []*uint64{&h.generation, &h.branch, &h.parent, &h.fork, &h.position, &h.next} {
		*v = d.uint(maxSeq)
	}
	h.identity = d.identity()
	h.count = int(d.uint(maxMemories))
	return h, d.finish()
}

// decodeOp reads one change of a journal.
func decodeOp(payload []byte) (op, error) {
	d := newDecoder(payload)
	k, n := d.begin()
	o := op{kind: k, seq: d.uint(maxSeq)}
	switch k {
	case kindRemember:
		d.fields(n, 1+memoryFields)
		if o.mem = d.memory(); uint64(o.mem.ID) != o.seq {
			d.fail("memory %d at position %d", o.mem.ID, o.seq)
		}
	case kindReinforce:
		d.fields(n, 4)
		o.id, o.at, o.level = ID(d.uint(maxSeq)), GameTime(d.int()), int(d.uint(10))
	case kindSupersede:
		d.fields(n, 4)
		o.id, o.by, o.at = ID(d.uint(maxSeq)), ID(d.uint(maxSeq)), GameTime(d.int())
	case kindUsed:
		d.fields(n, 3)
		o.at, o.ids = GameTime(d.int()), d.ids(maxUsed)
	case kindVector:
		d.fields(n, 3)
		o.id, o.vecs = ID(d.uint(maxSeq)), d.vectors(1)
	case kindIdentity:
		d.fields(n, 4)
		o.model = d.identity()
	default:
		d.fail("kind %d: want a change", k)
	}
	return o, d.finish()
}

// decodeKept reads one memory of a snapshot.
func decodeKept(payload []byte) (*item, error) {
	d := newDecoder(payload)
	k, n := d.begin()
	if k != kindKept {
		d.fail("kind %d: want a memory", k)
	}
	d.fields(n, memoryFields+1)
	it := &item{m: d.memory(), vectors: d.vectors(0)}
	return it, d.finish()
}

func decodeEnd(payload []byte) (count int, err error) {
	d := newDecoder(payload)
	k, n := d.begin()
	if k != kindEnd {
		d.fail("kind %d: want the end", k)
	}
	d.fields(n, 1)
	return int(d.uint(maxMemories)), d.finish()
}
