// A game thread publishes windows, another stops and resumes, and a third
// pretends to be llama.cpp: it asks the hook at every node of a graph of 30
// layers and a head that is computed in slices by functions of its own. Built with sanitizers by TestGateUnderSanitizers. It prints what it
// counted, and returns 1 when the gate let something through.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gate.h"

enum { LAYERS = 30, NODES_PER_LAYER = 6, DECODES = 300, SLICES = 5, ROWS = 3, HALF = 2, VOCABULARY = 14,
       MUL_MAT = 29 };

static lull_gate gate;
static lull_hook hook;
static _Atomic int finished;

static lull_tensor tensor, norm, weight, product, input, parts[SLICES * LULL_PARTS];
static float logits[VOCABULARY], hidden[1];

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
        if (rand_r(&seed) % 4 == 0) w.open_ns = INT64_MIN + 1, w.close_ns = INT64_MIN; // as scheduler.Marks shuts it
        w.spill = rand_r(&seed) % 2;
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

// A graph of slices: which ones, and what computing them leaves in the logits.
static struct { int n; lull_tensor *nodes[SLICES * LULL_PARTS]; } graph;

static void graph_clear(void *g) { (void)g, graph.n = 0; }

static void graph_add(void *g, lull_tensor *node) { (void)g, graph.nodes[graph.n++] = node; }

static int32_t graph_compute(void *backend, void *g) {
    (void)backend, (void)g;
    for (int i = 0; i < graph.n; i++) {
        lull_tensor *s = graph.nodes[i];
        for (int64_t row = 0; row < s->ne[0]; row++) ((float *)s->data)[row] += *(float *)input.data;
        if (lull_hook_abort(&hook)) return 1;
    }
    return 0;
}

static void make_head(void) {
    weight.ne[1] = product.ne[0] = VOCABULARY;
    product.ne[1] = norm.ne[1] = input.ne[1] = 1;
    product.op = MUL_MAT;
    product.src[0] = &weight;
    product.src[1] = &norm;
    product.data = logits;
    norm.data = hidden;
    strcpy(norm.name, "result_norm");
    strcpy(product.name, "result_output");
    lull_head *d = &hook.head;
    *d = (lull_head){.op = MUL_MAT, .count = SLICES, .rows = ROWS, .half = HALF, .weight = &weight};
    d->clear = graph_clear;
    d->add = graph_add;
    d->compute = graph_compute;
    d->widths[1].graph = &graph;
    d->widths[1].input = &input;
    for (int i = 0; i < SLICES; i++) {
        int rows = i < SLICES - 1 ? ROWS : VOCABULARY - ROWS * (SLICES - 1);
        int first = rows < HALF ? rows : HALF;
        lull_tensor **two = &d->widths[1].parts[i * LULL_PARTS];
        parts[2 * i] = (lull_tensor){.ne = {first, 1}};
        parts[2 * i + 1] = (lull_tensor){.ne = {rows - first, 1}};
        two[0] = &parts[2 * i];
        two[1] = rows > first ? &parts[2 * i + 1] : NULL;
    }
}

// head runs the two nodes after the layers. Whole heads come in between, when
// the norm has more rows than there is a graph for.
static bool head(bool whole) {
    norm.ne[1] = product.ne[1] = whole ? 2 : 1;
    hidden[0] = 1;
    memset(logits, 0, sizeof logits);
    if (lull_hook_abort(&hook)) return false;
    if (lull_hook_eval(&norm, true, &hook)) lull_hook_eval(&norm, false, &hook);
    if (lull_hook_abort(&hook)) return false;
    bool halt = lull_hook_eval(&product, true, &hook);
    if (halt == whole || (product.op == 0) == whole) {
        puts("a whole head was switched off, or one in slices was not");
        exit(1);
    }
    if (halt) lull_hook_eval(&product, false, &hook);
    for (int i = 0; halt && !hook.drop && i < VOCABULARY; i++) {
        if (logits[i] == 1) continue;
        printf("row %d was computed %g times\n", i, logits[i]);
        exit(1);
    }
    return !hook.drop;
}

// compute runs one graph as ggml's scheduler does: groups of nodes, each ended
// by a node that the callback wanted, the abort asked after each node.
static bool compute(bool whole) {
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int node = 0; node < NODES_PER_LAYER; node++) {
            bool end = node == NODES_PER_LAYER - 1;
            snprintf(tensor.name, sizeof tensor.name, end ? "l_out-%d" : "ffn_inp-%d", layer);
            if (lull_hook_abort(&hook)) return false;
            if (lull_hook_eval(&tensor, true, &hook) && !lull_hook_eval(&tensor, false, &hook)) {
                puts("the callback returned false: that is no abort");
                exit(1);
            }
        }
    }
    return head(whole);
}

static int check_samples(void) {
    int next = 0;
    for (int i = 0; i < hook.n_samples; i++) {
        lull_sample *s = &hook.samples[i];
        if (s->first == LAYERS && s->last == LAYERS && next == LAYERS + 1) continue; // one more slice
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
    make_head();
    pthread_t a, b;
    pthread_create(&a, NULL, game, NULL);
    pthread_create(&b, NULL, stopper, NULL);
    int complete = 0, stopped = 0, bad = 0;
    for (int i = 0; complete < DECODES && !bad; i++) {
        bool ok = lull_hook_enter(&hook, 1, 1, i % 7 == 0, predict) && compute(i % 5 == 0);
        lull_hook_leave(&hook, ok);
        if (product.op != MUL_MAT) {
            puts("the head stays switched off");
            bad = 1;
        }
        ok ? complete++ : stopped++;
        bad |= check_samples();
    }
    atomic_store(&finished, 1);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    free(predict);
    printf("%d complete, %d stopped\n", complete, stopped);
    return bad || complete == 0 || stopped == 0;
}
