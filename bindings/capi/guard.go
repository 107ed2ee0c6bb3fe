//go:build cgo

package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -I${SRCDIR}/../include
#cgo linux LDFLAGS: -Wl,--wrap=sigaction -ldl
#include "lull.h"
#include "signals.h"
#include "wait.h"
*/
import "C"

import (
	"runtime/debug"
	"sync"

	"github.com/lull-npc/lull/bindings/capi/world"
)

func init() {
	world.Settled = func() { C.lull_exit_register() }
}

// failures keeps the text of the last failure that named no world.
var failures struct {
	sync.Mutex
	text string
}

// refuse ends a call that found no world.
func refuse(err error) C.int32_t {
	failures.Lock()
	failures.text = err.Error()
	failures.Unlock()
	return C.int32_t(world.CodeOf(err))
}

// answer ends a call in a world: its failure is kept there.
func answer(w *world.World, err error) C.int32_t {
	if err == nil {
		return C.LULL_OK
	}
	w.Note(err)
	return C.int32_t(world.CodeOf(err))
}

// recovered makes a result of a panic, which is a bug of ours. The world stays
// usable: its lock is given back by the entry's own defer.
func recovered(entry string, result *C.int32_t) {
	if p := recover(); p != nil {
		*result = panicked(entry, p)
	}
}

func recovered64(entry string, result *C.int64_t) {
	if p := recover(); p != nil {
		*result = C.int64_t(panicked(entry, p))
	}
}

func panicked(entry string, p any) C.int32_t {
	return refuse(world.Errorf(world.Internal, "%s: %v\n%s", entry, p, debug.Stack()))
}

func worldID(id C.lull_world_id) world.ID {
	return world.ID{Index1: uint32(id.index1), Generation: uint32(id.generation)}
}

func npcID(id C.lull_npc_id) world.NPCID {
	return world.NPCID{Index1: uint16(id.index1), World1: uint16(id.world1), Generation: uint32(id.generation)}
}

func flag(name string, v C.int32_t) (bool, error) {
	if v != 0 && v != 1 {
		return false, world.Errorf(world.InvalidArgument, "%s is %d: want 0 or 1", name, v)
	}
	return v == 1, nil
}

// reserved checks a field that a later version may give a meaning.
func reserved(v C.int32_t) error {
	if v != 0 {
		return world.Errorf(world.InvalidArgument, "a reserved field is %d: want 0", v)
	}
	return nil
}

func truth(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

//export lullgo_touch
func lullgo_touch() {}

//export lullgo_destroy_begin
func lullgo_destroy_begin(id C.lull_world_id) (result C.int32_t) {
	defer recovered("lull_world_destroy", &result)
	if err := world.BeginDestroy(worldID(id)); err != nil {
		return refuse(err)
	}
	return C.LULL_OK
}

//export lullgo_destroy_ended
func lullgo_destroy_ended(id C.lull_world_id) (ended C.int32_t) {
	defer recovered("lull_world_destroy", &ended)
	return truth(world.Ended(worldID(id)))
}

//export lullgo_destroy_late
func lullgo_destroy_late(id C.lull_world_id) {
	var result C.int32_t
	defer recovered("lull_world_destroy", &result)
	refuse(world.Errorf(world.Timeout, "the world of generation %d did not end within %d ms; it goes on ending",
		id.generation, C.LULL_DESTROY_MS_MAX))
}

//export lullgo_open_worlds
func lullgo_open_worlds(ids *C.lull_world_id, capacity C.int32_t) (n C.int32_t) {
	defer recovered("exit", &n)
	for i, id := range world.Open() {
		if i == int(capacity) {
			break
		}
		*at(ids, i) = C.lull_world_id{index1: C.uint32_t(id.Index1), generation: C.uint32_t(id.Generation)}
		n++
	}
	return n
}
