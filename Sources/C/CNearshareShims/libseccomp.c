#include "lazy_library.h"
#include "nearshare_shims.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define FUNCTIONS(X)                                                                                                    \
    X(scmp_filter_ctx, seccomp_init, (uint32_t action), (action))                                                      \
    X(void, seccomp_release, (scmp_filter_ctx context), (context))                                                     \
    X(int, seccomp_attr_set, (scmp_filter_ctx context, enum scmp_filter_attr attribute, uint32_t value),               \
      (context, attribute, value))                                                                                     \
    X(int, seccomp_syscall_resolve_name, (const char *name), (name))                                                   \
    X(int, seccomp_rule_add_array,                                                                                     \
      (scmp_filter_ctx context, uint32_t action, int call, unsigned int count, const struct scmp_arg_cmp *arguments),  \
      (context, action, call, count, arguments))                                                                       \
    X(int, seccomp_load, (const scmp_filter_ctx context), (context))

LAZY_LIBRARY(nearshare_load_seccomp, "libseccomp.so.2", FUNCTIONS)

#define COUNT(array) (sizeof(array) / sizeof *(array))
/// The kernel uses the lower 32 bits of an int argument: a comparison of all 64 could be evaded.
#define INT_MASK 0xffffffffu

// Commands that let the kernel send a signal to another process when a descriptor is ready. Landlock before its version 6 allows that.
static const uint64_t owner_commands[] = {8 /* F_SETOWN */, 10 /* F_SETSIG */, 15 /* F_SETOWN_EX */};
static const uint64_t owner_controls[] = {FIOSETOWN, SIOCSPGRP};

static const char *const execution_calls[] = {"execve", "execveat"};

// Calls that reach into other processes, change what is mounted or which namespaces a process is in, or configure the machine; and
// interfaces of the kernel that nearshare does not use and in which flaws are found often.
static const char *const denied_calls[] = {
    "uselib", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd",
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "statmount", "listmount",
    "unshare", "setns",
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "fanotify_init",
    "fanotify_mark", "keyctl", "add_key", "request_key",
    "open_by_handle_at", "name_to_handle_at", "mknod", "mknodat", "truncate", "truncate64",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module",
    "get_kernel_syms", "nfsservctl", "lookup_dcookie", "_sysctl", "sysfs", "ustat", "syslog",
    "swapon", "swapoff", "reboot", "quotactl", "quotactl_fd", "acct", "personality", "vhangup", "sethostname",
    "setdomainname", "settimeofday", "clock_settime", "stime",
    "iopl", "ioperm", "modify_ldt", "vm86", "vm86old", "set_thread_area", "pciconfig_read", "pciconfig_write",
    "pciconfig_iobase", "move_pages", "migrate_pages", "mbind", "set_mempolicy", "set_mempolicy_home_node",
};

static const uint64_t namespace_flags[] = {
    CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP,
};

// Calls that a program does not need to decode a file, beside the above: sockets, further processes, signals, priorities, attributes
// of files, messages and memory that are shared with other processes, and watches of the user's directories.
static const char *const program_denied_calls[] = {
    "socket", "socketpair", "fork", "vfork",
    "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal",
    "setpriority", "ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
    "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    "file_setattr", "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "inotify_init", "inotify_init1", "inotify_add_watch",
};

// The calls with which a worker can allocate memory and use the descriptors that it holds.
static const char *const worker_calls[] = {
    "read", "write", "readv", "writev", "sendto", "pread64", "lseek", "close", "poll", "ppoll", "munmap", "mremap", "brk", "madvise",
    "futex", "rt_sigprocmask", "rt_sigreturn", "restart_syscall", "exit", "exit_group", "clock_gettime", "gettimeofday",
    "getrandom", "getpid", "gettid", "sched_yield",
};

static int add(scmp_filter_ctx context, uint32_t action, const char *name, unsigned count, struct scmp_arg_cmp argument) {
    int call = seccomp_syscall_resolve_name(name);
    // Unknown to this libseccomp, so that it cannot be named; another architecture's calls have negative numbers.
    if (call == __NR_SCMP_ERROR) return 0;
    int code = seccomp_rule_add_array(context, action, call, count, count > 0 ? &argument : NULL);
    return code == -EDOM || code == -EACCES ? 0 : code;
}

static int add_all(scmp_filter_ctx context, uint32_t action, const char *const *names, size_t count) {
    for (size_t index = 0; index < count; index++) {
        int code = add(context, action, names[index], 0, (struct scmp_arg_cmp){0});
        if (code != 0) return code;
    }
    return 0;
}

static struct scmp_arg_cmp equal(unsigned number, uint64_t mask, uint64_t value) {
    return (struct scmp_arg_cmp){.arg = number, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

static const uint32_t refused = SCMP_ACT_ERRNO(EPERM);

static int add_common_rules(scmp_filter_ctx context) {
    int code = add_all(context, refused, denied_calls, COUNT(denied_calls));
    for (size_t index = 0; code == 0 && index < COUNT(namespace_flags); index++)
        code = add(context, refused, "clone", 1, equal(0, namespace_flags[index], namespace_flags[index]));
    // The flags of clone3 are in memory, which a filter cannot read. glibc uses clone instead.
    if (code == 0) code = add(context, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, (struct scmp_arg_cmp){0});
    // Landlock before its version 3 lets a file be emptied that may only be read. The flags of openat2 are in memory.
    if (code == 0) code = add(context, refused, "open", 1, equal(1, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDONLY));
    if (code == 0) code = add(context, refused, "openat", 1, equal(2, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDONLY));
    if (code == 0) code = add(context, SCMP_ACT_ERRNO(ENOSYS), "openat2", 0, (struct scmp_arg_cmp){0});
    // Input for the shell on the same terminal.
    if (code == 0) code = add(context, refused, "ioctl", 1, equal(1, INT_MASK, TIOCSTI));
    if (code == 0) code = add(context, refused, "ioctl", 1, equal(1, INT_MASK, TIOCLINUX));
    return code;
}

static int add_node_rules(scmp_filter_ctx context) {
    int code = add_common_rules(context);
    if (code == 0) code = add_all(context, refused, execution_calls, COUNT(execution_calls));
    for (unsigned family = 0; code == 0 && family < AF_MAX; family++) {
        switch (family) {
        case AF_UNIX: case AF_INET: case AF_INET6: case AF_NETLINK: case AF_BLUETOOTH: continue;
        default: code = add(context, refused, "socket", 1, equal(0, INT_MASK, family));
        }
    }
    return code;
}

static int add_program_rules(scmp_filter_ctx context) {
    int code = add_common_rules(context);
    if (code == 0) code = add_all(context, refused, program_denied_calls, COUNT(program_denied_calls));
    // Threads only.
    if (code == 0) code = add(context, refused, "clone", 1, equal(0, CLONE_THREAD, 0));
    // Limits of other processes.
    const struct scmp_arg_cmp other = {.arg = 0, .op = SCMP_CMP_NE, .datum_a = 0};
    if (code == 0) code = add(context, refused, "prlimit64", 1, other);
    for (size_t index = 0; code == 0 && index < COUNT(owner_commands); index++)
        code = add(context, refused, "fcntl", 1, equal(1, INT_MASK, owner_commands[index]));
    for (size_t index = 0; code == 0 && index < COUNT(owner_controls); index++)
        code = add(context, refused, "ioctl", 1, equal(1, INT_MASK, owner_controls[index]));
    // It would outlive its worker, and so its time.
    if (code == 0) code = add(context, refused, "prctl", 1, equal(0, INT_MASK, PR_SET_PDEATHSIG));
    return code;
}

static int add_worker_rules(scmp_filter_ctx context) {
    int code = add_all(context, SCMP_ACT_ALLOW, worker_calls, COUNT(worker_calls));
    if (code == 0) code = add(context, SCMP_ACT_ALLOW, "mmap", 1, equal(2, PROT_EXEC, 0));
    if (code == 0) code = add(context, SCMP_ACT_ALLOW, "mprotect", 1, equal(2, PROT_EXEC, 0));
    return code;
}

static int load(uint32_t action, int (*add_rules)(scmp_filter_ctx)) {
    scmp_filter_ctx context = seccomp_init(action);
    if (!context) return ENOMEM;
    // The calls of i386 and x32 have other numbers.
    int code = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    // Covers all threads of the process.
    if (code == 0) code = seccomp_attr_set(context, SCMP_FLTATR_CTL_TSYNC, 1);
    if (code == 0) code = add_rules(context);
    if (code == 0) code = seccomp_load(context);
    seccomp_release(context);
    return -code;
}

int nearshare_filter_node_calls(void) { return load(SCMP_ACT_ALLOW, add_node_rules); }

int nearshare_filter_program_calls(void) { return load(SCMP_ACT_ALLOW, add_program_rules); }

int nearshare_filter_worker_calls(void) { return load(SCMP_ACT_ERRNO(EPERM), add_worker_rules); }
