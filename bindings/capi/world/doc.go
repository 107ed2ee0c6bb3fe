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
// A reply goes through three hands. Say, on the host's side, copies the chat
// and puts the line into a bounded queue. The asker, a goroutine, makes the
// prompt of it (tokenising takes a millisecond or two, which is too much for a
// frame), submits it, and puts what came of it into the mail. Poll, on the
// host's side again, takes mail and engine events, and folds them into the
// chat. Only the host's side ever changes a chat that somebody else can see.
//
// # One reply, in numbers
//
// At 60 Hz: Say in frame 100 takes 5 µs; the prompt of 434 tokens is made by
// frame 101; the events of the first token come with the Poll of frame 110 or
// so, one text event a token, and the last one ends the reply: from then on the
// NPC can be spoken to again.
//
// # Limits
//
// Replies whose last event was not polled yet: Def.Requests of a world, beyond
// which Say answers Full. Worlds: MaxWorlds. NPCs of a world: MaxNPCs. Lines of
// the log: 256, the oldest go.
//
// Out of scope: C's types, buffers and lengths (bindings/capi); what is said
// (npc); when (scheduler).
package world
