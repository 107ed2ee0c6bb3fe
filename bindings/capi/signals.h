/* What keeps the host's signal handling as it was; main.go says why. */
#ifndef LULL_SIGNALS_H
#define LULL_SIGNALS_H

#if defined(__linux__)
#include <signal.h>

typedef struct lull_signal_mask {
    sigset_t set;
} lull_signal_mask;
#else
typedef struct lull_signal_mask {
    char none;
} lull_signal_mask;
#endif

/* Around every call into Go. 0: after a fork, where Go does not run. Nothing is
 * to be left then. */
int lull_signals_enter(lull_signal_mask *mask);
void lull_signals_leave(const lull_signal_mask *mask);

/* Has a profiler's handler, if one is there, run on a stack for signals. */
void lull_signals_profiler(void);

/* After llama.cpp was loaded: has open worlds ended at exit(). */
void lull_exit_register(void);

#endif
