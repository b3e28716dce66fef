"""A cable with delay, a rate and loss between two network namespaces: two TAP devices and a loop that carries packets.

Not every kernel has netem, and this one loses the same packets again for the same seed."""

import collections
import contextlib
import fcntl
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LARGEST_PACKET = 2048


def is_possible():
    return os.geteuid() == 0 and os.path.exists("/dev/net/tun")


class Cable:
    """Delay in seconds one way, rate in bits a second, loss as a share of packets; all of them may be changed at any time."""

    def __init__(self, delay=0.0, rate=100e6, loss=0.0, seed=1):
        self.delay, self.rate, self.loss = delay, rate, loss
        self.random = random.Random(seed)
        tag = f"{os.getpid():x}"
        self.names = [f"cable-a-{tag}", f"cable-b-{tag}"]
        self.addresses = ["10.78.0.1", "10.78.0.2"]
        self.taps = []
        self.over, self.stop = os.pipe()

    def __enter__(self):
        try:
            for number, name in enumerate(self.names):
                device = f"tap{number}-{os.getpid():x}"[:15]
                tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                self.taps.append(tap)
                fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
                ip("netns", "add", name)
                ip("link", "set", device, "netns", name)
                ip("-n", name, "addr", "add", f"{self.addresses[number]}/24", "dev", device)
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", device, "up")
        except BaseException:
            self.__exit__()
            raise
        self.carrier = threading.Thread(target=self.carry, daemon=True)
        self.carrier.start()
        return self

    def __exit__(self, *_):
        os.write(self.stop, b".")
        if hasattr(self, "carrier"):
            self.carrier.join()
        for descriptor in (*self.taps, self.over, self.stop):
            os.close(descriptor)
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)

    def within(self, number, *command):
        return ["ip", "netns", "exec", self.names[number], *command]

    def use_loss_based_control(self):
        """What programs that ask for nothing else get on most machines; BBR, where it is the default, would hide the loss."""
        for name in ("cubic", "reno"):
            with contextlib.suppress(subprocess.CalledProcessError):
                for number in range(2):
                    subprocess.run(
                        self.within(number, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}"),
                        check=True,
                        capture_output=True,
                    )
                return name
        return "this machine's congestion control"

    def carry(self):
        ways = [Way(self.taps[0], self.taps[1]), Way(self.taps[1], self.taps[0])]
        while True:
            due = min((way.packets[0][0] for way in ways if way.packets), default=None)
            timeout = None if due is None else max(0.0, due - time.monotonic())
            readable, _, _ = select.select([*self.taps, self.over], [], [], timeout)
            if self.over in readable:
                return
            for way in ways:
                if way.source in readable:
                    way.take(self)
                way.deliver()


class Way:
    """One direction: packets leave one after the other at the cable's rate, and arrive after its delay."""

    # As much as a cheap router holds.
    QUEUE_SECONDS = 0.1

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.packets = collections.deque()
        self.free = 0.0

    def take(self, cable):
        now = time.monotonic()
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(self.source, LARGEST_PACKET)
                if cable.random.random() < cable.loss or self.free - now > self.QUEUE_SECONDS:
                    continue
                self.free = max(self.free, now) + len(packet) * 8 / cable.rate
                self.packets.append((self.free + cable.delay, packet))

    def deliver(self):
        now = time.monotonic()
        while self.packets and self.packets[0][0] <= now:
            with contextlib.suppress(OSError):
                os.write(self.target, self.packets[0][1])
            self.packets.popleft()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
