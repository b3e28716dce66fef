"""A second peer for byte streams and sessions, written from docs/PROTOCOL.md alone, sections 11 and 12."""

import os
import socket
import struct
import time

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from protocol_peer import CHACHA, CLOSE, HELLO, PING, PONG, REVEAL, Link, counted, hkdf, public, sha256

OPEN, DATA, CREDIT, FINISH, RESET, DATAGRAM = 0x30, 0x31, 0x32, 0x33, 0x34, 0x35
INVITE, SESSION_ACCEPT, REFUSE, WITHDRAW, ROSTER, LEAVE, DATAGRAMS = 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46
LEAVING = 0x4A
WINDOW = 262_144
MESSAGES = 1
NAME = b"python"


class Member:
    """A member that starts a session with one other, with the state that outlives a link."""

    def __init__(self, seed):
        self.seed, self.session, self.life = seed, os.urandom(16), os.urandom(8)
        self.their_life = b"\0" * 8
        self.expected = 0
        self.sent = []  # Messages, by number.
        self.acknowledged = 0
        self.received = []
        self.passed_on = 0
        self.incarnation = 0


class SessionLink(Link):
    """One link of the session, as its initiator."""

    def __init__(self, address, member, proof_of=b"", cipher=CHACHA):
        super().__init__(address, member.seed, cipher)
        self.member, self.address = member, address
        self.nonce = os.urandom(32)
        self.story, self.streams, self.names = set(), {}, {}
        self.limits, self.credit = {}, {}
        self.channel, self.packets, self.packets_sent = b"", None, 0
        self.lossy, self.roster, self.sent_to = [], {}, None
        hello = sha256(b"nearshare commitment\x01" + self.hash + self.nonce) + struct.pack(">q", int(time.time() * 1000))
        self.send(bytes([HELLO]) + hello + bytes([len(NAME)]) + NAME)
        proof = hkdf(proof_of, self.hash, b"nearshare session secret", 32) if proof_of else b""
        self.say(INVITE, struct.pack(">H", 20) + bytes([len(proof)]) + proof + counted(b"from python"))

    def say(self, kind, body=b""):
        self.send(bytes([kind]) + self.member.session + body)

    def run_until(self, condition, timeout=20):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"nothing of it happened: {self.story}"
            self.take(self.receive())

    def take(self, frame):
        kind = frame[0]
        if kind == HELLO:
            self.commitment = frame[1:33]
            self.send(bytes([REVEAL]) + self.nonce)
        elif kind == REVEAL:
            assert sha256(b"nearshare commitment\x02" + self.hash + frame[1:]) == self.commitment
        elif kind == PING:
            self.send(bytes([PONG]) + frame[1:])
        elif kind == CLOSE:
            self.story.add(f"closed {frame[1]}")
            raise AssertionError(f"closed, reason {frame[1]}")
        elif kind == DATAGRAM:
            self.lossy.append(frame[1:])
        elif OPEN <= kind <= RESET:
            self.take_stream(kind, struct.unpack(">I", frame[1:5])[0], frame[5:])
        elif INVITE <= kind <= DATAGRAMS or kind == LEAVING:
            assert frame[1:17] == self.member.session
            self.take_session(kind, frame[17:])

    # Section 12

    def take_session(self, kind, body):
        if kind == SESSION_ACCEPT:
            assert not body
            self.story.add("accepted")
            self.open_stream(1, MESSAGES, b"")
            theirs = self.member.their_life
            self.tell_channel(b"\0" + self.member.life + theirs + struct.pack(">Q", self.member.expected))
            self.tell_roster()
        elif kind == REFUSE:
            self.story.add(f"refused {body[0]}")
        elif kind == ROSTER:
            self.roster = {member["fingerprint"]: member for member in read_roster(body)}
            self.story.add("roster")
        elif kind == DATAGRAMS:
            (port,) = struct.unpack(">H", body[:2])
            self.packet_tag, self.sent_to = body[2:], (self.address[0], port)
            self.story.add("datagrams")
        elif kind == LEAVING and body == b"\0":
            # All that is written was sent at once.
            self.say(LEAVING, b"\1")
        elif kind == LEAVE:
            self.story.add("left")

    def tell_roster(self):
        key = public(X25519PrivateKey.from_private_bytes(self.member.seed))
        entry = sha256(key) + struct.pack(">IIB", self.member.incarnation, 0, 0) + bytes([len(NAME)]) + NAME
        entry += bytes([1, 9]) + b"127.0.0.1" + struct.pack(">H", 9) + b"\0"
        self.say(ROSTER, b"\x01" + entry)

    # Section 11

    def open_stream(self, number, purpose, name):
        self.send(bytes([OPEN]) + struct.pack(">IBB", number, purpose, len(name)) + name)
        self.streams[number], self.limits[number] = b"", WINDOW

    def write(self, number, data):
        self.send(bytes([DATA]) + struct.pack(">I", number) + data)

    def take_stream(self, kind, number, body):
        if kind == OPEN:
            purpose, length = body[:2]
            assert number % 2 == 0 and len(body) == 2 + length
            self.streams[number], self.limits[number] = b"", WINDOW
            self.names[number] = (purpose, body[2:])
        elif kind == DATA:
            assert 1 <= len(body) <= 131_072
            self.streams[number] += body
            assert len(self.streams[number]) <= self.limits[number], "more than was granted"
            if number == 1:
                self.take_channel(body)
            if self.limits[number] - len(self.streams[number]) < WINDOW // 2:
                self.limits[number] = len(self.streams[number]) + WINDOW
                self.send(bytes([CREDIT]) + struct.pack(">IQ", number, self.limits[number]))
        elif kind == CREDIT:
            (self.credit[number],) = struct.unpack(">Q", body)
        elif kind == FINISH:
            self.story.add(f"finished {number}")
        elif kind == RESET:
            self.story.add(f"reset {number} {body[0]}")

    # Section 12.4

    def tell_channel(self, frame):
        self.write(1, struct.pack(">I", len(frame)) + frame)

    def say_message(self, kind, data):
        self.member.sent.append((kind, data))
        self.tell_message(len(self.member.sent) - 1)

    def tell_message(self, number):
        kind, data = self.member.sent[number]
        self.tell_channel(b"\x01" + struct.pack(">QQB", number, self.member.passed_on, kind) + data)

    def take_channel(self, data):
        self.channel += data
        while len(self.channel) >= 4:
            (length,) = struct.unpack(">I", self.channel[:4])
            if len(self.channel) < 4 + length:
                return
            frame, self.channel = self.channel[4 : 4 + length], self.channel[4 + length :]
            if frame[0] == 0:
                self.resume(frame[1:9], frame[9:17], struct.unpack(">Q", frame[17:])[0])
            elif frame[0] == 1:
                number, acknowledged, kind = struct.unpack(">QQB", frame[1:18])
                self.member.acknowledged = max(self.member.acknowledged, acknowledged)
                assert "resumed" in self.story and number <= self.member.expected
                if number == self.member.expected:
                    self.member.expected += 1
                    self.member.received.append((kind, frame[18:]))
            elif frame[0] == 2:
                (self.member.acknowledged,) = struct.unpack(">Q", frame[1:])

    def acknowledge(self):
        self.member.passed_on = self.member.expected
        self.tell_channel(b"\x02" + struct.pack(">Q", self.member.passed_on))

    def resume(self, theirs, ours, following):
        assert "resumed" not in self.story
        self.story.add("resumed")
        if self.member.their_life not in (theirs, b"\0" * 8):
            self.story.add("begun anew")
        self.member.their_life = theirs
        self.next = following if ours == self.member.life else self.member.acknowledged
        for number in range(self.next, len(self.member.sent)):
            self.tell_message(number)

    # Section 12.5

    def take_packets(self):
        """Announces the UDP port that receives packets."""
        self.packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.packets.bind(("127.0.0.1", 0))
        self.packets.settimeout(5)
        self.own_tag = os.urandom(8)
        self.say(DATAGRAMS, struct.pack(">H", self.packets.getsockname()[1]) + self.own_tag)

    def send_packet(self, body):
        nonce = b"\0" * 4 + struct.pack("<Q", self.packets_sent)
        sealed = ChaCha20Poly1305(self.packet_keys[0]).encrypt(nonce, body, b"")
        self.packets.sendto(self.packet_tag + struct.pack(">I", self.packets_sent) + sealed, self.sent_to)
        self.packets_sent += 1

    def receive_packet(self):
        packet = self.packets.recv(2048)
        assert packet[:8] == self.own_tag
        (counter,) = struct.unpack(">I", packet[8:12])
        return ChaCha20Poly1305(self.packet_keys[1]).decrypt(b"\0" * 4 + struct.pack("<Q", counter), packet[12:], b"")


def read_roster(body):
    """Decodes strictly: no bytes may be left."""
    count, body = body[0], body[1:]
    for _ in range(count):
        member = {"fingerprint": body[:32]}
        member["incarnation"], member["revision"], member["presence"], length = struct.unpack(">IIBB", body[32:42])
        member["name"], body = body[42 : 42 + length], body[42 + length :]
        addresses, body = body[0], body[1:]
        member["addresses"] = []
        for _ in range(addresses):
            length = body[0]
            member["addresses"].append((body[1 : 1 + length], *struct.unpack(">H", body[1 + length : 3 + length])))
            body = body[3 + length :]
        neighbours, body = body[0], body[1:]
        member["neighbours"], body = [body[8 * n : 8 * n + 8] for n in range(neighbours)], body[8 * neighbours :]
        yield member
    assert not body
