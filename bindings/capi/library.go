//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"runtime/debug"
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
)

// version is set by the Makefile: -X main.version=…
var version = ""

func libraryVersion() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "devel"
}

func abiVersion() C.int32_t { return C.LULL_ABI_VERSION }

func abiCheck(abi, eventBytes C.int32_t) C.int32_t {
	if abi != C.LULL_ABI_VERSION {
		return refuse(world.Errorf(world.ABI, "the header is of ABI version %d, this library (%s) of %d",
			abi, libraryVersion(), C.LULL_ABI_VERSION))
	}
	err := checkSize("sizeof(lull_event)", uintptr(max(0, eventBytes)), firstEvent, C.sizeof_lull_event)
	if err != nil {
		return refuse(world.Errorf(world.ABI, "%v", err))
	}
	return C.LULL_OK
}

// plain ends a call that belongs to no world.
func plain(err error) C.int32_t {
	if err != nil {
		return refuse(err)
	}
	return C.LULL_OK
}

func libraryText(text string, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	return plain(textOut(text, buffer, capacity, length))
}

func libVersion(buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	return libraryText(libraryVersion(), buffer, capacity, length)
}

func resultText(result C.int32_t, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	code := world.Code(result)
	if !code.Known() {
		return refuse(world.Errorf(world.InvalidArgument, "%d is no result of lull", result))
	}
	return libraryText(code.String(), buffer, capacity, length)
}

// lastError never replaces the text that it copies.
func lastError(id C.lull_world_id, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	text := ""
	if id == (C.lull_world_id{}) {
		failures.Lock()
		text = failures.text
		failures.Unlock()
	} else {
		w, err := world.Enter(worldID(id))
		if err != nil {
			return C.int32_t(world.CodeOf(err))
		}
		text = w.LastError()
		w.Leave()
	}
	return C.int32_t(world.CodeOf(textOut(text, buffer, capacity, length)))
}

func timeNs() C.int64_t { return C.int64_t(world.Clock.Now()) }

// defaultOut fills in a def: as much of it as the host knows.
func defaultOut[T any](def *T, p unsafe.Pointer, size C.uint32_t, first uintptr) C.int32_t {
	if p == nil {
		return refuse(world.Errorf(world.NullPointer, "def is null"))
	}
	if err := checkSize("struct_size", uintptr(size), first, unsafe.Sizeof(*def)); err != nil {
		return refuse(err)
	}
	copyFrom(def, p, uintptr(size))
	*(*C.uint32_t)(p) = size
	return C.LULL_OK
}
