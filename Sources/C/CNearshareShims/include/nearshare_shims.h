// Functions that Swift's importer omits: variadic functions, function-like macros, system calls without a wrapper in glibc.
// All other own C code is in this target, too, because SwiftPM tracks its headers.
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/// openat(2) is variadic: this is the form with a mode.
int nearshare_openat(int directory, const char *path, int flags, mode_t mode);

/// The same for open(2).
int nearshare_open(const char *path, int flags, mode_t mode);

/// Makes malloc keep large freed blocks, so that a record buffer of 128 KiB that is allocated thousands of times a second is not
/// unmapped and mapped again each time. Costs 2 MiB of resident memory.
void nearshare_keep_freed_memory(void);

/// accept4(2) with SOCK_CLOEXEC: glibc declares it for GNU sources only, and a child must not inherit a peer's socket.
/// `address` is a struct sockaddr: naming it here would make its header's types this module's instead of Glibc's.
int nearshare_accept(int listener, void *address, uint32_t *length);

/// Whether the other end of a connected socket has ended its direction, also while bytes from it are unread: POLLRDHUP of poll(2),
/// which glibc declares for GNU sources only.
bool nearshare_is_finished_by_peer(int socket);

/// The user id of the process at the other end of a Unix socket, or -1. glibc declares the structure for GNU sources only.
int64_t nearshare_peer_user(int descriptor);

/// renameat2(2) with RENAME_NOREPLACE, which glibc declares for GNU sources only: fails with EEXIST instead of replacing.
int nearshare_rename_without_replacing(int from_directory, const char *from, int to_directory, const char *to);

/// syncfs(2): everything written to the file system that the descriptor is on becomes durable.
int nearshare_sync_filesystem(int descriptor);

/// fallocate(2) with FALLOC_FL_KEEP_SIZE: preallocates space without changing the size.
int nearshare_preallocate(int descriptor, off_t offset, off_t length);

/// fallocate(2) with FALLOC_FL_PUNCH_HOLE: releases space, which then reads as zeros.
int nearshare_release(int descriptor, off_t offset, off_t length);

/// A checksum of bytes, however they are divided: sums of 64-bit words in eight lanes, and sums of these sums, which depend on the
/// order. C, because a debug build of Swift takes a hundred times as long. All zero at the beginning.
typedef struct {
    uint64_t sums[8], weighted[8];
    /// The bytes that fill no block yet.
    uint8_t rest[64];
    uint64_t rest_length;
} nearshare_checksum;

void nearshare_checksum_update(nearshare_checksum *checksum, const void *bytes, size_t length);

/// Returns 1 for equal bytes, as far as the checksum tells, or 0.
int nearshare_checksum_equal(const nearshare_checksum *left, const nearshare_checksum *right);

/// Whether the descriptor is on a file system in memory.
int nearshare_is_in_memory(int descriptor);

/// The type of the file system that the descriptor is on, 32 bits as in statfs(2); -1 if unknown.
int64_t nearshare_filesystem_type(int descriptor);

/// Whether a time service keeps the system clock: 1 or 0, -1 if unknown.
int nearshare_clock_is_synchronized(void);

/// eventfd(2), close-on-exec and non-blocking. Returns the descriptor, or -1 with errno set.
int nearshare_eventfd(void);

/// Loads libsystemd, whose functions may be called after that, from any thread: it depends on six more libraries, and most
/// runs of the tool need none of them. Returns NULL, or the reason why it cannot be loaded.
const char *nearshare_load_systemd(void);

/// The same for libavahi-core.
const char *nearshare_load_avahi(void);

/// The same for libqrencode.
const char *nearshare_load_qrencode(void);

/// Encodes a text as a QR code: writes a byte for each module, row by row, 1 for a dark one. Returns the number of modules in a
/// row, or 0 where the text is too long for any QR code or for `capacity` bytes. Needs libqrencode.
int nearshare_qr_encode(const char *text, uint8_t *modules, int capacity);

/// The version of the kernel's Landlock interface (landlock(7)), or -1.
int nearshare_landlock_version(void);

/// landlock_create_ruleset(2). Returns a descriptor, or -1 with errno set.
/// `network` and `scopes` are zero for kernels that do not know them.
int nearshare_landlock_create(uint64_t files, uint64_t network, uint64_t scopes);

/// landlock_add_rule(2) for what is below a directory, or for one file: `path` is its descriptor.
int nearshare_landlock_allow(int ruleset, int path, uint64_t access);

/// landlock_restrict_self(2), after PR_SET_NO_NEW_PRIVS: restricts the calling thread, and the threads and processes that it
/// starts from then on.
int nearshare_landlock_restrict(int ruleset);

/// Loads libseccomp. Returns NULL, or the reason why it cannot be loaded.
const char *nearshare_load_seccomp(void);

/// Refuses the system calls that no node needs, in all threads. Returns 0 or an errno. Needs libseccomp.
int nearshare_filter_node_calls(void);

/// Refuses the system calls that no program needs to decode a file; executing one stays allowed. Returns 0 or an errno. Needs
/// libseccomp.
int nearshare_filter_program_calls(void);

/// Refuses all system calls but those of a worker. Returns 0 or an errno. Needs libseccomp.
int nearshare_filter_worker_calls(void);

/// fork(2). The caller has one thread.
int nearshare_fork(void);

/// pidfd_open(2).
int nearshare_pidfd_open(int process);

/// Prepares a forked process: closes all descriptors but one, and ignores the signals that end its parent.
void nearshare_become_helper(int descriptor, const char *name);

/// The kernel ends the calling process when its parent ends. Returns 0, or -1 if that has happened already.
int nearshare_end_with_parent(int parent);

/// socketpair(2) of Unix sockets, close-on-exec.
int nearshare_socketpair(int kind, int *first, int *second);

/// The most descriptors of one message.
#define NEARSHARE_PASSED_LIMIT 2

/// Sends a byte with 1 to NEARSHARE_PASSED_LIMIT descriptors over a Unix socket. Returns 0, or -1 with errno set.
int nearshare_send_descriptors(int socket, uint8_t byte, const int *descriptors, int count);

/// Receives bytes, and the descriptors that came with them, which are then close-on-exec: at most NEARSHARE_PASSED_LIMIT. Returns
/// the number of bytes, 0 at the end, or -1 with errno set.
ssize_t nearshare_receive_with_descriptors(int socket, void *bytes, size_t length, int *descriptors, int *count);

/// Receives a byte and descriptors, which are then close-on-exec. Returns their number, or -1 at the end.
int nearshare_receive_descriptors(int socket, uint8_t *byte, int *descriptors);

/// open(2) with O_PATH.
int nearshare_open_path(const char *path);

/// Whether files can be created in the directory. access(2) does not ask Landlock.
int nearshare_can_create(int directory);

/// The same for libssl, with libcrypto below it. The functions below need it.
const char *nearshare_load_ssl(void);

/// Makes an RSA key and a certificate that it signs, from `begin` to `end` in seconds since 1970. Writes both as PEM.
/// Returns the number of bytes, or 0.
int nearshare_tls_make_identity(const char *name, int64_t begin, int64_t end, uint64_t serial, uint8_t *pem, int capacity);

/// The settings of many connections, with a key and certificate as PEM. Returns NULL when these cannot be used.
void *nearshare_tls_context_open(const uint8_t *pem, int length, int is_server);

void nearshare_tls_context_close(void *context);

/// The length of a certificate's fingerprint, its SHA-256.
#define NEARSHARE_FINGERPRINT_LENGTH 32

/// Writes the fingerprint of the own certificate. Returns 1, or 0.
int nearshare_tls_own_fingerprint(void *context, uint8_t *fingerprint);

/// One end of a connection, whose bytes the caller moves. Certificates of the other end have to be valid at `now`, in seconds
/// since 1970, and signed by themselves. Returns NULL without memory.
void *nearshare_tls_open(void *context, int is_server, int64_t now);

void nearshare_tls_close(void *connection);

/// More bytes of the other end are needed.
#define NEARSHARE_TLS_WAIT 0
/// The connection has failed.
#define NEARSHARE_TLS_FAILED (-1)
/// The other end has finished writing.
#define NEARSHARE_TLS_END (-2)

/// Continues the handshake. Returns 1 when it is complete.
int nearshare_tls_handshake(void *connection);

/// Returns the number of decrypted bytes.
int nearshare_tls_read(void *connection, void *bytes, int capacity);

/// Encrypts all of the bytes. Returns 1.
int nearshare_tls_write(void *connection, const void *bytes, int length);

/// Encrypts the end of what is written.
void nearshare_tls_finish(void *connection);

/// Passes on bytes that the other end has sent, once all earlier ones are read. They are not copied, and stay in place until they are
/// read as well. Returns 1, or 0 without memory.
int nearshare_tls_feed(void *connection, const void *bytes, int length);

/// Whether there are bytes to be sent.
int nearshare_tls_has_output(void *connection);

/// Removes bytes that are to be sent. Returns their number, 0 for none.
int nearshare_tls_drain(void *connection, void *bytes, int capacity);

/// Writes the fingerprint of the other end's certificate. Returns 1, or 0 where it has shown none.
int nearshare_tls_peer_fingerprint(void *connection, uint8_t *fingerprint);

/// Writes the reason for the last failure on this thread as text, and forgets it.
void nearshare_tls_error(char *text, int capacity);
