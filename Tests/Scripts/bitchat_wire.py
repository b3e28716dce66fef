"""The bytes of bitchat's mesh, written from the bitchat specification alone; it shares no code with nearshare.

Nothing here reads a clock, a socket or a random number: what a function needs, it is given. Every decoder raises
Malformed for bytes that it refuses, and none takes more memory than the limits named below.
"""

import dataclasses
import hashlib
import math
import re
import struct
import unicodedata
import zlib
from urllib.parse import parse_qsl, quote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ANNOUNCE, MESSAGE, LEAVE, COURIER = 0x01, 0x02, 0x03, 0x04
NOISE_HANDSHAKE, NOISE_ENCRYPTED = 0x10, 0x11
FRAGMENT, REQUEST_SYNC, FILE_TRANSFER = 0x20, 0x21, 0x22
PING, PONG, NOSTR_CARRIER, VOICE_FRAME = 0x26, 0x27, 0x28, 0x29

HAS_RECIPIENT, HAS_SIGNATURE, IS_COMPRESSED, HAS_ROUTE, IS_RSR = 0x01, 0x02, 0x04, 0x08, 0x10

MAX_TTL = 7
ID_LENGTH = 8
SIGNATURE_LENGTH = 64
BROADCAST = b"\xff" * ID_LENGTH
MIB = 1 << 20
MAX_PAYLOAD = MIB + 18 + 2 * 65_535 + 96
MAX_DEFLATE_RATIO = 50_000
DEFLATE_LEVEL, OTHER_DEFLATE_LEVEL = 5, 6
BLOCKS = (256, 512, 1024, 2048)
PADDED_TYPES = (NOISE_HANDSHAKE, NOISE_ENCRYPTED)


class Malformed(ValueError):
    """Bytes that the specification refuses, or a value that has no encoding."""


class Reader:
    """Reads strictly forward; a shortage is Malformed."""

    def __init__(self, data):
        self.data, self.offset = data, 0

    def __len__(self):
        return len(self.data) - self.offset

    def take(self, count):
        if count > len(self):
            raise Malformed(f"{count} bytes wanted, {len(self)} left")
        self.offset += count
        return bytes(self.data[self.offset - count : self.offset])

    def number(self, size):
        return int.from_bytes(self.take(size), "big")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def text(data):
    """UTF-8, or Malformed: nothing is replaced (bitchat specification, section 13, row 13)."""
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None


def as_id(data):
    """Eight bytes: zeros fill on the right, the rest is cut (bitchat specification, section 2.3)."""
    return bytes(data[:ID_LENGTH]).ljust(ID_LENGTH, b"\0")


def public_bytes(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def fingerprint(noise_public):
    """Hex of the whole hash of the X25519 key (bitchat specification, section 1)."""
    return sha256(noise_public).hex()


def peer_id(noise_public):
    return sha256(noise_public)[:ID_LENGTH]


# Packets: bitchat specification, section 2.


@dataclasses.dataclass
class Packet:
    """One packet; `payload` is never compressed here. `deflated` keeps the stream in which a payload arrived, since
    a signature may be over exactly those bytes (bitchat specification, section 2.7)."""

    type: int
    sender: bytes
    timestamp: int
    payload: bytes
    ttl: int = MAX_TTL
    version: int = 1
    recipient: bytes | None = None
    route: list | None = None
    signature: bytes | None = None
    is_rsr: bool = False
    deflated: bytes | None = dataclasses.field(default=None, compare=False)

    @property
    def is_directed(self):
        return self.recipient is not None and self.recipient != BROADCAST


def should_compress(payload):
    """Whether deflate is tried at all (bitchat specification, section 2.6)."""
    return len(payload) >= 100 and len(set(payload)) / min(len(payload), 256) < 0.9


def deflate(payload, level=DEFLATE_LEVEL):
    encoder = zlib.compressobj(level, zlib.DEFLATED, -15, 8)
    return encoder.compress(payload) + encoder.flush()


def inflate(stream, size):
    """Exactly `size` bytes from a raw stream with nothing after it (bitchat specification, sections 2.4 and 2.6)."""
    if not 0 < size <= MAX_PAYLOAD or not stream or size / len(stream) > MAX_DEFLATE_RATIO:
        raise Malformed(f"{len(stream)} deflated bytes declared as {size}")
    decoder = zlib.decompressobj(-15)
    try:
        # One byte more than declared is enough to see a lie, and bounds the memory.
        payload = decoder.decompress(stream, size + 1)
    except zlib.error as error:
        raise Malformed(f"deflate: {error}") from None
    if len(payload) != size or not decoder.eof or decoder.unused_data:
        raise Malformed("the deflated stream is not what was declared")
    return payload


def encode(packet, padded=False, level=DEFLATE_LEVEL, deflated=None):
    """The frame of a packet (bitchat specification, sections 2.1 to 2.6). `deflated` replaces the encoder's output."""
    if packet.version not in (1, 2):
        raise Malformed(f"version {packet.version}")
    wide = packet.version == 2
    size_bytes = 4 if wide else 2
    body, flags = packet.payload, 0
    stream = deflated
    if stream is None and should_compress(body) and (wide or len(body) <= 0xFFFF):
        stream = deflate(body, level)
        stream = stream if len(stream) < len(body) else None
    if stream is not None:
        flags |= IS_COMPRESSED
        body = len(packet.payload).to_bytes(size_bytes, "big") + stream
    if len(body) > (0xFFFF_FFFF if wide else 0xFFFF):
        raise Malformed(f"{len(body)} bytes do not fit version {packet.version}")
    after = b""
    if packet.recipient is not None:
        flags |= HAS_RECIPIENT
        after += as_id(packet.recipient)
    if wide and packet.route:
        if len(packet.route) > 255 or not all(packet.route):
            raise Malformed("a route has at most 255 hops, none of them empty")
        flags |= HAS_ROUTE
        after += bytes([len(packet.route)]) + b"".join(map(as_id, packet.route))
    signature = b""
    if packet.signature is not None:
        flags |= HAS_SIGNATURE
        signature = packet.signature[:SIGNATURE_LENGTH]
    if packet.is_rsr:
        flags |= IS_RSR
    head = struct.pack(">BBBQB", packet.version, packet.type, packet.ttl, packet.timestamp, flags)
    frame = head + len(body).to_bytes(size_bytes, "big") + as_id(packet.sender) + after + body + signature
    return pad(frame) if padded else frame


def link_frame(packet):
    """The frame as it goes on a link: only Noise packets are padded (bitchat specification, section 2.5)."""
    return encode(packet, padded=packet.type in PADDED_TYPES)


def _decode_exactly(frame):
    reader = Reader(frame)
    version = reader.number(1)
    if version not in (1, 2):
        raise Malformed(f"version {version}")
    size_bytes = 4 if version == 2 else 2
    kind, ttl, timestamp, flags = reader.number(1), reader.number(1), reader.number(8), reader.number(1)
    length = reader.number(size_bytes)
    if length > MAX_PAYLOAD:
        raise Malformed(f"a payload of {length} bytes")
    sender = reader.take(ID_LENGTH)
    recipient = reader.take(ID_LENGTH) if flags & HAS_RECIPIENT else None
    route = None
    if version == 2 and flags & HAS_ROUTE:
        route = [reader.take(ID_LENGTH) for _ in range(reader.number(1))] or None
    body, stream = Reader(reader.take(length)), None
    if flags & IS_COMPRESSED:
        size = body.number(size_bytes)
        stream = body.take(len(body))
        payload = inflate(stream, size)
    else:
        payload = body.take(length)
    signature = reader.take(SIGNATURE_LENGTH) if flags & HAS_SIGNATURE else None
    return Packet(kind, sender, timestamp, payload, ttl, version, recipient, route, signature, bool(flags & IS_RSR), stream)


def decode(frame):
    """A packet from a frame that may be padded; bytes after the last field are ignored (bitchat specification,
    section 2.4). Padding is removed only if the frame as it is fails: a signature may end like padding."""
    try:
        return _decode_exactly(frame)
    except Malformed:
        stripped = unpad(frame)
        if len(stripped) == len(frame):
            raise
        return _decode_exactly(stripped)


def frame_length(start):
    """Length of the frame that begins with these bytes; None while the header is too short to tell. Malformed if it
    is larger than any frame may be (bitchat specification, section 11)."""
    wide = start[0] == 2
    header, size_bytes = (16, 4) if wide else (14, 2)
    if len(start) < header:
        return None
    flags = start[11]
    length = int.from_bytes(start[12 : 12 + size_bytes], "big")
    if length > MAX_PAYLOAD or flags & IS_COMPRESSED and length < size_bytes:
        raise Malformed(f"a payload of {length} bytes")
    total = header + ID_LENGTH + (ID_LENGTH if flags & HAS_RECIPIENT else 0)
    if wide and flags & HAS_ROUTE:
        if len(start) <= total:
            return None
        total += 1 + ID_LENGTH * start[total]
    return total + length + (SIGNATURE_LENGTH if flags & HAS_SIGNATURE else 0)


# Padding: bitchat specification, section 2.5.


def padding_target(length):
    """The smallest block that holds 16 bytes more; the length itself above the largest."""
    return next((block for block in BLOCKS if block >= length + 16), length)


def padding_fill(length):
    """How many bytes are appended; 0 where the fill would not fit into one byte."""
    fill = padding_target(length) - length
    return fill if fill <= 255 else 0


def pad(data):
    fill = padding_fill(len(data)) if data else 0
    return data + bytes([fill]) * fill


def unpad(data):
    fill = data[-1] if data else 0
    return data[:-fill] if 0 < fill <= len(data) and data[-fill:] == bytes([fill]) * fill else data


# Signatures: bitchat specification, section 2.7.


def signing_preimage(packet, level=DEFLATE_LEVEL, deflated=None):
    bare = dataclasses.replace(packet, ttl=0, signature=None, is_rsr=False)
    return encode(bare, padded=True, level=level, deflated=deflated)


def sign(packet, key):
    """The same packet with a signature by an Ed25519 private key."""
    return dataclasses.replace(packet, signature=key.sign(signing_preimage(packet)))


def is_signed_by(packet, public):
    """Tries the deflated bytes as received, then what either platform's encoder would have made of the payload."""
    if packet.signature is None or len(public) != 32:
        return False
    ways = [{"level": DEFLATE_LEVEL}, {"level": OTHER_DEFLATE_LEVEL}]
    if packet.deflated is not None:
        ways.insert(0, {"deflated": packet.deflated})
    for way in ways:
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(packet.signature, signing_preimage(packet, **way))
            return True
        except (InvalidSignature, Malformed, ValueError):
            continue
    return False


# Names of packets: bitchat specification, sections 3, 5.4 and 10.


def duplicate_key(packet):
    """The iOS key: any two packets with the same one are the same packet."""
    return f"{packet.sender.hex()}-{packet.timestamp}-{packet.type}-{sha256(packet.payload)[:4].hex()}"


def gossip_id(packet):
    """Sixteen bytes that name a packet in a sync filter."""
    return sha256(bytes([packet.type]), packet.sender, packet.timestamp.to_bytes(8, "big"), packet.payload)[:16]


def public_message_id(sender, timestamp, content):
    return sha256(f"{sender.hex()}|{timestamp}|{content.strip()}".encode()).hex()[:32]


UUID = "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
STABLE_NAME = re.compile(rf"img_{UUID}\.jpg|voice_(?:[^/\\]*_)?{UUID}\.m4a|voice_[0-9A-Fa-f]{{16}}\.m4a")


def private_media_id(sender, recipient, name):
    """The id both ends derive for a private file, for the names that have one (bitchat specification, section 9.2)."""
    if not STABLE_NAME.fullmatch(name):
        return None
    parts = [sender.hex().encode(), recipient.hex().encode(), name.encode()]
    joined = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return "media-" + sha256(b"bitchat-private-media-message-v1", joined).hex()[:32]


# Relaying: bitchat specification, section 5.1.


@dataclasses.dataclass
class Relay:
    """With what ttl a packet goes on, and the range of milliseconds to wait before."""

    ttl: int
    delay: tuple


def relay_decision(kind, ttl, recipient, degree):
    """What iOS does with a packet that is neither ours nor for us, with `degree` connected peers; None is no relay."""
    ttl = min(ttl, MAX_TTL)
    directed = recipient is not None and recipient != BROADCAST
    if ttl <= 1 or kind == REQUEST_SYNC:
        return None
    if kind == NOISE_HANDSHAKE:
        return Relay(ttl - 1, (10, 35))
    if directed and kind in (NOISE_ENCRYPTED, COURIER, PING, PONG, NOSTR_CARRIER):
        return Relay(ttl - 1, (20, 60))
    if kind == FRAGMENT and recipient is not None:
        return Relay(ttl - 1, (20, 60))
    if kind in (FRAGMENT, VOICE_FRAME):
        return Relay(min(ttl, 5 if degree >= 6 else 7) - 1, (8, 25))
    if degree <= 2:
        return Relay(ttl - 1, (10, 40))
    if degree <= 5:
        return Relay(min(ttl, 7 if kind == ANNOUNCE else 6) - 1, (60, 150))
    return Relay(min(ttl, max(2, min(ttl, 5))) - 1, (80, 180) if degree <= 9 else (100, 220))


# Streams: bitchat specification, section 11, last paragraph.


class StreamFramer:
    """Finds frames in a byte stream by their length. It holds at most one frame and one chunk."""

    def __init__(self):
        self.buffer = bytearray()
        self.fill, self.fill_left = 0, 0

    def feed(self, chunk):
        """Returns the complete frames, the bytes skipped before frames, and whether the buffer was dropped."""
        self.buffer += chunk
        frames, skipped = [], []
        while True:
            self._skip_fill()
            while self.buffer and self.buffer[0] not in (1, 2):
                skipped.append(self.buffer.pop(0))
            if not self.buffer:
                return frames, skipped, False
            try:
                length = frame_length(self.buffer)
            except Malformed:
                self.buffer.clear()
                return frames, skipped, True
            if length is None or length > len(self.buffer):
                return frames, skipped, False
            frames.append(bytes(self.buffer[:length]))
            del self.buffer[:length]
            if frames[-1][1] in PADDED_TYPES:
                # The fill is 16 or more, so it is never taken for the version byte of a next frame.
                self.fill = self.fill_left = padding_fill(length)

    def _skip_fill(self):
        count = 0
        while count < min(self.fill_left, len(self.buffer)) and self.buffer[count] == self.fill:
            count += 1
        # A byte of another value ends the fill: the sender did not pad this frame.
        self.fill_left = self.fill_left - count if count == len(self.buffer) else 0
        del self.buffer[:count]


# Announce: bitchat specification, section 4.

PRIVATE_MEDIA, PRIVATE_MEDIA_RECEIPTS = 1 << 8, 1 << 9
MAX_NEIGHBOURS = 10


def short_tlv(kind, value):
    """One-byte type, one-byte length."""
    if len(value) > 255:
        raise Malformed(f"{len(value)} bytes do not fit a one-byte length")
    return bytes([kind, len(value)]) + value


def short_tlvs(data):
    """Pairs of type and value; a lone trailing byte is ignored, a length past the end is Malformed."""
    reader = Reader(data)
    while len(reader) >= 2:
        kind = reader.number(1)
        yield kind, reader.take(reader.number(1))


def bits(value):
    """A bit field, little-endian, as short as possible but at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "little")


@dataclasses.dataclass
class Announce:
    nickname: str
    noise_key: bytes
    signing_key: bytes
    neighbours: list | None = None
    capabilities: int | None = None
    geohash: str | None = None

    def encode(self):
        data = short_tlv(1, self.nickname.encode()) + short_tlv(2, self.noise_key) + short_tlv(3, self.signing_key)
        if self.neighbours:
            data += short_tlv(4, b"".join(as_id(each) for each in self.neighbours[:MAX_NEIGHBOURS]))
        if self.capabilities is not None:
            data += short_tlv(5, bits(self.capabilities))
        if self.geohash is not None and 1 <= len(self.geohash.encode()) <= 12:
            data += short_tlv(6, self.geohash.encode())
        return data

    @classmethod
    def decode(cls, payload):
        fields = {}
        for kind, value in short_tlvs(payload):
            if kind == 1:
                fields["nickname"] = text(value)
            elif kind == 2:
                fields["noise_key"] = value
            elif kind == 3:
                fields["signing_key"] = value
            elif kind == 4 and value and len(value) % ID_LENGTH == 0:
                fields["neighbours"] = [value[at : at + ID_LENGTH] for at in range(0, len(value), ID_LENGTH)]
            elif kind == 5:
                fields["capabilities"] = int.from_bytes(value[:8], "little")
            elif kind == 6 and 1 <= len(value) <= 12:
                fields["geohash"] = text(value)
        if not {"nickname", "noise_key", "signing_key"} <= fields.keys():
            raise Malformed("an announce without a nickname or a key")
        return cls(**fields)


ANNOUNCE_AGE = 15 * 60 * 1000


def announce_refusal(announce, sender, timestamp, own_id, now):
    """Why an announce is refused before its signature is looked at, or None; times are in milliseconds."""
    if len(announce.noise_key) != 32 or peer_id(announce.noise_key) != sender:
        return "senderMismatch"
    if sender == own_id:
        return "selfAnnounce"
    return "stale" if now - timestamp > ANNOUNCE_AGE else None


# Fragments: bitchat specification, section 6.

CHUNK = 454
IOS_CHUNK = 469
FRAME_SIZE = 512
MAX_FRAGMENTS = 10_000
ANDROID_MAX_FRAGMENTS = 256
FRAGMENT_HEADER = 13
MAX_SETS = 128
SET_LIFETIME = 30
MAX_TAIL = 16


def ios_chunk(packet, link_limit=None):
    """How iOS cuts: smaller with a route, and on a link with a small limit."""
    chunk = IOS_CHUNK
    if packet.route:
        fixed = 16 + 8 + (8 if packet.recipient is not None else 0) + 1 + 8 * len(packet.route) + FRAGMENT_HEADER + 16
        chunk = max(64, FRAME_SIZE - fixed)
    if link_limit is not None:
        chunk = min(chunk, max(64, link_limit - 42))
    return chunk


def cut(packet, frame, fragment_id, chunk=CHUNK, limit=MAX_FRAGMENTS):
    """The fragment packets of a frame, which stays as it is: nothing is stripped before (section 6.4)."""
    slices = [frame[at : at + chunk] for at in range(0, len(frame), chunk)]
    if len(slices) > limit:
        raise Malformed(f"{len(slices)} fragments, and at most {limit} are possible")
    return [
        dataclasses.replace(
            packet,
            type=FRAGMENT,
            version=2 if packet.route else 1,
            signature=None,
            deflated=None,
            payload=fragment_id + struct.pack(">HHB", index, len(slices), packet.type) + piece,
        )
        for index, piece in enumerate(slices)
    ]


@dataclasses.dataclass
class Assembly:
    started: float
    latest: float
    pieces: dict = dataclasses.field(default_factory=dict)
    size: int = 0


class Assembler:
    """Puts fragments together as iOS does (bitchat specification, section 6.3), with bounds on the number of sets,
    their bytes and their age. A set lives as long as fragments of it keep coming: the largest private file of iOS
    takes longer than 30 seconds in all."""

    def __init__(self, max_sets=MAX_SETS, lifetime=SET_LIFETIME, max_total=32 * MIB):
        self.max_sets, self.lifetime, self.max_total = max_sets, lifetime, max_total
        self.sets = {}

    def add(self, sender, payload, now):
        """Returns a verdict (`invalid_header`, `oversized`, `started`, `stored`, `complete`) and the frame, if it is
        complete."""
        if len(payload) < FRAGMENT_HEADER:
            return "invalid_header", None
        index, total, kind = struct.unpack_from(">HHB", payload, 8)
        if not 1 <= total <= MAX_FRAGMENTS or index >= total:
            return "invalid_header", None
        self._expire(now)
        key, verdict = (sender, payload[:8]), "stored"
        if key not in self.sets:
            while len(self.sets) >= self.max_sets:
                self._evict_oldest()
            self.sets[key], verdict = Assembly(now, now), "started"
        assembly, piece = self.sets[key], payload[FRAGMENT_HEADER:]
        assembly.size += len(piece) - len(assembly.pieces.get(index, b""))
        if assembly.size > (MAX_PAYLOAD if kind in (FILE_TRANSFER, NOISE_ENCRYPTED) else MIB):
            del self.sets[key]
            return "oversized", None
        assembly.pieces[index], assembly.latest = piece, now
        if len(assembly.pieces) >= total and all(each in assembly.pieces for each in range(total)):
            del self.sets[key]
            return "complete", b"".join(assembly.pieces[each] for each in range(total))
        while sum(each.size for each in self.sets.values()) > self.max_total:
            self._evict_oldest()
        return verdict, None

    def _expire(self, now):
        self.sets = {key: each for key, each in self.sets.items() if now - each.latest <= self.lifetime}

    def _evict_oldest(self):
        del self.sets[min(self.sets, key=lambda key: self.sets[key].started)]


def decode_reassembled(frame):
    """A packet from joined fragments; a tail that an Android sender took for padding is put back (bitchat
    specification, section 6.4). The signature check decides whether it was one."""
    try:
        return decode(frame)
    except Malformed:
        missing = (frame_length(frame) or 0) - len(frame) if frame and frame[0] in (1, 2) else 0
        if not 1 <= missing <= MAX_TAIL:
            raise
        return decode(frame + bytes([missing]) * missing)


# Files: bitchat specification, section 7.

MAX_FILE = MIB
OCTETS = "application/octet-stream"


@dataclasses.dataclass
class File:
    """A file TLV; `size` is what it declares, by default the length of its content."""

    content: bytes
    name: str | None = None
    mime: str | None = None
    size: int | None = None

    def encode(self):
        if len(self.content) > MAX_FILE:
            raise Malformed(f"a file of {len(self.content)} bytes, at most {MAX_FILE} are possible")
        size = len(self.content) if self.size is None else self.size
        data = b""
        for kind, value in (
            (1, None if self.name is None else self.name.encode()),
            (2, struct.pack(">I", size)),
            (3, None if self.mime is None else self.mime.encode()),
        ):
            if value is not None:
                if len(value) > 0xFFFF:
                    raise Malformed("a name or MIME type of more than 65 535 bytes")
                data += struct.pack(">BH", kind, len(value)) + value
        return data + struct.pack(">BI", 4, len(self.content)) + self.content

    @classmethod
    def decode(cls, data):
        """As iOS, except that empty content is accepted (bitchat specification, section 13, row 9)."""
        reader, file, contents = Reader(data), cls(b""), []
        while len(reader):
            kind = reader.number(1)
            if kind == 4:
                contents.append(cls._content(reader))
                continue
            value = reader.take(reader.number(2))
            if kind in (1, 3):
                try:
                    value = text(value)
                except Malformed:
                    continue
                file.name, file.mime = (value, file.mime) if kind == 1 else (file.name, value)
            elif kind == 2 and len(value) in (4, 8):
                file.size = int.from_bytes(value, "big")
                if file.size > MAX_FILE:
                    raise Malformed(f"a file of {file.size} bytes declared")
        if not contents:
            raise Malformed("a file without content")
        file.content = b"".join(contents)
        if len(file.content) > MAX_FILE:
            raise Malformed(f"a file of {len(file.content)} bytes")
        if file.size is None:
            file.size = len(file.content)
        return file

    @staticmethod
    def _content(reader):
        """A four-byte length; where that overruns, the two-byte length of old senders."""
        start = reader.offset
        try:
            return reader.take(reader.number(4))
        except Malformed:
            reader.offset = start
            return reader.take(reader.number(2))


def transfer_id(encoded_file):
    """Names a transfer on one machine; it never travels (bitchat specification, section 7.1)."""
    return sha256(encoded_file).hex()


def _riff(name):
    return lambda content: content[:4] == b"RIFF" and content[8:12] == name


def _begins(*heads):
    return lambda content: content.startswith(heads)


def _mp3(content):
    return content[:3] == b"ID3" or len(content) >= 2 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0


def _m4a(content):
    return len(content) > 100


# Category, extension and content check of the MIME types that iOS admits (bitchat specification, section 7.4).
MEDIA = {
    "image/jpeg": ("image", "jpg", _begins(b"\xff\xd8\xff")),
    "image/jpg": ("image", "jpg", _begins(b"\xff\xd8\xff")),
    "image/png": ("image", "png", _begins(b"\x89PNG\r\n\x1a\n")),
    "image/gif": ("image", "gif", _begins(b"GIF87a", b"GIF89a")),
    "image/webp": ("image", "webp", _riff(b"WEBP")),
    "audio/mp4": ("audio", "m4a", _m4a),
    "audio/m4a": ("audio", "m4a", _m4a),
    "audio/aac": ("audio", "m4a", _m4a),
    "audio/mpeg": ("audio", "mp3", _mp3),
    "audio/mp3": ("audio", "mp3", _mp3),
    "audio/wav": ("audio", "wav", _riff(b"WAVE")),
    "audio/x-wav": ("audio", "wav", _riff(b"WAVE")),
    "audio/ogg": ("audio", "ogg", _begins(b"OggS")),
    "application/pdf": ("file", "pdf", _begins(b"%PDF")),
    OCTETS: ("file", "bin", lambda content: True),
}


def ios_refusal(file):
    """Why iOS would not take a file, or None (bitchat specification, sections 7.1 and 7.4)."""
    if not file.content:
        return "malformedPayload"
    media = MEDIA.get((file.mime or "").lower())
    if media is None:
        return "unsupportedMime"
    return None if media[2](file.content) else "magicMismatch"


MAX_NAME = 120


def safe_name(offered, prefix, extension, stamp, taken):
    """The name under which iOS stores a file; `stamp` is yyyyMMdd_HHmmss, `taken` tells whether a name is in use
    (bitchat specification, section 7.4)."""
    name = unicodedata.normalize("NFC", (offered or "").replace("\0", ""))
    name = "".join("_" if each in '/\\<>:"|?*' or unicodedata.category(each) == "Cc" else each for each in name).strip()
    name = name or f"{prefix}_{stamp}"
    if name.startswith("."):
        name = "_" + name
    stem, dot, suffix = name.rpartition(".")
    if dot and suffix:
        stem = stem[: max(1, MAX_NAME - 1 - len(suffix))]
    else:
        # The cut comes before an extension is added, which may then pass the limit.
        stem, suffix = name[:MAX_NAME], extension
    name, number = f"{stem}.{suffix}", 0
    while taken(name):
        number += 1
        name = f"{stem} ({number}).{suffix}"
    return name


# Noise payloads: bitchat specification, section 9.

PRIVATE_MESSAGE, READ, DELIVERED, VOICE = 0x01, 0x02, 0x03, 0x08
VERIFY_CHALLENGE, VERIFY_RESPONSE, PRIVATE_FILE, PEER_STATE = 0x10, 0x11, 0x20, 0x21
PAYLOADS = {
    PRIVATE_MESSAGE,
    READ,
    DELIVERED,
    0x06,
    0x07,
    VOICE,
    VERIFY_CHALLENGE,
    VERIFY_RESPONSE,
    0x12,
    PRIVATE_FILE,
    PEER_STATE,
}
OLD_PRIVATE_FILE = 0x09


def split_payload(plaintext):
    """Type and body of a decrypted payload; None for what is to be ignored."""
    if not plaintext:
        return None
    kind = PRIVATE_FILE if plaintext[0] == OLD_PRIVATE_FILE else plaintext[0]
    return (kind, plaintext[1:]) if kind in PAYLOADS else None


def encode_private_message(message_id, content):
    """Text of more than 255 bytes has no encoding (bitchat specification, section 9.1)."""
    return short_tlv(0, message_id.encode()) + short_tlv(1, content.encode())


def decode_private_message(body):
    """Id and text."""
    fields = {}
    for kind, value in short_tlvs(body):
        if kind > 1:
            raise Malformed(f"a private message with a field {kind}")
        fields[kind] = text(value)
    if len(fields) != 2:
        raise Malformed("a private message without id or text")
    return fields[0], fields[1]


def encode_peer_state(capabilities, signing_key, fragment_limit=None):
    limit = b"" if fragment_limit is None else short_tlv(3, fragment_limit.to_bytes(2, "big"))
    return b"\x01" + short_tlv(1, bits(capabilities)) + short_tlv(2, signing_key) + limit


def fragment_limit(body):
    """How many fragments of a packet the sender of a peer state reassembles, a proposed field; None where it does not say."""
    reader, limits = Reader(body[1:]), []
    while len(reader):
        kind = reader.number(1)
        value = reader.take(reader.number(1))
        if kind == 3:
            limits.append(int.from_bytes(value, "big") if len(value) == 2 else 0)
    return limits[0] if len(limits) == 1 and limits[0] else None


def decode_peer_state(body):
    """Capabilities and Ed25519 key, each exactly once (bitchat specification, section 9.3)."""
    reader, fields = Reader(body), {}
    if reader.number(1) != 1:
        raise Malformed("another version of the peer state")
    while len(reader):
        kind = reader.number(1)
        value = reader.take(reader.number(1))
        if kind in (1, 2):
            if kind in fields:
                raise Malformed(f"the field {kind} twice")
            fields[kind] = value
    if len(fields) != 2 or len(fields[2]) != 32:
        raise Malformed("a peer state without capabilities or key")
    capabilities = int.from_bytes(fields[1], "little")
    if not 1 <= len(fields[1]) <= 8 or bits(capabilities) != fields[1]:
        raise Malformed("capabilities that are not minimal")
    return capabilities, fields[2]


NONCE_LENGTH = 16


def verification_preimage(noise_key, nonce):
    """What a verification response signs (bitchat specification, section 9.4)."""
    name = noise_key.hex().encode()
    return b"bitchat-verify-resp-v1" + bytes([len(name)]) + name + nonce


def encode_verification(noise_key, nonce, signature=None):
    """A challenge, or with a signature a response."""
    data = short_tlv(1, noise_key.hex().encode()) + short_tlv(2, nonce)
    return data if signature is None else data + short_tlv(3, signature)


def decode_verification(body):
    """Noise key, nonce, and the signature of a response."""
    fields = dict(short_tlvs(body))
    try:
        noise_key = bytes.fromhex(text(fields[1]))
        nonce, signature = fields[2], fields.get(3)
    except (KeyError, ValueError):
        raise Malformed("a verification without key or nonce") from None
    if len(noise_key) != 32 or len(nonce) != NONCE_LENGTH or signature is not None and len(signature) != 64:
        raise Malformed("a verification with a field of another size")
    return noise_key, nonce, signature


def verification_qr_preimage(fields):
    """The signed bytes of a verification code; `fields` are the strings of its address."""
    names = ("v", "noise", "sign", "npub", "nick", "ts", "nonce")
    values = ["bitchat-verify-v1", *(fields.get(name) or "" for name in names)]
    return b"".join(bytes([len(value.encode())]) + value.encode() for value in values)


def verification_qr(fields, signature):
    names = ["v", "noise", "sign", "nick", "ts", "nonce"]
    parts = [f"{name}={quote(fields[name], safe='')}" for name in names] + [f"sig={signature.hex()}"]
    if fields.get("npub"):
        parts.append(f"npub={quote(fields['npub'], safe='')}")
    return "bitchat://verify?" + "&".join(parts)


def read_verification_qr(address, now):
    """Fields of a verification code with a valid signature that is at most five minutes old; `now` in seconds."""
    try:
        split = urlsplit(address)
        fields = dict(parse_qsl(split.query, max_num_fields=16))
        if (split.scheme, split.netloc) != ("bitchat", "verify") or fields["v"] != "1":
            raise Malformed("not a verification code")
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(fields["sign"]))
        key.verify(bytes.fromhex(fields["sig"]), verification_qr_preimage(fields))
        if abs(now - int(fields["ts"])) > 300:
            raise Malformed("an old verification code")
    except (KeyError, InvalidSignature, ValueError) as error:
        raise Malformed(f"not a valid verification code: {error}") from None
    return fields


def decode_voice_burst(body):
    """Burst id, sequence, what it is and its frames (bitchat specification, section 9.5)."""
    reader = Reader(body)
    burst, sequence, flags = reader.take(8), reader.number(2), reader.number(1)
    if flags == 0:
        frames = []
        while len(reader):
            frames.append(reader.take(reader.number(2)))
        if not 1 <= len(frames) <= 8 or not all(frames):
            raise Malformed("1 to 8 frames, none of them empty")
        return burst, sequence, "frames", frames
    if flags == 1 and reader.number(1) == 1:
        return burst, sequence, "start", []
    if flags == 2:
        reader.take(6)
        return burst, sequence, "end", []
    if flags == 4:
        return burst, sequence, "cancel", []
    raise Malformed(f"voice flags {flags}")


# Gossip sync: bitchat specification, section 10.

SYNC_ANNOUNCE, SYNC_MESSAGE, SYNC_FRAGMENT, SYNC_FILE = 1 << 0, 1 << 1, 1 << 5, 1 << 7
SYNC_BITS = {ANNOUNCE: SYNC_ANNOUNCE, MESSAGE: SYNC_MESSAGE, FRAGMENT: SYNC_FRAGMENT, FILE_TRANSFER: SYNC_FILE}
MAX_FILTER = 400
MAX_FILTER_READ = 1024
MAX_FRAGMENT_IDS = 60


def filter_value(packet_id, m):
    value = (int.from_bytes(sha256(packet_id)[:8], "big") & (1 << 63) - 1) % m
    return value or 1


def golomb(values, p):
    """Golomb-Rice code of the differences of sorted values."""
    code, before = [], 0
    for value in values:
        quotient, rest = divmod(value - before - 1, 1 << p)
        code.append("1" * quotient + "0" + format(rest, f"0{p}b"))
        before = value
    joined = "".join(code)
    joined += "0" * (-len(joined) % 8)
    return bytes(int(joined[at : at + 8], 2) for at in range(0, len(joined), 8))


@dataclasses.dataclass
class SyncFilter:
    p: int
    m: int
    data: bytes
    included: int = 0

    @classmethod
    def of(cls, ids, rate=0.01, max_bytes=MAX_FILTER):
        """A filter over packet ids, newest first; the oldest are left out if it does not fit."""
        p = max(1, math.ceil(math.log2(1 / rate)))
        count = min(len(ids), 8 * max_bytes // (p + 2))
        if count == 0:
            return cls(p, 1, b"")
        m = count << p
        while True:
            data = golomb(sorted({filter_value(each, m) for each in ids[:count]}), p)
            if len(data) <= max_bytes:
                return cls(p, m, data, count)
            count -= max(1, count // 10)

    def values(self):
        """The set of values; decoding ends with the data, or at a sum of M."""
        code = "".join(format(byte, "08b") for byte in self.data[:MAX_FILTER_READ])
        found, at, total = set(), 0, 0
        while True:
            end = code.find("0", at)
            if end < 0 or end + 1 + self.p > len(code):
                return found
            total += ((end - at) << self.p) + int(code[end + 1 : end + 1 + self.p], 2) + 1
            if total >= self.m:
                return found
            found.add(total)
            at = end + 1 + self.p


def long_tlv(kind, value):
    return struct.pack(">BH", kind, len(value)) + value


@dataclasses.dataclass
class SyncRequest:
    """A request for what its filter lacks; `types` None is announces and messages."""

    filter: SyncFilter
    types: int | None = None
    since: int | None = None
    fragment_ids: str | None = None

    def encode(self):
        data = long_tlv(1, bytes([self.filter.p])) + long_tlv(2, struct.pack(">I", self.filter.m))
        data += long_tlv(3, self.filter.data)
        if self.types is not None:
            data += long_tlv(4, bits(self.types))
        if self.since is not None:
            data += long_tlv(5, struct.pack(">Q", self.since))
        if self.fragment_ids is not None:
            data += long_tlv(6, self.fragment_ids.encode())
        return data

    @classmethod
    def decode(cls, payload):
        reader, fields = Reader(payload), {}
        while len(reader) >= 3:
            kind = reader.number(1)
            fields[kind] = reader.take(reader.number(2))
        sizes_hold = (
            len(fields.get(1, b"")) == 1
            and len(fields.get(2, b"")) == 4
            and len(fields.get(3, bytes(MAX_FILTER_READ + 1))) <= MAX_FILTER_READ
        )
        if not sizes_hold:
            raise Malformed("a sync request without a filter")
        p, m = fields[1][0], int.from_bytes(fields[2], "big")
        if not 1 <= p <= 32 or m == 0:
            raise Malformed(f"a filter with P {p} and M {m}")
        request = cls(SyncFilter(p, m, fields[3]))
        if 4 in fields:
            request.types = int.from_bytes(fields[4][:8], "little")
        if len(fields.get(5, b"")) == 8:
            request.since = int.from_bytes(fields[5], "big")
        if 6 in fields:
            request.fragment_ids = ",".join(text(fields[6]).split(",")[:MAX_FRAGMENT_IDS])
        return request

    def wants(self, packet, known):
        """Whether a stored packet answers the request; `known` are the values of its filter."""
        types = SYNC_ANNOUNCE | SYNC_MESSAGE if self.types is None else self.types
        if not SYNC_BITS.get(packet.type, 0) & types or self.since is not None and packet.timestamp < self.since:
            return False
        return filter_value(gossip_id(packet), self.filter.m) not in known
