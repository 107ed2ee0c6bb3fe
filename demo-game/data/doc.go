// Package data holds what the demo game is made of: the map, the people, what
// they sell and ask for, what can be said with one key, and all texts of the
// screen in English and Korean. All of it comes from YAML files that are built
// into the program; Load checks that they fit together.
//
// A price or a reward stands in world.yaml and nowhere else: the rules charge
// it, characters are told it as a fact, and Correct holds what a model says
// against it. Example: Tilda's model says "A potion costs 5 silver." The data
// says 8, so the player reads "A potion costs 8 silver."
//
// What the model reads is English, whatever the language of the screen, since
// the small model speaks no other.
//
// Out of scope: what happens (package rules), how it looks (art, ui).
package data
