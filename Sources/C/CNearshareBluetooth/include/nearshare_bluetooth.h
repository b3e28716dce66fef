// Sockets of the kernel's Bluetooth stack. BlueZ's headers declare what they take in terms of the socket headers, which Swift
// has from elsewhere already; so they are used here, and Swift sees bytes and numbers.
#pragma once
#include <stdint.h>

/// A device's address, first byte first as people write it, and its kind: 1 public, 2 random (of BDADDR_LE_…).
struct nearshare_bluetooth_address {
    uint8_t bytes[6];
    uint8_t type;
};

/// A close-on-exec socket for LE connection-oriented channels on one adapter, bound to a PSM, 0 for one that will connect.
/// `limit` is the largest message that it takes. Returns the descriptor, or -1 with errno set.
int nearshare_l2cap_open(const struct nearshare_bluetooth_address *adapter, uint16_t psm, uint16_t limit);

/// connect(2).
int nearshare_l2cap_connect(int descriptor, const struct nearshare_bluetooth_address *peer, uint16_t psm);

/// accept4(2) with SOCK_CLOEXEC; tells who has connected.
int nearshare_l2cap_accept(int listener, struct nearshare_bluetooth_address *peer);

/// The largest message that the other side takes, or -1.
int nearshare_l2cap_send_limit(int descriptor);

/// Sends one message of a kind and what follows it; 0, or -1 with errno set. Waits for room, or gives EAGAIN.
int nearshare_l2cap_send(int descriptor, uint8_t kind, const void *bytes, uint32_t count, int waits);

/// Takes one message without waiting: how many bytes followed its kind, which is told. -1 with errno set; -2 at the end; -3 when
/// it did not fit.
int nearshare_l2cap_receive(int descriptor, uint8_t *kind, void *bytes, uint32_t count);
