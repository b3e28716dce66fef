#define _GNU_SOURCE
#include "nearshare_shims.h"

#include <malloc.h>
#include <sys/syscall.h>
#include <unistd.h>

int nearshare_openat2(int directory, const char *path, const struct open_how *how) {
    return (int)syscall(SYS_openat2, directory, path, how, sizeof *how);
}

int nearshare_openat(int directory, const char *path, int flags, mode_t mode) { return openat(directory, path, flags, mode); }

int nearshare_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

void nearshare_keep_freed_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
}
