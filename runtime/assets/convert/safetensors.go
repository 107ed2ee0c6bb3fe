package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/x448/float16"
)

// Limits on a safetensors file. The header of a BERT with 24 layers has 40 kB.
const (
	maxHeaderBytes = 4 << 20 // more is no header of an embedder; the format itself allows 100 MB
	maxTensors     = 4096
	maxDimensions  = 4 // of any tensor that is read; positions and weights have 1 or 2
)

// ErrWeights says that a weights file cannot be used.
var ErrWeights = errors.New("weights cannot be read")

// elementBytes are the types of numbers that can be widened to float32.
var elementBytes = map[string]int64{"F32": 4, "F16": 2, "BF16": 2}

// tensor is where one tensor stands in a file. The span lies inside the file
// and is as long as type and shape say, if the type is one that can be read.
type tensor struct {
	kind     string
	shape    []int64
	from, to int64
}

// weights is an open safetensors file: a length, a JSON header, the numbers.
type weights struct {
	data    io.ReaderAt
	tensors map[string]tensor
}

type headerEntry struct {
	Kind    string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// openWeights reads the header and checks every number in it against size.
func openWeights(r io.ReaderAt, size int64) (*weights, error) {
	var length [8]byte
	if size < 8 {
		return nil, fmt.Errorf("%w: %d bytes are no safetensors file", ErrWeights, size)
	}
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWeights, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeaderBytes || int64(n) > size-8 {
		return nil, fmt.Errorf("%w: header of %d bytes in a file of %d, want at most %d", ErrWeights, n, size,
			maxHeaderBytes)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrWeights, err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrWeights, err)
	}
	if len(header) > maxTensors {
		return nil, fmt.Errorf("%w: %d tensors, want at most %d", ErrWeights, len(header), maxTensors)
	}
	w := &weights{r, make(map[string]tensor, len(header))}
	for name, raw := range header {
		if name == "__metadata__" {
			continue // notes for people
		}
		t, err := parseTensor(raw, 8+int64(n), size)
		if err != nil {
			return nil, fmt.Errorf("%w: tensor %.80q: %w", ErrWeights, name, err)
		}
		w.tensors[name] = t
	}
	return w, nil
}

func parseTensor(raw json.RawMessage, base, size int64) (tensor, error) {
	var e headerEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return tensor{}, err
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > size-base {
		return tensor{}, fmt.Errorf("bytes %v, want two offsets in 0…%d", e.Offsets, size-base)
	}
	t := tensor{e.Kind, e.Shape, base + e.Offsets[0], base + e.Offsets[1]}
	width, readable := elementBytes[t.kind]
	if !readable {
		return t, nil // never read: a file may hold ids and masks too
	}
	count, err := elements(t.shape)
	if err != nil {
		return tensor{}, err
	}
	if count > (t.to-t.from)/width || count*width != t.to-t.from {
		return tensor{}, fmt.Errorf("%s%v in %d bytes", t.kind, t.shape, t.to-t.from)
	}
	return t, nil
}

func elements(shape []int64) (int64, error) {
	count := int64(1)
	if len(shape) > maxDimensions {
		return 0, fmt.Errorf("%d dimensions, want at most %d", len(shape), maxDimensions)
	}
	for _, d := range shape {
		if d < 1 || count > math.MaxInt64/16/d {
			return 0, fmt.Errorf("shape %v is impossible", shape)
		}
		count *= d
	}
	return count, nil
}

// stream hands the numbers of a tensor to each, some thousand at a time, and
// refuses those that are not finite: one would make every vector useless.
func (w *weights) stream(name string, each func([]float32) error) error {
	t := w.tensors[name]
	width := elementBytes[t.kind]
	in := io.NewSectionReader(w.data, t.from, t.to-t.from)
	raw, out := make([]byte, 1<<16), make([]float32, 0, 1<<15)
	for left := t.to - t.from; left > 0; {
		part := raw[:min(left, int64(len(raw)))]
		if _, err := io.ReadFull(in, part); err != nil {
			return fmt.Errorf("%w: tensor %q: %w", ErrWeights, name, err)
		}
		left -= int64(len(part))
		out = out[:0]
		for ; len(part) > 0; part = part[width:] {
			x := widen(t.kind, part)
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("%w: tensor %q holds %v", ErrWeights, name, x)
			}
			out = append(out, x)
		}
		if err := each(out); err != nil {
			return err
		}
	}
	return nil
}

func widen(kind string, b []byte) float32 {
	switch kind {
	case "F16":
		return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()
	case "BF16":
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}
