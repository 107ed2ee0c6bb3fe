//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"os"
	"unsafe"

	"github.com/lull-npc/lull/bindings/capi/world"
	"github.com/lull-npc/lull/internal/wholefile"
)

func worldSave(id C.lull_world_id, buffer unsafe.Pointer, capacity C.int64_t, length *C.int64_t) C.int32_t {
	w, err := world.Enter(worldID(id))
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
	data, err := w.Save()
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

func worldLoad(id C.lull_world_id, data C.lullgo_const_void, bytes C.int64_t) C.int32_t {
	w, err := world.Enter(worldID(id))
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
	return answer(w, w.Load(unsafe.Slice((*byte)(unsafe.Pointer(data)), int(bytes))))
}

func worldSaveFile(id C.lull_world_id, path C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	return atPath(id, path, bytes, func(w *world.World, name string) error {
		data, err := w.Save()
		if err != nil {
			return err
		}
		if err := wholefile.Write(name, data, 0o644); err != nil {
			return world.Errorf(world.File, "writing %s: %v", name, err)
		}
		return nil
	})
}

func pathIn(path C.lullgo_const_char, bytes C.int32_t) (string, error) {
	name, err := wanted("path", path, bytes, C.LULL_MAX_PATH_BYTES)
	if err == nil && name == "" {
		err = world.Errorf(world.InvalidArgument, "path is empty")
	}
	return name, err
}

// atPath enters a world and does something with the file of that path.
func atPath(id C.lull_world_id, path C.lullgo_const_char, bytes C.int32_t,
	do func(w *world.World, name string) error) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := pathIn(path, bytes)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, do(w, name))
}

func worldLoadFile(id C.lull_world_id, path C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	return atPath(id, path, bytes, func(w *world.World, name string) error {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return world.Errorf(world.File, "reading: %v", err)
		case !info.Mode().IsRegular(): // it may be endless, or make who reads it wait
			return world.Errorf(world.File, "reading %s: it is no regular file", name)
		case info.Size() > C.LULL_MAX_SAVE_BYTES:
			return world.Errorf(world.TooLong, "%s has %d bytes: want %d at most", name, info.Size(),
				C.LULL_MAX_SAVE_BYTES)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return world.Errorf(world.File, "reading: %v", err)
		}
		return w.Load(data)
	})
}

func worldSaveMemories(id C.lull_world_id, path C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	return atPath(id, path, bytes, (*world.World).SaveMemories)
}

func worldLoadMemories(id C.lull_world_id, path C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	return atPath(id, path, bytes, (*world.World).LoadMemories)
}

func worldSetGameTime(id C.lull_world_id, story C.int64_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, w.SetGameTime(int64(story)))
}
