"""The second peer of bitchat's mesh against vectors made by bitchat's own code. They are not part of this repository:
NEARSHARE_VECTORS names their folder, or they are in ../shared/bitchat/vectors beside the checkout. Without them the
tests are skipped, and say so."""

import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    import bitchat_noise
    import bitchat_wire as wire
except ImportError:
    wire = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VECTORS = pathlib.Path(os.environ.get("NEARSHARE_VECTORS", ROOT.parent / "shared/bitchat/vectors"))
# A folder that was named must hold them.
FOUND = "NEARSHARE_VECTORS" in os.environ or (VECTORS / "packets.json").is_file()


def unhex(value):
    return None if value is None else bytes.fromhex(value)


def generate(source):
    """The bytes that a vector describes instead of holding them."""
    if "hex" in source:
        return bytes.fromhex(source["hex"])
    if source["kind"] == "lcg32":
        state, made = source["seed"], bytearray()
        for _ in range(source["length"]):
            state = (state * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
            made.append(state >> 24)
        return bytes(made)
    if source["kind"] == "repeat":
        unit = source["unit_utf8"].encode()
        return (unit * (source["length"] // len(unit) + 1))[: source["length"]]
    raise AssertionError(f"a payload of kind {source['kind']}")


def x25519(value):
    return X25519PrivateKey.from_private_bytes(unhex(value))


class VectorFolder(unittest.TestCase):
    @unittest.skipIf(wire is None, "the second peer of bitchat's mesh needs python3-cryptography")
    def test_a_mistyped_folder_fails_instead_of_being_skipped(self):
        result = subprocess.run(
            [sys.executable, "-m", "unittest", f"{pathlib.Path(__file__).stem}.BitchatVectors.test_noise_transport"],
            cwd=pathlib.Path(__file__).parent,
            env=os.environ | {"NEARSHARE_VECTORS": "/nonexistent"},
            capture_output=True,
            text=True,
        )
        self.assertEqual(1, result.returncode, result.stderr)
        self.assertIn("/nonexistent/noise_transport.json", result.stderr)


@unittest.skipIf(wire is None, "the second peer of bitchat's mesh needs python3-cryptography")
@unittest.skipUnless(FOUND, f"no bitchat vectors in {VECTORS}: name their folder in NEARSHARE_VECTORS")
class BitchatVectors(unittest.TestCase):
    def setUp(self):
        self.items, self.current = 0, None

    def file(self, name):
        document = json.loads((VECTORS / f"{name}.json").read_text())
        self.addCleanup(self.report, name)
        return document

    def report(self, name):
        stopped = f", stopped at {self.current}" if self.current else ""
        print(f"\nbitchat vectors: {name}: {self.items} items checked{stopped}", flush=True)

    def each(self, vectors, what="vectors"):
        self.assertTrue(vectors, f"nothing under {what}")
        for number, vector in enumerate(vectors):
            self.current = f"{what} {vector.get('id', number)} ({vector.get('note')})"
            yield vector
            self.items += 1
        self.current = None

    def _formatMessage(self, message, standard):
        return super()._formatMessage(f"{self.current}: {message}" if self.current else message, standard)

    def same(self, blob, data):
        """Compares bytes with an inline value, or with the length and digest of a long one."""
        self.assertEqual(blob["length"], len(data))
        if "hex" in blob:
            self.assertEqual(blob["hex"], data.hex())
        else:
            self.assertEqual(blob["sha256"], hashlib.sha256(data).hexdigest())

    def packet(self, fields, content=None):
        payload = fields["payload"]
        if payload.get("kind") == "file_tlv" and "hex" not in payload:
            made = wire.File(generate(content), content["file_name"], content["mime_type"]).encode()
            self.same(payload, made)
        else:
            made = generate(payload)
        route = fields["route_hex"]
        return wire.Packet(
            fields["type"],
            unhex(fields["sender_id_hex"]),
            int(fields["timestamp_ms"]),
            made,
            fields["ttl"],
            fields["version"],
            unhex(fields["recipient_id_hex"]),
            None if route is None else [unhex(hop) for hop in route],
            unhex(fields["signature_hex"]),
            fields["is_rsr"],
        )

    def same_packet(self, fields, packet):
        for name in ("type", "ttl", "version", "is_rsr"):
            self.assertEqual(fields[name], getattr(packet, name), name)
        self.assertEqual(int(fields["timestamp_ms"]), packet.timestamp)
        self.assertEqual(unhex(fields["sender_id_hex"]), packet.sender)
        self.assertEqual(unhex(fields["recipient_id_hex"]), packet.recipient)
        self.assertEqual(unhex(fields["signature_hex"]), packet.signature)
        self.assertEqual([unhex(hop) for hop in fields["route_hex"] or []], packet.route or [])
        payload = fields["payload"]
        self.assertEqual(payload["length"], len(packet.payload))
        self.assertEqual(
            payload.get("sha256") or hashlib.sha256(unhex(payload["hex"])).hexdigest(),
            hashlib.sha256(packet.payload).hexdigest(),
        )

    def verdict(self, vector, decode):
        """Decodes; what both platforms refuse is to be refused, what both accept accepted. Either is tolerable where
        they differ, so then a refusal gives None."""
        try:
            decoded = decode()
        except wire.Malformed:
            self.assertNotEqual("must_accept", vector.get("consensus"))
            if "consensus" not in vector:
                self.assertTrue(vector["decode_fails"])
            return None
        self.assertNotEqual("must_reject", vector.get("consensus"))
        # Where only one platform accepts, there is nothing to compare with unless it is the one whose answer is told.
        return None if vector["decode_fails"] else decoded

    def test_packets(self):
        document = self.file("packets")
        self.assertEqual(document["max_payload_length_accepted_by_ios"], wire.MAX_PAYLOAD)
        for vector in self.each(document["vectors"]):
            packet = self.packet(vector["packet"])
            if vector.get("encode_fails"):
                self.assertRaises(wire.Malformed, wire.encode, packet)
                continue
            frame = wire.encode(packet)
            self.same(vector["encoded_unpadded"], frame)
            self.same(vector["encoded_padded"], wire.encode(packet, padded=True))
            self.same(vector["signing_preimage"], wire.signing_preimage(packet))
            self.assertEqual(vector["flags_byte"], frame[11])
            self.assertEqual(vector["compressed"], bool(frame[11] & wire.IS_COMPRESSED))
            self.assertEqual(vector["ble_frame_is_padded"], packet.type in wire.PADDED_TYPES)
            if vector.get("decode_fails"):
                self.assertRaises(wire.Malformed, wire.decode, frame)
                continue
            for form in (frame, wire.encode(packet, padded=True)):
                self.same_packet(vector.get("decoded") or vector["packet"], wire.decode(form))
            self.assertEqual(len(frame), wire.frame_length(frame))

    def test_padding(self):
        document = self.file("padding")
        for vector in self.each(document["vectors"]):
            data = generate(vector["input"])
            padded = wire.pad(data)
            self.assertEqual(vector["target_block"], wire.padding_target(len(data)))
            self.assertEqual(vector["padded_length"], len(padded))
            self.assertEqual(vector["padded_sha256"], hashlib.sha256(padded).hexdigest())
            self.assertEqual(vector["pad_byte"], padded[-1] if len(padded) > len(data) else None)
            self.assertEqual(vector["unpad_restores"], wire.unpad(padded) == data)
        for vector in self.each(document["unpad_cases"], "unpad_cases"):
            self.assertEqual(vector["output_hex"], wire.unpad(unhex(vector["input_hex"])).hex())

    def test_compression(self):
        document = self.file("compression")
        for vector in self.each(document["vectors"]):
            payload = generate(vector["payload"])
            self.assertEqual(vector["distinct_byte_values"], len(set(payload)))
            self.assertEqual(vector["should_attempt_compression"], wire.should_compress(payload))
            frame = wire.encode(wire.Packet(wire.MESSAGE, bytes(8), 0, payload, version=2))
            self.assertEqual(vector["oracle_compresses"], bool(frame[11] & wire.IS_COMPRESSED))
        for vector in self.each(document["compressed_packets"], "compressed_packets"):
            packet = self.packet(vector["packet"])
            self.same_packet(vector["packet"], wire.decode(wire.encode(packet)))
            for encoding in vector["accepted_encodings"]:
                frame = encoding["encoded_unpadded"]
                if "hex" in frame:
                    self.same_packet(vector["packet"], wire.decode(unhex(frame["hex"])))
                self.same(frame, wire.encode(packet, level=encoding["deflate_level"]))
        for vector in self.each(document["other"], "other"):
            # Told in words only.
            self.assertIn("v1 compressible payload of 70000 bytes", vector["note"])
            self.assertTrue(vector["encode_fails"])
            self.assertRaises(wire.Malformed, wire.encode, wire.Packet(wire.MESSAGE, bytes(8), 0, b"a" * 70_000))

    def test_signing(self):
        for vector in self.each(self.file("signing")["vectors"]):
            packet, signer = self.packet(vector["packet"]), vector["signer"]
            public, signature = unhex(signer["ed25519_public_hex"]), unhex(vector["signature_hex"])
            key = Ed25519PrivateKey.from_private_bytes(unhex(signer["ed25519_seed_hex"]))
            preimage = wire.signing_preimage(packet)
            if not vector["preimage_contains_deflate"]:
                self.same(vector["preimage"], preimage)
                self.assertEqual(vector["preimage_is_padded"], len(preimage) > len(wire.encode(packet)))
            signed = dataclasses.replace(packet, signature=signature)
            self.assertTrue(wire.is_signed_by(wire.sign(packet, key), public))
            if "hex" in vector["signed_frame_unpadded"]:
                received = wire.decode(unhex(vector["signed_frame_unpadded"]["hex"]))
                self.assertTrue(wire.is_signed_by(received, public))
                self.assertEqual(signature, received.signature)
            if not vector["preimage_contains_deflate"]:
                self.same(vector["signed_frame_unpadded"], wire.encode(signed))
            for change, expected in vector["verification"].items():
                changed, checker = self.changed(signed, change, public)
                self.assertEqual(expected, wire.is_signed_by(changed, checker), change)

    @staticmethod
    def changed(packet, change, public):
        """A signed packet after what a vector calls `change`, and the key it is checked with."""
        flipped = bytes([packet.payload[0] ^ 1]) + packet.payload[1:] if packet.payload else b""
        changes = {
            "unchanged": {},
            "payload_bit_flipped": {"payload": flipped},
            "recipient_removed_or_added": {"recipient": None if packet.recipient else b"\x01" * 8},
            "route_changed": {"route": [b"\x02" * 8]},
            "rsr_flag_toggled": {"is_rsr": not packet.is_rsr},
            "sender_changed": {"sender": b"\x03" * 8},
            "signature_bit_flipped": {"signature": bytes([packet.signature[0] ^ 1]) + packet.signature[1:]},
            "timestamp_plus_1": {"timestamp": packet.timestamp + 1},
            "ttl_changed_to_0": {"ttl": 0},
            "ttl_changed_to_255": {"ttl": 255},
            "type_changed": {"type": packet.type ^ 1},
            "version_switched": {"version": 3 - packet.version},
            "wrong_key": {},
        }
        other = wire.public_bytes(Ed25519PrivateKey.from_private_bytes(b"\x04" * 32))
        return dataclasses.replace(packet, **changes[change]), other if change == "wrong_key" else public

    def test_malformed(self):
        for vector in self.each(self.file("malformed")["vectors"]):
            packet = self.verdict(vector, lambda vector=vector: wire.decode(generate(vector["input"])))
            if packet is not None:
                self.same_packet(vector["decoded"], packet)

    def same_announce(self, fields, announce):
        self.assertEqual(fields["nickname"], announce.nickname)
        self.assertEqual(unhex(fields["noise_public_hex"]), announce.noise_key)
        self.assertEqual(unhex(fields["ed25519_public_hex"]), announce.signing_key)
        self.assertEqual(fields["bridge_geohash"], announce.geohash)
        capabilities = fields["capabilities"]
        self.assertEqual(None if capabilities is None else int(capabilities), announce.capabilities)
        neighbours = fields["neighbors_hex"]
        self.assertEqual(None if neighbours is None else [unhex(each) for each in neighbours], announce.neighbours)

    def test_announce(self):
        document = self.file("announce")
        identity = document["identity"]
        self.assertEqual(identity["peer_id_hex"], wire.peer_id(unhex(identity["noise_public_hex"])).hex())
        for vector in self.each(document["vectors"]):
            fields = vector["fields"]
            neighbours, capabilities = fields["neighbors_hex"], fields["capabilities"]
            announce = wire.Announce(
                fields["nickname"],
                unhex(fields["noise_public_hex"]),
                unhex(fields["ed25519_public_hex"]),
                None if neighbours is None else [unhex(each) for each in neighbours],
                None if capabilities is None else int(capabilities),
                fields["bridge_geohash"],
            )
            if vector.get("encode_fails"):
                self.assertRaises(wire.Malformed, announce.encode)
                continue
            payload = announce.encode()
            self.same(vector["encoded"], payload)
            self.same_announce(vector["decoded"], wire.Announce.decode(payload))
            if vector.get("signed_frame"):
                packet = wire.decode(unhex(vector["signed_frame"]["hex"]))
                self.assertEqual(payload, packet.payload)
                self.assertTrue(wire.is_signed_by(packet, announce.signing_key))
        for vector in self.each(document["decode_cases"], "decode_cases"):
            announce = self.verdict(vector, lambda vector=vector: wire.Announce.decode(unhex(vector["input_hex"])))
            if announce is not None:
                self.same_announce(vector["decoded"], announce)
        for vector in self.each(document["preflight"], "preflight"):
            announce = wire.Announce.decode(unhex(vector["payload_hex"]))
            own = unhex(identity["peer_id_hex"]) if vector["note"] == "own announce" else bytes(8)
            refusal = wire.announce_refusal(
                announce, unhex(vector["sender_hex"]), int(vector["timestamp_ms"]), own, int(vector["now_ms"])
            )
            self.assertEqual(vector["verdict"], f"reject {refusal}" if refusal else "accept")

    def test_fragments(self):
        document = self.file("fragments")
        natural = {}
        for vector in self.each(document["vectors"]):
            packet = self.packet(vector["packet"], vector.get("content"))
            frame = wire.link_frame(packet)
            natural[vector["id"]] = dataclasses.replace(packet, is_rsr=False)
            self.same(vector["frame"], frame)
            self.assertEqual(vector["frame_padded"], packet.type in wire.PADDED_TYPES)
            if "link" not in vector["note"]:
                self.assertEqual(vector["chunk_size"], wire.ios_chunk(packet))
            pieces = wire.cut(packet, frame, unhex(vector["fragment_id_hex"]), vector["chunk_size"])
            cut = [wire.encode(piece) for piece in pieces]
            self.assertEqual(vector["total"], len(cut))
            self.assertEqual(sorted(vector["fragment_frame_lengths"]), sorted({len(each) for each in cut}))
            self.assertEqual(vector["concat_of_fragment_frames_sha256"], hashlib.sha256(b"".join(cut)).hexdigest())
            for each in vector["fragments"]:
                self.assertEqual(each["frame_hex"], cut[each["index"]].hex())
            assembler = wire.Assembler()
            for piece in pieces:
                verdict, joined = assembler.add(piece.sender, wire.decode(wire.encode(piece)).payload, 0)
            self.assertEqual("complete", verdict)
            self.assertEqual(vector["reassembled_decodes_to_packet"], wire.decode_reassembled(joined) == packet)
            if vector["transfer_id"]:
                self.assertEqual(vector["transfer_id"], wire.transfer_id(packet.payload))
        self.assertEqual(
            [64, 143], [wire.ios_chunk(self.packet(document["vectors"][0]["packet"]), limit) for limit in (20, 185)]
        )
        for vector in self.each(document["reassembly"], "reassembly"):
            assembler, results, whole = wire.Assembler(vector["max_in_flight"]), [], []
            for sender, payload in zip(vector["sender_ids_hex"], vector["fragment_payloads_hex"], strict=True):
                verdict, joined = assembler.add(unhex(sender), unhex(payload), 0)
                results.append(verdict)
                if joined is not None:
                    whole.append(joined.hex())
            self.assertEqual(vector["results"], results)
            self.assertEqual(vector["reassembled_hex"], whole)
        for vector in self.each(document["assembly_limits"], "assembly_limits"):
            self.assertEqual("oversized", self.size_at_which_a_set_is_dropped(vector))
        for vector in self.each(document["android_plans"], "android_plans"):
            self.cuts_as_android(vector, natural[vector["source_vector"]])
        for vector in self.each(document["android_tail_truncation"], "android_tail_truncation"):
            self.repairs_a_lost_tail(vector)

    def cuts_as_android(self, vector, packet):
        """Android cuts every frame without its padding, and loses the flag RSR."""
        frame = wire.encode(packet)
        if not vector["chunk_size"]:
            # Small enough for Android to send it whole.
            self.assertEqual(vector["joined_sha256"], hashlib.sha256(wire.pad(frame)).hexdigest())
            return
        cut = [
            wire.encode(piece)
            for piece in wire.cut(packet, frame, unhex(vector["random_fragment_id_hex"]), vector["chunk_size"])
        ]
        self.assertEqual(vector["count"], len(cut))
        self.assertEqual(set(vector["frame_lengths"]), {len(each) for each in cut})
        self.assertEqual(vector["fragment_version"], cut[0][0])
        if "frames_hex" in vector:
            self.assertEqual(vector["frames_hex"], [each.hex() for each in cut])
        assembler = wire.Assembler()
        for piece in map(wire.decode, cut):
            verdict, joined = assembler.add(piece.sender, piece.payload, 0)
        self.assertEqual("complete", verdict)
        self.assertEqual(vector["joined_sha256"], hashlib.sha256(joined).hexdigest())
        self.assertEqual(vector["joined_equals_full_frame"], joined == frame)
        self.assertEqual(packet, wire.decode_reassembled(joined))

    def size_at_which_a_set_is_dropped(self, vector):
        """The verdict on the first byte above the limit; everything up to it is kept."""
        assembler, limit, kind = wire.Assembler(), vector["assembly_limit_bytes"], vector["original_type"]
        for index in range(2):
            head = bytes(8) + index.to_bytes(2, "big") + (3).to_bytes(2, "big") + bytes([kind])
            self.assertIn(assembler.add(bytes(8), head + bytes(limit // 2), 0)[0], ("started", "stored"))
        last = bytes(8) + b"\0\x02\0\x03" + bytes([kind, 0])
        return assembler.add(bytes(8), last + bytes(limit % 2), 0)[0]

    def repairs_a_lost_tail(self, vector):
        """The frame as a whole is not in the vector, only its ends: another content of the same length stands in."""
        head, tail = unhex(vector["full_frame"]["head64_hex"]), unhex(vector["full_frame"]["tail64_hex"])
        full = head + bytes(vector["full_frame"]["length"] - 128) + tail
        stripped = wire.unpad(full)
        self.assertEqual(vector["stripped_length"], len(stripped))
        self.assertRaises(wire.Malformed, wire.decode, stripped)
        self.assertEqual(unhex(vector["signature_hex"]), wire.decode_reassembled(stripped).signature)

    def same_file(self, fields, file):
        self.assertEqual(fields["file_name"], file.name)
        self.assertEqual(fields["mime_type"], file.mime)
        self.assertEqual(fields["file_size"], file.size)
        self.same(fields["content"], file.content)

    def test_file_packets(self):
        document = self.file("file_packets")
        for vector in self.each(document["vectors"]):
            content = generate(vector["content"])
            file = wire.File(content, vector["file_name"], vector["mime_type"], vector["file_size_override"])
            if vector.get("encode_fails"):
                self.assertRaises(wire.Malformed, file.encode)
                continue
            encoded = file.encode()
            self.same(vector["encoded"], encoded)
            self.assertEqual(vector["transfer_id"], wire.transfer_id(encoded))
            self.same(vector["in_noise_payload_0x20"], bytes([wire.PRIVATE_FILE]) + encoded)
            self.assertEqual(vector["ios_accepts"], wire.ios_refusal(file) is None)
            self.assertEqual(vector.get("ios_rejection"), wire.ios_refusal(file))
            if vector["ios_accepts"]:
                self.assertEqual(vector["ios_category"], wire.MEDIA[file.mime.lower()][0])
            decoded = self.verdict(vector, lambda encoded=encoded: wire.File.decode(encoded))
            if decoded is not None:
                self.same_file(vector["decoded"], decoded)
        for vector in self.each(document["decode_cases"], "decode_cases"):
            decoded = self.verdict(vector, lambda vector=vector: wire.File.decode(generate(vector["input"])))
            if decoded is not None:
                self.same_file(vector["decoded"], decoded)

    def test_file_names(self):
        document = self.file("file_names")
        folders = {}
        for vector in self.each(document["vectors"]):
            taken = folders.setdefault(vector["subdirectory"], set())
            name = wire.safe_name(
                vector["offered_name"],
                vector["default_prefix"],
                vector["fallback_extension"],
                "20250919_220614",
                taken.__contains__,
            )
            self.assertEqual(vector["saved_leaf"], name)
            taken.add(name)
        for vector in self.each(document["mime"], "mime"):
            category, extension, check = wire.MEDIA[vector["mime"]]
            content = unhex(vector["content_head_hex"]).ljust(vector["content_length"], b"\0")
            self.assertEqual(
                (vector["category"], vector["default_extension"], vector["magic_ok"]), (category, extension, check(content))
            )

    def test_identity(self):
        document = self.file("identity")
        for vector in self.each(document["vectors"]):
            noise = wire.public_bytes(x25519(vector["noise_private_hex"]))
            signing = Ed25519PrivateKey.from_private_bytes(unhex(vector["ed25519_seed_hex"]))
            self.assertEqual(vector["noise_public_hex"], noise.hex())
            self.assertEqual(vector["ed25519_public_hex"], wire.public_bytes(signing).hex())
            self.assertEqual(vector["fingerprint_hex"], wire.fingerprint(noise))
            self.assertEqual(vector["peer_id_hex"], wire.peer_id(noise).hex())
        for vector in self.each(document["dedup"], "dedup"):
            packet = self.packet(vector["packet"])
            self.assertEqual(vector["ios_dedup_id"], wire.duplicate_key(packet))
            self.assertEqual(vector["gossip_packet_id_hex"], wire.gossip_id(packet).hex())
        for vector in self.each(document["public_message_ids"], "public_message_ids"):
            self.assertEqual(
                vector["stable_id"],
                wire.public_message_id(unhex(vector["sender_id_hex"]), int(vector["timestamp_ms"]), vector["content"]),
            )
        for vector in self.each(document["private_media_ids"], "private_media_ids"):
            self.assertEqual(
                vector["stable_id"],
                wire.private_media_id(unhex(vector["sender_id_hex"]), unhex(vector["recipient_id_hex"]), vector["file_name"]),
            )

    def handshakes(self, vector):
        return [
            bitchat_noise.Handshake(
                who == "initiator", x25519(vector[who]["noise_private_hex"]), x25519(vector[f"{who}_ephemeral_private_hex"])
            )
            for who in ("initiator", "responder")
        ]

    def test_noise_handshake(self):
        document = self.file("noise_handshake")
        for vector in self.each(document["vectors"]):
            ours, theirs = self.handshakes(vector)
            messages = [ours.write_first()]
            theirs.read_first(messages[0])
            messages.append(theirs.write_second())
            ours.read_second(messages[1])
            messages.append(ours.write_third())
            theirs.read_third(messages[2])
            expected = [vector[f"message{number}_hex"] for number in (1, 2, 3)]
            self.assertEqual(expected, [each.hex() for each in messages])
            self.assertEqual(vector["lengths"], [len(each) for each in messages])
            self.assertEqual({vector["handshake_hash_hex"]}, {ours.hash.hex(), theirs.hash.hex()})
            self.assertEqual(vector["responder"]["noise_public_hex"], ours.their_static.hex())
            self.assertEqual(vector["initiator"]["noise_public_hex"], theirs.their_static.hex())
            sessions = ours.session(), theirs.session()
            for way, (sender, receiver) in (("initiator_to_responder", sessions), ("responder_to_initiator", sessions[::-1])):
                for message in vector[way]:
                    self.transports(message, sender, receiver)
            for number in (1, 2, 3):
                frame = unhex(vector[f"outer_packet_m{number}_padded"]["hex"])
                packet = wire.decode(frame)
                self.assertEqual((wire.NOISE_HANDSHAKE, messages[number - 1]), (packet.type, packet.payload))
                self.assertEqual(frame, wire.link_frame(packet))
            plain = unhex(vector["outer_packet_m1_unpadded"]["hex"])
            self.assertEqual(plain, wire.encode(wire.decode(unhex(vector["outer_packet_m1_padded"]["hex"]))))
            frame = unhex(vector["first_transport_outer_padded"]["hex"])
            packet = wire.decode(frame)
            sealed = unhex(vector["initiator_to_responder"][0]["wire"]["hex"])
            self.assertEqual((wire.NOISE_ENCRYPTED, sealed), (packet.type, packet.payload))
            self.assertEqual(frame, wire.link_frame(packet))
        for vector in self.each(document["malformed"], "malformed"):
            verdict = "accepted"
            try:
                self.take_part(document["vectors"][0], vector["stage"], unhex(vector["input_hex"]))
            except wire.Malformed:
                verdict = "error"
            self.assertEqual(vector["verdict"].split(":")[0], verdict)

    def transports(self, message, sender, receiver):
        plain = (
            generate(message["plaintext"])
            if "hex" in message["plaintext"]
            else generate({"kind": "lcg32", "seed": 61, "length": 1000})
        )
        self.same(message["plaintext"], plain)
        sealed = sender.seal(plain)
        self.same(message["wire"], sealed)
        self.assertEqual(message["nonce_prefix_hex"], sealed[:4].hex())
        self.assertEqual(plain, receiver.open(sealed))

    def take_part(self, vector, stage, message):
        """Reads a message in the place of the one that belongs there."""
        ours, theirs = self.handshakes(vector)
        first = ours.write_first()
        if stage == "message1":
            return theirs.read_first(message)
        theirs.read_first(first)
        second = theirs.write_second()
        if stage == "message2":
            return ours.read_second(message)
        ours.read_second(second)
        return theirs.read_third(message)

    def test_noise_transport(self):
        document = self.file("noise_transport")
        for vector in self.each(document["vectors"]):
            key = unhex(vector["key_hex"])
            session, verdicts = bitchat_noise.Session(key, key), []
            for message in vector["wires_hex"]:
                try:
                    session.open(unhex(message))
                    verdicts.append("accept")
                except wire.Malformed:
                    verdicts.append("reject")
            self.assertEqual(vector["correct_sliding_window_verdicts"], verdicts)
        for vector in self.each(document["malformed"], "malformed"):
            key = unhex(vector["key_hex"])
            session = bitchat_noise.Session(key, key)
            if "input_hex" not in vector:
                session.sent = bitchat_noise.MAX_COUNTER + 1
                self.assertRaises(bitchat_noise.NoiseError, session.seal, b"")
            elif vector["verdict"] == "accepted":
                self.assertEqual(vector["plaintext_hex"], session.open(unhex(vector["input_hex"])).hex())
            else:
                self.assertRaises(bitchat_noise.NoiseError, session.open, unhex(vector["input_hex"]))

    def test_noise_courier(self):
        for vector in self.each(self.file("noise_courier")["vectors"]):
            sender, recipient = (x25519(vector[who]["noise_private_hex"]) for who in ("sender", "recipient"))
            payload, prologue = unhex(vector["payload_hex"]), vector["prologue_utf8"].encode()
            sealed = bitchat_noise.seal_one_way(
                payload, sender, wire.public_bytes(recipient), x25519(vector["ephemeral_private_hex"]), prologue
            )
            self.assertEqual(vector["ciphertext_hex"], sealed.hex())
            opened = bitchat_noise.open_one_way(sealed, recipient, prologue)
            self.assertEqual((payload, wire.public_bytes(sender)), opened)

    def noise_payload(self, kind, fields):
        """The encoding of one of the kinds that this peer makes; None for the others."""
        if kind.startswith("privateMessage"):
            return bytes([wire.PRIVATE_MESSAGE]) + wire.encode_private_message(fields["message_id"], fields["content"])
        if kind.startswith(("readReceipt", "delivered")):
            return bytes([wire.READ if kind[0] == "r" else wire.DELIVERED]) + fields["message_id"].encode()
        if kind.startswith("authenticatedPeerState"):
            return bytes([wire.PEER_STATE]) + wire.encode_peer_state(
                int(fields["capabilities"]), unhex(fields["ed25519_public_hex"])
            )
        if kind.startswith("verify"):
            signature = unhex(fields.get("signature_hex"))
            return bytes([wire.VERIFY_RESPONSE if signature else wire.VERIFY_CHALLENGE]) + wire.encode_verification(
                unhex(fields["noise_key_hex"]), unhex(fields["nonce_hex"]), signature
            )
        if kind.startswith("privateFile"):
            file = wire.File(generate(fields["content"]), fields["file_name"], wire.OCTETS)
            return bytes([wire.PRIVATE_FILE]) + file.encode()
        return None

    def test_noise_payloads(self):
        document = self.file("noise_payloads")
        for vector in self.each(document["vectors"]):
            kind, fields = vector["kind"], vector["fields"]
            if vector["encode_fails"]:
                self.assertRaises(wire.Malformed, self.noise_payload, kind, fields)
                continue
            made = self.noise_payload(kind, fields)
            if made is not None:
                self.same(vector["encoded"], made)
            if kind.startswith("verifyResponse"):
                preimage = wire.verification_preimage(unhex(fields["noise_key_hex"]), unhex(fields["nonce_hex"]))
                self.assertEqual(fields["signed_message_hex"], preimage.hex())
                self.assertEqual(unhex(fields["signature_hex"]), wire.decode_verification(made[1:])[2])
            if kind.startswith("voiceFrame"):
                burst, sequence, what, _ = wire.decode_voice_burst(generate(vector["encoded"]))
                self.assertEqual((fields["burst_id_hex"], fields["seq"]), (burst.hex(), sequence))
                self.assertIn(what[:3], vector["note"])
        readers = {
            "privateMessage TLV": self.read_private_message,
            "authenticatedPeerState": self.read_peer_state,
            "voice burst": wire.decode_voice_burst,
            "noise payload type byte": self.read_type,
        }
        for vector in self.each(document["decode_cases"], "decode_cases"):
            decoded = self.verdict(vector, lambda vector=vector: readers[vector["kind"]](unhex(vector["input_hex"])))
            if decoded is not None:
                self.assertEqual(vector["decoded"], decoded)
        self.reads_verification_codes(document["verification_qr"])

    @staticmethod
    def read_private_message(body):
        message_id, content = wire.decode_private_message(body)
        return {"message_id": message_id, "content": content}

    @staticmethod
    def read_peer_state(body):
        capabilities, key = wire.decode_peer_state(body)
        return {"capabilities": str(capabilities), "ed25519_public_hex": key.hex()}

    @staticmethod
    def read_type(plaintext):
        found = wire.split_payload(plaintext)
        if found is None:
            raise wire.Malformed("ignored")
        return {"type": found[0], "data_hex": found[1].hex()}

    def reads_verification_codes(self, code):
        fields = {name: str(value) for name, value in code["fields"].items() if value is not None}
        self.assertEqual(code["canonical_bytes_hex"], wire.verification_qr_preimage(fields).hex())
        self.assertEqual(code["url"], wire.verification_qr(fields, unhex(code["signature_hex"])))
        now = code["fields"]["ts"]
        self.assertEqual("Ann", wire.read_verification_qr(code["url"], now + 299)["nick"])
        self.assertRaises(wire.Malformed, wire.read_verification_qr, code["url"], now + 301)
        self.assertRaises(wire.Malformed, wire.read_verification_qr, code["url"].replace("Ann", "Ben"), now)
        self.items += 1

    def test_sync(self):
        document = self.file("sync")
        for vector in self.each(document["vectors"]):
            ids = [unhex(each) for each in vector["ids_hex"]]
            made = wire.SyncFilter.of(ids, vector["target_fpr"], vector["max_bytes"])
            self.assertEqual(
                (vector["p"], vector["m"], vector["data_hex"], vector["included_count"]),
                (made.p, made.m, made.data.hex(), made.included),
            )
            values = made.values()
            self.assertEqual(vector["decoded_set_size"], len(values))
            self.assertEqual(
                vector["all_included_found"], all(wire.filter_value(each, made.m) in values for each in ids[: made.included])
            )
            request = wire.SyncRequest(made, wire.SYNC_ANNOUNCE | wire.SYNC_MESSAGE)
            self.assertEqual(vector["request_sync_payload_hex"], request.encode().hex())
        for vector in self.each(document["request_sync"], "request_sync"):
            since = vector["since_ms"]
            request = wire.SyncRequest(
                wire.SyncFilter(vector["p"], vector["m"], unhex(vector["data_hex"])),
                vector["types_raw"],
                None if since is None else int(since),
                vector["fragment_id_filter"],
            )
            self.assertEqual(vector["encoded_hex"], request.encode().hex())
            self.assertEqual(request, wire.SyncRequest.decode(request.encode()))
        for vector in self.each(document["request_sync_malformed"], "request_sync_malformed"):
            request = self.verdict(vector, lambda vector=vector: wire.SyncRequest.decode(unhex(vector["input_hex"])))
            if request is not None:
                self.assertEqual((vector["p"], vector["m"]), (request.filter.p, request.filter.m))

    def test_stream(self):
        for vector in self.each(self.file("stream")["vectors"]):
            framer = wire.StreamFramer()
            for step in vector["steps"]:
                frames, skipped, reset = framer.feed(unhex(step["chunk_hex"]))
                self.assertEqual(step["frames_hex"], [frame.hex() for frame in frames])
                self.assertEqual(step["dropped_prefix_bytes"], skipped)
                self.assertEqual(step["reset"], reset)

    def test_relay(self):
        for vector in self.each(self.file("relay")["vectors"]):
            relay = wire.relay_decision(vector["type"], vector["ttl_in"], unhex(vector["recipient_hex"]), vector["degree"])
            self.assertEqual(vector["should_relay"], relay is not None)
            if relay is not None:
                self.assertEqual(vector["new_ttl"], relay.ttl)
                self.assertLessEqual(relay.delay[0], vector["observed_delay_ms_min"])
                self.assertGreaterEqual(relay.delay[1], vector["observed_delay_ms_max"])


if __name__ == "__main__":
    unittest.main()
