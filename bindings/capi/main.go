// Command capi is lull as a shared library for engines that are not written in
// Go: liblull.so, lull.dll. It is built with -buildmode=c-shared by `make
// plugin`; what it offers stands in bindings/include/lull.h, and bindings/README.md
// teaches it.
//
// # Model
//
// A call goes through three layers:
//
//	lull_npc_say      C, generated: blocks signals while Go runs (signals.h)
//	lullgo_npc_say    Go, generated: recovers from panics
//	npcSay            Go, here: checks pointers, sizes and text; package world does the rest
//
// The C compiler compares the first two with lull.h, since both include it.
//
// # Signals
//
// Go takes over the handlers of several signals when it is loaded, which breaks
// hosts with a garbage collector that stops threads by signals. So the linker
// turns Go's sigaction into ours, which lets two through while Go is loaded:
// SIGURG, which Go needs for itself, and SIGSEGV, where a dispatcher gives
// faults inside this library to Go and all others to the host. While a
// thread of the host runs Go, and on every thread that Go starts, asynchronous
// signals are blocked: a handler of the host must never run on Go's small
// stacks. That costs under a microsecond a call.
//
// # Ending
//
// lull_world_destroy waits in C, in short pauses, until package world says that
// every goroutine and thread of the world has ended. At exit() what is still
// open is ended in the same way, before llama.cpp's own destructors run.
//
// # libffi
//
// llama.cpp is called through libffi, whose shared library a player's machine
// may lack. What `make plugin` builds for Linux has it within (ffi_linux.c).
// Other builds, such as those of the tests, use the system's.
//
// Out of scope: unloading. Go can't be unloaded; the library stays in the
// process, and is pinned on Windows.
package main

// main is never called in a shared library, which must have one.
func main() {}
