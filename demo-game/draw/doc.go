// Package draw carries out what package ui laid out, with Ebitengine: it draws
// the 640×360 pixels of a Canvas and puts them on a window of any size, scaled by
// the largest whole number that fits, in the middle of black.
//
// Example: a window of 1920×1080 shows each pixel as 3×3; one of 1000×700 shows
// it once, with black around.
//
// The package is empty where Ebitengine can't be built: it needs cgo but on
// Windows. Importing it needs a display, since Ebitengine asks for one at once.
package draw
