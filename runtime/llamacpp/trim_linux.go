//go:build cgo && linux && !android

package llamacpp

/*
#include <stdlib.h> // defines __GLIBC__ where there is one
#ifdef __GLIBC__
#include <malloc.h>
static int lull_trim(void) { return malloc_trim(0); }
#else
static int lull_trim(void) { return 0; }
#endif
*/
import "C"

// trim gives what a model has freed back to the system. glibc keeps it in the
// arenas of threads that are no more: a megabyte for each model that was opened
// and closed, seen over 100 of them.
func trim() { C.lull_trim() }
