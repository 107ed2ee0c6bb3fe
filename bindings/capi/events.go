//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

func pollEvents(id C.lull_world_id, events *C.lull_event, size, capacity C.int32_t, count *C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	if count == nil {
		return answer(w, world.Errorf(world.NullPointer, "count is null"))
	}
	*count = 0
	switch {
	case capacity < 0:
		return answer(w, world.Errorf(world.InvalidArgument, "capacity is %d: want 0 or more", capacity))
	case events == nil && capacity > 0:
		return answer(w, world.Errorf(world.NullPointer, "events is null and capacity %d", capacity))
	}
	if err := checkSize("event_size_bytes", uintptr(max(0, size)), firstEvent, C.sizeof_lull_event); err != nil {
		return answer(w, err)
	}
	gathered := false
	for n := C.int32_t(0); n < capacity; {
		e := w.Peek()
		if e == nil {
			if gathered {
				break
			}
			gathered = true
			w.Collect()
			continue
		}
		eventOut(w, e, unsafe.Add(unsafe.Pointer(events), int(n)*int(size)), uintptr(size))
		n++
		*count = n
	}
	return C.LULL_OK
}

// eventOut copies an event, or of a long text the next part.
func eventOut(w *world.World, e *world.Event, to unsafe.Pointer, size uintptr) {
	id := e.ID()
	c := C.lull_event{
		kind: C.int32_t(e.Kind), result: C.int32_t(e.Result),
		npc: C.lull_npc_id{index1: C.uint16_t(id.Index1), world1: C.uint16_t(id.World1),
			generation: C.uint32_t(id.Generation)},
		reply: C.uint64_t(e.Turn), reason: reason(e), tokens: C.int32_t(e.Tokens),
		prompt_tokens: C.int32_t(e.Usage.Prompt), reused_tokens: C.int32_t(e.Usage.Reused),
		first_ns: C.int64_t(e.Usage.TTFT), total_ns: C.int64_t(e.Usage.Total),
		sentence: C.uint64_t(e.Sentence),
	}
	n := fit(e.Text, C.LULL_EVENT_TEXT_BYTES-1)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&c.text[0])), C.LULL_EVENT_TEXT_BYTES), e.Text[:n])
	c.text_bytes = C.int32_t(n)
	rest := e.Text[n:]
	if e.Kind.Long() && rest != "" {
		c.more = 1
		e.Text = rest
	} else {
		w.Drop()
	}
	copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(unsafe.Pointer(&c)), size))
}

func reason(e *world.Event) C.int32_t {
	if e.Kind != world.Done {
		return C.LULL_REASON_NONE
	}
	switch e.Reason {
	case string(llm.DoneEnd):
		return C.LULL_REASON_END
	case string(llm.DoneStop):
		return C.LULL_REASON_STOP
	case string(llm.DoneLength):
		return C.LULL_REASON_LENGTH
	case string(llm.DoneContext):
		return C.LULL_REASON_CONTEXT
	case string(npc.SpeechEnough):
		return C.LULL_REASON_SENTENCE
	case string(npc.SpeechRepeats):
		return C.LULL_REASON_REPEATS
	case string(npc.SpeechVoice):
		return C.LULL_REASON_VOICE
	}
	return C.LULL_REASON_OTHER
}
