// Package display says whether a window can be opened. Ebitengine asks for one
// before main begins, and without one ends in a page of Go's own words; package
// display/require, once imported, says in one line what is missing instead.
//
// Both import next to nothing: packages are initialised in the order of what they
// need, and this has to come first.
//
// Example: DISPLAY=:77 names a display; Reachable connects to its socket, X77, and
// reports false where nobody listens.
package display
