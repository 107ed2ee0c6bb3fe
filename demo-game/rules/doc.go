// Package rules is the village game without its screen: who stands where, what
// things cost, how the quest goes on, who fights whom, who has heard of it. It
// is pure: Step moves the world on by one tick of 1/60 s from an Input and says
// what happened; equal worlds and equal inputs give equal worlds, on every
// machine, since all numbers are whole.
//
// # A tick
//
//	the player moves (2 pixels) ─▶ exits ─▶ foes ─▶ companion ─▶ rumours ─▶ events
//
// Example: at tick 600 the player, 3 silver strong, wants the sword for 40. Buy
// answers Refused with "refuse.gold", and nothing changes. With 40 silver and a
// good name of 0 it answers "refuse.name", since world.yaml says needs: 2.
//
// # Rumours
//
// What the companion saw (a wave beaten) becomes a Rumour. It goes along the
// ways of world.yaml, each after its seconds; each time the event Told says who
// heard it from whom, so that the voice of that person can be given a memory of
// another's witness.
//
// # What is out of scope
//
// What people say (package talk), what is shown (package ui), which keys do it
// (package input), when a tick is (package play).
package rules
