#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* lull calls llama.cpp through libffi, and a package of ours looks for it by its
 * plain name when Go starts, with a panic where it is missing. Most systems have
 * it. Where one has not, the copy that lies beside this library is loaded before:
 * the loader then finds it by its name. No search path is changed. */
__attribute__((constructor(102))) static void preload_ffi(void) {
    static const char name[] = "libffi.so.8";
    char path[4096];
    Dl_info self;
    const char *slash;
    if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) != NULL || dladdr((void *)&preload_ffi, &self) == 0) {
        return;
    }
    slash = strrchr(self.dli_fname, '/');
    if (slash != NULL && snprintf(path, sizeof path, "%.*s/%s", (int)(slash - self.dli_fname), self.dli_fname, name) <
                             (int)sizeof path) {
        dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
}
