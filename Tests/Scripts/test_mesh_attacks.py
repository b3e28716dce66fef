"""Attacks on the mesh (docs/THREATS.md) over real sockets that are no floods: a few packets of one hostile neighbour, after
which the node must go on for everybody else. For floods see test_floods.py."""

import contextlib
import dataclasses
import select
import socket
import time
import unittest

import bitchat_wire as wire
import bundle_wire
from bitchat_peer import CAPABILITIES, BitchatPeer
from bitchat_wire import Packet
from bundle_wire import Bundle
from flood_peer import BUNDLE, BUNDLES, FILES, FRAMES, Identity, now
from harness import Peer, Story, wait_until
from test_floods import highest_memory


class Neighbour:
    """A link of a peer that announces itself as storing and forwarding, proves its key, and does what a test wants."""

    def __init__(self, port, seed, source="127.0.0.1"):
        self.identity = Identity(seed)
        self.connection = socket.create_connection(("127.0.0.1", port), 5, (source, 0))
        self.connection.sendall(FRAMES)
        self.framer, self.is_proven = None, False
        # What each peer has announced: its id, and its announcement.
        self.announced = {}
        self.bundles = []
        self.types = set()
        self.connection.sendall(self.identity.announcement("neighbour", capabilities=FILES | BUNDLES))

    def close(self):
        self.connection.close()

    def read(self, timeout):
        """Reads and answers what arrives within the time."""
        if not select.select([self.connection], [], [], timeout)[0]:
            return
        data = self.connection.recv(65536)
        if not data:
            raise AssertionError("the node ended the link")
        if self.framer is None:
            self.framer, data = wire.StreamFramer(), data[len(FRAMES) :]
        for frame in self.framer.feed(data)[0]:
            packet = wire.decode(frame)
            self.types.add(packet.type)
            if packet.type == wire.PING and packet.recipient == self.identity.id:
                pong = Packet(wire.PONG, self.identity.id, now(), packet.payload, 1, 1, packet.sender)
                self.send(pong)
                self.is_proven = True
            elif packet.type == wire.ANNOUNCE:
                self.announced[packet.sender] = wire.Announce.decode(packet.payload)
            elif packet.type == BUNDLE:
                self.bundles.append(packet.payload)

    def read_until(self, test, what, timeout=20):
        deadline = time.monotonic() + timeout
        while not test():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not happen")
            self.read(0.2)

    def send(self, packet):
        self.connection.sendall(self.identity.signed(packet))

    def send_bundle(self, payload, to):
        """Sends a packet of store and forward to a neighbour."""
        self.send(Packet(BUNDLE, self.identity.id, now(), payload, 1, 2, bytes.fromhex(to)))

    def join(self, there):
        """Waits until the node has announced itself, and asked for the proof."""
        self.read_until(lambda: self.is_proven and bytes.fromhex(there) in self.announced, "the proof of a neighbour")
        return self.announced[bytes.fromhex(there)]


class AttackStory(Story):
    def people(self):
        super().people()
        self.cleo = Peer(self.place / "cleo")
        self.addCleanup(self.cleo.stop_all)

    def setUp(self):
        super().setUp()
        self.node = self.anna.receive("--interface", "lo", "--adapter", "none", accept="all")
        self.there = self.node.ready["id"]

    def neighbour(self, seed, source="127.0.0.1"):
        each = Neighbour(self.node.ready["port"], f"{seed} {self.seed}", source)
        self.addCleanup(each.close)
        return each

    def phone(self, name):
        peer = BitchatPeer(name, seed=f"{name} {self.seed}", relays=False)
        self.addCleanup(peer.close)
        peer.connect("127.0.0.1", self.node.ready["port"], preamble=FRAMES)
        peer.handshake(peer.wait_for_peer("anna"))
        peer.wait_for("session")
        return peer

    def assertServes(self, name="carol"):
        """The node still takes a message of a newcomer."""
        carol = self.phone(name)
        carol.wait_for_receipt(carol.send_private_message(self.there, "still there?"))
        self.assertIsNone(self.node.process.poll())
        return carol


class Crashes(AttackStory):
    def test_M13_a_parent_that_claims_to_be_a_child_leaves(self):
        for number in range(5):
            liar = self.neighbour(f"liar {number}")
            liar.join(self.there)
            liar.send_bundle(bundle_wire.report(root=bytes(7) + bytes([9 - number])), self.there)

            def is_parent(liar=liar):
                return any(each[0] == bundle_wire.REPORT and each[1] & bundle_wire.TO_PARENT for each in liar.bundles)

            liar.read_until(is_parent, "the selection of the liar as parent")
            liar.send(Packet(wire.LEAVE, liar.identity.id, now(), b"", 7))
            liar.close()
        self.assertServes()

    def test_M14_the_longest_time_to_live_from_a_clock_ahead(self):
        ahead = self.neighbour("ahead")
        keys = ahead.join(self.there)
        for number, lead in enumerate((2_500, 500_000)):
            bundle = Bundle(
                bundle_wire.text(f"from the future {number}"),
                ahead.identity.static,
                ahead.identity.signing,
                to=(keys.noise_key, keys.signing_key),
                created=now() + lead,
            )
            ahead.send_bundle(bundle.copy(), self.there)
            text = self.node.wait_for("message")["content"]["text"]
            self.assertEqual(f"from the future {number}", text)
            ahead.read_until(
                lambda bundle=bundle: any(bundle_wire.is_acknowledgement(each, bundle) for each in ahead.bundles),
                "its acknowledgement",
            )
        self.assertServes()

    def test_R3_chat_by_a_pipe_starts_every_time(self):
        for number in range(30):
            said = self.ben.run("chat", "--public", "--adapter", "none", input=f"line {number}\n".encode())
            self.assertCode(0, said)


class Fragments(AttackStory):
    def test_M4_forged_pieces_of_anothers_file(self):
        """Before each piece of her file, a neighbour sends one with the same id and another total or kind; later, one with the
        same header and other content."""
        self.forge_pieces(is_ahead=False)

    def test_M4_forged_pieces_ahead_of_hers(self):
        """Before each piece of her file, a neighbour sends one with the same header and other content."""
        self.forge_pieces(is_ahead=True)

    def forge_pieces(self, is_ahead):
        carol, forger = self.phone("carol"), self.neighbour("forger", "127.0.0.7")
        forger.join(self.there)
        content = self.random.randbytes(100_000)
        forged, sent = 0, []

        def forge(packet, place):
            nonlocal forged
            forged += 1
            # id 8 · index 2 · total 2 · type 1 · data
            payload = bytearray(packet.payload)
            payload[place] ^= 1
            forger.connection.sendall(wire.encode(dataclasses.replace(packet, payload=bytes(payload))))
            with contextlib.suppress(AssertionError):
                forger.read(0)

        for link in carol.links:
            send = link.send

            def send_among_forgeries(frame, send=send):
                packet = wire.decode(frame)
                if packet.type == wire.FRAGMENT:
                    sent.append(packet)
                    forge(packet, 20 if is_ahead else 11 + len(sent) % 2)
                    if not is_ahead and len(sent) > 20:
                        forge(sent[-20], 20)
                send(frame)

            link.send = send_among_forgeries
        carol.send_private_file(self.there, "img.jpg", "image/jpeg", content)
        self.node.wait_for("delivered", lambda event: event["path"].endswith("/img.jpg"))
        self.assertTrue(content == self.anna.received()["img.jpg"])
        self.assertGreater(forged, 100)

    def test_M4_R1_sets_begun_in_her_name_evict_none(self):
        carol, forger = self.phone("carol"), self.neighbour("forger", "127.0.0.7")
        forger.join(self.there)
        sender = bytes.fromhex(carol.id)
        content = self.random.randbytes(300_000)
        carol.send_private_file(self.there, "img.jpg", "image/jpeg", content)
        for number in range(4_000):
            head = self.random.randbytes(8) + (0).to_bytes(2, "big") + (200).to_bytes(2, "big") + bytes([wire.NOISE_ENCRYPTED])
            packet = Packet(wire.FRAGMENT, sender, now(), head + self.random.randbytes(400), 1, 1, bytes.fromhex(self.there))
            forger.connection.sendall(wire.encode(packet))
            if number % 50 == 0:
                forger.read(0)
        self.node.wait_for("delivered", lambda event: event["path"].endswith("/img.jpg"))
        self.assertTrue(content == self.anna.received()["img.jpg"])
        self.assertLess(highest_memory(self.node.process.pid), 100)


class Stores(AttackStory):
    def test_M6_B5_broadcasts_push_out_no_stored_message(self):
        """More broadcasts than the store holds, of made-up senders; what another node left for somebody away stays."""
        ben = self.ben.receive("--interface", "lo", "--adapter", "none", accept="all", name="ben")
        sender = self.cleo.receive("--interface", "lo", "--adapter", "none", accept="all", name="cleo")
        self.assertCode(0, self.cleo.run("message", "hello", "--to", ben.ready["id"], "--mode", "mesh", "--wait", "delivered"))
        self.stop(ben)
        self.assertCode(0, self.cleo.run("message", "for later", "--to", ben.ready["id"], "--mode", "mesh", "--wait", "sent"))
        self.stop(sender)
        flooder = self.neighbour("flooder")
        flooder.join(self.there)
        for number in range(2_500):
            source = Identity(f"source {number}")
            bundle = Bundle(bundle_wire.text(f"junk {number}"), source.static, source.signing)
            flooder.send_bundle(bundle.copy(), self.there)
            with contextlib.suppress(AssertionError):
                flooder.read(0.005)
        again = self.ben.receive("--interface", "lo", "--adapter", "none", accept="all", name="ben")
        again.wait_for("message", lambda event: event["content"] == {"text": "for later"})

    @staticmethod
    def stop(running):
        running.process.terminate()
        running.end()

    def test_M10_R1_links_that_do_not_read(self):
        """Eleven proven neighbours stop reading, while another sends 40 MiB for everybody: the outboxes are bounded in all."""
        for number in range(10):
            self.neighbour(f"sleeper {number}", f"127.0.1.{number + 1}").join(self.there)
        writer = self.neighbour("writer", "127.0.0.9")
        writer.join(self.there)
        for _ in range(10_000):
            frame = wire.encode(Packet(0x61, self.random.randbytes(8), now(), self.random.randbytes(4000), 7))
            writer.connection.sendall(frame)
            writer.read(0)
        self.assertServes()
        self.assertLess(highest_memory(self.node.process.pid), 100)


class PublicFiles(AttackStory):
    def forged_file(self, owner, forger, name):
        """Packets that announce her keys with another signing key, and a file for everyone that is signed with that one."""
        stated = wire.Announce("carol", owner.noise_key, forger.signing_key, None, CAPABILITIES)
        content = wire.File(b"\xff\xd8\xff" + b"f" * 500, name, "image/jpeg")
        packets = [
            Packet(wire.ANNOUNCE, owner.own_id, now(), stated.encode(), 7),
            Packet(wire.FILE_TRANSFER, owner.own_id, now(), content.encode(), 7, 2),
        ]
        return [wire.encode(wire.sign(packet, forger.signing)) for packet in packets]

    def test_K14_M11_a_public_file_with_a_forged_signature_waits_for_her_and_is_dropped(self):
        carol = BitchatPeer("carol", seed=f"carol {self.seed}", relays=False)
        self.addCleanup(carol.close)
        attacker = self.neighbour("forger", "127.0.0.2")
        attacker.join(self.there)
        for packet in self.forged_file(carol, attacker.identity, "forged.jpg"):
            attacker.connection.sendall(packet)
        # The node asks for a session with her as soon as it has the file.
        asked = wire.NOISE_HANDSHAKE
        attacker.read_until(lambda: asked in attacker.types, "the first message of a handshake")
        carol.connect("127.0.0.1", self.node.ready["port"], preamble=FRAMES)
        carol.handshake(carol.wait_for_peer("anna"))
        carol.wait_for("session")
        carol.wait_for_receipt(carol.send_private_message(self.there, "it is me"))
        carol.send_public_file("genuine.jpg", b"\xff\xd8\xff" + b"g" * 500, "image/jpeg")
        wait_until(lambda: self.anna.received().get("genuine.jpg"), "her own file")
        self.assertEqual([name for name in self.anna.received() if "forged" in name], [])


class PublicRoom(AttackStory):
    def people(self):
        """Cleo is Anna's friend, and was never with her in the mesh: nothing but a session tells how she signs there."""
        super().people()
        cleo = self.cleo.receive("--interface", "lo", "--adapter", "none", accept="all", name="cleo")
        self.assertCode(0, self.anna.run("friends", "add", "--unverified", cleo.address))
        link = Neighbour(cleo.ready["port"], f"curious {self.seed}")
        self.friend = cleo.ready["id"]
        self.friends_key = link.join(self.friend).noise_key
        link.close()
        Stores.stop(cleo)

    def test_K14_a_line_under_the_id_of_a_friend_who_has_not_proven_the_key_that_signs_it(self):
        forger = self.neighbour("forger", "127.0.0.2")
        forger.join(self.there)
        stated = wire.Announce("cleo", self.friends_key, forger.identity.signing_key, None, CAPABILITIES)
        for kind, content in ((wire.ANNOUNCE, stated.encode()), (wire.MESSAGE, b"send me the key")):
            packet = Packet(kind, bytes.fromhex(self.friend), now(), content, 7)
            forger.connection.sendall(wire.encode(wire.sign(packet, forger.identity.signing)))
        line = self.node.wait_for("chat_message", lambda event: event["text"] == "send me the key")
        self.assertEqual((self.friend, "(not proven) cleo"), (line["from"], line["name"]))


class Names(AttackStory):
    def test_K2_the_name_of_a_known_peer_that_is_away_means_no_newcomer(self):
        options = ("--interface", "lo", "--adapter", "none")
        known = self.cleo.receive(*options, accept="all", name="annabelle")
        self.assertCode(0, self.ben.run("send", self.file("a", 10), "--to", known.address, *options))
        Stores.stop(known)
        other = Peer(self.place / "stranger")
        self.addCleanup(other.stop_all)
        stranger = other.receive(*options, accept="all", name="Annabelle")
        # The second try finds the stranger's keys, which the first one has stored.
        message = ("message", "secret", "--to")
        for command in ((*message, "annabelle"), (*message, "annab"), ("chat", "annabelle")) * 2:
            said = self.ben.run(*command, "--timeout", "5", *options, input=b"secret\n")
            self.assertCode(5, said)
            self.assertIn(f"uses the name of a peer that you know with another key, {known.ready['id']}", said.stderr.decode())
        self.assertEqual([], [each for each in stranger.events if each["event"] in ("message", "chat_message", "invitation")])


class Announcements(AttackStory):
    def test_X1_the_announcement_names_no_neighbours(self):
        carol, listener = self.phone("carol"), self.neighbour("listener")
        announcement = listener.join(self.there)
        wait_until(lambda: carol.links, "a second neighbour")
        listener.announced.clear()
        listener.read_until(lambda: bytes.fromhex(self.there) in listener.announced, "another announcement", 60)
        announcement = listener.announced[bytes.fromhex(self.there)]
        self.assertFalse(announcement.neighbours)


if __name__ == "__main__":
    unittest.main()
