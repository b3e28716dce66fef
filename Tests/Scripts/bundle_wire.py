"""Bundles and reports, written from docs/PROTOCOL.md, section 13, alone; it shares no code with nearshare."""

import hashlib
import os
import struct
import time

from bitchat_noise import seal_one_way
from bitchat_wire import public_bytes

COPY, REPORT, RECEIPT = 1, 2, 3
HAS_DESTINATION, UNNAMED, HAS_LOCK, SEALED, ACKNOWLEDGEMENT = 1, 2, 4, 8, 16
TO_PARENT, HAS_TOKEN = 1, 16
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
    payload = secret + struct.pack(">H", len(content)) + content
    size = max(len(payload), 96)
    exponent = size.bit_length() - 1
    step = 1 << (exponent - exponent.bit_length())
    return payload.ljust(-(-size // step) * step, b"\0")


class Bundle:
    """A bundle with its signature. Without `to`, the public keys of its destination, it is for everyone."""

    def __init__(self, content, sender, signing, to=None, created=None, time_to_live=WEEK, hop_limit=250):
        created = int(time.time() * 1000) if created is None else created
        self.secret = os.urandom(16)
        flags = HAS_DESTINATION | HAS_LOCK | SEALED if to else 0
        header = struct.pack(">BBHIHHBQ", 1, flags, hop_limit, time_to_live, 15_000, 1_000, 50, created)
        header += public_bytes(signing)
        if to:
            noise_key, signing_key = to
            header += endpoint(signing_key) + hashlib.sha256(b"nearshare carried lock" + self.secret).digest()[:16]
            prologue = b"nearshare carried message" + header
            content = seal_one_way(padded(content, self.secret), sender, noise_key, prologue=prologue)
        self.bytes = header + struct.pack(">H", len(content)) + content
        self.id = hashlib.sha256(b"nearshare carried message" + self.bytes).digest()[:16]
        self.signature = signing.sign(b"nearshare carried message" + self.bytes)

    def copy(self, hop_count=1, mode=EPIDEMIC):
        """The payload of the packet that carries it over a link."""
        return struct.pack(">BHBB", COPY, hop_count, mode, 0) + self.bytes + self.signature


def report(root=bytes(8), epoch=1, distance=0, flags=TO_PARENT):
    """A report without filters."""
    return struct.pack(">BB8sIH", REPORT, flags, root, epoch, distance)


def is_acknowledgement(payload, bundle):
    """Whether a packet's payload is a copy of the acknowledgement of that bundle."""
    return payload[:1] == bytes([COPY]) and bundle.id + bundle.secret in payload
