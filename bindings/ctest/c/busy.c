/* What lull's calls take of the game thread while the game wants every core:
 * frames of 60 Hz in which two threads compute for some milliseconds each, and a
 * character that talks all the time. One line out for each call of a frame, and
 * one for their sum.
 *
 *     busy scripted | real FRAMES WORK_MS
 */
#define _POSIX_C_SOURCE 200112L
#include "lull.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAME_NS 16666667
#define WORKERS 2

/* A real model may read its prompt for a minute: text is waited for that long. */
#define FRAMES_MAX 7200

enum { FRAME_BEGIN, FRAME_END, POLL_EVENTS, SUM, ROWS };

static const char *names[ROWS] = {"frame_begin", "frame_end", "poll_events", "sum"};
static int64_t took_ns[ROWS][FRAMES_MAX];
static int frames, late, texts, replies;

static lull_world_id world;
static lull_npc_id npc;

static void check(int32_t result, const char *what) {
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

/* How long this thread ran. */
static int64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_ns(int64_t rest) {
    if (rest > 0) {
        struct timespec t;
        t.tv_sec = (time_t)(rest / 1000000000);
        t.tv_nsec = (long)(rest % 1000000000);
        nanosleep(&t, NULL);
    }
}

/* The game's own threads: each computes for work_ns when it is told to, until
 * there is no more to do. */
static sem_t begin_work[WORKERS], work_done;
static int64_t work_ns;
static int over; /* written before begin_work is posted for the last time */

static void *work(void *own) {
    sem_t *go = own;
    while (sem_wait(go) == 0 && !over) {
        int64_t end = thread_ns() + work_ns;
        while (thread_ns() < end) {
            volatile int i;
            for (i = 0; i < 3000; i++) {
            }
        }
        sem_post(&work_done);
    }
    return NULL;
}

/* One call of a frame, whose cost goes to its row and to the sum. */
static void timed(int row, uint64_t frame, int64_t deadline_ns, lull_event *events, int32_t capacity, int32_t *count) {
    int64_t begin = lull_time_ns(), end;
    int32_t result;
    switch (row) {
    case FRAME_BEGIN:
        result = lull_frame_begin(world, frame, FRAME_NS, begin);
        break;
    case FRAME_END:
        result = lull_frame_end(world, frame, deadline_ns, LULL_NOW, NULL);
        break;
    default:
        result = lull_poll_events(world, events, (int32_t)sizeof *events, capacity, count);
    }
    end = lull_time_ns();
    check(result, names[row]);
    took_ns[row][frames] = end - begin;
    took_ns[SUM][frames] += end - begin;
}

/* One frame. The character is given a line as soon as it is idle. */
static void play(int64_t deadline_ns) {
    lull_event events[16];
    int32_t count = 0, i;
    uint64_t frame = (uint64_t)frames + 1;
    timed(FRAME_BEGIN, frame, deadline_ns, NULL, 0, NULL);
    for (i = 0; i < WORKERS; i++) {
        sem_post(&begin_work[i]);
    }
    for (i = 0; i < WORKERS; i++) {
        sem_wait(&work_done);
    }
    timed(FRAME_END, frame, deadline_ns, NULL, 0, NULL);
    timed(POLL_EVENTS, frame, deadline_ns, events, 16, &count);
    late += lull_time_ns() > deadline_ns;
    frames++;
    for (i = 0; i < count; i++) {
        if (events[i].kind == LULL_EVENT_REPLY_FAILED) {
            check(events[i].result, "reply");
        }
        texts += events[i].kind == LULL_EVENT_TEXT;
        replies += events[i].kind == LULL_EVENT_DONE;
    }
    if (lull_npc_is_busy(npc) == 0) {
        check(lull_npc_say(npc, "Tell me a long story about the mine and the river.", LULL_TERMINATED, NULL), "say");
    }
}

static void open_world(int real) {
    lull_world_def def;
    lull_npc_def who;
    lull_event e;
    int32_t n;
    check(lull_default_world_def(&def, sizeof def), "world def");
    def.model_kind = real ? LULL_MODEL_LLAMA : LULL_MODEL_SCRIPTED;
    check(lull_world_create(&def, &world), "world");
    check(lull_default_npc_def(&who, sizeof who), "npc def");
    who.persona_file = "blacksmith";
    who.greedy = 1;
    who.reply_tokens_max = 120;
    check(lull_npc_create(world, &who, &npc), "npc");
    for (;;) {
        check(lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n), "poll");
        if (n == 1 && e.kind == LULL_EVENT_WORLD_FAILED) {
            check(e.result, "load");
        }
        if (n == 1 && e.kind == LULL_EVENT_WORLD_READY) {
            return;
        }
        if (n == 0) {
            sleep_ns(1000000);
        }
    }
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The share of one hundred, in microseconds. */
static double percentile(const int64_t *sorted, int share) { return (double)sorted[(frames - 1) * share / 100] / 1000; }

static void print(void) {
    int row;
    printf("%-12s %8s %8s %8s %8s\n", "us", "p50", "p90", "p99", "worst");
    for (row = 0; row < ROWS; row++) {
        int64_t *took = took_ns[row];
        qsort(took, (size_t)frames, sizeof *took, ascending);
        printf("%-12s %8.1f %8.1f %8.1f %8.1f\n", names[row], percentile(took, 50), percentile(took, 90),
               percentile(took, 99), percentile(took, 100));
    }
    printf("busy: frames %d, late %d, texts %d, replies %d\n", frames, late, texts, replies);
}

int main(int argc, char **argv) {
    int wanted = argc == 4 ? atoi(argv[2]) : 0, i;
    pthread_t threads[WORKERS];
    int64_t line;
    if (wanted < 1 || wanted > FRAMES_MAX) {
        fprintf(stderr, "busy scripted | real FRAMES WORK_MS, with 1 to %d frames\n", FRAMES_MAX);
        return 2;
    }
    work_ns = (int64_t)(atof(argv[3]) * 1e6);
    open_world(strcmp(argv[1], "real") == 0);
    sem_init(&work_done, 0, 0);
    for (i = 0; i < WORKERS; i++) {
        sem_init(&begin_work[i], 0, 0);
        if (pthread_create(&threads[i], NULL, work, &begin_work[i]) != 0) {
            return 1;
        }
    }
    line = lull_time_ns();
    while (frames < wanted || (texts == 0 && frames < FRAMES_MAX)) {
        int64_t now;
        line += FRAME_NS;
        play(line);
        now = lull_time_ns();
        while (line < now - FRAME_NS) { /* frames that were dropped */
            line += FRAME_NS;
        }
        sleep_ns(line - now);
    }
    over = 1;
    for (i = 0; i < WORKERS; i++) {
        sem_post(&begin_work[i]);
        pthread_join(threads[i], NULL);
    }
    check(lull_world_destroy(world), "destroy");
    print();
    return texts == 0;
}
