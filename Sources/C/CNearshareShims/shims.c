#define _GNU_SOURCE
#include "nearshare_shims.h"

#include <poll.h>
#include <errno.h>
#include <linux/magic.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

int nearshare_openat(int directory, const char *path, int flags, mode_t mode) { return openat(directory, path, flags, mode); }

int nearshare_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

void nearshare_keep_freed_memory(void) {
    // Above the size of encrypted records, below that of a link's blocks, which live as long as the link.
    mallopt(M_MMAP_THRESHOLD, 512 << 10);
    mallopt(M_TRIM_THRESHOLD, 2 << 20);
    mallopt(M_TOP_PAD, 512 << 10);
    mallopt(M_ARENA_MAX, 2);
}

int nearshare_accept(int listener, void *address, uint32_t *length) {
    return accept4(listener, address, length, SOCK_CLOEXEC);
}

bool nearshare_is_finished_by_peer(int socket)
{
    struct pollfd polled = { .fd = socket, .events = POLLRDHUP };
    return poll(&polled, 1, 0) > 0;
}

int64_t nearshare_peer_user(int descriptor) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return -1;
    return credentials.uid;
}

int nearshare_rename_without_replacing(int from_directory, const char *from, int to_directory, const char *to) {
    return renameat2(from_directory, from, to_directory, to, RENAME_NOREPLACE);
}

int nearshare_sync_filesystem(int descriptor) { return syncfs(descriptor); }

int nearshare_preallocate(int descriptor, off_t offset, off_t length) {
    return fallocate(descriptor, FALLOC_FL_KEEP_SIZE, offset, length);
}

int nearshare_release(int descriptor, off_t offset, off_t length) {
    return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}

static void add_blocks(nearshare_checksum *checksum, const uint8_t *bytes, size_t count) {
    uint64_t sums[8], weighted[8], words[8];
    memcpy(sums, checksum->sums, sizeof sums);
    memcpy(weighted, checksum->weighted, sizeof weighted);
    for (size_t block = 0; block < count; block++) {
        memcpy(words, bytes + block * sizeof words, sizeof words);
        for (int lane = 0; lane < 8; lane++) {
            sums[lane] += words[lane];
            weighted[lane] += sums[lane];
        }
    }
    memcpy(checksum->sums, sums, sizeof sums);
    memcpy(checksum->weighted, weighted, sizeof weighted);
}

void nearshare_checksum_update(nearshare_checksum *checksum, const void *bytes, size_t length) {
    if (length == 0) return;
    const uint8_t *next = bytes;
    if (checksum->rest_length > 0) {
        size_t room = sizeof checksum->rest - checksum->rest_length;
        size_t count = length < room ? length : room;
        memcpy(checksum->rest + checksum->rest_length, next, count);
        checksum->rest_length += count;
        next += count;
        length -= count;
        if (checksum->rest_length < sizeof checksum->rest) return;
        add_blocks(checksum, checksum->rest, 1);
    }
    size_t blocks = length / sizeof checksum->rest;
    add_blocks(checksum, next, blocks);
    checksum->rest_length = length % sizeof checksum->rest;
    memcpy(checksum->rest, next + blocks * sizeof checksum->rest, checksum->rest_length);
}

int nearshare_checksum_equal(const nearshare_checksum *left, const nearshare_checksum *right) {
    return left->rest_length == right->rest_length && memcmp(left->rest, right->rest, left->rest_length) == 0
        && memcmp(left->sums, right->sums, sizeof left->sums) == 0
        && memcmp(left->weighted, right->weighted, sizeof left->weighted) == 0;
}

int nearshare_is_in_memory(int descriptor) {
    struct statfs status;
    return fstatfs(descriptor, &status) == 0 && (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC);
}

int64_t nearshare_filesystem_type(int descriptor) {
    struct statfs status;
    return fstatfs(descriptor, &status) == 0 ? (uint32_t)status.f_type : -1;
}

int nearshare_clock_is_synchronized(void) {
    struct timex state = {0};
    int code = adjtimex(&state);
    return code < 0 ? -1 : !(state.status & STA_UNSYNC);
}

int nearshare_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
