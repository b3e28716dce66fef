"""The second peer of bitchat's mesh with itself: announces, sessions, messages, files and relays over TCP on this
machine."""

import dataclasses
import os
import random
import socket
import time
import unittest

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
except ModuleNotFoundError:
    Ed25519PrivateKey = None
else:
    import bitchat_peer
    import bitchat_wire as wire
    from bitchat_peer import BitchatPeer

PREAMBLE = b"PREAMBLE"


@unittest.skipIf(Ed25519PrivateKey is None, "the second peer of bitchat's mesh needs python3-cryptography")
class BitchatPeers(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get("NEARSHARE_SEED", random.SystemRandom().getrandbits(32)))
        self.random = random.Random(self.seed)

    def _formatMessage(self, message, standard):
        return super()._formatMessage(f"seed {self.seed}: {message}" if message else f"seed {self.seed}", standard)

    def peer(self, nickname, **more):
        peer = BitchatPeer(nickname, seed=(self.seed, nickname), **more)
        self.addCleanup(peer.close)
        return peer

    def link(self, listening, connecting, preamble=b""):
        host, port = listening.listen("127.0.0.1", 0, preamble)
        connecting.connect(host, port, preamble)

    def pair(self, **more):
        anna, ben = self.peer("anna", **more), self.peer("ben", **more)
        self.link(anna, ben)
        self.assertEqual(ben.id, anna.wait_for_peer("ben"))
        self.assertEqual(anna.id, ben.wait_for_peer("anna"))
        return anna, ben

    def test_a_message_is_delivered_and_read(self):
        anna, ben = self.pair()
        sent = anna.send_private_message(ben.id, "päivää 🌍")
        message = ben.wait_for_message()
        self.assertEqual((anna.id, "päivää 🌍", sent), (message["peer"], message["text"], message["message_id"]))
        anna.wait_for_receipt(sent)
        ben.send_read_receipt(anna.id, sent)
        anna.wait_for_receipt(sent, "read")
        for each in (anna, ben):
            self.assertEqual(bitchat_peer.CAPABILITIES, each.wait_for("peer-state")["capabilities"])
            self.assertEqual(1, sum(event["event"] == "session" for event in each.events), each.story())
        self.assertRaises(wire.Malformed, anna.send_private_message, ben.id, "x" * 256)

    def test_messages_stay_in_order_behind_a_file(self):
        anna, ben = self.pair()
        anna.send_private_file(ben.id, "a.bin", wire.OCTETS, self.random.randbytes(5_000))
        texts = [f"message {number}" for number in range(20)]
        for each in texts:
            anna.send_private_message(ben.id, each)
        self.assertEqual(texts, [ben.wait_for_message()["text"] for _ in texts])
        names = [event["event"] for event in ben.events]
        self.assertLess(names.index("file"), names.index("message"))

    def test_a_private_file_of_100_kilobytes(self):
        anna, ben = self.peer("anna"), self.peer("ben")
        self.link(anna, ben, PREAMBLE)
        content = self.random.randbytes(100_000)
        name = "img_0A1B2C3D-0000-4000-8000-0123456789AB.jpg"
        transfer = anna.send_private_file(anna.wait_for_peer("ben"), name, "image/jpeg", content)
        file = ben.wait_for_file()
        self.assertEqual((anna.id, name, "image/jpeg", True), (file["peer"], file["name"], file["mime"], file["private"]))
        self.assertEqual(content, file["content"])
        ended = anna.wait_for("file-sent")
        self.assertEqual((transfer, ended["total"]), (ended["transfer"], ended["sent"]))
        self.assertLess(100_000 // wire.CHUNK, ended["total"])
        anna.wait_for_receipt(wire.private_media_id(anna.own_id, ben.own_id, name))

    def test_a_cancelled_file_stops_and_what_follows_is_sent(self):
        anna, ben = self.pair()
        transfer = anna.send_private_file(ben.id, "a.bin", wire.OCTETS, self.random.randbytes(100_000))
        anna.wait_for("file-started")
        anna.cancel_file(transfer)
        ended = anna.wait_for("file-cancelled")
        self.assertLess(ended["sent"], ended["total"])
        anna.send_private_message(ben.id, "never mind")
        self.assertEqual("never mind", ben.wait_for_message()["text"])
        self.assertNotIn("file", [event["event"] for event in ben.events])

    def test_a_message_and_a_file_through_a_third(self):
        anna, rita, ben = self.peer("anna"), self.peer("rita"), self.peer("ben")
        self.link(rita, anna)
        self.link(rita, ben)
        target = anna.wait_for_peer("ben")
        ben.wait_for_peer("anna")
        sent = anna.send_private_message(target, "through rita")
        self.assertEqual("through rita", ben.wait_for_message()["text"])
        anna.wait_for_receipt(sent)
        content = self.random.randbytes(5_000)
        anna.send_private_file(target, "a.bin", wire.OCTETS, content)
        self.assertEqual(content, ben.wait_for_file()["content"])
        self.assertEqual([rita.id], [link.neighbour.hex() for link in anna.links])
        self.assertFalse({"message", "file", "session"} & {event["event"] for event in rita.events}, rita.story())

    def test_a_ring_relays_each_packet_once(self):
        names = ["anna", "ben", "cleo", "dora"]
        peers = [self.peer(name) for name in names]
        for one, other in zip(peers, peers[1:] + peers[:1], strict=True):
            self.link(one, other)
        for each in peers:
            for name in names:
                if name != each.nickname:
                    each.wait_for_peer(name)
        peers[0].send_public_message("to all")
        peers[0].send_public_file("a.bin", self.random.randbytes(2_000))
        for each in peers[1:]:
            self.assertEqual("to all", each.wait_for("public-message")["text"])
            each.wait_for_file()
        # Both ways around the ring, and no peer tells the same twice.
        peers[2].send_public_message("back")
        for each in (peers[0], peers[1], peers[3]):
            each.wait_for("public-message", lambda event: event["text"] == "back")
            told = [event["text"] for event in each.events if event["event"] == "public-message"]
            self.assertEqual(len(set(told)), len(told))
            self.assertLessEqual(sum(event["event"] == "file" for event in each.events), 1)

    def test_a_source_route(self):
        anna, rita, ben = self.peer("anna"), self.peer("rita"), self.peer("ben")
        self.link(rita, anna)
        self.link(rita, ben)
        anna.wait_for_peer("ben")
        ben.wait_for_peer("anna")
        routes = {"direct": [rita.own_id], "onward": [rita.own_id, ben.own_id], "unknown hop": [b"\x01" * 8]}
        for name, route in routes.items():
            packet = anna._packet(wire.FILE_TRANSFER, wire.File(b"x", name, wire.OCTETS).encode(), ben.own_id, 2, signed=False)
            packet.route = route
            anna.send_frame(wire.encode(wire.sign(packet, anna.signing)))
            self.assertEqual(name, ben.wait_for_file()["name"])
        packet.route = [rita.own_id, rita.own_id]
        self.assertEqual([], rita._next_hop(packet))

    def test_simultaneous_handshakes(self):
        anna, ben = self.pair()
        # Neither reads while both write, so the two first messages cross.
        with anna._changed, ben._changed:
            anna.handshake(ben.id)
            ben.handshake(anna.id)
        lower, higher = sorted((anna, ben), key=lambda each: each.own_id)
        self.assertTrue(lower.wait_for("session")["initiator"])
        self.assertFalse(higher.wait_for("session")["initiator"])
        anna.wait_for_receipt(anna.send_private_message(ben.id, "one"))
        ben.wait_for_receipt(ben.send_private_message(anna.id, "two"))

    def test_a_new_handshake_replaces_a_session(self):
        anna, ben = self.pair()
        for round, (one, other) in enumerate([(anna, ben), (anna, ben), (ben, anna)]):
            one.handshake(other.id)
            self.assertTrue(one.wait_for("session")["initiator"])
            self.assertFalse(other.wait_for("session")["initiator"])
            one.wait_for_receipt(one.send_private_message(other.id, f"round {round}"))
            other.wait_for_receipt(other.send_private_message(one.id, f"answer {round}"))

    def test_a_peer_that_returns_without_its_session(self):
        anna, ben = self.pair()
        anna.wait_for_receipt(anna.send_private_message(ben.id, "before"))
        ben.close(leave=False)
        anna.wait_for("link-closed")
        again = self.peer("ben")
        self.link(anna, again)
        again.wait_for_peer("anna")
        # Encrypted for the session that is gone: the answer is a new handshake.
        anna.send_private_message(again.id, "lost")
        anna.wait_for("session", lambda event: not event["initiator"])
        anna.wait_for_receipt(anna.send_private_message(again.id, "after"))

    def test_a_file_for_a_peer_without_file_support(self):
        anna, ben = self.peer("anna"), self.peer("ben", capabilities=0)
        self.link(anna, ben)
        anna.send_private_file(anna.wait_for_peer("ben"), "a.bin", wire.OCTETS, b"x")
        self.assertIn("did not prove", anna.wait_for("file-failed")["reason"])

    def test_a_file_too_large_for_android(self):
        anna, ben = self.peer("anna"), self.peer("ben", capabilities=bitchat_peer.ANDROID_CAPABILITIES)
        self.link(anna, ben)
        anna.send_private_file(anna.wait_for_peer("ben"), "a.bin", wire.OCTETS, self.random.randbytes(120_000))
        self.assertIn("256", anna.wait_for("file-failed")["reason"])

    def test_verification(self):
        anna, ben = self.pair()
        anna.verify(ben.id)
        self.assertEqual(ben.id, anna.wait_for("verified")["peer"])

    def test_a_late_peer_requests_missed_messages(self):
        anna, rita = self.peer("anna"), self.peer("rita")
        self.link(rita, anna)
        anna.wait_for_peer("rita")
        rita.wait_for_peer("anna")
        anna.send_public_message("early")
        rita.wait_for("public-message")
        # Without a farewell, which rita would relay to ben: he would forget anna before he reads her message.
        anna.close(leave=False)
        ben = self.peer("ben")
        self.link(rita, ben)
        rita.wait_for_peer("ben")
        ben.request_sync(ben.wait_for_peer("rita"))
        self.assertEqual("early", ben.wait_for("public-message")["text"])

    def test_an_unknown_preamble_is_rejected(self):
        anna, ben = self.peer("anna"), self.peer("ben")
        host, port = anna.listen("127.0.0.1", 0, PREAMBLE)
        ben.connect(host, port, b"preamble")
        anna.wait_for("preamble-refused")
        ben.wait_for("preamble-refused")
        self.assertEqual([], anna.links)

    def test_malformed_input_is_rejected(self):
        anna, ben = self.pair()
        for change in (
            {"timestamp": int(time.time() * 1000) - 121_000},
            {"signature": bytes(64)},
            {"signature": None},
            {"sender": anna.own_id},
            {"is_rsr": True},
        ):
            forged = dataclasses.replace(ben._packet(wire.MESSAGE, b"forged"), **change)
            ben.send_frame(wire.encode(forged))
        other = BitchatPeer("ben", seed=self.seed)
        self.addCleanup(other.close)
        announce = wire.Announce("eve", ben.noise_key, other.signing_key).encode()
        packet = dataclasses.replace(ben._packet(wire.ANNOUNCE, announce, signed=False), signature=None)
        ben.send_frame(wire.encode(wire.sign(packet, other.signing)))
        ben.send_frame(wire.encode(other._packet(wire.ANNOUNCE, announce)))
        self.assertEqual(
            {"anotherSigningKey", "senderMismatch"}, {anna.wait_for("announce-refused")["reason"] for _ in range(2)}
        )
        # Garbage before a frame is skipped; a length beyond every limit drops what was read so far.
        ben.send_frame(b"\0\xff\x07")
        ben.send_public_message("true")
        self.assertEqual("true", anna.wait_for("public-message")["text"])
        ben.send_frame(b"\x02" + bytes(11) + b"\xff" * 4)
        anna.wait_for("stream-reset")
        ben.send_public_message("still true")
        self.assertEqual("still true", anna.wait_for("public-message")["text"])

    def test_fragments_within_fragments_and_of_too_many_bytes(self):
        anna, ben = self.pair()
        inner = ben._packet(wire.MESSAGE, self.random.randbytes(2_000))
        nested = wire.cut(inner, wire.encode(inner), bytes(8))[0]
        for piece in wire.cut(nested, wire.encode(nested), b"\x01" * 8, chunk=100):
            ben.send_frame(wire.encode(piece))
        self.assertIn("within", anna.wait_for("malformed")["reason"])
        head = b"\x02" * 8 + b"%b\x00\x14" + bytes([wire.MESSAGE])
        for index in range(17):
            payload = head % index.to_bytes(2, "big") + bytes(65_000)
            ben.send_frame(wire.encode(ben._packet(wire.FRAGMENT, payload, version=2, signed=False)))
        self.assertEqual("oversized", anna.wait_for("fragment-refused")["reason"])

    def test_as_many_fragments_as_ios_sends(self):
        content = self.random.randbytes(wire.MAX_FILE)
        packet = wire.Packet(wire.NOISE_ENCRYPTED, b"\x01" * 8, 1, content, version=2, recipient=b"\x02" * 8)
        frame, assembler = wire.link_frame(packet), wire.Assembler()
        pieces = wire.cut(packet, frame, bytes(8), chunk=-(-len(frame) // wire.MAX_FRAGMENTS))
        self.assertGreater(len(pieces), 9_900)
        self.random.shuffle(pieces)
        for number, piece in enumerate(pieces):
            # Longer in all than a set may be without any news.
            verdict, joined = assembler.add(piece.sender, piece.payload, number * 0.02)
        self.assertEqual(("complete", frame), (verdict, joined))
        self.assertRaises(wire.Malformed, wire.cut, packet, frame, bytes(8), 100)

    def test_incomplete_fragment_sets_are_dropped(self):
        assembler = wire.Assembler()
        for number in range(wire.MAX_SETS + 10):
            assembler.add(b"\x01" * 8, number.to_bytes(8, "big") + b"\0\0\0\x02\x02x", 0)
        self.assertEqual(wire.MAX_SETS, len(assembler.sets))
        assembler.add(b"\x01" * 8, bytes(8) + b"\0\0\0\x02\x02x", wire.SET_LIFETIME + 1)
        self.assertEqual(1, len(assembler.sets))

    def test_changed_bytes_are_decoded_or_rejected(self):
        key = Ed25519PrivateKey.generate()
        packet = wire.Packet(
            wire.MESSAGE, b"\x01" * 8, 1, b"deflated " * 20, version=2, recipient=b"\x02" * 8, route=[b"\x03" * 8]
        )
        decoders = [
            (wire.decode, wire.encode(wire.sign(packet, key), padded=True)),
            (wire.decode_reassembled, wire.encode(packet)),
            (lambda data: wire.StreamFramer().feed(data), wire.encode(packet)),
            (wire.Announce.decode, wire.Announce("anna", bytes(32), bytes(32), [bytes(8)], 0x329, "u4pr").encode()),
            (wire.File.decode, wire.File(b"content", "a.bin", wire.OCTETS).encode()),
            (wire.decode_private_message, wire.encode_private_message("id", "text")),
            (wire.decode_peer_state, wire.encode_peer_state(0x329, bytes(32))),
            (wire.decode_verification, wire.encode_verification(bytes(32), bytes(16), bytes(64))),
            (wire.decode_voice_burst, bytes(10) + b"\0\0\x01x\0\x01y"),
            (wire.SyncRequest.decode, wire.SyncRequest(wire.SyncFilter.of([bytes(16)]), 3, 9, "ab,cd").encode()),
            (lambda data: wire.SyncFilter(7, 1 << 40, data).values(), bytes(range(256))),
            (lambda data: wire.Assembler().add(bytes(8), data, 0), bytes(8) + b"\0\0\0\x02\x02x"),
        ]
        for number, (decoder, valid) in enumerate(decoders):
            decoder(valid)
            for _ in range(1_000):
                data = bytearray(valid)
                for _ in range(self.random.randint(1, 3)):
                    any_byte = self.random.randrange(256)
                    data[self.random.randrange(len(data))] = self.random.choice([0, 1, 2, 0x7F, 0xFF, any_byte])
                data = bytes(data[: self.random.randint(0, len(data))] if self.random.random() < 0.3 else data)
                try:
                    decoder(data)
                except wire.Malformed:
                    pass
                except Exception as error:
                    self.fail(f"decoder {number}: {data.hex()}: {error!r}")

    def test_a_frame_may_arrive_byte_by_byte(self):
        anna = self.peer("anna")
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        anna.attach(theirs)
        ben = self.peer("ben")
        frame = wire.encode(ben._packet(wire.ANNOUNCE, wire.Announce("ben", ben.noise_key, ben.signing_key).encode()))
        for byte in frame:
            ours.sendall(bytes([byte]))
        self.assertEqual(ben.id, anna.wait_for_peer("ben"))


if __name__ == "__main__":
    unittest.main()
