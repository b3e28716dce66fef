#!/usr/bin/env python3
"""A message bus that is two: messages about NetworkManager go to one, all others to the other one, which has BlueZ. So a
program in a network namespace has the NetworkManager of that namespace, and the Bluetooth of the machine.

two_buses.py PATH MACHINE NETWORKS   (paths of sockets)
"""

import array
import contextlib
import os
import socket
import struct
import sys
import threading

NAME = b"NetworkManager"
# The serial number of the proxy's own Hello; programs count from 1.
HELLO = 0xFFFF_FF00
REPLY_SERIAL, DESTINATION, UNIX_FDS = 5, 6, 9


def fields(message):
    """The header fields of a message whose values are numbers, and the range of the destination with its padding."""
    order = "<" if message[:1] == b"l" else ">"
    end = 16 + struct.unpack(order + "I", message[12:16])[0]
    found, at = {}, 16
    while at < end:
        at = begin = at + 7 & ~7
        code, kind = message[at], message[at + 2 : at + 3]
        at += 4
        if kind == b"g":
            at += message[at] + 2
            continue
        at = at + 3 & ~3
        value = struct.unpack(order + "I", message[at : at + 4])[0]
        at += 4
        if kind == b"u":
            found[code] = value
        else:
            at += value + 1
            if code == DESTINATION:
                found[code] = (begin, min(at + 7 & ~7, end), message[at - value - 1 : at - 1])
    return found


def padded(bytes):
    return bytes + b"\0" * (-len(bytes) % 8)


def string_field(code, kind, text, order="<"):
    return bytes([code]) + b"\1" + kind + b"\0" + struct.pack(order + "I", len(text)) + text + b"\0"


def readdressed(message, known, name):
    """The message with another destination: sd-bus ignores answers to others."""
    if DESTINATION not in known:
        return message
    order = "<" if message[:1] == b"l" else ">"
    begin, behind, _ = known[DESTINATION]
    end = 16 + struct.unpack(order + "I", message[12:16])[0]
    head = padded(message[:begin] + message[behind:end]) + string_field(DESTINATION, b"s", name, order)
    return padded(head[:12] + struct.pack(order + "I", len(head) - 16) + head[16:]) + message[end + 7 & ~7 :]


class Messages:
    """The messages of one socket, with the descriptors that come with them."""

    def __init__(self, link):
        self.link, self.bytes, self.descriptors = link, b"", []

    def more(self):
        data, control, _, _ = self.link.recvmsg(65536, socket.CMSG_SPACE(16 * 4))
        for level, kind, content in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                got = array.array("i")
                got.frombytes(content[: len(content) - len(content) % got.itemsize])
                self.descriptors += got
        self.bytes += data
        return bool(data)

    def line(self):
        while b"\r\n" not in self.bytes:
            if not self.more():
                raise EOFError
        line, self.bytes = self.bytes.split(b"\r\n", 1)
        return line

    def take(self, count):
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def next(self):
        """Returns a message, its fields and its descriptors; None at the end."""
        while True:
            if len(self.bytes) >= 16:
                order = "<" if self.bytes[:1] == b"l" else ">"
                body, _, count = struct.unpack(order + "III", self.bytes[4:16])
                size = (16 + count + 7 & ~7) + body
                if len(self.bytes) >= size:
                    message = self.take(size)
                    known = fields(message)
                    number = known.get(UNIX_FDS, 0)
                    descriptors, self.descriptors = self.descriptors[:number], self.descriptors[number:]
                    return message, known, descriptors
            if not self.more():
                return None


class Client:
    def __init__(self, link, machine, networks):
        self.link = link
        self.machine = socket.socket(socket.AF_UNIX)
        self.machine.connect(machine)
        self.networks = socket.socket(socket.AF_UNIX)
        self.networks.connect(networks)
        self.lock = threading.Lock()
        # The client's unique name at the machine's bus.
        self.name = None

    def authenticate(self):
        """Passes the client's words to the machine's bus, and says its own to the other one."""
        client, machine, networks = Messages(self.link), Messages(self.machine), Messages(self.networks)
        self.networks.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
        networks.line()
        self.networks.sendall(b"BEGIN\r\n" + self.hello())
        while not client.bytes:
            if not client.more():
                raise EOFError
        self.machine.sendall(client.take(1))
        # sd-bus says all of it at once; the bus answers each line but the last.
        while (line := client.line()) != b"BEGIN":
            self.machine.sendall(line + b"\r\n")
            self.link.sendall(machine.line() + b"\r\n")
        self.machine.sendall(line + b"\r\n")
        return client, machine, networks

    @staticmethod
    def hello():
        """The first message to a bus."""
        bus = b"org.freedesktop.DBus"
        message = b"l\1\0\1" + struct.pack("<III", 0, HELLO, 0)
        for code, kind, text in ((1, b"o", b"/org/freedesktop/DBus"), (2, b"s", bus), (3, b"s", b"Hello"), (6, b"s", bus)):
            message = padded(message) + string_field(code, kind, text)
        return padded(message[:12] + struct.pack("<I", len(message) - 16) + message[16:])

    def to_client(self, messages):
        while found := messages.next():
            message, known, descriptors = found
            # What the other bus says to the proxy alone: sd-bus expects the answer to its own Hello before anything else.
            if known.get(REPLY_SERIAL) == HELLO or messages.link is self.networks and b"NameAcquired" in message:
                continue
            if messages.link is self.networks:
                message = readdressed(message, known, self.name)
            elif self.name is None:
                # The first one answers the client's Hello.
                self.name = known[DESTINATION][2]
            with self.lock:
                self.pass_on(self.link, message, descriptors)

    @staticmethod
    def pass_on(link, message, descriptors):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sent = link.sendmsg([message], control)
        link.sendall(message[sent:])
        for descriptor in descriptors:
            os.close(descriptor)

    def serve(self):
        with contextlib.suppress(OSError, EOFError):
            client, machine, networks = self.authenticate()
            for messages in (machine, networks):
                threading.Thread(target=self.follow, args=(messages,), daemon=True).start()
            while found := client.next():
                message, _, descriptors = found
                self.pass_on(self.networks if NAME in message else self.machine, message, descriptors)
        self.end()

    def follow(self, messages):
        with contextlib.suppress(OSError):
            self.to_client(messages)
        self.end()

    def end(self):
        # The buses learn of it as of any client that goes, also by SIGKILL.
        for link in (self.link, self.machine, self.networks):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)


def main():
    path, machine, networks = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    while True:
        link, _ = listener.accept()
        threading.Thread(target=Client(link, machine, networks).serve, daemon=True).start()


if __name__ == "__main__":
    main()
