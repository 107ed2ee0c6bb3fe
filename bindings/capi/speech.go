//go:build cgo

package main

/*
#include "entries_gen.h"
*/
import "C"

import (
	"github.com/lull-npc/lull/bindings/capi/world"
)

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

func npcCue(id C.lull_npc_id, text C.lullgo_const_char, bytes C.int32_t, out *C.uint64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	line, err := wanted("text", text, bytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	reply, err := n.Cue(line)
	return begun(w, reply, err, out)
}

func npcTell(id C.lull_npc_id, speaker C.lullgo_const_char, speakerBytes C.int32_t, text C.lullgo_const_char,
	textBytes C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := wanted("speaker", speaker, speakerBytes, nameLimit)
	if err != nil {
		return answer(w, err)
	}
	line, err := wanted("text", text, textBytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.Tell(name, line))
}

func npcInterrupt(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.Interrupt())
}

func npcResume(id C.lull_npc_id, out *C.uint64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	reply, err := n.Resume()
	return begun(w, reply, err, out)
}

func npcBark(id C.lull_npc_id, situation C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := wanted("situation", situation, bytes, nameLimit)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.Bark(name))
}

func npcIsBusy(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return truth(n.Busy())
}

func npcWarmUp(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.WarmUp())
}

func npcPart(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.Part())
}

// npcsGather finds the world by the first of the NPCs; the others must be in it.
func npcsGather(ids C.lullgo_const_lull_npc_id, count C.int32_t) C.int32_t {
	const most = 64 // package npc allows fewer, and says so
	switch {
	case ids == nil:
		return refuse(world.Errorf(world.NullPointer, "npcs is null"))
	case count < 1 || count > most:
		return refuse(world.Errorf(world.InvalidArgument, "count is %d: want 1 ... %d", count, most))
	}
	first := (*C.lull_npc_id)(ids)
	w, n, err := world.EnterNPC(npcID(*first))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	members := []*world.NPC{n}
	for i := 1; i < int(count); i++ {
		n, err := w.NPC(npcID(*at(first, i)))
		if err != nil {
			return answer(w, err)
		}
		members = append(members, n)
	}
	return answer(w, w.Gather(members))
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

func npcLine(id C.lull_npc_id, index C.int32_t, kind *C.int32_t, buffer *C.char, capacity C.int32_t,
	length *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	line, err := n.Line(int(index))
	if err != nil {
		return answer(w, err)
	}
	if kind != nil {
		*kind = C.int32_t(line.Kind)
	}
	return answer(w, textOut(line.Text, buffer, capacity, length))
}

func npcLineSpeaker(id C.lull_npc_id, index C.int32_t, buffer *C.char, capacity C.int32_t,
	length *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	line, err := n.Line(int(index))
	if err != nil {
		return answer(w, err)
	}
	return answer(w, textOut(line.Speaker, buffer, capacity, length))
}

func npcExplain(id C.lull_npc_id, buffer *C.char, capacity C.int32_t, length *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	text, err := n.Explain()
	if err != nil {
		return answer(w, err)
	}
	return answer(w, textOut(text, buffer, capacity, length))
}

func sentenceJudge(id C.lull_world_id, sentence C.uint64_t, verdict C.int32_t, text C.lullgo_const_char,
	bytes C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	instead, err := textIn("text", (*C.char)(text), bytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, w.Judge(uint64(sentence), world.Verdict(verdict), instead))
}
