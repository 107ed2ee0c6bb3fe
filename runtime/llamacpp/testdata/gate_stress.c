// A game thread publishes windows, another stops and resumes, and a third
// pretends to be llama.cpp: it asks the hook at every node of a graph of 30
// layers. Built with sanitizers by TestGateUnderSanitizers. It prints what it
// counted, and returns 1 when the gate let something through.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gate.h"

enum { LAYERS = 30, NODES_PER_LAYER = 6, DECODES = 3000 };

static lull_gate gate;
static lull_hook hook;
static _Atomic int finished;

// A tensor as the hook sees it: a name at offset 256.
static char tensor[512];

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *game(void *unused) {
    (void)unused;
    unsigned seed = 1;
    while (!atomic_load(&finished)) {
        int64_t now = now_ns();
        lull_window w = {0};
        w.mode = rand_r(&seed) % 4;
        w.layers_per_stop = rand_r(&seed) % 5;
        w.open_ns = now - 1000 + rand_r(&seed) % 100000;
        w.close_ns = w.open_ns + rand_r(&seed) % 1000000;
        w.pause_ns = rand_r(&seed) % 20000;
        lull_gate_publish(&gate, w);
        struct timespec nap = {0, 20000};
        nanosleep(&nap, NULL);
    }
    lull_gate_publish(&gate, (lull_window){0});
    return NULL;
}

static void *stopper(void *unused) {
    (void)unused;
    unsigned seed = 2;
    while (!atomic_load(&finished)) {
        struct timespec nap = {0, 1000 * (rand_r(&seed) % 3000)};
        nanosleep(&nap, NULL);
        lull_hook_stop(&hook, true);
        nap.tv_nsec = 50000;
        nanosleep(&nap, NULL);
        lull_hook_stop(&hook, false);
    }
    lull_hook_stop(&hook, false);
    return NULL;
}

// compute runs one graph as ggml's scheduler does: groups of nodes, each ended
// by a node that the callback wanted, the abort asked after each node.
static bool compute(void) {
    for (int layer = 0; layer <= LAYERS; layer++) {
        for (int node = 0; node < NODES_PER_LAYER; node++) {
            bool end = node == NODES_PER_LAYER - 1 && layer < LAYERS;
            snprintf(tensor + 256, 64, end ? "l_out-%d" : "ffn_inp-%d", layer);
            if (lull_hook_abort(&hook)) return false;
            if (lull_hook_eval(tensor, true, &hook) && !lull_hook_eval(tensor, false, &hook)) {
                puts("the callback returned false: that is no abort");
                exit(1);
            }
        }
    }
    return true;
}

static int check_samples(void) {
    int next = 0;
    for (int i = 0; i < hook.n_samples; i++) {
        lull_sample *s = &hook.samples[i];
        if (s->first != next || s->last < s->first || s->last > LAYERS || s->duration_ns < 0) {
            printf("sample %d: layers %d to %d, want it to begin at %d\n", i, s->first, s->last, next);
            return 1;
        }
        next = s->last + 1;
    }
    return 0;
}

int main(void) {
    int64_t *predict = calloc(LAYERS + 1, sizeof *predict);
    lull_gate_init(&gate, now_ns());
    hook.gate = &gate;
    hook.n_layers = LAYERS;
    pthread_t a, b;
    pthread_create(&a, NULL, game, NULL);
    pthread_create(&b, NULL, stopper, NULL);
    int complete = 0, stopped = 0, bad = 0;
    for (int i = 0; i < DECODES && !bad; i++) {
        bool ok = lull_hook_enter(&hook, 1, 1, i % 7 == 0, predict) && compute();
        lull_hook_leave(&hook, ok);
        ok ? complete++ : stopped++;
        bad = check_samples();
    }
    atomic_store(&finished, 1);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    free(predict);
    printf("%d complete, %d stopped\n", complete, stopped);
    return bad || complete == 0 || stopped == 0;
}
