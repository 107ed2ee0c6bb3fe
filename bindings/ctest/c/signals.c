/* What a host with signal handlers of its own must find after lull came: its
 * handlers in force, installed before or after, and threads of lull that take
 * none of its signals. Loads the library late, as engines do.
 *
 *     signals LIBRARY
 */
#define _GNU_SOURCE
#include "lull.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void expect(int truth, const char *what) {
    if (!truth) {
        printf("FAIL %s\n", what);
        failures++;
    }
}

static sigjmp_buf back;
static volatile sig_atomic_t faults, power;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    faults++;
    siglongjmp(back, 1);
}

static void on_power(int number) { power += number == SIGPWR; }

static void on_late_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    faults += 100;
    siglongjmp(back, 1);
}

static void install(int number, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = handler;
    a.sa_flags = SA_SIGINFO;
    sigaction(number, &a, NULL);
}

/* A null dereference that the compiler can't see through. */
static void fault(void) {
    volatile int *volatile nothing = NULL;
    if (sigsetjmp(back, 1) == 0) {
        *nothing = 1;
    }
}

/* Whether all threads but this one block that signal. */
static int blocked_elsewhere(int number, int *threads) {
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int all = 1;
    *threads = 0;
    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[300], line[256];
        FILE *f;
        if (e->d_name[0] == '.' || atoi(e->d_name) == (int)getpid()) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        f = fopen(path, "r");
        while (f != NULL && fgets(line, sizeof line, f) != NULL) {
            unsigned long long mask;
            if (sscanf(line, "SigBlk: %llx", &mask) == 1) {
                ++*threads;
                all = all && (mask >> (number - 1) & 1);
            }
        }
        if (f != NULL) {
            fclose(f);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return all;
}

/* A thread whose signal stack the host takes away after its first call. */
struct stackless {
    int32_t (*text)(int32_t, char *, int32_t, int32_t *);
    pthread_t thread;
    volatile int calling, over;
};

static void *without_stack(void *data) {
    static char stack[65536];
    struct stackless *s = data;
    stack_t have, none;
    int32_t length;
    int i;
    memset(&have, 0, sizeof have);
    memset(&none, 0, sizeof none);
    have.ss_sp = stack;
    have.ss_size = sizeof stack;
    none.ss_flags = SS_DISABLE;
    sigaltstack(&have, NULL);
    for (i = 0; i < 50000; i++) {
        char buffer[64];
        s->text(LULL_OK, buffer, sizeof buffer, &length);
        if (i == 0) {
            sigaltstack(&none, NULL);
            s->calling = 1;
        }
    }
    s->over = 1;
    return NULL;
}

/* SIGURG is what Go stops its own goroutines with. */
static void without_signal_stack(void *library) {
    struct stackless s;
    memset(&s, 0, sizeof s);
    *(void **)&s.text = dlsym(library, "lull_result_text");
    if (pthread_create(&s.thread, NULL, without_stack, &s) != 0) {
        expect(0, "a thread starts");
        return;
    }
    while (!s.over) {
        if (s.calling) {
            pthread_kill(s.thread, SIGURG);
        }
        usleep(20);
    }
    pthread_join(s.thread, NULL);
}

int main(int argc, char **argv) {
    static const int watched[] = {SIGPWR, SIGXCPU, SIGFPE, SIGBUS, SIGPIPE, SIGUSR1, SIGTERM, SIGINT, 34, 40};
    struct sigaction before[65], now;
    sigset_t mask_before, mask_after;
    int32_t (*create)(const lull_world_def *, lull_world_id *);
    int32_t (*defaults)(lull_world_def *, uint32_t);
    int32_t (*destroy)(lull_world_id);
    int32_t (*begin)(lull_world_id, uint64_t, int64_t, int64_t);
    lull_world_def def;
    lull_world_id world;
    void *library;
    size_t i;
    int threads = 0, n;

    signal(SIGPWR, on_power);
    install(SIGSEGV, on_fault);
    install(SIGFPE, on_fault);
    install(34, on_fault);
    for (i = 0; i < sizeof watched / sizeof *watched; i++) {
        sigaction(watched[i], NULL, &before[watched[i]]);
    }
    sigprocmask(SIG_SETMASK, NULL, &mask_before);
    library = dlopen(argc > 1 ? argv[1] : "liblull.so", RTLD_NOW);
    if (library == NULL) {
        printf("FAIL %s\n", dlerror());
        return 1;
    }
    *(void **)&create = dlsym(library, "lull_world_create");
    *(void **)&defaults = dlsym(library, "lull_default_world_def");
    *(void **)&destroy = dlsym(library, "lull_world_destroy");
    *(void **)&begin = dlsym(library, "lull_frame_begin");
    defaults(&def, sizeof def);
    def.model_kind = LULL_MODEL_SCRIPTED;
    expect(create(&def, &world) == LULL_OK, "a world is made");
    for (n = 1; n <= 200; n++) {
        begin(world, (uint64_t)n, 16666667, LULL_NOW);
        usleep(500);
    }
    for (i = 0; i < sizeof watched / sizeof *watched; i++) {
        char what[64];
        snprintf(what, sizeof what, "the handler of signal %d is the host's", watched[i]);
        sigaction(watched[i], NULL, &now);
        expect(now.sa_sigaction == before[watched[i]].sa_sigaction, what);
        expect(((now.sa_flags ^ before[watched[i]].sa_flags) & ~0x04000000) == 0, what);
    }
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    expect(memcmp(&mask_before, &mask_after, 8) == 0, "the host's thread has its mask again");
    expect(blocked_elsewhere(SIGPWR, &threads) && threads > 3, "threads of lull block SIGPWR");
    fault();
    expect(faults == 1, "a fault of the host comes to its handler");
    kill(getpid(), SIGPWR);
    usleep(1000);
    expect(power == 1, "a signal to the process comes to the host");
    install(SIGSEGV, on_late_fault);
    begin(world, 1000, 16666667, LULL_NOW);
    fault();
    expect(faults == 101, "a handler that is installed later stays in force");
    without_signal_stack(library);
    expect(destroy(world) == LULL_OK, "the world ends");
    dlclose(library);
    fault();
    expect(faults == 201, "and after the library was closed too");
    printf(failures == 0 ? "signals: as the host left them, %d threads of lull\n" : "%d threads\n", threads);
    return failures != 0;
}
