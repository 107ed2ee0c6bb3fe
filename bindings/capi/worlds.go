//go:build cgo

package main

/*
#include "entries_gen.h"
#include "signals.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
	"github.com/lull-npc/lull/scheduler"
)

func worldDefaults() C.lull_world_def {
	return C.lull_world_def{
		model_bytes: C.LULL_TERMINATED, library_bytes: C.LULL_TERMINATED, cache_bytes: C.LULL_TERMINATED,
		device_bytes: C.LULL_TERMINATED, low_priority: 1,
		player_bytes: C.LULL_TERMINATED, lore_bytes: C.LULL_TERMINATED, rules_bytes: C.LULL_TERMINATED,
		memory_folder_bytes: C.LULL_TERMINATED, blocked_bytes: C.LULL_TERMINATED, embedder_bytes: C.LULL_TERMINATED,
	}
}

func defaultWorldDef(def *C.lull_world_def, size C.uint32_t) C.int32_t {
	d := worldDefaults()
	return defaultOut(&d, unsafe.Pointer(def), size, firstWorldDef)
}

func worldCreate(def C.lullgo_const_lull_world_def, out *C.lull_world_id) C.int32_t {
	if out == nil {
		return refuse(world.Errorf(world.NullPointer, "world is null"))
	}
	*out = C.lull_world_id{}
	c := worldDefaults()
	if err := structIn("def", unsafe.Pointer(def), firstWorldDef, &c); err != nil {
		return refuse(err)
	}
	d, err := worldDef(&c)
	if err != nil {
		return refuse(err)
	}
	C.lull_exit_register()
	C.lull_signals_profiler()
	id, err := world.Create(d)
	if err != nil {
		return refuse(err)
	}
	*out = C.lull_world_id{index1: C.uint32_t(id.Index1), generation: C.uint32_t(id.Generation)}
	return C.LULL_OK
}

func worldDef(c *C.lull_world_def) (d world.Def, err error) {
	var lore, rules, blocked string
	const path, text = C.LULL_MAX_PATH_BYTES, C.LULL_MAX_PERSONA_BYTES
	err = texts(
		textField{"model", c.model, c.model_bytes, path, &d.Model},
		textField{"library", c.library, c.library_bytes, path, &d.Library},
		textField{"cache", c.cache, c.cache_bytes, path, &d.Cache},
		textField{"device", c.device, c.device_bytes, path, &d.Device},
		textField{"player", c.player, c.player_bytes, path, &d.Player},
		textField{"lore", c.lore, c.lore_bytes, text, &lore},
		textField{"rules", c.rules, c.rules_bytes, text, &rules},
		textField{"memory_folder", c.memory_folder, c.memory_folder_bytes, path, &d.MemoryFolder},
		textField{"blocked", c.blocked, c.blocked_bytes, text, &blocked},
		textField{"embedder", c.embedder, c.embedder_bytes, path, &d.Embedder},
	)
	if err != nil {
		return d, err
	}
	d.Lore, d.Rules, d.Blocked = lines(lore), lines(rules), lines(blocked)
	if c.model_kind != C.LULL_MODEL_LLAMA && c.model_kind != C.LULL_MODEL_SCRIPTED {
		return d, world.Errorf(world.InvalidArgument, "model_kind is %d: want one of enum lull_model_kind",
			c.model_kind)
	}
	if c.preset < 0 || c.preset > C.LULL_PRESET_LLM_FIRST {
		return d, world.Errorf(world.InvalidArgument, "preset is %d: want one of enum lull_preset", c.preset)
	}
	if d.LowPriority, err = flag("low_priority", c.low_priority); err != nil {
		return d, err
	}
	if d.Fetch, err = flag("fetch_missing", c.fetch_missing); err != nil {
		return d, err
	}
	d.Scripted = c.model_kind == C.LULL_MODEL_SCRIPTED
	d.Context, d.Sequences, d.Batch = int(c.context_tokens), int(c.sequences_max), int(c.batch_tokens_max)
	d.Requests, d.Threads = int(c.requests_max), int(c.threads)
	d.Preset = scheduler.Preset(c.preset)
	d.TokenTime = time.Duration(c.scripted_token_ns)
	d.MemoryMode, d.Seed, d.GameTime = world.MemoryMode(c.memory_mode), uint32(c.seed), int64(c.game_time_ns)
	d.BarkQuiet, d.ActionTimeout = time.Duration(c.bark_quiet_ns), time.Duration(c.action_timeout_ns)
	d.ContentTimeout = time.Duration(c.content_timeout_ns)
	if d.ContentHook, err = flag("content_hook", c.content_hook); err != nil {
		return d, err
	}
	return d, reserved(c.reserved0)
}

func worldIsValid(id C.lull_world_id) C.int32_t { return truth(world.Valid(worldID(id))) }

func worldGetStatus(id C.lull_world_id, out *C.lull_world_status) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	s := w.Status()
	c := C.lull_world_status{
		state: C.int32_t(s.State), result: C.int32_t(s.Result), progress: C.float(s.Progress),
		npcs: C.int32_t(s.NPCs), requests: C.int32_t(s.Requests),
	}
	return answer(w, structOut("status", &c, unsafe.Pointer(out), firstWorldStatus))
}

func worldCancelLoad(id C.lull_world_id) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, w.CancelLoad())
}

func worldModelName(id C.lull_world_id, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	r := w.Runtime()
	if r == nil {
		return answer(w, world.Errorf(world.NotReady, "the model is not loaded yet"))
	}
	return answer(w, textOut(r.Model.Info().Name, buffer, capacity, length))
}

func worldGetStatistics(id C.lull_world_id, out *C.lull_statistics) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	s := w.Statistics()
	c := C.lull_statistics{
		model_layers: C.int32_t(s.Info.Layers), model_context_tokens: C.int32_t(s.Info.Context),
		model_bytes: C.uint64_t(s.Info.Bytes), frames: C.uint64_t(s.Frames),
		replies: C.uint64_t(s.Replies), replies_broken: C.uint64_t(s.Broken),
		tokens_generated: C.uint64_t(s.Generated), tokens_prefilled: C.uint64_t(s.Prefilled),
		tokens_reused: C.uint64_t(s.Reused),
		computing_ns:  C.int64_t(s.Computing), waiting_ns: C.int64_t(s.Waiting),
		last_first_ns: C.int64_t(s.LastFirst), last_total_ns: C.int64_t(s.LastTotal),
		memories: C.uint64_t(s.Memories), heap_bytes: C.uint64_t(s.HeapBytes),
		heap_allocations: C.uint64_t(s.HeapAllocations),
	}
	return answer(w, structOut("statistics", &c, unsafe.Pointer(out), firstStatistics))
}

func worldSetPhase(id C.lull_world_id, phase C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, w.SetPhase(int32(phase)))
}

func worldSetHostSignals(id C.lull_world_id, in C.lullgo_const_lull_host_signals) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	var c C.lull_host_signals
	if err := structIn("signals", unsafe.Pointer(in), firstHostSignals, &c); err != nil {
		return answer(w, err)
	}
	if err := reserved(c.reserved0); err != nil {
		return answer(w, err)
	}
	return answer(w, w.SetHost(int32(c.thermal), int32(c.power),
		float32(c.thermal_headroom), float32(c.memory_pressure)))
}

func pollLog(id C.lull_world_id, level *C.int32_t, buffer *C.char, capacity C.int32_t,
	length *C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	var copied error
	some := w.PollLog(func(l world.LogLevel, text string) (keep bool) {
		if level != nil {
			*level = C.int32_t(l)
		}
		copied = textOut(text, buffer, capacity, length)
		return copied != nil
	})
	if !some {
		return C.LULL_ERROR_NOTHING // no failure: nobody wants its text
	}
	return answer(w, copied)
}
