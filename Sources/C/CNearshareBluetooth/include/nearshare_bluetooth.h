// Sockets of the kernel's Bluetooth stack. BlueZ's headers need types of the socket headers, which Swift imports through another
// module; so they are used only here, and Swift sees bytes and integers.
#pragma once
#include <stdint.h>

/// A device's address in the order of its text form, and its type: 1 public, 2 random (of BDADDR_LE_…).
struct nearshare_bluetooth_address {
    uint8_t bytes[6];
    uint8_t type;
};

/// A close-on-exec socket for LE connection-oriented channels on one adapter, bound to a PSM; 0 for a connecting socket.
/// `limit` is the largest message that it receives. Returns the descriptor, or -1 with errno set.
int nearshare_l2cap_open(const struct nearshare_bluetooth_address *adapter, uint16_t psm, uint16_t limit);

/// connect(2).
int nearshare_l2cap_connect(int descriptor, const struct nearshare_bluetooth_address *peer, uint16_t psm);

/// accept4(2) with SOCK_CLOEXEC; also returns the address of the peer.
int nearshare_l2cap_accept(int listener, struct nearshare_bluetooth_address *peer);

/// The largest message that the other side receives, or -1.
int nearshare_l2cap_send_limit(int descriptor);

/// Sends one message: its type and the bytes that follow. Returns 0, or -1 with errno set. Waits for space, or fails with EAGAIN.
int nearshare_l2cap_send(int descriptor, uint8_t kind, const void *bytes, uint32_t count, int waits);

/// Receives one message without waiting. Returns its type in the parameter and the number of bytes after it; -1 with errno set;
/// -2 at the end; -3 when the message did not fit.
int nearshare_l2cap_receive(int descriptor, uint8_t *kind, void *bytes, uint32_t count);
