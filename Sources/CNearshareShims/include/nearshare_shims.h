// What Swift's importer drops: variadic functions, function-like macros, system calls without a wrapper in glibc.
// Everything of our own that has to be C stands in this target, whose headers SwiftPM tracks.
#pragma once
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/types.h>

/// openat2(2), which glibc 2.36 does not wrap. Returns the descriptor or -1 with errno set.
int nearshare_openat2(int directory, const char *path, const struct open_how *how);

/// openat(2) is variadic: this is the form with a mode.
int nearshare_openat(int directory, const char *path, int flags, mode_t mode);

/// open(2) likewise.
int nearshare_open(const char *path, int flags, mode_t mode);

/// Keeps large blocks that are freed with the process, so that a record buffer of 64 KiB that comes and goes thousands of
/// times a second is not unmapped and mapped anew each time. Costs a few MiB that stay resident.
void nearshare_keep_freed_memory(void);
