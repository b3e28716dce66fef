#define _GNU_SOURCE
#include "nearshare_bluetooth.h"

#include <bluetooth/bluetooth.h>
#include <bluetooth/l2cap.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sockaddr_l2 socket_address(const struct nearshare_bluetooth_address *address, uint16_t psm) {
    struct sockaddr_l2 result = {
        .l2_family = AF_BLUETOOTH,
        .l2_psm = htobs(psm),
        .l2_bdaddr_type = address->type,
    };
    for (int i = 0; i < 6; i++) result.l2_bdaddr.b[i] = address->bytes[5 - i];
    return result;
}

int nearshare_l2cap_open(const struct nearshare_bluetooth_address *adapter, uint16_t psm, uint16_t limit) {
    int descriptor = socket(AF_BLUETOOTH, SOCK_SEQPACKET | SOCK_CLOEXEC, BTPROTO_L2CAP);
    if (descriptor < 0) return -1;
    struct sockaddr_l2 address = socket_address(adapter, psm);
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) ||
        setsockopt(descriptor, SOL_BLUETOOTH, BT_RCVMTU, &limit, sizeof limit)) {
        int error = errno;
        close(descriptor);
        errno = error;
        return -1;
    }
    return descriptor;
}

int nearshare_l2cap_connect(int descriptor, const struct nearshare_bluetooth_address *peer, uint16_t psm) {
    struct sockaddr_l2 address = socket_address(peer, psm);
    return connect(descriptor, (struct sockaddr *)&address, sizeof address);
}

int nearshare_l2cap_accept(int listener, struct nearshare_bluetooth_address *peer) {
    struct sockaddr_l2 address = {0};
    socklen_t length = sizeof address;
    int descriptor = accept4(listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
    if (descriptor < 0) return -1;
    for (int i = 0; i < 6; i++) peer->bytes[i] = address.l2_bdaddr.b[5 - i];
    peer->type = address.l2_bdaddr_type;
    return descriptor;
}

int nearshare_l2cap_send_limit(int descriptor) {
    uint16_t limit = 0;
    socklen_t length = sizeof limit;
    return getsockopt(descriptor, SOL_BLUETOOTH, BT_SNDMTU, &limit, &length) ? -1 : limit;
}

int nearshare_l2cap_send(int descriptor, uint8_t kind, const void *bytes, uint32_t count, int waits) {
    struct iovec parts[] = {{&kind, 1}, {(void *)bytes, count}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count ? 2 : 1};
    for (;;) {
        if (sendmsg(descriptor, &message, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT)) >= 0) return 0;
        if (errno != EINTR) return -1;
    }
}

int nearshare_l2cap_receive(int descriptor, uint8_t *kind, void *bytes, uint32_t count) {
    struct iovec parts[] = {{kind, 1}, {bytes, count}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    for (;;) {
        ssize_t got = recvmsg(descriptor, &message, MSG_DONTWAIT);
        if (got > 0) return message.msg_flags & MSG_TRUNC ? -3 : (int)(got - 1);
        if (got == 0) return -2;
        if (errno != EINTR) return -1;
    }
}
