"""An independent sender for the direct path, written from docs/PROTOCOL.md alone; it shares no code with nearshare."""

import hashlib
import hmac
import os
import socket
import struct
import time

from cryptography.exceptions import InvalidTag  # noqa: F401
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def preamble(newest, oldest=1):
    return b"NSHR" + bytes([newest, oldest, 0, 0])


AES, CHACHA = 1, 2
HELLO, REVEAL, PING, PONG, CLOSE, OFFER, ACCEPT, DECLINE, RESUME, CREDIT, STORED, CANCEL, CONTENT = (
    1,
    2,
    3,
    4,
    5,
    0x10,
    0x11,
    0x12,
    0x13,
    0x14,
    0x15,
    0x16,
    0x20,
)
HOTSPOT_REQUEST, HOTSPOT_END = 0x50, 0x55
FEATURES, WITHDRAWS_ENTRIES = 0x19, 4
FILE, FOLDER, LINK = 0, 1, 2


def sha256(data):
    return hashlib.sha256(data).digest()


def expand(key, info, count):
    output, block, number = b"", b"", 1
    while len(output) < count:
        block = hmac.new(key, block + info + bytes([number]), "sha256").digest()
        output, number = output + block, number + 1
    return output[:count]


def hkdf(material, salt, info, count):
    return expand(hmac.new(salt, material, "sha256").digest(), info, count)


def public(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


class Noise:
    """Noise XX as the initiator (section 3)."""

    def __init__(self, static, prologue):
        self.static, self.ephemeral = static, X25519PrivateKey.generate()
        self.hash = self.chain = b"Noise_XX_25519_ChaChaPoly_SHA256"
        self.key, self.number = None, 0
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.hash = sha256(self.hash + data)

    def mix_key(self, secret):
        both = hkdf(secret, self.chain, b"", 64)
        self.chain, self.key, self.number = both[:32], both[32:], 0

    def nonce(self):
        self.number += 1
        return b"\0" * 4 + struct.pack("<Q", self.number - 1)

    def seal(self, plain):
        sealed = ChaCha20Poly1305(self.key).encrypt(self.nonce(), plain, self.hash) if self.key else plain
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed):
        plain = ChaCha20Poly1305(self.key).decrypt(self.nonce(), sealed, self.hash)
        self.mix_hash(sealed)
        return plain

    def first(self):
        self.mix_hash(public(self.ephemeral))
        return public(self.ephemeral) + self.seal(b"")

    def second(self, message):
        self.theirs = X25519PublicKey.from_public_bytes(message[:32])
        self.mix_hash(message[:32])
        self.mix_key(self.ephemeral.exchange(self.theirs))
        their_static = X25519PublicKey.from_public_bytes(self.open(message[32:80]))
        self.mix_key(self.ephemeral.exchange(their_static))
        return self.open(message[80:])

    def third(self, payload):
        sealed = self.seal(public(self.static))
        self.mix_key(self.static.exchange(self.theirs))
        return sealed + self.seal(payload)

    def split(self):
        both = hkdf(b"", self.chain, b"", 64)
        return both[:32], both[32:]


class NotOffered(Exception):
    """The peer does not support the requested cipher."""


class Link:
    """A socket after the handshake: frames in records (section 4)."""

    def __init__(self, address, seed, cipher, newest=1, damage=0):
        """:param damage: is added to a byte of the ciphertext of ML-KEM-768."""
        self.socket = socket.create_connection(address, timeout=20)
        first = preamble(newest)
        noise = Noise(X25519PrivateKey.from_private_bytes(seed), b"nearshare direct" + first)
        self.socket.sendall(first + counted(noise.first()))
        version = self.read(8)[4]
        assert version == newest
        parameters = noise.second(self.read(struct.unpack(">H", self.read(2))[0]))
        assert parameters[0] == version
        if not parameters[1] >> cipher & 1:
            raise NotOffered(cipher)
        secret, label, ciphertext = b"", b"", b""
        if version == 2:
            from kyber_py.ml_kem import ML_KEM_768

            assert parameters[2] & 1
            secret, ciphertext = ML_KEM_768.encaps(parameters[3 : 3 + 1184])
            ciphertext = bytes([(ciphertext[0] + damage) % 256]) + ciphertext[1:]
            label = b" 2"
        self.socket.sendall(counted(noise.third(bytes([cipher]) + ciphertext)))
        self.hash = noise.hash
        kind = AESGCM if cipher == AES else ChaCha20Poly1305
        keys = [key + secret for key in noise.split()]
        info = b"nearshare record" + label + bytes([cipher])
        self.outgoing, self.incoming = (kind(hkdf(key, noise.hash, info, 32)) for key in keys)
        self.packet_keys = [hkdf(key, noise.hash, b"nearshare datagram" + label, 32) for key in keys]
        self.sent = self.received = 0

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            assert more, "the other side closed"
            data += more
        return data

    def send(self, frame):
        length = struct.pack(">I", len(frame) + 16)
        nonce = b"\0" * 4 + struct.pack(">Q", self.sent)
        self.sent += 1
        self.socket.sendall(length + self.outgoing.encrypt(nonce, frame, length))

    def receive(self):
        length = self.read(4)
        nonce = b"\0" * 4 + struct.pack(">Q", self.received)
        self.received += 1
        return self.incoming.decrypt(nonce, self.read(struct.unpack(">I", length)[0]), length)


class Entry:
    """A file, folder or link; `path` begins with its item's own name (section 6).
    :param withdrawn_at: the byte of the content from which on it is withdrawn (section 6.3).
    """

    def __init__(self, item, kind, path, content=b"", target=b"", withdrawn_at=None):
        self.withdrawn_at = withdrawn_at
        self.item, self.path, self.content, self.kind = item, path, content, kind
        self.header = struct.pack(">IBBQB", item, kind, 1, len(content), len(path))
        self.header += b"".join(bytes([len(name)]) + name for name in path)
        if kind == LINK:
            self.header += counted(target)


def counted(data):
    return struct.pack(">H", len(data)) + data


def items_of(entries):
    """Kind, name, size and number of entries of each item."""
    items = {}
    for entry in entries:
        kind, name, size, count = items.get(entry.item, (entry.kind, entry.path[0], 0, 0))
        items[entry.item] = (kind, name, size + len(entry.content), count + 1)
    return [items[number] for number in sorted(items)]


def offer(transfer, entries):
    items = items_of(entries)
    resume_key = sha256(
        b"nearshare resume key"
        + struct.pack(">I", len(items))
        + b"".join(bytes([kind, len(name)]) + name for kind, name, _, _ in items)
    )
    frame = bytes([OFFER]) + transfer + struct.pack(">H", 30) + resume_key + counted(b"")
    frame += struct.pack(">IQQH", len(items), len(entries), sum(size for _, _, size, _ in items), len(items))
    for kind, name, size, count in items:
        media = b"inode/directory" if kind == FOLDER else b"application/octet-stream"
        frame += struct.pack(">BQQB", kind, size, count, len(name)) + name + bytes([len(media)]) + media
    return frame


def stream(entries, complete, partial):
    digests = [b"\0" * 32]
    for entry in entries:
        digests.append(sha256(digests[-1] + entry.header))
    done = sum(len(entry.content) for entry in entries[:complete])
    data = b"\x01" + struct.pack(">QQQ", complete, done, partial)
    for index, entry in enumerate(entries[complete:]):
        if entry.withdrawn_at is not None:
            sent = entry.content[: entry.withdrawn_at]
            data += (b"\x09" if sent else b"\x08") + counted(entry.header)
            data += struct.pack(">I", len(sent)) + sent + struct.pack(">I", 0) if sent else b""
            continue
        data += b"\x02" + counted(entry.header) + (entry.content[partial:] if index == 0 else entry.content)
    return data + b"\x03" + struct.pack(">Q", len(entries)) + digests[-1]


def kept(frame, entries):
    """Returns the receiver's resume point if its content equals the source, otherwise the beginning."""
    complete, length = struct.unpack(">QB", frame[9:18])
    digest, rest = frame[18 : 18 + length], frame[18 + length :]
    (partial,) = struct.unpack(">Q", rest[:8])
    chain = b"\0" * 32
    for entry in entries[:complete]:
        chain = sha256(chain + entry.header)
    is_same = complete == 0 or digest == chain
    if is_same and partial:
        is_same = sha256(entries[complete].content[:partial]) == rest[9:]
    return (complete, partial) if is_same else (0, 0)


def send(address, entries, seed, name, cipher=AES, stop_after=None, newest=1, on_stop=None, features=0):
    """Sends the items, and returns the outcome.
    :param stop_after: breaks off after so many bytes of the content stream.
    :param newest: the newest version of the protocol to offer.
    :param features: the abilities to state before the offer; those that the receiver states are in the outcome.
    :param on_stop: called with the link and the story so far in place of breaking off; returns the outcome.
    """
    link = Link(address, seed, cipher, newest)
    with link.socket:
        return converse(link, entries, name, stop_after, on_stop or wait_and_cut, features)


def converse(link, entries, name, stop_after, on_stop, features=0):
    nonce, transfer = os.urandom(32), os.urandom(8)
    commitment = sha256(b"nearshare commitment\x01" + link.hash + nonce)
    link.send(bytes([HELLO]) + commitment + struct.pack(">q", int(time.time() * 1000)) + bytes([len(name)]) + name)
    if features:
        link.send(bytes([FEATURES]) + struct.pack(">I", features))
    link.send(offer(transfer, entries))
    story, content, limit, sent = {"transfer": transfer}, None, 0, 0
    while True:
        frame = link.receive()
        kind = frame[0]
        if kind == HELLO:
            commitment = frame[1:33]
            link.send(bytes([REVEAL]) + nonce)
        elif kind == REVEAL:
            assert sha256(b"nearshare commitment\x02" + link.hash + frame[1:]) == commitment
            number = int.from_bytes(hkdf(nonce + frame[1:], link.hash, b"nearshare short code", 8), "big")
            story["code"] = f"{number % 100_000_000:08}"
        elif kind == PING:
            link.send(bytes([PONG]) + frame[1:])
        elif kind == FEATURES:
            (story["features"],) = struct.unpack(">I", frame[1:])
        elif kind in (ACCEPT, CREDIT):
            limit = max(limit, struct.unpack(">Q", frame[9:])[0])
        elif kind == RESUME:
            story["resumed"] = kept(frame, entries)
            content = stream(entries, *story["resumed"])
        elif kind == STORED:
            link.send(bytes([CLOSE, 0]))
            return {**story, "outcome": "stored"}
        elif kind in (DECLINE, CANCEL, CLOSE):
            return {**story, "outcome": {DECLINE: "declined", CANCEL: "cancelled", CLOSE: "closed"}[kind]}
        while content and sent < min(limit, len(content)):
            if stop_after is not None and sent >= stop_after:
                return on_stop(link, story)
            piece = content[sent : min(limit, sent + 131_072)]
            link.send(bytes([CONTENT]) + transfer + piece)
            sent += len(piece)


def wait_and_cut(link, story):
    """Ends the outgoing direction, so that the peer reads everything, and waits for the peer's end."""
    link.socket.shutdown(socket.SHUT_WR)
    while link.socket.recv(65_536):
        pass
    return {**story, "outcome": "cut"}
