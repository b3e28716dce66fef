#!/usr/bin/python3
"""Makes the air between virtual controllers one in which an advertiser is heard again and again, as on a real radio.

btvirt tells a scanner of an advertiser once, when either is switched on, and without a signal strength; the kernel may drop that
one report. This follows what the controllers are told and say, and tells every scanning one four times a second what it has heard
from those that still advertise.

RADIO_DEAF, as `0-2 2-0`, names pairs of controllers that are out of range: the first does not hear the second.

Run as root: air.py PID-OF-BTVIRT FILE-TO-MAKE-WHEN-READY
"""
import ctypes
import os
import select
import socket
import struct
import sys
import time

EVERY = 0.25
STRENGTH = struct.pack("b", -55)
SO_ATTACH_FILTER = 26
SYSCALL_PIDFD_GETFD = 438
NEW_INDEX, COMMAND, EVENT, INDEX_INFO = 0, 2, 3, 10
LE_META, ADVERTISING_REPORT, EXTENDED_REPORT = 0x3E, 0x02, 0x0D
COMPLETED_PACKETS = 0x13

libc = ctypes.CDLL(None, use_errno=True)


def ends_of(pid):
    """btvirt's own ends of its controllers, in the order hci0, hci1, …: what is written there the controller says."""
    descriptors = f"/proc/{pid}/fd"
    ours = sorted(int(name) for name in os.listdir(descriptors) if os.readlink(f"{descriptors}/{name}") == "/dev/vhci")
    handle = os.pidfd_open(pid)
    return [libc.syscall(SYSCALL_PIDFD_GETFD, handle, number, 0) for number in ours]


def open_monitor():
    """Everything that goes between the kernel and its controllers, but for data and the receipts for it."""
    monitor = socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, socket.BTPROTO_HCI)
    load_half, load_byte, equals, give = 0x28, 0x30, 0x15, 0x06
    program = [
        (load_half, 0, 0, 0),
        (equals, 6, 0, NEW_INDEX << 8),
        (equals, 5, 0, INDEX_INFO << 8),
        (equals, 4, 0, COMMAND << 8),
        (equals, 0, 4, EVENT << 8),
        (load_byte, 0, 0, 6),
        (equals, 2, 0, COMPLETED_PACKETS),
        (give, 0, 0, 0xFFFF),
        (give, 0, 0, 0xFFFF),
        (give, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    monitor.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HxxxxxxP", len(program), ctypes.addressof(code)))
    # Python's bind() knows no channels.
    if libc.bind(monitor.fileno(), struct.pack("=HHH", socket.AF_BLUETOOTH, 0xFFFF, 2), 6):
        sys.exit(f"air: {os.strerror(ctypes.get_errno())}")
    return monitor


class Air:
    def __init__(self, ends, deaf):
        self.ends = ends
        self.deaf = deaf
        self.scans = [False] * len(ends)
        self.heard = [{} for _ in ends]
        self.addresses = [set() for _ in ends]

    def silent(self, index):
        for heard in self.heard:
            for key in [key for key in heard if key[0] in self.addresses[index]]:
                del heard[key]

    def command(self, index, code, data):
        if code in (0x200C, 0x2042):  # LE Set (Extended) Scan Enable
            self.scans[index] = data[:1] == b"\1"
            self.heard[index].clear()
        elif code == 0x2005:  # LE Set Random Address
            self.addresses[index].add(data[:6])
        elif code == 0x2035:  # LE Set Advertising Set Random Address
            self.addresses[index].add(data[1:7])
        elif code in (0x203C, 0x203D, 0x0C03) or (code in (0x200A, 0x2039) and data[:1] == b"\0"):
            self.silent(index)

    def event(self, index, event):
        if event[0] != LE_META:
            return
        if event[2] == ADVERTISING_REPORT and event[3] == 1:
            self.hear(index, event[6:12], event[4:5], event[:-1] + STRENGTH)
        elif event[2] == EXTENDED_REPORT and event[3] == 1:
            self.hear(index, event[7:13], event[4:6], event[:17] + STRENGTH + event[18:])
        elif event[2] in (0x01, 0x0A) and event[3] == 0 and event[6] == 1:  # connected to, which ends advertising
            self.silent(index)

    def hear(self, index, address, kind, event):
        if self.scans[index]:
            self.heard[index][address, kind] = event

    def is_deaf(self, index, address):
        return any(address in self.addresses[other] for one, other in self.deaf if one == index)

    def repeat(self):
        for index, end in enumerate(self.ends):
            if self.scans[index]:
                for (address, _), event in list(self.heard[index].items()):
                    if not self.is_deaf(index, address):
                        os.write(end, b"\x04" + event)


def main():
    pid, ready = int(sys.argv[1]), sys.argv[2]
    deaf = [tuple(int(number) for number in pair.split("-")) for pair in os.environ.get("RADIO_DEAF", "").split()]
    air = Air(ends_of(pid), deaf)
    monitor = open_monitor()
    open(ready, "w").close()
    due = 0.0
    while os.path.exists(f"/proc/{pid}"):
        wait = max(0.0, due - time.monotonic()) if any(air.heard) else 1
        if select.select([monitor], [], [], wait)[0]:
            packet = monitor.recv(4096)
            kind, index, _ = struct.unpack_from("<HHH", packet)
            data = packet[6:]
            if index >= len(air.ends):
                continue
            if kind == NEW_INDEX and len(data) >= 8:
                air.addresses[index].add(data[2:8])
            elif kind == INDEX_INFO and len(data) >= 6:
                air.addresses[index].add(data[:6])
            elif kind == COMMAND:
                air.command(index, struct.unpack_from("<H", data)[0], data[3:])
            elif kind == EVENT:
                air.event(index, data)
        if time.monotonic() >= due:
            due = time.monotonic() + EVERY
            air.repeat()


if __name__ == "__main__":
    main()
