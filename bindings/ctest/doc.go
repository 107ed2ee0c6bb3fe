// Package ctest drives lull.h as hosts do: its tests build the shared library
// and run clients in C99, C++17, C# (Mono and .NET), LuaJIT, LÖVE and Python
// against it. Each client is one folder with a program named talk: a frame loop
// of 60 Hz, a character that answers two lines, and the cost of a frame.
//
// In c/ stand more programs: signals (the host's handlers stay in force), life
// (worlds that come and go, exits in every state), fuzz (random calls under ASan
// and UBSan), overhead (what a call costs beyond the same in Go) and busy (what
// the calls of a frame cost while the game wants every core). csharp/Stress.cs lets a garbage collector, exceptions
// and speech meet.
//
// A test whose tool is missing is skipped and says what to install; `make
// hosts` installs all. LULL_SOAK=1 makes them long.
//
// Example: to run one client alone,
//
//	go test ./bindings/ctest -run 'Clients/lua' -v
//
// Out of scope: what worlds and NPCs do (bindings/capi/world has tests in Go).
package ctest
