#define _GNU_SOURCE
#include "nearshare_shims.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// <linux/landlock.h> and the system call numbers of the build machine may be older than the kernel that runs the program.
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif

struct ruleset_attributes { uint64_t files, network, scopes; };
struct path_rule { uint64_t access; int32_t parent; } __attribute__((packed));

int nearshare_landlock_version(void) { return (int)syscall(__NR_landlock_create_ruleset, NULL, 0, 1u); }

int nearshare_landlock_create(uint64_t files, uint64_t network, uint64_t scopes) {
    struct ruleset_attributes attributes = {files, network, scopes};
    // An older kernel knows the beginning of the structure.
    size_t size = scopes != 0 ? sizeof attributes : network != 0 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
    return (int)syscall(__NR_landlock_create_ruleset, &attributes, size, 0u);
}

int nearshare_landlock_allow(int ruleset, int path, uint64_t access) {
    struct path_rule rule = {access, path};
    return (int)syscall(__NR_landlock_add_rule, ruleset, 1, &rule, 0u);
}

int nearshare_landlock_restrict(int ruleset) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(__NR_landlock_restrict_self, ruleset, 0u);
}

int nearshare_fork(void) { return fork(); }

int nearshare_pidfd_open(int process) { return (int)syscall(SYS_pidfd_open, process, 0u); }

void nearshare_become_helper(int descriptor, const char *name) {
    // A helper must not keep the readers of its parent's output waiting.
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int standard = 0; standard <= 2; standard++) dup2(null, standard);
    if (descriptor > 3) syscall(SYS_close_range, 3u, (unsigned)descriptor - 1, 0u);
    syscall(SYS_close_range, (unsigned)descriptor + 1, ~0u, 0u);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    // It ends with its parent, whose signals from the terminal and the service manager it receives, too.
    const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD};
    for (size_t index = 0; index < sizeof ignored / sizeof *ignored; index++) signal(ignored[index], SIG_IGN);
    // Swift's handlers, which print a backtrace, need rights that a worker does not have.
    const int fatal[] = {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    for (size_t index = 0; index < sizeof fatal / sizeof *fatal; index++) signal(fatal[index], SIG_DFL);
    // A parent may have blocked the signal with which the kernel ends a worker that takes too long.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

int nearshare_end_with_parent(int parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return -1;
    return getppid() == parent ? 0 : -1;
}

int nearshare_socketpair(int kind, int *first, int *second) {
    int pair[2];
    if (socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, pair) != 0) return -1;
    *first = pair[0];
    *second = pair[1];
    return 0;
}

union control {
    char bytes[CMSG_SPACE(NEARSHARE_PASSED_LIMIT * sizeof(int))];
    struct cmsghdr alignment;
};

int nearshare_send_descriptors(int socket, uint8_t byte, const int *descriptors, int count) {
    union control control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count < 1 || count > NEARSHARE_PASSED_LIMIT) { errno = EINVAL; return -1; }
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1 ? 0 : -1;
}

ssize_t nearshare_receive_with_descriptors(int socket, void *bytes, size_t length, int *descriptors, int *count) {
    union control control;
    struct iovec part = {bytes, length};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t received;
    do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    *count = 0;
    if (received <= 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t passed = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < passed; index++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + index * sizeof(int), sizeof(int));
            if (*count < NEARSHARE_PASSED_LIMIT) descriptors[(*count)++] = descriptor;
            else close(descriptor);
        }
    }
    return received;
}

int nearshare_receive_descriptors(int socket, uint8_t *byte, int *descriptors) {
    int count;
    return nearshare_receive_with_descriptors(socket, byte, 1, descriptors, &count) > 0 ? count : -1;
}

int nearshare_open_path(const char *path) { return open(path, O_PATH | O_CLOEXEC); }

int nearshare_can_create(int directory) {
    int file = openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) {
        close(file);
        return 1;
    }
    // Some file systems have no nameless files.
    return errno != EACCES;
}
