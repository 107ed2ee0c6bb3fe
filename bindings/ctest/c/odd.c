/* Hosts that do odd things: each is one function here, and one run of the
 * program in a folder of its own.
 *
 *     odd NAME
 */
#define _GNU_SOURCE
#include "lull.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures;
static lull_world_id world;
static lull_npc_id npc;

static void expect(int truth, const char *what) {
    char text[1024] = "";
    if (!truth) {
        lull_last_error(world, text, sizeof text, NULL);
        fprintf(stderr, "FAIL %s; the world says: %s\n", what, text);
        failures++;
    }
}

static lull_world_def scripted(void) {
    lull_world_def def;
    lull_default_world_def(&def, sizeof def);
    def.model_kind = LULL_MODEL_SCRIPTED;
    return def;
}

static lull_npc_id person(const char *name) {
    lull_npc_def who;
    lull_npc_id made;
    lull_default_npc_def(&who, sizeof who);
    who.persona_file = "blacksmith";
    who.name = name;
    expect(lull_npc_create(world, &who, &made) == LULL_OK, "an NPC is made");
    return made;
}

/* Polls until an event of that kind, or of failure; ten seconds at most. */
static int until(int32_t kind) {
    const struct timespec pause = {0, 1000000};
    lull_event e;
    int32_t n = 0;
    int i;
    for (i = 0; i < 10000; i++) {
        if (lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n) != LULL_OK) {
            return 0;
        }
        if (n == 0) {
            nanosleep(&pause, NULL);
        } else if (e.kind == kind) {
            return 1;
        } else if (e.kind == LULL_EVENT_WORLD_FAILED) {
            return 0;
        }
    }
    return 0;
}

static void begin(const lull_world_def *def) {
    expect(lull_world_create(def, &world) == LULL_OK && until(LULL_EVENT_WORLD_READY), "a world is ready");
    npc = person("first");
}

static void talks(void) {
    expect(lull_npc_say(npc, "What do you sell?", LULL_TERMINATED, NULL) == LULL_OK && until(LULL_EVENT_DONE),
           "the NPC answers");
}

/* The child of a fork without exec gets an answer from every call, and exits at once. */
static void forks(void) {
    lull_world_status status;
    pid_t child;
    int how = -1;
    child = fork();
    if (child == 0) {
        alarm(20);
        status.struct_size = sizeof status;
        how = lull_world_get_status(world, &status) != LULL_ERROR_FORKED ||
              lull_world_destroy(world) != LULL_ERROR_FORKED || lull_world_is_valid(world) || lull_npc_is_valid(npc);
        exit(how);
    }
    waitpid(child, &how, 0);
    expect(how == 0, "the child of a fork is told and exits");
}

static volatile sig_atomic_t ticks;

/* A profiler's handler, with more on the stack than a goroutine has. */
static void on_tick(int number) {
    volatile char much[20000];
    size_t i;
    for (i = 0; i < sizeof much; i += 512) {
        much[i] = (char)number;
    }
    ticks++;
}

static void profiler(void) {
    struct sigaction act;
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    lull_world_def def = scripted();
    lull_event events[16];
    int32_t n;
    uint64_t i;
    lull_world_destroy(world);
    memset(&act, 0, sizeof act);
    act.sa_handler = on_tick; /* and no SA_ONSTACK */
    act.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &act, NULL);
    def.scripted_token_ns = 1000000;
    begin(&def);
    setitimer(ITIMER_PROF, &every, NULL);
    for (i = 1; i < 40000; i++) {
        lull_frame_begin(world, i, 16666667, LULL_NOW);
        lull_frame_end(world, i, 0, LULL_NOW, NULL);
        lull_poll_events(world, events, (int32_t)sizeof *events, 16, &n);
        if (i % 1000 == 0) {
            lull_npc_say(npc, "What do you sell?", LULL_TERMINATED, NULL);
        }
    }
    setitimer(ITIMER_PROF, &never, NULL);
    expect(ticks > 0, "the profiler sees lull's host");
}

/* Paths of what is no file: some are endless, some make who opens them wait. */
static void paths(void) {
    static const char *odd[] = {"pipe", "/dev/zero", ".", ""};
    struct stat now;
    lull_npc_def who;
    lull_npc_id made;
    size_t i;
    expect(mkfifo("pipe", 0600) == 0, "a pipe");
    alarm(30);
    for (i = 0; i < sizeof odd / sizeof *odd; i++) {
        int32_t want = *odd[i] ? LULL_ERROR_FILE : LULL_ERROR_INVALID_ARGUMENT;
        expect(lull_world_load_file(world, odd[i], LULL_TERMINATED) == want, odd[i]);
        lull_default_npc_def(&who, sizeof who);
        who.persona_file = odd[i];
        expect(lull_npc_create(world, &who, &made) == want, odd[i]);
    }
    expect(lull_world_save_file(world, "pipe", LULL_TERMINATED) == LULL_ERROR_FILE, "a pipe is not replaced");
    expect(stat("pipe", &now) == 0 && S_ISFIFO(now.st_mode), "a pipe stays one");
    expect(lull_world_save_file(world, "save", LULL_TERMINATED) == LULL_OK, "a save");
    expect(symlink("save", "link") == 0 && chmod("save", 0640) == 0, "a link to it");
    expect(lull_world_save_file(world, "link", LULL_TERMINATED) == LULL_OK, "a save through a link");
    expect(lstat("link", &now) == 0 && S_ISLNK(now.st_mode), "a link stays one");
    expect(stat("save", &now) == 0 && (now.st_mode & 0777) == 0640, "who may read a save stays");
    expect(chmod("save", 0440) == 0, "a save that nobody may write");
    expect(lull_world_save_file(world, "save", LULL_TERMINATED) == LULL_ERROR_FILE, "it is left alone");
}

/* A disk that is full: files may have 16 bytes. */
static void disk(void) {
    struct rlimit little = {16, RLIM_INFINITY}, all;
    lull_world_def def = scripted();
    lull_memory_def seen;
    struct stat before, now;
    lull_world_destroy(world);
    def.memory_mode = LULL_MEMORY_VOLATILE;
    begin(&def);
    lull_default_memory_def(&seen, sizeof seen);
    seen.text = "Wolves came down to the road at night.";
    expect(lull_npc_remember(npc, &seen) == LULL_OK, "a memory");
    expect(lull_world_save_file(world, "save", LULL_TERMINATED) == LULL_OK && stat("save", &before) == 0, "a save");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &all);
    setrlimit(RLIMIT_FSIZE, &little);
    expect(lull_world_save_file(world, "save", LULL_TERMINATED) == LULL_ERROR_FILE, "a full disk is told");
    expect(lull_world_save_memories(world, "memories", LULL_TERMINATED) == LULL_OK && until(LULL_EVENT_MEMORY_FAILED),
           "and for memories too");
    setrlimit(RLIMIT_FSIZE, &all);
    expect(stat("save", &now) == 0 && now.st_size == before.st_size, "the old save stays");
    expect(lull_world_load_file(world, "save", LULL_TERMINATED) == LULL_OK, "and can be loaded");
}

/* Paths are taken from where the host was when it gave them. */
static void moves(void) {
    lull_world_def def = scripted();
    lull_memory_def seen;
    lull_world_destroy(world);
    expect(mkdir("before", 0755) == 0 && mkdir("after", 0755) == 0 && chdir("before") == 0, "folders");
    def.memory_mode = LULL_MEMORY_FOLDER;
    def.memory_folder = "memories";
    expect(lull_world_create(&def, &world) == LULL_OK, "a world");
    expect(chdir("../after") == 0 && until(LULL_EVENT_WORLD_READY), "it is ready when the host is elsewhere");
    npc = person("first");
    lull_default_memory_def(&seen, sizeof seen);
    seen.text = "Wolves came down to the road at night.";
    expect(lull_npc_remember(npc, &seen) == LULL_OK && until(LULL_EVENT_MEMORY_DURABLE), "a memory");
    expect(lull_world_save_memories(world, "save", LULL_TERMINATED) == LULL_OK && chdir("..") == 0 &&
               until(LULL_EVENT_MEMORY_SAVED),
           "memories are saved");
    expect(access("before/memories", F_OK) == 0, "the folder stands where the world was made");
    expect(access("after/save", F_OK) == 0, "the save stands where it was asked for");
}

/* Standard input, output and error are closed. */
static void closed(void) {
    lull_world_def def = scripted();
    lull_world_destroy(world);
    close(0), close(1), close(2);
    begin(&def);
    talks();
}

/* Clocks that go back or stand still, frames that come twice, numbers that are none. */
static void clocks(void) {
    static const int64_t instants[] = {INT64_MAX, 1, LULL_NOW, 5, 1000000000, -1, INT64_MIN};
    static const uint64_t frames[] = {0, UINT64_MAX, 5, 4, 4};
    const volatile float zero = 0;
    size_t i, j, k;
    lull_decision d;
    for (i = 0; i < 7; i++) {
        for (j = 0; j < 7; j++) {
            for (k = 0; k < 5; k++) {
                lull_frame_timings t = {sizeof t, 1, instants[i], instants[j], instants[(i + k) % 7], instants[j]};
                lull_frame_sample s = {sizeof s,    1,           frames[k],   instants[i], instants[j],
                                       16666667,    instants[j], instants[i], instants[j], instants[k]};
                lull_host_signals h = {sizeof h, (int32_t)i, zero / zero, 1 / zero, (int32_t)k % 4, 0};
                d.struct_size = sizeof d;
                lull_frame_begin(world, frames[k], 16666667, instants[i]);
                lull_frame_set_timings(world, frames[k], &t);
                lull_frame_add_sample(world, &s, NULL);
                lull_world_set_host_signals(world, &h);
                if (lull_frame_end(world, frames[(j + k) % 5], instants[k], instants[j], &d) == LULL_OK) {
                    expect(d.openness >= 0 && d.openness <= 1 && d.confidence >= 0 && d.confidence <= 1,
                           "a decision has its numbers");
                    expect(d.margin_ns >= 0 && d.pause_ns >= 0 && d.reference_ns >= 0, "and its times");
                }
            }
        }
    }
    for (i = 0; i < 200; i++) { /* then the host comes to its senses */
        const struct timespec rest = {0, 5000000};
        lull_frame_begin(world, 1000 + i, 16666667, LULL_NOW);
        lull_frame_end(world, 1000 + i, 0, LULL_NOW, NULL);
        nanosleep(&rest, NULL);
    }
    talks();
}

/* Events that nobody polls are bounded: at some time the host is told. */
static void unpolled(void) {
    lull_event events[16];
    int32_t n, result = LULL_OK;
    int said = 0, come = 0;
    for (; said < 100000 && result == LULL_OK; said++) {
        result = lull_npc_say(npc, "What do you sell?", LULL_TERMINATED, NULL);
        lull_frame_begin(world, (uint64_t)said + 1, 16666667, LULL_NOW);
        lull_frame_end(world, (uint64_t)said + 1, 0, LULL_NOW, NULL);
    }
    expect(result == LULL_ERROR_FULL, "too much was said");
    do {
        lull_poll_events(world, events, (int32_t)sizeof *events, 16, &n);
        come += n;
    } while (n > 0);
    expect(come >= said - 1, "everything that waited comes");
    talks();
}

/* A thousand NPCs, who are all spoken to. */
static void crowd(void) {
    static lull_npc_id all[1000];
    lull_event events[64];
    int32_t n, result;
    uint64_t frame = 0;
    int i, taken = 0, ended = 0;
    char name[16];
    for (i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "person-%d", i);
        all[i] = person(name);
    }
    for (i = 0; i < 1000; i++) {
        result = lull_npc_say(all[i], "What do you sell?", LULL_TERMINATED, NULL);
        expect(result == LULL_OK || result == LULL_ERROR_FULL, "a line is taken or refused");
        taken += result == LULL_OK;
    }
    while (ended < taken && frame < 1000000) {
        lull_frame_begin(world, ++frame, 16666667, LULL_NOW);
        lull_frame_end(world, frame, 0, LULL_NOW, NULL);
        lull_poll_events(world, events, (int32_t)sizeof *events, 64, &n);
        for (i = 0; i < n; i++) {
            ended += events[i].kind == LULL_EVENT_DONE;
        }
    }
    expect(taken > 0 && ended == taken, "who was spoken to answers");
}

/* Saves that were cut or damaged are refused, or are saves. */
static void saves(void) {
    unsigned char good[4096], bad[sizeof good];
    int64_t size = 0, i;
    talks();
    expect(lull_world_save(world, good, sizeof good, &size) == LULL_OK, "a save");
    for (i = 0; i < size; i++) {
        expect(lull_world_load(world, good, i) == LULL_ERROR_SAVE, "a save that was cut is refused");
    }
    srand(1);
    for (i = 0; i < 3000; i++) {
        int32_t result;
        memcpy(bad, good, (size_t)size);
        bad[rand() % size] ^= (unsigned char)(1 << rand() % 8);
        result = lull_world_load(world, bad, size);
        expect(result == LULL_OK || result == LULL_ERROR_SAVE, "a damaged save is refused, or is one");
    }
    expect(lull_world_load(world, good, size) == LULL_OK, "the good one");
    talks();
}

/* A world that can't load says what to mend, in the host's words, and the next one loads. */
static void retries(void) {
    static const char *fields[] = {"def.model", "def.library"};
    char text[1024];
    int i;
    for (i = 0; i < 2; i++) {
        lull_world_def def = scripted();
        lull_world_destroy(world);
        def.model_kind = LULL_MODEL_LLAMA;
        def.model = i == 0 ? "/no/such/model.gguf" : NULL;
        def.library = i == 1 ? "/no/such/folder" : NULL;
        expect(lull_world_create(&def, &world) == LULL_OK && until(LULL_EVENT_WORLD_FAILED), "loading fails");
        lull_last_error(world, text, sizeof text, NULL);
        expect(i == 0 || strstr(text, fields[i]) != NULL, "the text names the field");
        npc = person("first");
        expect(lull_npc_say(npc, "hello", LULL_TERMINATED, NULL) == LULL_ERROR_NOT_READY, "nobody speaks");
        def = scripted();
        expect(lull_world_destroy(world) == LULL_OK, "it ends");
        begin(&def);
        talks();
    }
}

static void *frames(void *data) {
    lull_event e;
    int32_t n;
    uint64_t i;
    for (i = 1; i < 500; i++) {
        lull_frame_begin(world, i, 16666667, LULL_NOW);
        lull_frame_end(world, i, 0, LULL_NOW, NULL);
        lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n);
        lull_npc_say(npc, "What do you sell?", LULL_TERMINATED, NULL);
    }
    return data;
}

/* Threads with little stack; and lull takes little of it for itself. */
static void stack(void) {
    pthread_attr_t little;
    pthread_t thread;
    int i;
    pthread_attr_init(&little);
    expect(pthread_attr_setstacksize(&little, 16384) == 0, "16 KiB");
    for (i = 0; i < 5; i++) {
        int made = pthread_create(&thread, &little, frames, NULL) == 0;
        expect(made, "a thread with 16 KiB starts");
        if (made) {
            pthread_join(thread, NULL);
        }
    }
}

static const struct {
    const char *name;
    void (*act)(void);
} hosts[] = {{"forks", forks},       {"profiler", profiler}, {"paths", paths}, {"disk", disk},
             {"moves", moves},       {"closed", closed},     {"clocks", clocks}, {"unpolled", unpolled},
             {"crowd", crowd},       {"saves", saves},       {"retries", retries}, {"stack", stack}};

int main(int argc, char **argv) {
    lull_world_def def = scripted();
    size_t i;
    for (i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (argc > 1 && strcmp(argv[1], hosts[i].name) == 0) {
            begin(&def);
            hosts[i].act();
            expect(lull_world_destroy(world) == LULL_OK, "the world ends");
            return failures != 0;
        }
    }
    fprintf(stderr, "usage: odd NAME\n");
    return 2;
}
