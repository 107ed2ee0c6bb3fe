// Package input turns keys, buttons and scripts into what a player wants. It
// knows no window: a key is a name ("ArrowUp", "E"), whoever polls the devices
// gives the names that are held, and a Script gives the same by tick, so that a
// tour and a person play through one door.
//
// # A script
//
//	# tick  what
//	60      press act          one tick
//	120     hold right 90      until tick 210
//	300     say Where is iron ore?
//	400     caption tour.talk
//	watch begin                    left out where policies are measured
//	+60     press policy           60 ticks after the line before
//	watch end
//
// Example: at tick 120 Held(Right) becomes true and Pressed(Right) is true in
// that tick alone; at tick 210 both are false.
package input
