// A shared library that is loaded when it is first needed, instead of at every start of the program.
//
// LAZY_LIBRARY defines the used functions of the library: each calls through a pointer that is resolved when the library is loaded.
// The compiler checks each line against the library's own header. To the linker they have names of their own, so that a program
// that uses the library itself calls the library. Swift sees these names in the shims of CSystemd and CAvahi.
#pragma once
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LAZY_FORWARD(result, name, parameters, arguments)                                                              \
    extern __typeof__(name) name __asm__("nearshare_lazy_" #name);                                                     \
    static __typeof__(name) *loaded_##name;                                                                            \
    __attribute__((visibility("hidden"))) result name parameters { return loaded_##name arguments; }

#define LAZY_LOOK_UP(result, name, parameters, arguments)                                                              \
    if (!(loaded_##name = (__typeof__(loaded_##name))dlsym(library, #name))) goto missing;

/// Defines `load`, which returns NULL or a message why the library cannot be used. It has to be called before the functions.
#define LAZY_LIBRARY(load, file, functions)                                                                            \
    functions(LAZY_FORWARD)                                                                                            \
    static char load##_problem[256];                                                                                   \
    static void load##_once(void) {                                                                                    \
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);                                                           \
        if (!library) goto missing;                                                                                    \
        functions(LAZY_LOOK_UP)                                                                                        \
        return;                                                                                                        \
    missing:                                                                                                           \
        snprintf(load##_problem, sizeof load##_problem, "%s", dlerror());                                              \
    }                                                                                                                  \
    const char *load(void) {                                                                                           \
        static pthread_once_t once = PTHREAD_ONCE_INIT;                                                                \
        pthread_once(&once, load##_once);                                                                              \
        return load##_problem[0] ? load##_problem : NULL;                                                              \
    }
