#define _GNU_SOURCE
#include "signals.h"
#include "wait.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

/* The executable pages of this library. */
static uintptr_t text_begin, text_end;

/* This is a shared library, not a Go program that holds the package. */
static int shared;

/* Go's constructor is running, or is about to. */
static int loading;

static struct sigaction go_fault;
static struct sigaction host_fault;
static sigset_t asynchronous;
static sigset_t loader_mask;

/* What Go needs on its threads, and what the processor raises: never blocked. */
static const int kept_open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGURG};

/* This is the child of a fork, which has none of Go's threads: a call would wait
 * for them for ever. */
static volatile sig_atomic_t forked;
static void in_child(void) { forked = 1; }

int __real_sigaction(int number, const struct sigaction *act, struct sigaction *old);
int __wrap_sigaction(int number, const struct sigaction *act, struct sigaction *old);

/* The first call of a thread into Go opens signal 34, which Go never blocks and
 * CoreCLR stops threads with; after that the mask stays as it was. So the first
 * call is one that does nothing. */
static __thread int known_to_go;

/* Go takes the alternate signal stack that it finds at a thread's first call and
 * never looks again. A host may take it away later, as Mono does before it exits;
 * then a signal to Go would come on a goroutine's small stack, and Go dies. So a
 * thread without one gets one of ours, until it ends. */
static pthread_key_t own_stack;
static int own_stack_made;
enum { OWN_STACK_BYTES = 64 << 10 };

static void free_stack(void *own) {
    stack_t now, none = {.ss_flags = SS_DISABLE};
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == own) {
        sigaltstack(&none, NULL);
    }
    munmap(own, OWN_STACK_BYTES);
}

static void need_signal_stack(void) {
    stack_t now;
    if (!own_stack_made || sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE)) {
        return;
    }
    void *own = pthread_getspecific(own_stack);
    if (own == NULL) {
        own = mmap(NULL, OWN_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own == MAP_FAILED) {
            return;
        }
        if (pthread_setspecific(own_stack, own) != 0) {
            munmap(own, OWN_STACK_BYTES);
            return;
        }
    }
    stack_t ours = {.ss_sp = own, .ss_size = OWN_STACK_BYTES};
    sigaltstack(&ours, NULL);
}

int lull_signals_enter(lull_signal_mask *mask) {
    if (forked) {
        return 0;
    }
    pthread_sigmask(SIG_BLOCK, &asynchronous, &mask->set);
    need_signal_stack();
    if (!known_to_go) {
        known_to_go = 1;
        lullgo_touch();
        pthread_sigmask(SIG_BLOCK, &asynchronous, NULL);
    }
    return 1;
}

void lull_signals_leave(const lull_signal_mask *mask) { pthread_sigmask(SIG_SETMASK, &mask->set, NULL); }

/* find_text looks for the object that holds this function; the first one is the program itself. */
static int find_text(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    int *objects = data;
    uintptr_t here = (uintptr_t)&lull_signals_enter;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr, end = begin + p->p_memsz;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && here >= begin && here < end) {
            text_begin = begin;
            text_end = end;
            shared = *objects > 0;
            return 1;
        }
    }
    ++*objects;
    return 0;
}

static int ours(uintptr_t address) { return address >= text_begin && address < text_end; }

/* Before Go's own constructor, which has no priority: the threads that Go
 * starts inherit the mask of the thread that loads. */
__attribute__((constructor(101))) static void save(void) {
    int objects = 0;
    dl_iterate_phdr(find_text, &objects);
    sigfillset(&asynchronous);
    for (size_t i = 0; i < sizeof kept_open / sizeof *kept_open; i++) {
        sigdelset(&asynchronous, kept_open[i]);
    }
    if (!shared) {
        sigemptyset(&asynchronous);
    }
    own_stack_made = shared && pthread_key_create(&own_stack, free_stack) == 0;
    if (shared) {
        pthread_atfork(NULL, NULL, in_child);
    }
    loading = shared;
    pthread_sigmask(SIG_BLOCK, &asynchronous, &loader_mask);
}

/* After Go's constructor, which stands first among those without priority. */
__attribute__((constructor)) static void unblock(void) {
    loading = 0;
    lull_signals_profiler();
    pthread_sigmask(SIG_SETMASK, &loader_mask, NULL);
}

/* Go opens SIGPROF on its own threads, whatever their mask. A timer's signal goes
 * to the thread that runs, and a handler on a goroutine's stack of 8 KiB writes
 * into what lies beneath. Go's threads have a stack for signals: there it runs. */
void lull_signals_profiler(void) {
    struct sigaction act;
    if (!shared || __real_sigaction(SIGPROF, NULL, &act) != 0 || (act.sa_flags & SA_ONSTACK) ||
        (!(act.sa_flags & SA_SIGINFO) && (act.sa_handler == SIG_DFL || act.sa_handler == SIG_IGN))) {
        return;
    }
    act.sa_flags |= SA_ONSTACK;
    __real_sigaction(SIGPROF, &act, NULL);
}

static uintptr_t fault_address(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
#error "the program counter of this processor is not known here"
#endif
}

/* pass gives a fault to the host as if it had come there at once. */
static void pass(int number, siginfo_t *info, void *context) {
    if (host_fault.sa_flags & SA_SIGINFO) {
        host_fault.sa_sigaction(number, info, context);
        return;
    }
    if (host_fault.sa_handler == SIG_DFL || host_fault.sa_handler == SIG_IGN) {
        /* A fault comes again when the instruction does; one that was sent must be sent again. */
        __real_sigaction(number, &host_fault, NULL);
        if (info->si_code <= 0) {
            raise(number);
        }
        return;
    }
    host_fault.sa_handler(number);
}

static void dispatch(int number, siginfo_t *info, void *context) {
    if (info->si_code > 0 && ours(fault_address(context))) {
        sigset_t all;
        sigfillset(&all); /* the kernel takes it back when this handler returns */
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        go_fault.sa_sigaction(number, info, context);
        return;
    }
    pass(number, info, context);
}

/* install_fault puts the dispatcher where Go wants its own handler. The host's
 * mask and flags stay: its handler may leave by another way than returning. */
static int install_fault(const struct sigaction *act, struct sigaction *old) {
    if (__real_sigaction(SIGSEGV, NULL, &host_fault) != 0) {
        return -1;
    }
    go_fault = *act;
    struct sigaction both = host_fault;
    both.sa_sigaction = dispatch;
    both.sa_flags = (host_fault.sa_flags | SA_SIGINFO | SA_ONSTACK) & ~(int)SA_RESETHAND;
    return __real_sigaction(SIGSEGV, &both, old);
}

/* The linker sends every sigaction of this library here (--wrap). While Go's
 * constructor runs nothing but these two changes: so there is no moment at which
 * the host's handlers are not in force. Later calls, such as that by which a
 * dying Go takes its handlers back, pass. */
int __wrap_sigaction(int number, const struct sigaction *act, struct sigaction *old) {
    if (!loading || act == NULL || number == SIGURG) {
        return __real_sigaction(number, act, old);
    }
    if (number == SIGSEGV && ours((uintptr_t)act->sa_sigaction)) {
        return install_fault(act, old);
    }
    return __real_sigaction(number, NULL, old);
}
