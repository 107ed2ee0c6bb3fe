//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"os"
	"path/filepath"
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
	"github.com/lull-npc/lull/runtime/llm"
)

func npcDefaults() C.lull_npc_def {
	return C.lull_npc_def{persona_bytes: C.LULL_TERMINATED, persona_file_bytes: C.LULL_TERMINATED}
}

func defaultNpcDef(def *C.lull_npc_def, size C.uint32_t) C.int32_t {
	d := npcDefaults()
	return defaultOut(&d, unsafe.Pointer(def), size, firstNPCDef)
}

func npcCreate(id C.lull_world_id, def C.lullgo_const_lull_npc_def, out *C.lull_npc_id) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	if out == nil {
		return answer(w, world.Errorf(world.NullPointer, "npc is null"))
	}
	*out = C.lull_npc_id{}
	c := npcDefaults()
	if err := structIn("def", unsafe.Pointer(def), firstNPCDef, &c); err != nil {
		return answer(w, err)
	}
	d := world.NPCDef{Priority: int(c.priority), Seed: uint32(c.seed), Tokens: int(c.reply_tokens_max)}
	if d.Persona, err = textIn("persona", c.persona, c.persona_bytes, C.LULL_MAX_PERSONA_BYTES); err != nil {
		return answer(w, err)
	}
	if d.File, err = textIn("persona_file", c.persona_file, c.persona_file_bytes, C.LULL_MAX_PATH_BYTES); err != nil {
		return answer(w, err)
	}
	if d.Greedy, err = flag("greedy", c.greedy); err != nil {
		return answer(w, err)
	}
	n, err := w.CreateNPC(d)
	if err == nil {
		*out = C.lull_npc_id{index1: C.uint16_t(n.Index1), world1: C.uint16_t(n.World1),
			generation: C.uint32_t(n.Generation)}
	}
	return answer(w, err)
}

func npcDestroy(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	n.Destroy()
	return C.LULL_OK
}

func npcIsValid(id C.lull_npc_id) C.int32_t { return truth(world.ValidNPC(npcID(id))) }

func npcName(id C.lull_npc_id, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, textOut(n.Name(), buffer, capacity, length))
}

func npcGreeting(id C.lull_npc_id, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, textOut(n.Greeting(), buffer, capacity, length))
}

func npcSetPriority(id C.lull_npc_id, priority C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	n.SetPriority(int(priority))
	return C.LULL_OK
}

func npcSay(id C.lull_npc_id, text C.lullgo_const_char, bytes C.int32_t, out *C.uint64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	line, err := wanted("text", text, bytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	reply, err := n.Say(line)
	return begun(w, reply, err, out)
}

func begun(w *world.World, reply uint64, err error, out *C.uint64_t) C.int32_t {
	if out != nil {
		*out = C.uint64_t(reply)
	}
	return answer(w, err)
}

func npcWarmUp(id C.lull_npc_id, out *C.uint64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	reply, err := n.WarmUp()
	return begun(w, reply, err, out)
}

func npcCancel(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.Cancel())
}

func npcIsBusy(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return truth(n.Busy())
}

func npcUndo(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.Undo())
}

func npcClear(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	n.Clear()
	return C.LULL_OK
}

func npcLineCount(id C.lull_npc_id, count *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	if count == nil {
		return answer(w, world.Errorf(world.NullPointer, "count is null"))
	}
	*count = C.int32_t(len(n.Lines()))
	return C.LULL_OK
}

func npcLine(id C.lull_npc_id, index C.int32_t, byPlayer *C.int32_t, buffer *C.char, capacity C.int32_t,
	length *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	lines := n.Lines()
	if index < 0 || int(index) >= len(lines) {
		return answer(w, world.Errorf(world.InvalidArgument, "index is %d: there are %d lines", index, len(lines)))
	}
	if byPlayer != nil {
		*byPlayer = truth(lines[index].Role == llm.User)
	}
	return answer(w, textOut(lines[index].Text, buffer, capacity, length))
}

func npcSave(id C.lull_npc_id, buffer unsafe.Pointer, capacity C.int64_t, length *C.int64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	switch {
	case capacity < 0:
		return answer(w, world.Errorf(world.InvalidArgument, "capacity_bytes is %d: want 0 or more", capacity))
	case buffer == nil && capacity > 0:
		return answer(w, world.Errorf(world.NullPointer, "buffer is null and capacity_bytes %d", capacity))
	}
	data, err := n.Save()
	if err != nil {
		return answer(w, err)
	}
	if length != nil {
		*length = C.int64_t(len(data))
	}
	if int64(capacity) < int64(len(data)) {
		return answer(w, world.Errorf(world.BufferTooSmall, "the buffer has %d bytes, the save %d",
			capacity, len(data)))
	}
	copy(unsafe.Slice((*byte)(buffer), len(data)), data)
	return C.LULL_OK
}

func npcLoad(id C.lull_npc_id, data C.lullgo_const_void, bytes C.int64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	switch {
	case data == nil:
		return answer(w, world.Errorf(world.NullPointer, "data is null"))
	case bytes < 0:
		return answer(w, world.Errorf(world.InvalidArgument, "data_bytes is %d: want 0 or more", bytes))
	case bytes > C.LULL_MAX_SAVE_BYTES:
		return answer(w, world.Errorf(world.TooLong, "data_bytes is %d: want %d at most",
			bytes, C.LULL_MAX_SAVE_BYTES))
	}
	return answer(w, n.Load(unsafe.Slice((*byte)(unsafe.Pointer(data)), int(bytes))))
}

func npcSaveFile(id C.lull_npc_id, path C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := pathIn(path, bytes)
	if err != nil {
		return answer(w, err)
	}
	data, err := n.Save()
	if err != nil {
		return answer(w, err)
	}
	return answer(w, replaceFile(name, data))
}

// replaceFile writes beside the file and renames, so that a crash leaves the
// old or the new one.
func replaceFile(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err == nil {
		_, err = f.Write(data)
		if e := f.Sync(); err == nil {
			err = e
		}
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(f.Name(), name)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	if err != nil {
		return world.Errorf(world.File, "writing %s: %v", name, err)
	}
	return nil
}

func pathIn(path C.lullgo_const_char, bytes C.int32_t) (string, error) {
	name, err := wanted("path", path, bytes, C.LULL_MAX_PATH_BYTES)
	if err == nil && name == "" {
		err = world.Errorf(world.InvalidArgument, "path is empty")
	}
	return name, err
}

func npcLoadFile(id C.lull_npc_id, path C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := pathIn(path, bytes)
	if err != nil {
		return answer(w, err)
	}
	info, err := os.Stat(name)
	if err == nil && info.Size() > C.LULL_MAX_SAVE_BYTES {
		return answer(w, world.Errorf(world.TooLong, "%s has %d bytes: want %d at most", name, info.Size(),
			C.LULL_MAX_SAVE_BYTES))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return answer(w, world.Errorf(world.File, "reading: %v", err))
	}
	return answer(w, n.Load(data))
}
