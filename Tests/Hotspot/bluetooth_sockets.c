// Preloaded into a program in a network namespace, where the kernel gives no Bluetooth sockets: they come from a process outside.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int receive(int link) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(link, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

int socket(int domain, int type, int protocol) {
    const char *path = getenv("BLUETOOTH_SOCKETS");
    if (domain != AF_BLUETOOTH || !path) return (int)syscall(SYS_socket, domain, type, protocol);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int link = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int wanted[2] = {type, protocol}, descriptor = -1;
    if (connect(link, (struct sockaddr *)&address, sizeof address) == 0 && send(link, wanted, sizeof wanted, 0) == sizeof wanted)
        descriptor = receive(link);
    close(link);
    return descriptor;
}
