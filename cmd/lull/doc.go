// Command lull fetches what the runtime needs, measures a device, and plays
// scenarios that show what a language model costs a game.
//
// One file is one subcommand; root.go lists them. A subcommand gets the app:
// its global flags, its ui, and hooks. It returns an error and never exits:
// exit.go turns the error into the exit code (0 done, 1 failed, 2 wrong usage,
// 3 an objective not met, 130 interrupted).
//
// For example, `lull assets where --model nowhere.gguf` returns an error that
// wraps assets.ErrNoSuchPath and carries a hint. The root prints
//
//	lull: locate --model: path does not exist: stat nowhere.gguf: …
//	  → give --model an existing path, or one of the names …
//
// on standard error, and ends with 1. Standard output stays empty, or with
// --json holds {"error": {"message": …, "hint": …}}. usage.go says what is wrong
// with arguments in the words of the command line.
//
// What a command computes is out of scope here: that lives in the packages
// below, so that a game or a test can do it without a command line.
package main
