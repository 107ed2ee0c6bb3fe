// Package world is what stands behind the C ABI, in plain Go: worlds and NPCs
// under ids with a generation, lines and replies, events that are polled.
// bindings/capi only translates C's types into this package's.
//
// # Terms
//
// A World is one runtime (runtime/local) with its NPCs. It loads in a goroutine
// of its own. An ID names a World; its generation is never used twice in a
// process, so an id of something that is gone is stale for ever.
//
// The host's side of a world is everything under its lock. The lock is held by
// calls of the host alone, never by a goroutine of ours: a host that calls from
// one thread never waits for it.
//
// What characters say is package npc's world, which this one begins when the
// model is loaded; before, NPCs are only noted.
//
// # What the host judges
//
// Package npc asks its content hook in a goroutine and takes a function's word;
// a host of ours is polled. So the hook (content.go) hands its sentence to
// Collect, which makes a Judge event of it, and waits for Judge, or until
// package npc awaits the ruling no more: it is late, or its turn is over.
//
// # One frame, in numbers
//
// A call of the host that finds nothing to do takes a microsecond: an atomic
// load, an uncontended lock, a comparison. Collect polls the characters, the
// memories and the loader, and puts what happened into one queue, from which
// the host copies what it has room for; the rest waits. Where the queue is not
// empty nothing new is collected, so that it is bounded by one frame's events.
//
// # Limits
//
// Worlds: MaxWorlds. NPCs of a world: MaxNPCs. Lines of the log: 256, the oldest
// go. NPCs that wait to be warmed up: 64, then Full. Turns and events that wait:
// package npc's, then Full.
//
// Out of scope: C's types, buffers and lengths (bindings/capi); what is said
// (npc); when (scheduler).
package world
