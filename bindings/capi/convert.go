//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
)

// at is the i-th element of an array in C memory.
func at[T any](first *T, i int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(first), uintptr(i)*unsafe.Sizeof(*first)))
}

// terminated finds the NUL that ends a text, looking at limit+1 bytes at most.
func terminated(p *C.char, limit int) int {
	for n := 0; n <= limit; n++ {
		if *at(p, n) == 0 {
			return n
		}
	}
	return limit + 1
}

// textIn copies text of the host. A null pointer is the empty text.
func textIn(name string, p *C.char, bytes C.int32_t, limit int) (string, error) {
	if bytes < C.LULL_TERMINATED {
		return "", world.Errorf(world.InvalidArgument, "the length of %s is %d: want 0 or more, or LULL_TERMINATED",
			name, bytes)
	}
	if p == nil {
		if bytes > 0 {
			return "", world.Errorf(world.NullPointer, "%s is null and its length %d", name, bytes)
		}
		return "", nil
	}
	n := int(bytes)
	if n == C.LULL_TERMINATED {
		n = terminated(p, limit)
	}
	if n > limit {
		return "", world.Errorf(world.TooLong, "%s has more than %d bytes", name, limit)
	}
	text := string(unsafe.Slice((*byte)(unsafe.Pointer(p)), n))
	if !utf8.ValidString(text) {
		return "", world.Errorf(world.UTF8, "%s is no valid UTF-8", name)
	}
	return text, nil
}

// wanted is textIn for text that must be given.
func wanted(name string, p C.lullgo_const_char, bytes C.int32_t, limit int) (string, error) {
	if p == nil {
		return "", world.Errorf(world.NullPointer, "%s is null", name)
	}
	return textIn(name, (*C.char)(p), bytes, limit)
}

// texts copies several texts of a struct of the host.
func texts(from ...textField) error {
	for _, f := range from {
		text, err := textIn(f.name, f.p, f.bytes, f.limit)
		if err != nil {
			return err
		}
		*f.to = text
	}
	return nil
}

type textField struct {
	name  string
	p     *C.char
	bytes C.int32_t
	limit int
	to    *string
}

// lines splits a text at its line ends; empty lines do not count.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// fit is how many bytes of text go into room, whole characters only.
func fit(text string, room int) int {
	if len(text) <= room {
		return len(text)
	}
	n := max(room, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// textOut copies text to the host: as much as fits, then a NUL.
func textOut(text string, buffer *C.char, capacity C.int32_t, length *C.int32_t) error {
	switch {
	case capacity < 0:
		return world.Errorf(world.InvalidArgument, "capacity_bytes is %d: want 0 or more", capacity)
	case buffer == nil && capacity > 0:
		return world.Errorf(world.NullPointer, "buffer is null and capacity_bytes %d", capacity)
	}
	if length != nil {
		*length = C.int32_t(len(text))
	}
	n := fit(text, int(capacity)-1)
	if capacity > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(buffer)), n), text)
		*at(buffer, n) = 0
	}
	if n < len(text) || capacity == 0 && length == nil {
		return world.Errorf(world.BufferTooSmall, "the buffer has %d bytes, the text %d and a NUL", capacity, len(text))
	}
	if capacity == 0 {
		return world.Errorf(world.BufferTooSmall, "the text has %d bytes and a NUL", len(text))
	}
	return nil
}

// firstSizes are the bytes that the structs had in ABI version 1. A host may be
// older than this library and give as little; it may not be newer.
const (
	firstWorldDef     = 176
	firstWorldStatus  = 24
	firstNPCDef       = 56
	firstParameterDef = 80
	firstActionValue  = 96
	firstQuestDef     = 48
	firstMemoryDef    = 32
	firstTimings      = 40
	firstSample       = 72
	firstHostSignals  = 24
	firstDecision     = 64
	firstStatistics   = 112
	firstEvent        = 320
)

// sized checks the struct_size with which a struct begins.
func sized(name string, p unsafe.Pointer, first, now uintptr) (uintptr, error) {
	if p == nil {
		return 0, world.Errorf(world.NullPointer, "%s is null", name)
	}
	size := uintptr(*(*uint32)(p))
	if fits(size, first, now) { // here, since a name put together would be an allocation each frame
		return size, nil
	}
	return size, checkSize(name+".struct_size", size, first, now)
}

func fits(size, first, now uintptr) bool { return size >= first && size <= now && size%4 == 0 }

func checkSize(what string, size, first, now uintptr) error {
	switch {
	case fits(size, first, now):
		return nil
	case size < first:
		return world.Errorf(world.StructSize, "%s is %d: want sizeof, which is %d here", what, size, now)
	case size > now:
		return world.Errorf(world.StructSize, "%s is %d, this library knows %d bytes: it is older than the header",
			what, size, now)
	}
	return world.Errorf(world.StructSize, "%s is %d: no struct of lull.h had that", what, size)
}

// structIn copies a struct of the host over its defaults.
func structIn[T any](name string, p unsafe.Pointer, first uintptr, into *T) error {
	size, err := sized(name, p, first, unsafe.Sizeof(*into))
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(into)), size), unsafe.Slice((*byte)(p), size))
	return nil
}

// structOut copies a struct to the host, as much of it as the host knows.
func structOut[T any](name string, from *T, p unsafe.Pointer, first uintptr) error {
	size, err := sized(name, p, first, unsafe.Sizeof(*from))
	if err != nil {
		return err
	}
	copyFrom(from, p, size)
	return nil
}

// copyFrom leaves the struct_size that the host set.
func copyFrom[T any](from *T, p unsafe.Pointer, size uintptr) {
	const skip = unsafe.Sizeof(uint32(0))
	copy(unsafe.Slice((*byte)(unsafe.Add(p, skip)), size-skip),
		unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(from), skip)), size-skip))
}
