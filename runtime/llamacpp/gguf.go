package llamacpp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// llama.cpp asserts on a few numbers of a model's metadata, which ends the
// process, so those are read here first. Everything else it refuses by itself.

const (
	maxLayers   = 512 // LLAMA_MAX_LAYERS of v0.5.0
	maxMetadata = 1 << 16
	maxKeyBytes = 1 << 16
)

// Types of GGUF values.
const (
	ggufString = 8
	ggufArray  = 9
)

var ggufSizes = map[uint32]int64{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

var errMetadata = errors.New("its metadata is damaged")

// checkMetadata reads the key-value pairs of a GGUF file and refuses numbers on
// which llama.cpp would abort.
func checkMetadata(r io.Reader) error {
	in := bufio.NewReader(r)
	var head struct {
		Magic, Version uint32
		Tensors, Pairs uint64
	}
	if err := binary.Read(in, binary.LittleEndian, &head); err != nil {
		return fmt.Errorf("%w: the header ends early", errMetadata)
	}
	if head.Version < 2 || head.Version > 3 || head.Pairs > maxMetadata {
		return nil // llama.cpp says what is wrong with those
	}
	for range head.Pairs {
		key, err := ggufText(in)
		if err != nil {
			return err
		}
		var kind uint32
		if err := binary.Read(in, binary.LittleEndian, &kind); err != nil {
			return fmt.Errorf("%w: it ends in key %q", errMetadata, key)
		}
		if err := checkValue(in, key, kind); err != nil {
			return err
		}
	}
	return nil
}

func ggufText(in *bufio.Reader) (string, error) {
	var n uint64
	if err := binary.Read(in, binary.LittleEndian, &n); err != nil || n > maxKeyBytes {
		return "", fmt.Errorf("%w: a key of %d bytes", errMetadata, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return "", fmt.Errorf("%w: it ends in a key", errMetadata)
	}
	return string(text), nil
}

// checkValue skips a value, and looks at it if its key is one of the few.
func checkValue(in *bufio.Reader, key string, kind uint32) error {
	size, fixed := ggufSizes[kind]
	switch {
	case fixed && size == 4 && strings.HasSuffix(key, ".block_count"):
		var n uint32
		if err := binary.Read(in, binary.LittleEndian, &n); err == nil && (n == 0 || n > maxLayers) {
			return fmt.Errorf("%w: %s is %d, want 1…%d", errMetadata, key, n, maxLayers)
		}
		return nil
	case kind == 6 && strings.HasSuffix(key, "_epsilon"):
		var bits uint32
		binary.Read(in, binary.LittleEndian, &bits)
		if x := float64(math.Float32frombits(bits)); math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return fmt.Errorf("%w: %s is %v, want a small number", errMetadata, key, x)
		}
		return nil
	case fixed:
		return ggufSkip(in, size)
	case kind == ggufString:
		return ggufSkipTexts(in, 1)
	case kind == ggufArray:
		return ggufSkipArray(in, key)
	}
	return fmt.Errorf("%w: key %q has a value of type %d", errMetadata, key, kind)
}

func ggufSkipArray(in *bufio.Reader, key string) error {
	var array struct {
		Kind  uint32
		Count uint64
	}
	if err := binary.Read(in, binary.LittleEndian, &array); err != nil || array.Count > 1<<28 {
		return fmt.Errorf("%w: key %q has a list of %d", errMetadata, key, array.Count)
	}
	if array.Kind == ggufString {
		return ggufSkipTexts(in, array.Count)
	}
	return ggufSkip(in, ggufSizes[array.Kind]*int64(array.Count))
}

func ggufSkipTexts(in *bufio.Reader, count uint64) error {
	for range count {
		var n uint64
		if err := binary.Read(in, binary.LittleEndian, &n); err != nil || n > 1<<30 {
			return fmt.Errorf("%w: a text of %d bytes", errMetadata, n)
		}
		if err := ggufSkip(in, int64(n)); err != nil {
			return err
		}
	}
	return nil
}

func ggufSkip(in *bufio.Reader, n int64) error {
	if _, err := io.CopyN(io.Discard, in, n); err != nil {
		return fmt.Errorf("%w: it ends early", errMetadata)
	}
	return nil
}
