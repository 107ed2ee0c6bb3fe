//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
	"github.com/lull-npc/lull/scheduler"
)

func frameBegin(id C.lull_world_id, frame C.uint64_t, target, now C.int64_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, w.FrameBegin(uint64(frame), time.Duration(target), int64(now)))
}

func frameEnd(id C.lull_world_id, frame C.uint64_t, deadline, now C.int64_t, out *C.lull_decision) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	d, err := w.FrameEnd(uint64(frame), int64(deadline), int64(now))
	if err != nil || out == nil {
		return answer(w, err)
	}
	return answer(w, decisionOut(d, out))
}

func decisionOut(d scheduler.Decision, out *C.lull_decision) error {
	c := C.lull_decision{
		bottleneck: C.int32_t(d.Bottleneck), confidence: C.float(d.Confidence), openness: C.float(d.Openness),
		gate: C.int32_t(d.Gate), threads: C.int32_t(d.Threads), layers_per_stop: C.int32_t(d.LayersPerStop),
		prefill_chunk_tokens: C.int32_t(d.PrefillChunk), margin_ns: C.int64_t(d.Margin), pause_ns: C.int64_t(d.Pause),
		reference_ns: C.int64_t(d.Reference), reason: C.int32_t(d.Reason),
	}
	return structOut("decision", &c, unsafe.Pointer(out), firstDecision)
}

func frameSetTimings(id C.lull_world_id, frame C.uint64_t, in C.lullgo_const_lull_frame_timings) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	var c C.lull_frame_timings
	if err := structIn("timings", unsafe.Pointer(in), firstTimings, &c); err != nil {
		return answer(w, err)
	}
	known, err := flag("present_wait_known", c.present_wait_known)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, w.FrameTimings(uint64(frame), scheduler.FrameTimings{
		MainBusy: time.Duration(c.main_busy_ns), RenderBusy: time.Duration(c.render_busy_ns),
		GPUBusy: time.Duration(c.gpu_busy_ns), PresentWait: time.Duration(c.present_wait_ns), PresentWaitKnown: known,
	}))
}

func frameAddSample(id C.lull_world_id, in C.lullgo_const_lull_frame_sample, out *C.lull_decision) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	var c C.lull_frame_sample
	if err := structIn("sample", unsafe.Pointer(in), firstSample, &c); err != nil {
		return answer(w, err)
	}
	known, err := flag("present_wait_known", c.present_wait_known)
	if err != nil {
		return answer(w, err)
	}
	d, err := w.FrameSample(scheduler.FrameSample{
		Frame: uint64(c.frame), Start: scheduler.Instant(c.begin_ns), End: scheduler.Instant(c.end_ns),
		Target: time.Duration(c.target_ns), MainBusy: time.Duration(c.main_busy_ns),
		RenderBusy: time.Duration(c.render_busy_ns), GPUBusy: time.Duration(c.gpu_busy_ns),
		PresentWait: time.Duration(c.present_wait_ns), PresentWaitKnown: known,
	})
	if err != nil || out == nil {
		return answer(w, err)
	}
	return answer(w, decisionOut(d, out))
}

func worldGetDecision(id C.lull_world_id, out *C.lull_decision) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	d, err := w.Decision()
	if err != nil {
		return answer(w, err)
	}
	return answer(w, decisionOut(d, out))
}

func decisionReasonName(reason C.int32_t, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	if reason < 0 || int(reason) >= scheduler.Reasons {
		return refuse(world.Errorf(world.InvalidArgument, "reason is %d: want one of a decision", reason))
	}
	return libraryText(scheduler.Reason(reason).String(), buffer, capacity, length)
}
