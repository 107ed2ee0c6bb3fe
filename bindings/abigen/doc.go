// Command abigen makes from bindings/include/lull.h what other languages and
// our own library need of it:
//
//	bindings/abi.golden.txt                              the layout, for people and for reviews
//	bindings/capi/entries_gen.{h,c,go}, exports_gen.map  the guarded entry points of the library
//	bindings/unity/com.lull.npc/Runtime/Native.g.cs      C#
//	bindings/love/lull_cdef.lua                          LuaJIT
//
// # Model
//
// The header is read by a small parser that knows the C which the header uses
// and refuses everything else: defines of integers, enums with a number at each
// member, structs of fixed-width fields, functions that return int32_t or
// int64_t. What it understands is a Header; each output is a function of that.
//
// Example: the line
//
//	LULL_API int32_t lull_npc_cancel(lull_npc_id npc);
//
// becomes a C function of that name that blocks signals, a Go function
// lullgo_npc_cancel with a recover that calls npcCancel, an extern method in
// C#, and the line "int32_t lull_npc_cancel(lull_npc_id npc)" in the golden.
//
// With -check nothing is written: a stale output is an error. A golden line
// that is changed or removed breaks hosts: raise LULL_ABI_VERSION and say so in
// the change log. Lines may be added.
//
// Out of scope: what the functions do (bindings/capi).
package main

//go:generate go run . -root ..
