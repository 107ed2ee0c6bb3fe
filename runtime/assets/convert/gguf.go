package convert

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/x448/float16"
)

// Numbers of the GGUF format, version 3.
const (
	ggufVersion   = 3
	ggufAlignment = 32 // of each tensor's data; the format's default

	valueUint32  = 4
	valueInt32   = 5
	valueFloat32 = 6
	valueBool    = 7
	valueString  = 8
	valueArray   = 9
)

// Formats of matrices, with ggml's numbers for a tensor of that type.
const (
	F32 Format = 0
	F16 Format = 1
)

// Format is how matrices are written.
type Format uint32

func (f Format) bytes() int64 {
	if f == F16 {
		return 2
	}
	return 4
}

type pair struct {
	key   string
	value any // uint32, float32, bool, string, []string or []int32
}

// entry is one tensor to write. Its sizes are named as ggml does: the row's
// length first.
type entry struct {
	name   string
	sizes  []int64
	format Format
	count  int64
	source string // its name in the safetensors file
}

// source hands the numbers of a tensor to each, part by part.
type source func(e entry, each func([]float32) error) error

// writeGGUF writes header, pairs, the list of tensors and their numbers.
func writeGGUF(out io.Writer, pairs []pair, list []entry, numbers source) error {
	w := &ggufWriter{out: bufio.NewWriterSize(out, 1<<20)}
	w.text("GGUF")
	w.put(uint32(ggufVersion), uint64(len(list)), uint64(len(pairs)))
	for _, p := range pairs {
		w.string(p.key)
		w.value(p.value)
	}
	offset := int64(0)
	for _, e := range list {
		w.string(e.name)
		w.put(uint32(len(e.sizes)), e.sizes, uint32(e.format), offset)
		offset += aligned(e.count * e.format.bytes())
	}
	w.align()
	for _, e := range list {
		written := int64(0)
		err := numbers(e, func(part []float32) error {
			written += int64(len(part))
			w.numbers(part, e.format)
			return w.err
		})
		if err != nil {
			return err
		}
		if written != e.count {
			return fmt.Errorf("tensor %s: %d numbers, want %d", e.name, written, e.count)
		}
		w.align()
	}
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

func aligned(n int64) int64 { return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment }

// ggufWriter remembers the first error, so that a file reads as a list.
type ggufWriter struct {
	out  *bufio.Writer
	at   int64
	err  error
	part []byte
}

func (w *ggufWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
		w.at += int64(len(b))
	}
}

func (w *ggufWriter) text(s string) { w.bytes([]byte(s)) }

func (w *ggufWriter) string(s string) {
	w.put(uint64(len(s)))
	w.text(s)
}

// put writes numbers of fixed width, little-endian.
func (w *ggufWriter) put(values ...any) {
	for _, v := range values {
		b, err := binary.Append(nil, binary.LittleEndian, v)
		if w.err == nil {
			w.err = err
		}
		w.bytes(b)
	}
}

func (w *ggufWriter) align() { w.bytes(make([]byte, aligned(w.at)-w.at)) }

func (w *ggufWriter) value(v any) {
	switch v := v.(type) {
	case uint32:
		w.put(uint32(valueUint32), v)
	case float32:
		w.put(uint32(valueFloat32), v)
	case bool:
		w.put(uint32(valueBool), v)
	case string:
		w.put(uint32(valueString))
		w.string(v)
	case []int32:
		w.put(uint32(valueArray), uint32(valueInt32), uint64(len(v)), v)
	case []string:
		w.put(uint32(valueArray), uint32(valueString), uint64(len(v)))
		for _, s := range v {
			w.string(s)
		}
	default:
		if w.err == nil {
			w.err = fmt.Errorf("metadata of type %T", v)
		}
	}
}

func (w *ggufWriter) numbers(list []float32, f Format) {
	w.part = w.part[:0]
	for _, x := range list {
		if f == F16 {
			half := float16.Fromfloat32(x)
			if half.IsInf(0) && w.err == nil {
				w.err = fmt.Errorf("%w: %v is too large for F16", ErrWeights, x)
			}
			w.part = binary.LittleEndian.AppendUint16(w.part, half.Bits())
		} else {
			w.part = binary.LittleEndian.AppendUint32(w.part, math.Float32bits(x))
		}
	}
	w.bytes(w.part)
}
