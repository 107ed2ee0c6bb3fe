#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* lull calls llama.cpp through libffi, and a package of ours opens that by its
 * name when Go starts, with a panic where it is missing. What `make plugin`
 * builds has libffi within: the linker turns dlopen and dlsym of this library
 * into these two, and libffi's name into what is linked here. Nothing else of
 * the process sees it. */
#if defined(LULL_STATIC_FFI)

#define FUNCTIONS(F) \
    F(ffi_prep_cif) \
    F(ffi_prep_cif_var) \
    F(ffi_call) \
    F(ffi_closure_alloc) \
    F(ffi_closure_free) \
    F(ffi_prep_closure_loc) \
    F(ffi_get_struct_offsets)

#define DECLARE(name) extern char name[];
#define ENTRY(name) {#name, name},

FUNCTIONS(DECLARE)

static const struct {
    const char *name;
    void *address;
} table[] = {FUNCTIONS(ENTRY)};

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *name, int flags) {
    if (name != NULL && strcmp(name, "libffi.so.8") == 0) {
        return (void *)table;
    }
    return __real_dlopen(name, flags);
}

/* What libffi lacks here is answered as by a library that lacks it: with a null
 * pointer, and with dlerror's text of some library, for who wants that. */
void *__wrap_dlsym(void *handle, const char *name) {
    if (handle != (const void *)table) {
        return __real_dlsym(handle, name);
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i].name) == 0) {
            return table[i].address;
        }
    }
    return __real_dlsym(RTLD_DEFAULT, "lull links no such function of libffi");
}

#endif
