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

func npcClearActions(id C.lull_npc_id) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, n.ClearActions())
}

func npcAddAction(id C.lull_npc_id, name C.lullgo_const_char, nameBytes C.int32_t, description C.lullgo_const_char,
	descriptionBytes C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	called, err := wanted("name", name, nameBytes, nameLimit)
	if err != nil {
		return answer(w, err)
	}
	does, err := wanted("description", description, descriptionBytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.AddAction(called, does))
}

func parameterDefaults() C.lull_parameter_def {
	return C.lull_parameter_def{name_bytes: C.LULL_TERMINATED, description_bytes: C.LULL_TERMINATED,
		values_bytes: C.LULL_TERMINATED, target_bytes: C.LULL_TERMINATED}
}

func defaultParameterDef(def *C.lull_parameter_def, size C.uint32_t) C.int32_t {
	d := parameterDefaults()
	return defaultOut(&d, unsafe.Pointer(def), size, firstParameterDef)
}

func npcAddParameter(id C.lull_npc_id, action C.lullgo_const_char, bytes C.int32_t,
	def C.lullgo_const_lull_parameter_def) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := wanted("action", action, bytes, nameLimit)
	if err != nil {
		return answer(w, err)
	}
	c := parameterDefaults()
	if err := structIn("def", unsafe.Pointer(def), firstParameterDef, &c); err != nil {
		return answer(w, err)
	}
	if c.kind < 0 || c.kind > C.LULL_PARAMETER_TARGET {
		return answer(w, world.Errorf(world.InvalidArgument,
			"kind is %d: want one of enum lull_parameter_kind", c.kind))
	}
	p := npc.Param{Kind: npc.ParamKind(c.kind), Min: float64(c.min), Max: float64(c.max), Decimals: int(c.decimals),
		MaxRunes: int(c.characters_max)}
	values := ""
	err = texts(textField{"name", c.name, c.name_bytes, nameLimit, &p.Name},
		textField{"description", c.description, c.description_bytes, C.LULL_MAX_LINE_BYTES, &p.Description},
		textField{"values", c.values, c.values_bytes, C.LULL_MAX_LINE_BYTES, &values},
		textField{"target", c.target, c.target_bytes, nameLimit, &p.Target})
	if err != nil {
		return answer(w, err)
	}
	p.Values = lines(values)
	return answer(w, n.AddParameter(name, p))
}

func npcSetTargets(id C.lull_npc_id, kind C.lullgo_const_char, kindBytes C.int32_t, targets C.lullgo_const_char,
	targetsBytes C.int32_t) C.int32_t {
	w, n, err := world.EnterNPC(npcID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	name, err := wanted("kind", kind, kindBytes, nameLimit)
	if err != nil {
		return answer(w, err)
	}
	names, err := textIn("targets", (*C.char)(targets), targetsBytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, n.SetTargets(name, lines(names)))
}

func actionValueCount(id C.lull_world_id, reply C.uint64_t, count *C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	a, err := w.Action(uint64(reply))
	if err != nil {
		return answer(w, err)
	}
	if count == nil {
		return answer(w, world.Errorf(world.NullPointer, "count is null"))
	}
	*count = C.int32_t(len(a.Args))
	return C.LULL_OK
}

func argument(w *world.World, reply C.uint64_t, index C.int32_t) (npc.Arg, error) {
	a, err := w.Action(uint64(reply))
	if err != nil {
		return npc.Arg{}, err
	}
	if index < 0 || int(index) >= len(a.Args) {
		return npc.Arg{}, world.Errorf(world.InvalidArgument, "index is %d: the action has %d values",
			index, len(a.Args))
	}
	return a.Args[index], nil
}

func actionGetValue(id C.lull_world_id, reply C.uint64_t, index C.int32_t, out *C.lull_action_value) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	arg, err := argument(w, reply, index)
	if err != nil {
		return answer(w, err)
	}
	c := C.lull_action_value{kind: C.int32_t(arg.Kind), integer: C.int64_t(arg.Int), real: C.double(arg.Real)}
	if arg.Bool {
		c.integer = 1
	}
	name := arg.Name[:fit(arg.Name, C.LULL_NAME_BYTES-1)]
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&c.name[0])), C.LULL_NAME_BYTES), name)
	return answer(w, structOut("value", &c, unsafe.Pointer(out), firstActionValue))
}

func actionValueText(id C.lull_world_id, reply C.uint64_t, index C.int32_t, buffer *C.char, capacity C.int32_t,
	length *C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	arg, err := argument(w, reply, index)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, textOut(arg.Text, buffer, capacity, length))
}

func actionAccept(id C.lull_world_id, reply C.uint64_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	return answer(w, w.Accept(uint64(reply)))
}

func actionRefuse(id C.lull_world_id, reply C.uint64_t, reason C.lullgo_const_char, bytes C.int32_t) C.int32_t {
	w, err := world.Enter(worldID(id))
	if err != nil {
		return refuse(err)
	}
	defer w.Leave()
	why, err := wanted("reason", reason, bytes, C.LULL_MAX_LINE_BYTES)
	if err != nil {
		return answer(w, err)
	}
	return answer(w, w.Refuse(uint64(reply), why))
}
