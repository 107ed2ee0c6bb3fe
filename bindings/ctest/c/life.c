/* Worlds that come and go, in every state, without growth; and exits from every
 * state. Prints what it measured; the test reads it.
 *
 *     life cycles scripted|real N      N worlds, destroyed while loading, idle, speaking
 *     life exit HOW scripted|real FOLDER
 *                                      HOW: return, exit, loading, speaking, saving; prints "leaving" before
 */
#define _GNU_SOURCE
#include "lull.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int32_t result, lull_world_id world, const char *what) {
    char text[1024] = "";
    if (result != LULL_OK) {
        lull_last_error(world, text, sizeof text, NULL);
        fprintf(stderr, "%s: %d, %s\n", what, (int)result, text);
        exit(1);
    }
}

static void rest_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static int entries(const char *folder) {
    DIR *d = opendir(folder);
    int n = 0;
    while (d != NULL && readdir(d) != NULL) {
        n++;
    }
    if (d != NULL) {
        closedir(d);
    }
    return n - 2;
}

/* What is resident and no file's: how much of the mapped weights is, changes. */
static long resident_kb(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "RssAnon: %ld", &kb) == 1) {
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return kb;
}

static lull_world_id make(const char *kind, const char *memories) {
    lull_world_id none = {0, 0}, world;
    lull_world_def def;
    check(lull_default_world_def(&def, sizeof def), none, "def");
    if (strcmp(kind, "real") != 0) {
        def.model_kind = LULL_MODEL_SCRIPTED;
        def.scripted_token_ns = 2000000;
    }
    if (memories != NULL) {
        def.memory_mode = LULL_MEMORY_FOLDER;
        def.memory_folder = memories;
    }
    check(lull_world_create(&def, &world), none, "create");
    return world;
}

static lull_npc_id speaker(lull_world_id world) {
    lull_npc_def who;
    lull_npc_id npc;
    check(lull_default_npc_def(&who, sizeof who), world, "npc def");
    /* A short sheet, which is soon read: these worlds live for a moment. */
    who.persona = "lull: 1\nname: Ann\ndescription: a shepherd in the hills who says little.\n";
    who.reply_tokens_max = 8;
    check(lull_npc_create(world, &who, &npc), world, "npc");
    return npc;
}

static void until(lull_world_id world, int32_t kind) {
    lull_event e;
    int32_t n = 0;
    do {
        check(lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n), world, "poll");
        if (n == 0) {
            rest_ms(1);
        } else if (e.kind == LULL_EVENT_WORLD_FAILED || e.kind == LULL_EVENT_REPLY_FAILED) {
            fprintf(stderr, "event %d: %s\n", (int)e.kind, e.text);
            exit(1);
        }
    } while (n == 0 || e.kind != kind);
}

/* Worlds that did not end in their time, and went on ending: on a machine so
 * busy that threads of the lowest priority hardly run. */
static int late;

/* One world, destroyed in one of four states. Returns how long that took. */
static int64_t cycle(const char *kind, int state) {
    lull_world_id none = {0, 0}, world = make(kind, NULL);
    lull_npc_id npc = speaker(world);
    int64_t begin;
    int32_t ended;
    if (state > 0) {
        until(world, LULL_EVENT_WORLD_READY);
    }
    if (state > 1) {
        check(lull_npc_say(npc, "Tell me of the mine and of the wolves on the road.", -1, NULL), world, "say");
    }
    if (state > 2) {
        until(world, LULL_EVENT_TEXT);
    }
    begin = lull_time_ns();
    ended = lull_world_destroy(world);
    if (ended == LULL_ERROR_TIMEOUT) {
        late++;
    } else {
        check(ended, none, "destroy");
    }
    if (lull_npc_is_valid(npc) || lull_npc_interrupt(npc) != LULL_ERROR_STALE_ID) {
        fprintf(stderr, "the NPC of a world that is gone is not stale\n");
        exit(1);
    }
    return lull_time_ns() - begin;
}

static int cycles(const char *kind, int n) {
    int64_t longest = 0;
    int i, threads = 0, files = 0;
    long memory = 0;
    for (i = 0; i < n; i++) {
        int64_t took = cycle(kind, i % 4);
        longest = took > longest ? took : longest;
        if (i == n / 4) { /* by then everything that is made once has been made */
            threads = entries("/proc/self/task");
            files = entries("/proc/self/fd");
            memory = resident_kb();
        }
    }
    rest_ms(late > 0 ? 5000 : 0);
    printf("cycles: %d, threads %+d, files %+d, memory %+ld kB, longest destroy %.1f ms, late %d\n", n,
           entries("/proc/self/task") - threads, entries("/proc/self/fd") - files, resident_kb() - memory,
           (double)longest / 1e6, late);
    return 0;
}

static void leaving(void) {
    printf("leaving\n");
    fflush(stdout);
}

static int leave(const char *how, const char *kind, const char *folder) {
    char path[4096];
    lull_memory_def seen;
    lull_world_id world = make(kind, folder);
    lull_npc_id npc = speaker(world);
    int i;
    if (strcmp(how, "loading") == 0) {
        leaving();
        exit(0);
    }
    until(world, LULL_EVENT_WORLD_READY);
    check(lull_npc_say(npc, "Tell me of the mine and of the wolves on the road.", -1, NULL), world, "say");
    if (strcmp(how, "speaking") == 0) {
        until(world, LULL_EVENT_TEXT);
    } else if (strcmp(how, "saving") == 0) { /* and memories are still on their way to the disk */
        check(lull_default_memory_def(&seen, sizeof seen), world, "memory def");
        seen.text = "Wolves came down to the road at night.";
        for (i = 0; i < 200; i++) {
            check(lull_npc_remember(npc, &seen), world, "remember");
        }
        snprintf(path, sizeof path, "%s/save", folder);
        check(lull_world_save_file(world, path, LULL_TERMINATED), world, "save");
        snprintf(path, sizeof path, "%s/memories", folder);
        check(lull_world_save_memories(world, path, LULL_TERMINATED), world, "save memories");
    }
    leaving();
    if (strcmp(how, "return") != 0) {
        exit(0);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "cycles") == 0) {
        return cycles(argv[2], atoi(argv[3]));
    }
    if (argc == 5 && strcmp(argv[1], "exit") == 0) {
        return leave(argv[2], argv[3], argv[4]);
    }
    fprintf(stderr, "usage: life cycles scripted|real N, or life exit HOW scripted|real FOLDER\n");
    return 2;
}
