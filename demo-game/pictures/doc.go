// Package pictures compares the window's static screens with pictures that were
// looked at: it builds the game, starts it under a display of its own with the
// scripted model, and has it write what it shows at some ticks of a script.
//
// A picture that changed is written beside the wanted one's name with -update;
// look at it before it is committed. Software rendering gives equal bytes on
// equal versions of Mesa; a few pixels may differ elsewhere, so 1 % may.
package pictures
