//go:build cgo

#define _GNU_SOURCE
#include "gate.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#else
#include <pthread.h>
#endif

// ---- the few things that differ between systems ----

static int64_t monotonic_ns(void) {
#if defined(_WIN32)
    LARGE_INTEGER count, rate;
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&count);
    int64_t s = count.QuadPart / rate.QuadPart;
    return s * 1000000000 + (count.QuadPart - s * rate.QuadPart) * 1000000000 / rate.QuadPart;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
#endif
}

// involuntary_switches says how often this thread was preempted. Where the
// system does not say, it is always 0 and samples are told apart by the
// robust aggregation alone.
static int64_t involuntary_switches(void) {
#if defined(__linux__)
    struct rusage u;
    return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nivcsw : 0;
#else
    return 0;
#endif
}

#if !defined(__linux__) && !defined(_WIN32)
static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake_cond = PTHREAD_COND_INITIALIZER;
#endif

// wait_on sleeps while *word is `seen`, at most `ns` (LULL_FOREVER: no limit).
static void wait_on(_Atomic uint32_t *word, uint32_t seen, int64_t ns) {
#if defined(__linux__)
    static _Thread_local bool exact; // the default slack of 50 us would be lost of each window
    if (!exact) {
        prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
        exact = true;
    }
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, ns == LULL_FOREVER ? NULL : &t, NULL, 0);
#elif defined(_WIN32)
    // Rounded up, so that a wait never spins; Windows' own grain is 1 ms or more.
    DWORD ms = ns == LULL_FOREVER ? INFINITE : (DWORD)(ns / 1000000 + 1);
    WaitOnAddress((volatile void *)word, &seen, sizeof seen, ms);
#else
    pthread_mutex_lock(&wake_lock);
    if (atomic_load(word) == seen) {
        // Half a millisecond at most: a publisher does not take the lock, so a wake can be missed.
        int64_t nap = ns < 500000 ? ns : 500000;
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        int64_t at = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + nap;
        t.tv_sec = at / 1000000000;
        t.tv_nsec = at % 1000000000;
        pthread_cond_timedwait(&wake_cond, &wake_lock, &t);
    }
    pthread_mutex_unlock(&wake_lock);
#endif
}

static void wake_all(lull_gate *g) {
    atomic_fetch_add(&g->wake, 1);
    if (atomic_load(&g->waiters) == 0) return; // no system call on the game thread
#if defined(__linux__)
    syscall(SYS_futex, &g->wake, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#elif defined(_WIN32)
    WakeByAddressAll((void *)&g->wake);
#else
    pthread_cond_broadcast(&wake_cond);
#endif
}

// ---- the gate ----

void lull_gate_init(lull_gate *g, int64_t lull_now_ns) {
    memset(g, 0, sizeof *g);
    g->clock_offset_ns = monotonic_ns() - lull_now_ns;
}

static int64_t gate_now(const lull_gate *g) { return monotonic_ns() - g->clock_offset_ns; }

void lull_gate_publish(lull_gate *g, lull_window w) {
    atomic_fetch_add(&g->seq, 1);
    bool closes = w.mode == LULL_CLOSED && atomic_load(&g->mode) != LULL_CLOSED;
    atomic_store(&g->mode, w.mode);
    atomic_store(&g->layers_per_stop, w.layers_per_stop);
    atomic_store(&g->open_ns, w.open_ns);
    atomic_store(&g->close_ns, w.close_ns);
    atomic_store(&g->pause_ns, w.pause_ns);
    atomic_store(&g->expires_ns, w.expires_ns);
    atomic_store(&g->spill, w.spill);
    bool shut = w.mode == LULL_CLOSED || (w.mode == LULL_WINDOW && w.close_ns < w.open_ns);
    atomic_store(&g->shut, shut);
    atomic_fetch_add(&g->seq, 1);
    // A window that is shut lets nobody in: who waits may sleep on, until the
    // next one or the old one's expiry. That saves a system call each frame. A
    // gate that closes is told: what is tentative stops there.
    if (!shut || closes) wake_all(g);
}

static lull_window gate_read(lull_gate *g) {
    lull_window w;
    for (;;) {
        uint32_t before = atomic_load(&g->seq);
        w.mode = atomic_load(&g->mode);
        w.layers_per_stop = atomic_load(&g->layers_per_stop);
        w.open_ns = atomic_load(&g->open_ns);
        w.close_ns = atomic_load(&g->close_ns);
        w.pause_ns = atomic_load(&g->pause_ns);
        w.expires_ns = atomic_load(&g->expires_ns);
        w.spill = atomic_load(&g->spill);
        if ((before & 1) == 0 && atomic_load(&g->seq) == before) return w;
    }
}

// add_ns adds without overflow; both ends saturate.
static int64_t add_ns(int64_t a, int64_t b) {
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

// lull_admit is scheduler.Admit, line for line.
int32_t lull_admit(int64_t now, int64_t last_end, lull_window w, int64_t next, bool tentative, int64_t *until) {
    int64_t expires = w.expires_ns == 0 ? LULL_FOREVER : w.expires_ns;
    *until = 0;
    if (next < 0) next = 0;
    if (w.mode == LULL_FREE || (now >= expires && expires != LULL_FOREVER)) return LULL_GO;
    switch (w.mode) {
    case LULL_PACED: {
        int64_t at = add_ns(last_end, w.pause_ns);
        if (now >= at) return LULL_GO;
        *until = at < expires ? at : expires;
        return LULL_WAIT;
    }
    case LULL_WINDOW:
        if (now < w.open_ns) {
            *until = w.open_ns < expires ? w.open_ns : expires;
            return LULL_WAIT;
        }
        if (now <= w.close_ns && (uint64_t)w.close_ns - (uint64_t)now >= (uint64_t)next) return LULL_GO;
        break;
    }
    if (tentative && w.mode != LULL_WINDOW) return LULL_STOP;
    *until = expires;
    return LULL_WAIT;
}

bool lull_gate_running(lull_gate *g) { return atomic_load(&g->running) > 0; }
uint64_t lull_gate_groups(lull_gate *g) { return atomic_load(&g->groups); }

// ---- the hook ----

// set_inside counts the hook in or out of what runs behind the gate.
static void set_inside(lull_hook *h, bool on) {
    if (h->inside == on) return;
    h->inside = on;
    atomic_fetch_add(&h->gate->running, on ? 1 : -1);
    if (on) atomic_fetch_add(&h->gate->groups, 1);
}

static int32_t clamp_stride(lull_hook *h, int32_t layers_per_stop) {
    return layers_per_stop < 1 || layers_per_stop > h->n_layers ? h->n_layers : layers_per_stop;
}

// expected is the predicted time of one layer, or of a slice of the head.
static int64_t expected(const lull_hook *h, int32_t layer) {
    if (layer > h->n_layers) layer = h->n_layers;
    return h->predict == NULL ? 0 : h->predict[layer];
}

// spilled is llm.Window.Spilled.
static int64_t spilled(lull_window w, int64_t next) {
    int64_t most = (int64_t)((uint64_t)w.close_ns - (uint64_t)w.open_ns) / 4 * 3; // as Go subtracts
    return w.spill && w.mode == LULL_WINDOW && most > 0 && next > most ? most : next;
}

// head_parts is how many predictions of a slice make a whole head.
static int32_t head_parts(const lull_hook *h) { return h->head.count > 1 ? h->head.count : 1; }

// admit_group asks for the next layer (or a slice of the head, or the head), and
// takes as many more into the group as the window allows and stride says: each
// halt wakes the pool's threads anew, which costs 10 % of a token with a halt at
// every layer. In a window stride is of no account (unless it asks for a halt at
// each layer), but half of what is left is: a window takes few halts, and what is
// wrong in the predictions is noticed while there is time for one layer less.
static int32_t admit_group(lull_hook *h, int64_t now, lull_window w, int64_t *until) {
    int32_t first = h->done + 1, limit = h->n_layers;
    if (h->slicing) {
        first = h->n_layers + h->slice;
        limit = h->n_layers + h->head.count;
    } else if (first >= h->n_layers) {
        int64_t head = spilled(w, expected(h, h->n_layers) * head_parts(h));
        return lull_admit(now, h->last_end_ns, w, head, h->tentative, until);
    }
    int64_t sum = expected(h, first), unused;
    int32_t v = lull_admit(now, h->last_end_ns, w, spilled(w, sum), h->tentative, until);
    bool halving = w.mode == LULL_WINDOW && w.layers_per_stop != 1 && now < w.close_ns;
    int64_t half = halving ? (w.close_ns - now) / 2 : 0;
    int32_t last = first, end = halving ? limit - 1 : first + clamp_stride(h, w.layers_per_stop) - 1;
    if (end >= limit) end = limit - 1;
    while (v == LULL_GO && last < end) {
        sum += expected(h, last + 1);
        if (halving && sum > half) break;
        if (lull_admit(now, h->last_end_ns, w, sum, h->tentative, &unused) != LULL_GO) break;
        last++;
    }
    h->halt = last;
    return v;
}

// lull_hook_pass returns true when the next group may run, false when it must stop.
bool lull_hook_pass(lull_hook *h) {
    lull_gate *g = h->gate;
    set_inside(h, false);
    int64_t began = 0;
    bool go = false;
    h->stops++;
    h->cold = 0;
    for (;;) {
        uint32_t seen = atomic_load(&g->wake);
        if (atomic_load(&h->stop)) break;
        lull_window w = gate_read(g);
        int64_t now = gate_now(g), until;
        if (began == 0) began = now;
        int32_t v = admit_group(h, now, w, &until);
        go = v == LULL_GO;
        if (v != LULL_WAIT) break;
        h->cold = h->cold || w.mode != LULL_PACED;
        atomic_fetch_add(&g->waiters, 1);
        wait_on(&g->wake, seen, until == LULL_FOREVER ? LULL_FOREVER : until - now);
        atomic_fetch_sub(&g->waiters, 1);
    }
    h->switches = involuntary_switches();
    h->group_start_ns = gate_now(g);
    h->waited_ns += began ? h->group_start_ns - began : 0;
    if (!go) h->drop = 1;
    set_inside(h, go);
    return go;
}

// learn moves the prediction of each layer of a finished group towards what it
// took: up by a quarter, down by a thirty-second, so that it lies near the
// longest of ordinary runs. Too long a prediction loses the end of a window, too
// short a one puts a layer into the game's frame, where the low-priority thread
// that runs it stands still until the game has done. A single long run counts
// at most double. A whole run only seeds an empty table: the head takes as long
// as several layers, an average would blur the two.
static void learn(lull_hook *h, int32_t first, int32_t last, int64_t each) {
    if (h->predict == NULL) return;
    if (first == 0 && last == h->n_layers && h->predict[0] != 0) return;
    for (int32_t i = first; i <= last; i++) {
        int64_t *p = &h->predict[i];
        if (*p == 0) *p = each;
        else if (each < *p) *p += (each - *p) / 32;
        else *p += ((each < 2 * *p ? each : 2 * *p) - *p) / 4;
    }
}

static void sample(lull_hook *h, int32_t first, int32_t last, bool switched, int64_t ns) {
    if (h->n_samples == LULL_SAMPLES) return;
    h->samples[h->n_samples++] =
        (lull_sample){(int16_t)first, (int16_t)last, (int16_t)h->width, (int16_t)h->threads, switched, 0, ns};
}

// lull_hook_finish records the group that ends at layer `last` now.
void lull_hook_finish(lull_hook *h, int32_t last) {
    int64_t now = gate_now(h->gate);
    int64_t ns = now - h->group_start_ns;
    bool switched = involuntary_switches() != h->switches;
    int32_t first = h->done + 1;
    if (first > last) first = last;
    sample(h, first, last, switched || h->cold, ns);
    int32_t units = last - first + (last == h->n_layers ? head_parts(h) : 1);
    if (!switched) learn(h, first, last, ns / units);
    h->done = last;
    h->last_end_ns = now;
}

// lull_hook_finish_slices records slices of the head that ran in one go, each
// with their mean.
void lull_hook_finish_slices(lull_hook *h, int32_t count) {
    int64_t now = gate_now(h->gate);
    int64_t each = (now - h->group_start_ns) / count;
    bool switched = involuntary_switches() != h->switches;
    for (int32_t i = 0; i < count; i++) sample(h, h->n_layers, h->n_layers, switched, each);
    if (!switched) learn(h, h->n_layers, h->n_layers, each);
    h->last_end_ns = h->group_start_ns = now; // the next micro-batch begins here, without a question
}

void lull_hook_stop(lull_hook *h, bool on) {
    atomic_store(&h->stop, on);
    if (on) wake_all(h->gate);
}

bool lull_hook_stopped(lull_hook *h) { return atomic_load(&h->stop) != 0; }

bool lull_hook_enter(lull_hook *h, int32_t width, int32_t threads, bool tentative, int64_t *predict) {
    h->width = width;
    h->threads = threads;
    h->tentative = tentative;
    h->predict = predict;
    h->drop = 0;
    h->node = 0;
    h->done = -1;
    h->waited_ns = 0;
    h->stops = h->n_samples = 0;
    h->norm = h->whole = NULL;
    return lull_hook_pass(h);
}

void lull_hook_leave(lull_hook *h, bool complete) {
    lull_head_unmute(h);
    if (complete) {
        // The rest: the head alone after a stop at the last layer, all of it when nothing stopped.
        if (h->done < h->n_layers) lull_hook_finish(h, h->n_layers);
        h->nodes = h->node;
    }
    h->last_end_ns = gate_now(h->gate);
    set_inside(h, false);
}

// layer_of reads N from a tensor named l_out-N, or returns -1.
static int32_t layer_of(const char *name) {
    if (memcmp(name, "l_out-", 6) != 0) return -1;
    int32_t n = 0;
    const char *p = name + 6;
    if (*p == 0) return -1;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || n > 9999) return -1;
        n = n * 10 + (*p - '0');
    }
    return n;
}

// layer_at tells which layer ends at this node, or -1. Architectures without
// l_out are cut at equal node distance, once one whole decode was counted.
static int32_t layer_at(lull_hook *h, const char *name) {
    int32_t layer = layer_of(name);
    if (layer >= 0) {
        h->by_name = 1;
        return layer < h->n_layers ? layer : -1;
    }
    if (h->by_name || h->nodes < h->n_layers) return -1;
    int32_t each = h->nodes / (h->n_layers + 1);
    if (each == 0 || h->node % each != 0) return -1;
    layer = h->node / each - 1;
    return layer < h->n_layers ? layer : -1;
}

// lull_hook_unasked tells whether the graph may run through: the gate is free
// and nobody wants a look at it between layers.
bool lull_hook_unasked(lull_hook *h) {
    return atomic_load(&h->gate->mode) == LULL_FREE &&
           clamp_stride(h, atomic_load(&h->gate->layers_per_stop)) >= h->n_layers;
}

// wants_stop tells whether the graph should halt after this layer: at the end of
// the admitted group, and before the head. Where the head's input has a name,
// the halt before the head is there.
static bool wants_stop(lull_hook *h, int32_t layer) {
    if (layer == h->n_layers - 1) return !h->norm_seen && !lull_hook_unasked(h);
    return layer >= h->halt && !lull_hook_unasked(h);
}

static bool asked(lull_hook *h, lull_tensor *t) {
    h->node++;
    if (h->norm != NULL && lull_head_after_norm(h, t)) return true;
    if (lull_head_is_norm(h, t)) return lull_head_norm(h, t);
    int32_t layer = layer_at(h, t->name);
    if (layer < 0) return false;
    if (layer <= h->done) { // the next micro-batch of the same call
        h->done = -1;
        h->halt = 0;
    }
    if (!wants_stop(h, layer)) return false;
    h->layer = layer;
    return true;
}

bool lull_hook_eval(void *tensor, bool ask, void *hook) {
    lull_hook *h = hook;
    if (ask) return asked(h, tensor);
    if (tensor == h->norm) return true; // what comes next is known when it is asked about
    if (tensor == h->muted) {
        lull_head_unmute(h);
        return true;
    }
    lull_hook_finish(h, h->layer);
    lull_hook_pass(h);
    // Never false: false is no abort, it returns 0 with stale logits. When the
    // gate said stop, lull_hook_abort ends the graph at its next node.
    return true;
}

// lull_hook_abort is asked at every node. What is tentative does not wait for the
// end of its layer when the gate shuts: the layer would run into the game's frame.
// One that has not begun yet waits for the next window, as the rule says.
bool lull_hook_abort(void *hook) {
    lull_hook *h = hook;
    if (h->drop || atomic_load_explicit(&h->stop, memory_order_relaxed)) return true;
    if (!h->tentative || !atomic_load_explicit(&h->gate->shut, memory_order_relaxed)) return false;
    int64_t expires = atomic_load(&h->gate->expires_ns);
    if (expires != 0 && gate_now(h->gate) >= expires) return false;
    h->drop = 1;
    return true;
}

void *lull_hook_eval_ptr(void) { return (void *)lull_hook_eval; }
void *lull_hook_abort_ptr(void) { return (void *)lull_hook_abort; }

// ---- loading and log ----

bool lull_loading_progress(float done, void *loading) {
    lull_loading *l = loading;
    atomic_store(&l->per_mille, (int32_t)(done * 1000));
    return atomic_load(&l->cancel) == 0;
}

int32_t lull_loading_done(lull_loading *l) { return atomic_load(&l->per_mille); }
void lull_loading_cancel(lull_loading *l) { atomic_store(&l->cancel, 1); }
void *lull_loading_ptr(void) { return (void *)lull_loading_progress; }

// The log keeps only the last warnings and errors; nothing is ever printed,
// the host's terminal is not ours.
static atomic_flag log_busy = ATOMIC_FLAG_INIT;
static char log_text[LULL_LOG_BYTES];
static size_t log_len;

enum { LOG_WARN = 3, LOG_ERROR = 4, LOG_CONT = 5 }; // ggml_log_level

void lull_log(int level, const char *text, void *unused) {
    (void)unused;
    static _Thread_local int last_level;
    if (level != LOG_CONT) last_level = level;
    if (last_level != LOG_WARN && last_level != LOG_ERROR) return;
    size_t n = strlen(text);
    if (n > LULL_LOG_BYTES / 2) n = LULL_LOG_BYTES / 2;
    while (atomic_flag_test_and_set(&log_busy)) {}
    if (log_len + n > LULL_LOG_BYTES) { // keep the newest half
        memmove(log_text, log_text + log_len - LULL_LOG_BYTES / 2, LULL_LOG_BYTES / 2);
        log_len = LULL_LOG_BYTES / 2;
    }
    memcpy(log_text + log_len, text, n);
    log_len += n;
    atomic_flag_clear(&log_busy);
}

void *lull_log_ptr(void) { return (void *)lull_log; }

size_t lull_log_take(char *buf, size_t len) {
    while (atomic_flag_test_and_set(&log_busy)) {}
    size_t n = log_len < len ? log_len : len;
    memcpy(buf, log_text, n);
    log_len = 0;
    atomic_flag_clear(&log_busy);
    return n;
}
