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
)

// nameLimit is for names, keys and kinds: package npc has its own, tighter ones.
const nameLimit = 1024

func npcDefaults() C.lull_npc_def {
	return C.lull_npc_def{persona_bytes: C.LULL_TERMINATED, persona_file_bytes: C.LULL_TERMINATED,
		name_bytes: C.LULL_TERMINATED}
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
	d := world.NPCDef{Distance: float32(c.distance), Seed: uint32(c.seed), Tokens: int(c.reply_tokens_max)}
	err = texts(
		textField{"persona", c.persona, c.persona_bytes, C.LULL_MAX_PERSONA_BYTES, &d.Persona},
		textField{"persona_file", c.persona_file, c.persona_file_bytes, C.LULL_MAX_PATH_BYTES, &d.File},
		textField{"name", c.name, c.name_bytes, nameLimit, &d.Name},
	)
	if err != nil {
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
	return answer(w, n.Destroy())
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

func npcSetDistance(id C.lull_npc_id, distance C.float) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.SetDistance(float32(distance)))
}

func npcSetFact(id C.lull_npc_id, key C.lullgo_const_char, keyBytes C.int32_t, text C.lullgo_const_char,
	textBytes C.int32_t, from, until C.int64_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	f, err := factIn(key, keyBytes, text, textBytes, from, until)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.SetFact(f))
}

func worldSetFact(id C.lull_world_id, key C.lullgo_const_char, keyBytes C.int32_t, text C.lullgo_const_char,
	textBytes C.int32_t, from, until C.int64_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	f, err := factIn(key, keyBytes, text, textBytes, from, until)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, w.SetFact(f))
}

func factIn(key C.lullgo_const_char, keyBytes C.int32_t, text C.lullgo_const_char, textBytes C.int32_t,
	from, until C.int64_t) (f npc.Fact, err error) {
	f.From, f.Until = int64(from), int64(until)
	if f.Key, err = wanted("key", key, keyBytes, nameLimit); err != nil {
		return f, err
	}
	f.Text, err = textIn("text", (*C.char)(text), textBytes, C.LULL_MAX_LINE_BYTES)
	return f, err
}

func questDefaults() C.lull_quest_def {
	return C.lull_quest_def{id_bytes: C.LULL_TERMINATED, text_bytes: C.LULL_TERMINATED}
}

func defaultQuestDef(def *C.lull_quest_def, size C.uint32_t) C.int32_t {
	d := questDefaults()
	return defaultOut(&d, unsafe.Pointer(def), size, firstQuestDef)
}

func npcSetQuest(id C.lull_npc_id, def C.lullgo_const_lull_quest_def) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	c := questDefaults()
	if err := structIn("def", unsafe.Pointer(def), firstQuestDef, &c); err != nil {
		return answer(w, err)
	}
	if c.state < 0 || c.state > C.LULL_QUEST_FAILED {
		return answer(w, world.Errorf(world.InvalidArgument, "state is %d: want one of enum lull_quest_state", c.state))
	}
	q := npc.Quest{State: npc.QuestState(c.state), From: int64(c.from_ns), Until: int64(c.until_ns)}
	err = texts(textField{"id", c.id, c.id_bytes, nameLimit, &q.ID},
		textField{"text", c.text, c.text_bytes, C.LULL_MAX_LINE_BYTES, &q.Text})
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.SetQuest(q))
}

func npcQuestState(id C.lull_npc_id, quest C.lullgo_const_char, bytes C.int32_t, state *C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := wanted("id", quest, bytes, nameLimit)
	if err != nil {
		return answer(w, err)
	}
	if state == nil {
		return answer(w, world.Errorf(world.NullPointer, "state is null"))
	}
	s, err := n.Quest(name)
	if err == nil {
		*state = C.int32_t(s)
	}
	return answer(w, err)
}

func defaultMemoryDef(def *C.lull_memory_def, size C.uint32_t) C.int32_t {
	d := C.lull_memory_def{text_bytes: C.LULL_TERMINATED, speaker_bytes: C.LULL_TERMINATED}
	return defaultOut(&d, unsafe.Pointer(def), size, firstMemoryDef)
}

func npcRemember(id C.lull_npc_id, def C.lullgo_const_lull_memory_def) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	c := C.lull_memory_def{text_bytes: C.LULL_TERMINATED, speaker_bytes: C.LULL_TERMINATED}
	if err := structIn("def", unsafe.Pointer(def), firstMemoryDef, &c); err != nil {
		return answer(w, err)
	}
	var text, speaker string
	err = texts(textField{"text", c.text, c.text_bytes, C.LULL_MAX_LINE_BYTES, &text},
		textField{"speaker", c.speaker, c.speaker_bytes, nameLimit, &speaker})
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.Remember(text, speaker, int(c.importance)))
}
