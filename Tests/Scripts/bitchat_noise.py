"""The Noise part of bitchat, written from the bitchat specification, section 8, and the Noise specification."""

import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from bitchat_wire import Malformed, Reader, public_bytes, sha256

XX = b"Noise_XX_25519_ChaChaPoly_SHA256"
X = b"Noise_X_25519_ChaChaPoly_SHA256"
COURIER_PROLOGUE = b"bitchat-courier-v1"
KEY, TAG = 32, 16
FIRST_LENGTH, SECOND_LENGTH, THIRD_LENGTH = 32, 96, 64
MAX_COUNTER = 0xFFFF_FFFE
WINDOW = 1024


class NoiseError(Malformed):
    """A message that does not belong to the handshake or session it was given to."""


def hkdf(chain, material, count=2):
    """HKDF as Noise has it: `count` keys of 32 bytes."""
    secret = hmac.digest(chain, material, "sha256")
    keys, block = [], b""
    for number in range(1, count + 1):
        block = hmac.digest(secret, block + bytes([number]), "sha256")
        keys.append(block)
    return keys


def agree(private, public):
    """X25519. A key of all zeros, all ones or low order is refused (bitchat specification, section 8.1)."""
    if len(public) != KEY or public in (bytes(KEY), b"\xff" * KEY):
        raise NoiseError("not a public key")
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise NoiseError("a public key of low order") from None


def nonce(counter):
    """Four zero bytes and the counter, little-endian."""
    return bytes(4) + struct.pack("<Q", counter)


class SymmetricState:
    """Hash, chaining key and cipher of a handshake."""

    def __init__(self, name, prologue=b""):
        self.hash = name.ljust(32, b"\0")
        self.chain, self.key, self.counter = self.hash, None, 0
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.hash = sha256(self.hash, data)

    def mix_key(self, material):
        self.chain, self.key = hkdf(self.chain, material)
        self.counter = 0

    def seal(self, plain):
        sealed = plain
        if self.key is not None:
            sealed = ChaCha20Poly1305(self.key).encrypt(nonce(self.counter), plain, self.hash)
            self.counter += 1
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed):
        plain = sealed
        if self.key is not None:
            if len(sealed) < TAG:
                raise NoiseError("shorter than a tag")
            try:
                plain = ChaCha20Poly1305(self.key).decrypt(nonce(self.counter), sealed, self.hash)
            except InvalidTag:
                raise NoiseError("not sealed with this key") from None
            self.counter += 1
        self.mix_hash(sealed)
        return plain

    def split(self):
        return hkdf(self.chain, b"")


class Handshake:
    """Noise XX with empty payloads and an empty prologue. The initiator calls write_first, read_second, write_third;
    the responder read_first, write_second, read_third. Then `session` gives the transport."""

    def __init__(self, is_initiator, static, ephemeral=None):
        self.is_initiator, self.static = is_initiator, static
        self.ephemeral = ephemeral or X25519PrivateKey.generate()
        self.state = SymmetricState(XX)
        self.their_ephemeral = self.their_static = None

    def _mix_agreement(self, private, public):
        self.state.mix_key(agree(private, public))

    def write_first(self):
        self.state.mix_hash(public_bytes(self.ephemeral))
        return public_bytes(self.ephemeral) + self.state.seal(b"")

    def read_first(self, message):
        self._read_ephemeral(message[:KEY])
        # Before a key is agreed on, a payload is in the clear; it is accepted and not looked at.
        self.state.open(message[KEY:])

    def _read_ephemeral(self, public):
        # Agreeing with a key of ours finds a key of low order before an answer is sent.
        agree(self.ephemeral, public)
        self.their_ephemeral = public
        self.state.mix_hash(public)

    def write_second(self):
        self.state.mix_hash(public_bytes(self.ephemeral))
        self._mix_agreement(self.ephemeral, self.their_ephemeral)
        static = self.state.seal(public_bytes(self.static))
        self._mix_agreement(self.static, self.their_ephemeral)
        return public_bytes(self.ephemeral) + static + self.state.seal(b"")

    def read_second(self, message):
        if len(message) != SECOND_LENGTH:
            raise NoiseError(f"a second message of {len(message)} bytes")
        reader = Reader(message)
        self._read_ephemeral(reader.take(KEY))
        self._mix_agreement(self.ephemeral, self.their_ephemeral)
        self.their_static = self.state.open(reader.take(KEY + TAG))
        self._mix_agreement(self.ephemeral, self.their_static)
        self.state.open(reader.take(TAG))

    def write_third(self):
        static = self.state.seal(public_bytes(self.static))
        self._mix_agreement(self.static, self.their_ephemeral)
        return static + self.state.seal(b"")

    def read_third(self, message):
        if len(message) != THIRD_LENGTH:
            raise NoiseError(f"a third message of {len(message)} bytes")
        reader = Reader(message)
        self.their_static = self.state.open(reader.take(KEY + TAG))
        self._mix_agreement(self.ephemeral, self.their_static)
        self.state.open(reader.take(TAG))

    @property
    def hash(self):
        return self.state.hash

    def session(self):
        first, second = self.state.split()
        return Session(first, second, self.their_static) if self.is_initiator else Session(second, first, self.their_static)


class Session:
    """Transport after a handshake (bitchat specification, section 8.3). Frames are to be sent in the order in which
    they were sealed. The replay window is a correct one, unlike that of both platforms."""

    def __init__(self, send_key, receive_key, their_static=None):
        self.send_cipher, self.receive_cipher = ChaCha20Poly1305(send_key), ChaCha20Poly1305(receive_key)
        self.their_static = their_static
        self.sent = 0
        self.highest, self.seen = -1, 0

    def seal(self, plain):
        if self.sent > MAX_COUNTER:
            raise NoiseError("the counter is used up: a new handshake is needed")
        counter, self.sent = self.sent, self.sent + 1
        return struct.pack(">I", counter) + self.send_cipher.encrypt(nonce(counter), plain, None)

    def open(self, message):
        if len(message) < 4 + TAG:
            raise NoiseError("shorter than a counter and a tag")
        counter = int.from_bytes(message[:4], "big")
        behind = self.highest - counter
        if counter > MAX_COUNTER or behind >= WINDOW or behind >= 0 and self.seen >> behind & 1:
            raise NoiseError(f"the counter {counter} again, or too late")
        try:
            plain = self.receive_cipher.decrypt(nonce(counter), message[4:], None)
        except InvalidTag:
            raise NoiseError("not sealed with this key") from None
        # Only what is authentic moves the window.
        if behind < 0:
            self.seen = (self.seen << -behind | 1) & (1 << WINDOW) - 1 if -behind < WINDOW else 1
            self.highest = counter
        else:
            self.seen |= 1 << behind
        return plain


def seal_one_way(payload, static, recipient_public, ephemeral=None, prologue=COURIER_PROLOGUE):
    """One message of Noise X, as courier envelopes hold it (bitchat specification, section 8.4)."""
    ephemeral = ephemeral or X25519PrivateKey.generate()
    state = SymmetricState(X, prologue)
    state.mix_hash(recipient_public)
    state.mix_hash(public_bytes(ephemeral))
    state.mix_key(agree(ephemeral, recipient_public))
    sealed = state.seal(public_bytes(static))
    state.mix_key(agree(static, recipient_public))
    return public_bytes(ephemeral) + sealed + state.seal(payload)


def open_one_way(message, static, prologue=COURIER_PROLOGUE):
    """Payload of a message of Noise X and the static key of who sealed it."""
    reader = Reader(message)
    state = SymmetricState(X, prologue)
    state.mix_hash(public_bytes(static))
    ephemeral = reader.take(KEY)
    state.mix_hash(ephemeral)
    state.mix_key(agree(static, ephemeral))
    sender = state.open(reader.take(KEY + TAG))
    state.mix_key(agree(static, sender))
    return state.open(reader.take(len(reader))), sender
