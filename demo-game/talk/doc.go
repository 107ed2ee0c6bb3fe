// Package talk gives the people of the game their voices: it puts package npc's
// World on a runtime, tells it what the rules know, and gives the game what was
// heard. The game thread never waits here: a runtime is opened and closed on a
// goroutine of its own and taken over in the Poll after.
//
// # One reply
//
//	Say ──▶ bark in the next Poll ──▶ sentences, as they come ──▶ Done
//
// Each sentence is held against the game's data before it is heard
// (data.Game.Correct): a wrong price is replaced, in what the player reads and in
// what the character remembers.
//
// # Policies
//
// Switch closes the runtime and opens one with another engine, worker and pool
// (harness.FindPolicy). What the characters lived through goes along. Example:
// under lull Odila said something; after Switch("native") she barks and nothing
// more; after Switch("lull") she remembers. Lines that come while nothing is
// open are barked at, and told to the characters when it is.
//
// Out of scope: when people speak (package play), what they know (package data).
package talk
