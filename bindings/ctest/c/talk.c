/* A frame loop of 60 Hz with a character that talks, in C99. What it prints is
 * the same from every client of bindings/ctest:
 *
 *     talk scripted | real   ["a line" ...]
 */
#define _POSIX_C_SOURCE 200112L
#include "lull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <time.h>
#endif

#define FRAME_NS 16666667
#define FRAMES_MAX 6000

static int64_t costs_ns[FRAMES_MAX]; /* what lull took of each frame */
static int frames;
static uint64_t frame;

static void check(int32_t result, lull_world_id world, const char *what) {
    char text[1024];
    if (result == LULL_OK) {
        return;
    }
    if (lull_last_error(world, text, sizeof text, NULL) != LULL_OK) {
        strcpy(text, "no text");
    }
    fprintf(stderr, "%s: %d, %s\n", what, (int)result, text);
    exit(1);
}

static void wait_until(int64_t instant_ns) {
    int64_t rest = instant_ns - lull_time_ns();
    if (rest > 0) {
#if defined(_WIN32)
        Sleep((DWORD)(rest / 1000000));
#else
        struct timespec t;
        t.tv_sec = (time_t)(rest / 1000000000);
        t.tv_nsec = (long)(rest % 1000000000);
        nanosleep(&t, NULL);
#endif
    }
}

/* One frame. Returns how many events it copied. */
static int32_t play(lull_world_id world, lull_event *events, int32_t capacity) {
    int64_t begin = lull_time_ns(), deadline = begin + FRAME_NS, t0, t1, t2;
    int32_t count = 0;
    frame++;
    check(lull_frame_begin(world, frame, FRAME_NS, begin), world, "frame begin");
    t0 = lull_time_ns();
    wait_until(begin + 2000000); /* the game's own work */
    t1 = lull_time_ns();
    check(lull_frame_end(world, frame, deadline, LULL_NOW, NULL), world, "frame end");
    check(lull_poll_events(world, events, (int32_t)sizeof *events, capacity, &count), world, "poll");
    t2 = lull_time_ns();
    if (frames < FRAMES_MAX) {
        costs_ns[frames++] = (t0 - begin) + (t2 - t1);
    }
    wait_until(deadline); /* present: here the model runs */
    return count;
}

/* Plays frames until an event of that kind comes, and prints text meanwhile. */
static void until(lull_world_id world, int32_t kind) {
    lull_event events[16];
    for (;;) {
        int32_t n = play(world, events, 16), i;
        for (i = 0; i < n; i++) {
            const lull_event *e = &events[i];
            if (e->kind == LULL_EVENT_WORLD_FAILED || e->kind == LULL_EVENT_REPLY_FAILED) {
                fprintf(stderr, "event %d: %d, %s\n", (int)e->kind, (int)e->result, e->text);
                exit(1);
            }
            if (e->kind == LULL_EVENT_TEXT) {
                fwrite(e->text, 1, (size_t)e->text_bytes, stdout);
            }
            if (e->kind == kind) {
                return;
            }
        }
    }
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static const char *own[] = {"Hello, Brenna!", "O\xc3\xb9 est la mine? \xf0\x9f\x97\xbb"};
    const char **lines = argc > 2 ? (const char **)&argv[2] : own;
    int count = argc > 2 ? argc - 2 : 2, real, i;
    lull_world_id none = {0, 0}, world;
    lull_world_def def;
    lull_npc_def who;
    lull_npc_id npc;

    check(lull_abi_check(LULL_ABI_VERSION, (int32_t)sizeof(lull_event)), none, "abi");
    check(lull_default_world_def(&def, sizeof def), none, "world def");
    real = argc > 1 && strcmp(argv[1], "real") == 0;
    def.model_kind = real ? LULL_MODEL_LLAMA : LULL_MODEL_SCRIPTED;
    check(lull_world_create(&def, &world), none, "world");
    check(lull_default_npc_def(&who, sizeof who), none, "npc def");
    who.persona_file = "blacksmith";
    who.greedy = 1;
    who.reply_tokens_max = real ? 12 : 0; /* one sentence shows it */
    check(lull_npc_create(world, &who, &npc), world, "npc");
    until(world, LULL_EVENT_WORLD_READY);
    for (i = 0; i < count; i++) {
        printf("player: %s\nnpc: ", lines[i]);
        check(lull_npc_say(npc, lines[i], LULL_TERMINATED, NULL), world, "say");
        until(world, LULL_EVENT_DONE);
        printf("\n");
    }
    check(lull_world_destroy(world), none, "destroy");
    qsort(costs_ns, (size_t)frames, sizeof *costs_ns, ascending);
    printf("frame cost: %d frames, p50 %.1f us, p99 %.1f us\n", frames, (double)costs_ns[frames / 2] / 1000,
           (double)costs_ns[frames * 99 / 100] / 1000);
    return 0;
}
