//go:build !linux

#include "signals.h"

#if defined(_WIN32)
#include <windows.h>

/* Go can't be unloaded: the library stays in the process. */
__attribute__((constructor)) static void pin(void) {
    HMODULE self;
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, (LPCSTR)(void *)&pin,
                       &self);
}
#endif

int lull_signals_enter(lull_signal_mask *mask) {
    (void)mask;
    return 1;
}
void lull_signals_leave(const lull_signal_mask *mask) { (void)mask; }
void lull_signals_profiler(void) {}
