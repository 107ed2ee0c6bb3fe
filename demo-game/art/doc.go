// Package art makes every picture of the game by code: sprites from letters,
// ground from a hash of the tile's place. Nothing is loaded; equal arguments give
// equal pixels, so pictures can be compared byte by byte.
//
// Example: the letter h of the figure below is hair. Dressed("smith") puts a
// brown beard's colour there, Dressed("elder") white.
//
// Out of scope: where pictures stand (package ui) and how they reach the screen
// (package draw).
package art
