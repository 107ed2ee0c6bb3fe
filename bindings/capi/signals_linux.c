#define _GNU_SOURCE
#include "signals.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* Dispositions before Go's init. 0 is none: it was not saved. */
static struct sigaction before[NSIG];
static unsigned char saved[NSIG];

/* The executable pages of this library. */
static uintptr_t text_begin, text_end;

/* This is a shared library, not a Go program that holds the package. */
static int shared;

static struct sigaction go_fault;
static struct sigaction host_fault;
static sigset_t asynchronous;
static sigset_t loader_mask;

/* What Go needs on its threads, and what the processor raises: never blocked. */
static const int kept_open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGURG, SIGPROF};

void lull_signals_enter(lull_signal_mask *mask) { pthread_sigmask(SIG_BLOCK, &asynchronous, &mask->set); }

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
    for (int s = 1; s < NSIG; s++) {
        saved[s] = sigaction(s, NULL, &before[s]) == 0;
    }
    pthread_sigmask(SIG_BLOCK, &asynchronous, &loader_mask);
}

/* After Go's constructor, which stands first among those without priority. */
__attribute__((constructor)) static void unblock(void) { pthread_sigmask(SIG_SETMASK, &loader_mask, NULL); }

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
        sigaction(number, &host_fault, NULL);
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

/* changed reports whether Go is what stands between before and now: its own
 * handler, or the host's with SA_ONSTACK added. */
static int changed(const struct sigaction *now, const struct sigaction *then) {
    if ((uintptr_t)now->sa_sigaction == (uintptr_t)then->sa_sigaction) {
        return now->sa_flags != then->sa_flags;
    }
    return ours((uintptr_t)now->sa_sigaction);
}

void lull_signals_restore(void) {
    if (!shared) {
        return;
    }
    for (int s = 1; s < NSIG; s++) {
        struct sigaction now;
        if (!saved[s] || s == SIGKILL || s == SIGSTOP || s == SIGURG || sigaction(s, NULL, &now) != 0 ||
            !changed(&now, &before[s])) {
            continue; /* a handler that the host installed meanwhile stays */
        }
        if (s != SIGSEGV) {
            sigaction(s, &before[s], NULL);
            continue;
        }
        go_fault = now;
        host_fault = before[s];
        struct sigaction both = host_fault;
        both.sa_sigaction = dispatch;
        both.sa_flags = (host_fault.sa_flags | SA_SIGINFO | SA_ONSTACK) & ~(int)SA_RESETHAND;
        sigaction(s, &both, NULL);
    }
}
