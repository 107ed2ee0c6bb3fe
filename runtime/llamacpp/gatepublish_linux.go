//go:build cgo

package llamacpp

/*
#include "gate.h"
*/
import "C"

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/lull-npc/lull/runtime/llm"
)

// publish is lull_gate_publish without entering C: four such calls a frame
// cost the game thread more than their work, and Go's scheduler may take its
// processor away while it is in one. Only a sleeping model needs the system.
func (g *gate) publish(w llm.Window) {
	c := g.c
	spill := int32(0)
	if w.Spill {
		spill = 1
	}
	shut := int32(0)
	if w.Shut() {
		shut = 1
	}
	seq := word[atomic.Uint32](unsafe.Pointer(&c.seq))
	seq.Add(1)
	mode := word[atomic.Int32](unsafe.Pointer(&c.mode))
	closes := w.Mode == llm.GateClosed && mode.Load() != int32(llm.GateClosed)
	mode.Store(int32(w.Mode))
	word[atomic.Int32](unsafe.Pointer(&c.layers_per_stop)).Store(int32(w.LayersPerStop))
	word[atomic.Int64](unsafe.Pointer(&c.open_ns)).Store(w.Open)
	word[atomic.Int64](unsafe.Pointer(&c.close_ns)).Store(w.Close)
	word[atomic.Int64](unsafe.Pointer(&c.pause_ns)).Store(int64(w.Pause))
	word[atomic.Int64](unsafe.Pointer(&c.expires_ns)).Store(w.Expires)
	word[atomic.Int32](unsafe.Pointer(&c.spill)).Store(spill)
	word[atomic.Int32](unsafe.Pointer(&c.shut)).Store(shut)
	seq.Add(1)
	if shut != 0 && !closes {
		return
	}
	wake := word[atomic.Uint32](unsafe.Pointer(&c.wake))
	wake.Add(1)
	if word[atomic.Uint32](unsafe.Pointer(&c.waiters)).Load() == 0 {
		return
	}
	began := time.Now()
	const wakePrivate = 1 | 128 // FUTEX_WAKE_PRIVATE
	syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&c.wake)), wakePrivate, math.MaxInt32, 0, 0, 0)
	g.wakes, g.took = g.wakes+1, g.took+time.Since(began)
}

func (g *gate) activity() (running bool, groups uint64) {
	return word[atomic.Int32](unsafe.Pointer(&g.c.running)).Load() > 0,
		word[atomic.Uint64](unsafe.Pointer(&g.c.groups)).Load()
}

// word is an _Atomic of C's as Go has it.
func word[T any](p unsafe.Pointer) *T { return (*T)(p) }
