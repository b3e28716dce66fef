"""Bundles and reports, written from docs/PROTOCOL.md, section 13, alone; it shares no code with nearshare."""

import hashlib
import os
import struct
import time

from bitchat_noise import seal_one_way
from bitchat_wire import public_bytes

COPY, REPORT, RECEIPT = 1, 2, 3
HAS_DESTINATION, UNNAMED, HAS_LOCK, SEALED, ACKNOWLEDGEMENT = 1, 2, 4, 8, 16
TO_PARENT, HAS_REACHABILITY, HAS_TOKEN = 1, 4, 16
# The kind of a bundle packet inside a session.
SEALED_PACKET = 0x7D
TAG_BITS = 26
EPIDEMIC = 1
WEEK = 604_800


def endpoint(signing_key):
    """The endpoint ID of a public signing key."""
    return hashlib.sha256(b"nearshare carried address" + signing_key).digest()[:8]


def text(content):
    """A structured message with one member, "text"."""
    data = content.encode()
    length = bytes([0x60 + len(data)]) if len(data) < 24 else b"\x78" + bytes([len(data)])
    return b"\x01\xa1\x64text" + length + data


def padded(content, secret):
    """The plaintext of a sealed body: the secret of the hash lock, the length and the content, padded by Padmé (PROTOCOL.md,
    section 13)."""
    payload = secret + struct.pack(">H", len(content)) + content
    size = max(len(payload), 96)
    exponent = size.bit_length() - 1
    step = 1 << (exponent - exponent.bit_length())
    return payload.ljust(-(-size // step) * step, b"\0")


class Bundle:
    """A bundle with its signature. `to` holds the public keys of the destination, for which the body is sealed. Without `to`
    the body is readable, and the bundle is for the endpoint ID `destination`, or for everyone."""

    def __init__(self, content, sender, signing, to=None, created=None, time_to_live=WEEK, hop_limit=250, destination=b""):
        created = int(time.time() * 1000) if created is None else created
        self.secret = os.urandom(16)
        flags = HAS_DESTINATION | HAS_LOCK | SEALED if to else HAS_DESTINATION if destination else 0
        sharing_time, maximum_propagation, tracklist_limit = 15_000, 1_000, 50
        limits = (hop_limit, time_to_live, sharing_time, maximum_propagation, tracklist_limit)
        header = struct.pack(">BBHIHHBQ", 1, flags, *limits, created)
        header += public_bytes(signing) + destination
        if to:
            noise_key, signing_key = to
            header += endpoint(signing_key) + hashlib.sha256(b"nearshare carried lock" + self.secret).digest()[:16]
            prologue = b"nearshare carried message" + header
            content = seal_one_way(padded(content, self.secret), sender, noise_key, prologue=prologue)
        self.bytes = header + struct.pack(">H", len(content)) + content
        self.id = hashlib.sha256(b"nearshare carried message" + self.bytes).digest()[:16]
        self.signature = signing.sign(b"nearshare carried message" + self.bytes)

    def copy(self, hop_count=1, mode=EPIDEMIC):
        """The payload of the packet that carries a copy of the bundle over a link."""
        return struct.pack(">BHBB", COPY, hop_count, mode, 0) + self.bytes + self.signature


def report(root=bytes(8), epoch=1, distance=0, flags=TO_PARENT, token=None, reachability=None):
    """A report without a summary vector."""
    flags |= (HAS_TOKEN if token else 0) | (HAS_REACHABILITY if reachability else 0)
    data = struct.pack(">BB8sIH", REPORT, flags, root, epoch, distance) + (token or b"")
    return data + (struct.pack(">H", len(reachability)) + reachability if reachability else b"")


def reachability_filter(tags):
    """The filter of address tags, which are from 1 to 2^26."""
    parameter = max(0, TAG_BITS - len(tags).bit_length())
    bits, last = f"{parameter:08b}", 0
    for tag in sorted(tags):
        quotient, rest = divmod(tag - last - 1, 1 << parameter)
        bits += "1" * quotient + "0" + (f"{rest:0{parameter}b}" if parameter else "")
        last = tag
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def is_acknowledgement(payload, bundle):
    """Whether a packet's payload is a copy of the acknowledgement of that bundle."""
    return payload[:1] == bytes([COPY]) and bundle.id + bundle.secret in payload
