"""A peer of another implementation of bitchat: bitchat4agents from PyPI, by an author who knows neither this project nor its
reading of the specification. Its packets, signatures, sessions and payloads are used as they are, on any link instead of its
own Bluetooth. Payloads stay below the 256 bytes at which it compresses them, in a format that no phone reads (RFC 1950)."""

import socket
import time

from bitchat_cli import crypto, noise, protocol
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import bitchat_wire
import harness


class ForeignPeer:
    """A peer of that implementation with one link."""

    def __init__(self, name, link, preamble=b""):
        self.identity = crypto.Identity.generate()
        self.session = None
        self.framer = bitchat_wire.StreamFramer()
        self.packets, self.payloads = [], []
        self.link = link
        if preamble:
            link.sendall(preamble)
            assert link.recv(len(preamble), socket.MSG_WAITALL)[:4] == preamble[:4]
        self.send(protocol.make_announce_packet(self.identity, name))

    def close(self):
        self.link.close()

    def send(self, packet):
        is_noise = packet.packet_type in (protocol.MessageType.NOISE_HANDSHAKE, protocol.MessageType.NOISE_ENCRYPTED)
        self.link.sendall(packet.encode(padding=is_noise))

    def wait_for(self, kind, test=lambda packet: True):
        """Returns the next packet of a type for which the test holds."""
        return self._first(self.packets, lambda packet: packet.packet_type == kind and test(packet))

    def wait_for_payload(self, kind):
        """Returns the content of the next sealed payload of a type."""
        return self._first(self.payloads, lambda payload: payload[0] == kind)[1:]

    def meet(self, name):
        """Waits for the announcement of a peer of that name. Returns its packet and what it says, both checked."""

        def is_its(packet):
            return protocol.Announcement.decode(packet.payload).nickname == name

        packet = self.wait_for(protocol.MessageType.ANNOUNCE, is_its)
        announcement = protocol.Announcement.decode(packet.payload)
        assert packet.verify_signature(announcement.signing_public_key)
        assert packet.sender_id.hex() == crypto.peer_id_from_noise_public_key(announcement.noise_public_key)
        return packet, announcement

    def open_session(self, peer):
        self.peer = peer
        session = noise.NoiseSession(peer_id=peer, role="initiator", local_static_private_key=self.identity.noise_private_key)
        self.send(protocol.make_noise_handshake_packet(self.identity, peer, session.start_handshake()))
        answer = self.wait_for(protocol.MessageType.NOISE_HANDSHAKE)
        last = session.process_handshake_message(answer.payload)
        self.send(protocol.make_noise_handshake_packet(self.identity, peer, last))
        key = session.remote_static_public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)
        assert peer == crypto.peer_id_from_noise_public_key(key)
        self.session = session

    def send_payload(self, payload):
        sealed = self.session.encrypt(payload)
        self.send(protocol.make_noise_encrypted_packet(self.identity, self.peer, sealed))

    def send_private_message(self, message_id, text):
        message = protocol.PrivateMessagePacket(message_id, text).encode()
        self.send_payload(protocol.NoisePayload(protocol.NoisePayloadType.PRIVATE_MESSAGE, message).encode())

    def wait_for_receipt(self):
        """Returns the id of a message that has been delivered."""
        return self.wait_for_payload(protocol.NoisePayloadType.DELIVERED).decode()

    def _first(self, arrived, test):
        deadline = time.monotonic() + harness.TIMEOUT
        while True:
            for each in arrived:
                if test(each):
                    arrived.remove(each)
                    return each
            self.link.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                data = self.link.recv(65536)
            except TimeoutError:
                data = b""
            if not data:
                raise AssertionError(f"it did not come; {len(self.packets)} other packets, payloads {self.payloads}")
            for frame in self.framer.feed(data)[0]:
                self._receive(protocol.Packet.decode(frame))

    def _receive(self, packet):
        is_sealed = packet.packet_type == protocol.MessageType.NOISE_ENCRYPTED
        if is_sealed and self.session and packet.recipient_id.hex() == self.identity.peer_id:
            self.payloads.append(self.session.decrypt(packet.payload))
        else:
            self.packets.append(packet)
