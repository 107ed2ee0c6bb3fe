/* What calls cost: how long each of those that a frame makes takes, and what
 * they allocate, in C and in Go. For each line that comes in, a block: one line
 * out a call, in nanoseconds. The test measures the same in Go in between. At the
 * end of the input come the allocations.
 *
 *     overhead CALLS
 */
#define _POSIX_C_SOURCE 200112L
#include "lull.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Everything that this process allocates goes through here, lull's C included. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
static volatile long allocations;
void *malloc(size_t bytes) {
    __sync_fetch_and_add(&allocations, 1);
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    __sync_fetch_and_add(&allocations, 1);
    return __libc_calloc(n, bytes);
}

enum { FRAME_BEGIN, FRAME_END, POLL_EVENTS, NPC_IS_BUSY, NPC_SET_DISTANCE, WORLD_SET_PHASE, WORLD_GET_STATUS, CALLS };

static const char *names[CALLS] = {"frame_begin",      "frame_end",       "poll_events",     "npc_is_busy",
                                   "npc_set_distance", "world_set_phase", "world_get_status"};
static int64_t *took_ns[CALLS];

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void check(int32_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %d\n", what, (int)result);
        exit(1);
    }
}

static lull_world_id world;
static lull_npc_id npc;

static int32_t call(int which, uint64_t frame) {
    static lull_event events[16];
    lull_decision decision;
    lull_world_status status;
    int32_t count;
    switch (which) {
    case FRAME_BEGIN:
        return lull_frame_begin(world, frame, 16666667, LULL_NOW);
    case FRAME_END:
        decision.struct_size = sizeof decision;
        return lull_frame_end(world, frame, 0, LULL_NOW, &decision);
    case POLL_EVENTS:
        return lull_poll_events(world, events, (int32_t)sizeof *events, 16, &count);
    case NPC_IS_BUSY:
        return lull_npc_is_busy(npc);
    case NPC_SET_DISTANCE:
        return lull_npc_set_distance(npc, (float)(frame % 9));
    case WORLD_SET_PHASE:
        return lull_world_set_phase(world, LULL_PHASE_EXPLORE);
    default:
        status.struct_size = sizeof status;
        return lull_world_get_status(world, &status);
    }
}

static void open_world(void) {
    lull_world_def def;
    lull_npc_def who;
    lull_event e;
    int32_t n;
    check(lull_default_world_def(&def, sizeof def), "def");
    def.model_kind = LULL_MODEL_SCRIPTED;
    check(lull_world_create(&def, &world), "world");
    check(lull_default_npc_def(&who, sizeof who), "npc def");
    who.persona_file = "blacksmith";
    check(lull_npc_create(world, &who, &npc), "npc");
    do {
        check(lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n), "poll");
    } while (n == 0 || e.kind != LULL_EVENT_WORLD_READY);
}

static uint64_t heap_allocations(void) {
    lull_statistics s;
    s.struct_size = sizeof s;
    check(lull_world_get_statistics(world, &s), "statistics");
    return s.heap_allocations;
}

/* n frames; what each call took stands in took_ns. */
static void play(int n) {
    static uint64_t frame;
    int i, c;
    for (i = 0; i < n; i++) {
        frame++;
        for (c = 0; c < CALLS; c++) {
            int64_t begin = now_ns(), end;
            int32_t result = call(c, frame);
            end = now_ns();
            check(result, names[c]);
            took_ns[c][i] = end - begin;
        }
    }
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 20000, c;
    uint64_t go, heap = 0;
    long c_heap, own = 0;
    char line[16];
    if (n < 100) {
        return 2;
    }
    for (c = 0; c < CALLS; c++) {
        took_ns[c] = malloc((size_t)n * sizeof **took_ns);
    }
    open_world();
    play(n); /* after that everything that is made once has been made */
    while (fgets(line, sizeof line, stdin) != NULL) {
        go = heap_allocations();
        c_heap = allocations;
        play(n);
        own += allocations - c_heap;
        heap += heap_allocations() - go;
        for (c = 0; c < CALLS; c++) {
            qsort(took_ns[c], (size_t)n, sizeof **took_ns, ascending);
            printf("%s %lld %lld\n", names[c], (long long)took_ns[c][n / 2], (long long)took_ns[c][(long)n * 99 / 100]);
        }
        fflush(stdout);
    }
    printf("allocations %ld %lu\n", own, (unsigned long)heap);
    check(lull_world_destroy(world), "destroy");
    return 0;
}
