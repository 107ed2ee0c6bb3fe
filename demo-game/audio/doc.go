// Package audio makes the sounds of the game by code and plays them, where there
// is something to play them on; where not, it is silent and nothing else.
//
// Example: Chime is two sine tones of 660 and 990 Hz that fade over 0.35 s.
//
// The package is silent where oto can't be built: it needs cgo but on Windows.
package audio
