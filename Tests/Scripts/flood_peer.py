"""One hostile machine of the mesh, as a process of its own: `flood_peer.py ATTACK PORT VICTIM NEWCOMER [RATE]`.

It connects to a node on loopback, from the newcomer's address or from others, writes "started" once the first frames are out,
and goes on at a bounded rate until its standard input ends, or for SECONDS; then it writes how many bytes it sent a second.
VICTIM is the node's id, NEWCOMER the seed of a peer whose public keys it knows, as any peer that has met her does. With RATE,
in bytes a second, the attack is hastened to that.
"""

import hashlib
import itertools
import os
import random
import select
import socket
import sys
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import bitchat_wire as wire
import bundle_wire
from bitchat_noise import SECOND_LENGTH, Handshake
from bitchat_peer import CAPABILITIES
from bitchat_wire import Packet

FRAMES = b"NSHM\x01\x01\0\0"
SECONDS = 120
BUNDLES, FILES = 1 << 33, 1 << 32
BUNDLE = 0x6E
UNKNOWN = 0x61
TURN = 0.02
# Time in which a hastened attack makes its frames, and limits of their number and bytes.
PREPARATION, POOL, POOL_BYTES = 4, 20_000, 64 << 20
# Turns after which the victim has read what an attack by neighbours sends, or the attack ends.
PROOF_TURNS = 200


def now():
    return int(time.time() * 1000)


class Identity:
    """Keys that cost nothing."""

    def __init__(self, seed):
        root = hashlib.sha256(repr(seed).encode()).digest()
        self.static = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"noise" + root).digest())
        self.signing = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"signing" + root).digest())
        self.noise_key, self.signing_key = wire.public_bytes(self.static), wire.public_bytes(self.signing)
        self.id = wire.peer_id(self.noise_key)
        self.stamp = 0

    def next_stamp(self):
        """The present time, and another one than before."""
        self.stamp = max(self.stamp + 1, now())
        return self.stamp

    def signed(self, packet):
        return wire.link_frame(wire.sign(packet, self.signing))

    def announcement(self, name, ttl=7, capabilities=FILES | BUNDLES, at=None):
        payload = wire.Announce(name, self.noise_key, self.signing_key, None, capabilities).encode()
        return self.signed(Packet(wire.ANNOUNCE, self.id, at or now(), payload, ttl))

    def line(self, text, at=None):
        return self.signed(Packet(wire.MESSAGE, self.id, at or now(), text.encode(), 7))

    def handshake(self, message, to):
        return self.signed(Packet(wire.NOISE_HANDSHAKE, self.id, self.next_stamp(), message, 7, 1, to))

    def bundle_packet(self, payload, to, session=None):
        """A packet of store and forward for a neighbour, within a session if there is one."""
        if session:
            payload = session.seal(bytes([bundle_wire.SEALED_PACKET]) + payload)
        kind = wire.NOISE_ENCRYPTED if session else BUNDLE
        return self.signed(Packet(kind, self.id, self.next_stamp(), payload, 1, 2, to))


class Machine:
    """The links of the attacker; one that was closed is opened again."""

    def __init__(self, port, link_count):
        self.port, self.links = port, [None] * link_count
        # Whether it connects from addresses of its own, each time from another.
        self.has_addresses = False
        self.attempt = 0
        self.sent = 0
        # The identities that answer pings, by link and id, and what has arrived there.
        self.identities, self.framers = {}, {}
        # The sessions with the victim, and handshakes that wait for its answer, by link.
        self.sessions, self.handshakes = {}, {}
        # The bundles and reports that the victim has confirmed.
        self.receipt_count = 0

    def answer_as(self, number, *identities):
        """Sets the identities that answer pings on a link."""
        self.identities[number] = {each.id: each for each in identities}

    def open(self, number):
        self.attempt += 1
        source = (f"127.66.{self.attempt // 250 % 250}.{self.attempt % 250 + 1}", 0) if self.has_addresses else None
        link = socket.create_connection(("127.0.0.1", self.port), 5, source)
        link.sendall(FRAMES)
        self.links[number], self.framers[number] = link, None

    def close(self, number):
        if self.links[number]:
            self.links[number].close()
        self.links[number] = None
        self.sessions.pop(number, None)
        self.handshakes.pop(number, None)

    def take_turn(self, turn):
        """Sends the frames of a turn, those of a link in one write; None closes its link."""
        waiting = {}
        for number, frame in turn:
            if frame is None:
                self.close(number)
            else:
                waiting.setdefault(number, []).append(frame)
        for number, frames in waiting.items():
            self.send(number, b"".join(frames))

    def send(self, number, data):
        """Writes while the victim reads; what it does not read in time is lost."""
        try:
            if self.links[number] is None:
                self.open(number)
            link = self.links[number]
            link.settimeout(0.5)
            while data:
                count = link.send(data)
                self.sent += count
                data = data[count:]
            self.read(number)
        except OSError:
            self.close(number)

    def read(self, number):
        """Reads what has arrived, and answers pings and handshakes."""
        link = self.links[number]
        while link and select.select([link], [], [], 0)[0]:
            try:
                data = link.recv(65536)
                if data and number in self.identities:
                    self.answer(number, data)
            except OSError:
                data = b""
            if not data:
                return self.close(number)

    def answer(self, number, data):
        if self.framers[number] is None:
            self.framers[number], data = wire.StreamFramer(), data[len(FRAMES) :]
        for frame in self.framers[number].feed(data)[0]:
            packet = wire.decode(frame)
            identity = self.identities[number].get(packet.recipient)
            if identity is None:
                continue
            if packet.type == wire.PING:
                pong = Packet(wire.PONG, identity.id, now(), packet.payload, 1, 1, packet.sender)
                self.links[number].sendall(identity.signed(pong))
            elif packet.type == BUNDLE and packet.payload[0] == bundle_wire.RECEIPT:
                self.receipt_count += packet.payload[1]
            elif packet.type == wire.NOISE_HANDSHAKE and len(packet.payload) == SECOND_LENGTH and number in self.handshakes:
                handshake = self.handshakes.pop(number)
                handshake.read_second(packet.payload)
                self.links[number].sendall(identity.handshake(handshake.write_third(), packet.sender))
                self.sessions[number] = handshake.session()

    def check_receipts(self):
        """Ends an attack of which the victim has read nothing; one that is only prepared has sent nothing."""
        if self.sent and not self.receipt_count:
            sys.exit("the victim has confirmed nothing")


# Each attack: the number of links, and a generator of what is sent within one turn: pairs of a link and frames.


def announcements(_, __, machine):
    """More identities than the table holds, over four links, again and again."""
    machine.has_addresses = True
    count = 0
    while True:
        yield [(each % 4, Identity(count + each).announcement(f"m{count + each}", 5 + each % 3)) for each in range(20)]
        count += 20


def carriers(_, __, machine):
    """Carriers that announce themselves on one link, and answer pings there."""
    identities = [Identity(f"carrier {number}") for number in range(64)]
    machine.answer_as(0, *identities)
    while True:
        for first in range(0, 64, 8):
            yield [(0, each.announcement("carrier")) for each in identities[first : first + 8]]


def pings(victim, _, machine):
    """1,500 pings a second from far away, of a host of its own: behind a relay, what is relayed is limited by address."""
    machine.has_addresses = True
    generator = random.Random(3)
    while True:
        yield [
            (0, wire.encode(Packet(wire.PING, generator.randbytes(8), now(), generator.randbytes(8) + b"\x07", 5, 1, victim)))
            for _ in range(30)
        ]


def junk(*_):
    """4 MiB of packets of an unknown type each second."""
    generator = random.Random(4)
    while True:
        yield [
            (0, wire.encode(Packet(UNKNOWN, generator.randbytes(8), now(), generator.randbytes(4000), 7))) for _ in range(21)
        ]


def impostor(_, newcomer, __):
    """The newcomer's id and Noise key before she comes, with another signing key, and other keys by the hundred."""
    victim, forger = Identity(newcomer), Identity("forger")
    victim.signing, victim.signing_key = forger.signing, forger.signing_key
    count = 0
    while True:
        count += 5
        yield [(0, victim.announcement("not her", at=now() + 60_000))] + [
            (0, Identity(("evict", count + each)).announcement("m")) for each in range(5)
        ]


def replay(_, newcomer, __):
    """The newcomer's own announcement, replayed on four links."""
    victim = Identity(newcomer)
    while True:
        frame = victim.announcement("carol", capabilities=CAPABILITIES)
        yield [(link, frame) for link in range(4)]
        for _ in range(25):
            yield []


def lines(*_):
    """600 lines of six made-up senders within five seconds."""
    identities = [Identity(f"writer {number}") for number in range(6)]
    yield [(0, each.announcement("writer")) for each in identities]
    count = 0
    while True:
        count += 1
        yield [(0, identities[(count + each) % 6].line(f"junk {count} {each}")) for each in range(3)]


def compressed(*_):
    """Lines of few bytes that hold 50,000 each."""
    count = 0
    while True:
        identity = Identity(("writer", count))
        yield [(0, identity.announcement("writer"))] + [
            (0, identity.line("x" * 50_000 + str(count + each))) for each in range(4)
        ]
        count += 4


def reports(victim, _, machine):
    """10 MB a second of reports on three links with proven keys, each with another root and epoch, and a long filter."""
    liars = [Identity(f"liar {number} of {os.getpid()}") for number in range(3)]
    for number, each in enumerate(liars):
        machine.answer_as(number, each)
    generator = random.Random(9)
    filters = [bundle_wire.reachability_filter(generator.sample(range(1, 1 << bundle_wire.TAG_BITS), 13_500)) for _ in range(4)]
    yield [(number, each.announcement("liar")) for number, each in enumerate(liars)]
    for count in itertools.count():
        if count == PROOF_TURNS:
            machine.check_receipts()
        yield [
            (number, each.bundle_packet(report(generator, generator.choice(filters)), victim))
            for number, each in enumerate(liars)
            for _ in range(3)
        ]


def report(generator, reachability):
    root, token = generator.randbytes(8), generator.randbytes(8)
    return bundle_wire.report(root, generator.getrandbits(32), 1, token=token, reachability=reachability)


def bundles(victim, _, machine, is_sealed=False):
    """800 valid bundles a second for made-up destinations, of a size of which a page of a database holds one. Eight links have
    proven keys, and new ones every three seconds."""
    generator = random.Random(13)
    givers = []
    for count in itertools.count():
        if count % 150 == 0:
            givers = [Identity(f"giver {count} {number} of {os.getpid()}") for number in range(8)]
            yield renewed(victim, machine, givers, is_sealed)
        if count == PROOF_TURNS:
            machine.check_receipts()
        yield [
            (number, each.bundle_packet(bundle(each, generator), victim, machine.sessions.get(number)))
            for number, each in enumerate(givers)
            if not is_sealed or number in machine.sessions
            for _ in range(2)
        ]


def bundle(identity, generator):
    content = bundle_wire.text("x") + generator.randbytes(1_800)
    copy = bundle_wire.Bundle(content, identity.static, identity.signing, destination=generator.randbytes(8))
    return copy.copy(mode=0)


def renewed(victim, machine, givers, is_sealed):
    """The first frames of each identity on a new link."""
    turn = []
    for number, each in enumerate(givers):
        machine.close(number)
        machine.answer_as(number, each)
        turn.append((number, each.announcement("giver")))
        if is_sealed:
            machine.handshakes[number] = Handshake(True, each.static)
            turn.append((number, each.handshake(machine.handshakes[number].write_first(), victim)))
    return turn


def sealed(*arguments):
    """The same bundles, each inside a session."""
    return bundles(*arguments, is_sealed=True)


def tiny(*_):
    """4,500 packets of a few bytes each second."""
    generator = random.Random(10)
    while True:
        yield [(0, wire.encode(Packet(0x60, generator.randbytes(8), now(), b"x", 1))) for _ in range(90)]


def silent(*_):
    """Sixteen silent links, each renewed every second."""
    count = 0
    while True:
        count += 1
        yield [(count % 16, None), (count % 16, b"")] if count % 3 == 0 else []


def proven(_, __, machine):
    """Sixteen links of made-up keys that answer pings, opened again as soon as they were closed."""
    machine.has_addresses = True
    identities = [Identity(f"neighbour {number}") for number in range(16)]
    for number, each in enumerate(identities):
        machine.answer_as(number, each)
    while True:
        for number, each in enumerate(identities):
            yield [(number, each.announcement("neighbour"))]
        for _ in range(50):
            yield []


def fresh(_, __, machine):
    """Sixteen links that answer pings, with a new key for each connection, all from the newcomer's own address."""
    count, identities = 0, {}
    while True:
        for number in range(16):
            if not machine.links[number]:
                count += 1
                identities[number] = Identity(f"neighbour {count} of {os.getpid()}")
                machine.answer_as(number, identities[number])
            yield [(number, identities[number].announcement("neighbour"))]
        for _ in range(34):
            yield []


def churn(*_):
    """Links that are closed at once: on each a new key, its announcement and a long line."""
    while True:
        for number in range(12):
            each = Identity(os.urandom(8))
            yield [(number, None), (number, each.announcement("neighbour")), (number, each.line(os.urandom(7_000).hex()))]


def fragments(*_):
    """The first fragments of packets to everyone that never become whole, of made-up senders, on four links."""
    generator = random.Random(12)
    while True:
        yield [
            (number, wire.encode(Packet(wire.FRAGMENT, generator.randbytes(8), now(), first_fragment(generator), 7)))
            for number in range(4)
            for _ in range(12)
        ]


def first_fragment(generator):
    """The first of two, of a public message."""
    return generator.randbytes(8) + bytes([0, 0, 0, 2, wire.MESSAGE]) + generator.randbytes(400)


ATTACKS = {
    "announcements": (4, announcements),
    "carriers": (1, carriers),
    "pings": (1, pings),
    "junk": (1, junk),
    "impostor": (1, impostor),
    "replay": (4, replay),
    "lines": (1, lines),
    "compressed": (1, compressed),
    "reports": (3, reports),
    "bundles": (8, bundles),
    "sealed": (8, sealed),
    "tiny": (1, tiny),
    "silent": (16, silent),
    "proven": (16, proven),
    "fresh": (16, fresh),
    "churn": (12, churn),
    "fragments": (4, fragments),
}


# Where the timestamp of a frame has its two low bytes.
STAMP = slice(9, 11)


def hastened(turns, rate):
    """Turns that hold `rate` bytes a second: those that the attack makes within PREPARATION seconds, again and again. Each
    second time the frames have other timestamps: they are new to the victim, and what was signed is forged."""
    pool, closed, pool_size = [], {}, 0
    end = time.monotonic() + PREPARATION
    while len(pool) < POOL and pool_size < POOL_BYTES and time.monotonic() < end:
        for number, frame in next(turns):
            if frame is None:
                closed[number] = [(number, None), (number, b"")]
            elif frame:
                pool.append((number, frame))
                pool_size += len(frame)
    closings = [each for pair in closed.values() for each in pair]
    passes, place = 0, 0
    while True:
        turn, size = [], 0
        while pool and size < rate * TURN:
            number, frame = pool[place]
            if passes % 2:
                frame = frame[: STAMP.start] + (passes & 0xFFFF).to_bytes(2, "big") + frame[STAMP.stop :]
            turn.append((number, frame))
            size += len(frame)
            place += 1
            if place == len(pool):
                passes, place = passes + 1, 0
        # Links that an attack closes now and then are closed in each turn.
        yield closings + turn


def main():
    name, port, victim, newcomer = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.argv[4]
    link_count, attack = ATTACKS[name]
    machine = Machine(port, link_count)
    turns, is_started = attack(victim, newcomer, machine), False
    if len(sys.argv) > 5:
        turns = hastened(turns, int(sys.argv[5]))
    start = time.monotonic()
    end = start + SECONDS
    next_turn = start
    while time.monotonic() < end and not select.select([sys.stdin], [], [], 0)[0]:
        machine.take_turn(next(turns))
        for number in range(link_count):
            machine.read(number)
        if not is_started and time.monotonic() > end - SECONDS + 1:
            is_started = True
            print("started", flush=True)
        # A turn that took longer is not made up for: the rate stays bounded.
        next_turn = max(next_turn + TURN, time.monotonic())
        time.sleep(max(0, next_turn - time.monotonic()))
    print(round(machine.sent / (time.monotonic() - start)), flush=True)


if __name__ == "__main__":
    os.nice(10)
    main()
