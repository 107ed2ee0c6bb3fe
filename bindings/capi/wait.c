#define LULL_BUILD
#include "wait.h"
#include "signals.h"

#include <stdlib.h>

#if defined(_WIN32)
#include <windows.h>
static void rest(void) { Sleep(1); }
static int64_t now_ms(void) { return (int64_t)GetTickCount64(); }
#else
#include <time.h>
static void rest(void) {
    struct timespec t = {0, 1000000};
    nanosleep(&t, NULL);
}
static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
#endif

/* The pauses are here and not in Go, where signals are blocked: a host's
 * collector may want to stop this thread meanwhile. */
int32_t lull_world_destroy(lull_world_id world) {
    lull_signal_mask mask;
    if (!lull_signals_enter(&mask)) {
        return LULL_ERROR_FORKED;
    }
    int32_t answer = lullgo_destroy_begin(world);
    lull_signals_leave(&mask);
    int64_t last = now_ms() + LULL_DESTROY_MS_MAX;
    while (answer == LULL_OK) {
        lull_signals_enter(&mask);
        int32_t ended = lullgo_destroy_ended(world);
        int late = !ended && now_ms() >= last;
        if (late) {
            lullgo_destroy_late(world);
        }
        lull_signals_leave(&mask);
        if (late) {
            return LULL_ERROR_TIMEOUT;
        }
        if (ended) {
            break;
        }
        rest();
    }
    return answer;
}

#if !defined(_WIN32)
static void end_all(void) {
    lull_world_id open[LULL_MAX_WORLDS];
    lull_signal_mask mask;
    if (!lull_signals_enter(&mask)) {
        return; /* the parent ends them */
    }
    int32_t n = lullgo_open_worlds(open, LULL_MAX_WORLDS);
    for (int32_t i = 0; i < n; i++) {
        lullgo_destroy_begin(open[i]);
    }
    lull_signals_leave(&mask);
    int64_t last = now_ms() + LULL_DESTROY_MS_MAX;
    for (int32_t i = 0; i < n;) {
        lull_signals_enter(&mask);
        int32_t ended = lullgo_destroy_ended(open[i]);
        lull_signals_leave(&mask);
        if (ended) {
            i++;
        } else if (now_ms() < last) {
            rest();
        } else {
            return;
        }
    }
}
#endif

/* What is registered last runs first, and this must run before the destructors
 * of what llama.cpp uses, some of which it makes at its first tokenising or
 * decoding: so package world has it registered again after each of those. On
 * Windows the other threads are gone when such functions run, and there is
 * nothing left to end. */
void lull_exit_register(void) {
#if !defined(_WIN32)
    atexit(end_all);
#endif
}
