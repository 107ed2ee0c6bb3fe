// Package play is the game as it is played: screens, phases, dialogue, menus,
// saving, between the rules and the voices on one side and input and the screen
// on the other. It knows neither a window nor a clock: Tick is given what the
// player does, and View says what is to be shown.
//
//	input.Frame ─▶ Tick ─▶ rules.World, talk.Voices
//	                │
//	                └────▶ View ─▶ ui.Canvas ─▶ a window, or a test
//
// # Phases
//
// Each screen is a phase of the scheduler: the title and the menus are idle time
// (memories are indexed, prompts prepared), loading is nobody's frames, dialogue
// waits for an answer, in combat every frame counts.
//
// Example: the player walks up to Tilda and presses E at tick 600. The screen is
// Dialogue, her greeting stands there at once. "What do you sell?" is said at 660:
// her bark is in the View of tick 661, her first sentence when the model has it,
// with the prices of world.yaml.
//
// # Saves
//
// There are two slots: the player's, written and taken up from the menu, and the
// game's own, written where an area is entered, after a talk, a fight and at the end.
// The title's Continue takes up the newer one. One file is at work at a time, off
// the game thread; what is wished meanwhile comes next, the player's wish first.
//
// Out of scope: frame times and reports (package headless), pixels (draw).
package play
