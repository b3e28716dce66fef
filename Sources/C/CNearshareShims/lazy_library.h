// A shared library that is loaded when it is first needed, instead of at every start of the program.
//
// LAZY_LIBRARY defines, under their own names, the functions of the library that are used: each calls through a pointer that
// is looked up when the library is loaded. The compiler holds every line to the library's own header.
#pragma once
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

// Hidden, so that the library itself, which calls some of them too, keeps calling its own.
#define LAZY_FORWARD(result, name, parameters, arguments)                                                              \
    static __typeof__(name) *loaded_##name;                                                                            \
    __attribute__((visibility("hidden"))) result name parameters { return loaded_##name arguments; }

#define LAZY_LOOK_UP(result, name, parameters, arguments)                                                              \
    if (!(loaded_##name = (__typeof__(loaded_##name))dlsym(library, #name))) goto missing;

/// Defines `load`, which gives NULL or, in words, why the library can't be used; before that none of the functions may be called.
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
