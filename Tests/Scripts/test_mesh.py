"""The mesh with the real executable: users out of each other's range, and an independent peer written from bitchat's
specification alone."""

import json
import secrets
import unittest
import uuid
from unittest import mock

import bitchat_peer
import bitchat_wire
from bitchat_peer import BitchatPeer
from harness import INTERRUPT, MachinesInARow, Peer, Story, digest, has_namespaces

FRAMES = b"NSHM\x01\x01\0\0"
LARGEST = 5 << 20


@unittest.skipUnless(has_namespaces(), "network namespaces need root and iproute2")
class ThreeMachinesStory(Story):
    """Anna and Ben have no common network; Cleo shares one with each."""

    def people(self):
        self.network = MachinesInARow(3)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.anna = Peer(self.place / "anna", self.network.names[0])
        self.cleo = Peer(self.place / "cleo", self.network.names[1])
        self.ben = Peer(self.place / "ben", self.network.names[2])
        self.addCleanup(self.cleo.stop_all)

    def test_a_file_is_relayed(self):
        photo = self.file("photo.jpg", 200_000)
        self.cleo.receive(name="cleo", accept="none")
        ben = self.ben.receive(name="ben")
        result = self.anna.run("send", photo, "--to", "ben", "--via", "mesh", "--json")
        self.assertCode(0, result)
        delivered = ben.wait_for("delivered")
        self.assertEqual(digest(photo), digest(delivered["path"]))
        self.assertEqual({}, self.cleo.received())
        events = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual({"mesh"}, {event["via"] for event in events if "via" in event})

    def test_without_via_the_mesh_is_used_when_the_peer_is_not_found_directly(self):
        self.cleo.receive(name="cleo", accept="none")
        ben = self.ben.receive(name="ben")
        self.assertCode(0, self.anna.run("send", "--text", "see you at 8", "--to", "ben"))
        self.assertEqual("see you at 8", ben.wait_for("delivered")["text"])

    def test_declined_through_a_relay(self):
        photo = self.file("photo.jpg", 1000)
        self.cleo.receive(name="cleo", accept="all")
        self.ben.receive(name="ben", accept="none")
        self.assertCode(4, self.anna.run("send", photo, "--to", "ben", "--via", "mesh"))

    def test_an_unknown_name(self):
        self.cleo.receive(name="cleo")
        result = self.anna.run("send", "--text", "hello", "--to", "ben", "--via", "mesh")
        self.assertCode(3, result)
        self.assertIn("cleo", result.stderr.decode())

    def test_receive_hands_over_the_mesh_to_a_new_node(self):
        """Both have one key; messages must reach the process that has the lock."""
        cleo = self.cleo.receive(name="cleo")
        node = self.cleo.start(
            "mesh", "run", "--json", "--name", "cleo", "--accept", "all", "--adapter", "none", "--inbox", self.cleo.inbox
        )
        node.wait_for("ready")
        for number in range(3):
            result = self.anna.run(
                "message",
                f"number {number}",
                "--to",
                "cleo",
                "--wait",
                "delivered",
                "--timeout",
                "60",
                "--adapter",
                "none",
                timeout=90,
            )
            self.assertCode(0, result)
            self.assertEqual({"text": f"number {number}"}, node.wait_for("message")["content"])
        self.assertCode(0, self.anna.run("send", self.file("photo.jpg", 1000), "--to", "cleo"))
        self.assertEqual(["photo.jpg"], list(self.cleo.received()))
        cleo.signal(INTERRUPT)
        self.assertEqual(130, cleo.end())

    def test_messages_arrive_at_receive(self):
        """A receiver is a full node: one lock, one store, and other commands use it."""
        cleo = self.cleo.receive(name="cleo", accept="none")
        self.assertCode(0, self.anna.run("message", "hi", "--to", "cleo", "--wait", "delivered", "--adapter", "none"))
        self.assertEqual({"text": "hi"}, cleo.wait_for("message")["content"])
        status = json.loads(self.cleo.run("mesh", "status", "--json").stdout)
        self.assertEqual((cleo.process.pid, False), (status["process"], status["standing"]))
        listed = self.cleo.run("messages", "--json")
        self.assertEqual([{"text": "hi"}], [json.loads(line)["content"] for line in listed.stdout.splitlines()])
        # A second one receives files on the network only.
        second = self.cleo.receive(name="cleo")
        self.assertCode(0, self.anna.run("message", "again", "--to", "cleo", "--wait", "delivered", "--adapter", "none"))
        self.assertEqual({"text": "again"}, cleo.wait_for("message")["content"])
        self.assertEqual([], [event for event in second.events if event["event"] == "message"])
        self.assertCode(0, self.cleo.run("mesh", "stop"))
        self.assertEqual(0, cleo.end())

    def test_a_send_through_the_mesh_uses_the_running_node(self):
        self.cleo.receive(name="cleo", accept="none")
        ben = self.ben.receive(name="ben")
        node = self.anna.start(
            "mesh", "run", "--json", "--name", "anna", "--accept", "all", "--adapter", "none", "--inbox", self.anna.inbox
        )
        node.wait_for("ready")
        photo = self.file("photo.jpg", 100_000)
        result = self.anna.run("send", photo, "--to", "ben", "--via", "mesh", "--json")
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(ben.wait_for("delivered")["path"]))
        self.assertEqual("completed", [json.loads(line) for line in result.stdout.splitlines()][-1]["outcome"])
        self.assertCode(0, self.anna.run("send", "--text", "see you at 8", "--to", "ben"))
        self.assertEqual("see you at 8", ben.wait_for("message")["content"]["text"])
        self.assertCode(3, self.anna.run("send", photo, "--to", "absent", "--via", "mesh"))


class BitchatStory(Story):
    """A peer that knows only bitchat, and a node of nearshare, over loopback."""

    def join(self, running, name, **how):
        peer = BitchatPeer(name, seed=self.seed, **how)
        self.addCleanup(peer.close)
        peer.connect("127.0.0.1", running.ready["port"], preamble=FRAMES)
        return peer

    def receive(self, **how):
        return self.anna.receive("--interface", "lo", **how)

    def test_a_private_file_of_100_kB_from_a_phone(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        content = self.random.randbytes(100_000)
        there = phone.wait_for_peer("anna", 10)
        phone.send_private_file(there, "img.jpg", "image/jpeg", content)
        anna.wait_for("delivered")
        self.assertEqual({"img.jpg": content}, self.anna.received())

    def test_a_private_file_of_5_MiB_both_ways(self):
        # Five times the limit of phones: the peer has neither of their sets of capabilities, so none of their limits.
        payload = LARGEST + bitchat_wire.MAX_PAYLOAD - bitchat_wire.MAX_FILE
        for module, name, value in (
            (bitchat_wire, "MAX_FILE", LARGEST),
            (bitchat_wire, "MAX_PAYLOAD", payload),
            (bitchat_peer, "MAX_FILE_PLAINTEXT", payload),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        anna = self.receive()
        other = self.join(anna, "other", capabilities=0x700)
        content = self.random.randbytes(LARGEST)
        path = self.place / "large.bin"
        path.write_bytes(content)
        result = self.ben.run("send", path, "--to", "other", "--via", "mesh", "--interface", "lo", "--json", timeout=300)
        self.assertCode(0, result)
        self.assertEqual(content, other.wait_for_file(10)["content"])

        back = self.random.randbytes(LARGEST)
        other.send_private_file(other.wait_for_peer("anna", 10), "back.bin", "application/octet-stream", back, chunk=16_000)
        anna.wait_for("delivered", timeout=60)
        self.assertEqual({"back.bin": back}, self.anna.received())

    def test_cancelling_a_file_for_a_phone(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        path = self.file("photo.jpg", 100_000)
        ben = self.ben.start("send", path, "--to", "phone", "--via", "mesh", "--interface", "lo", "--json")
        ben.wait_for("progress", lambda event: event["done"] > 5_000)
        ben.signal(INTERRUPT)
        self.assertEqual(130, ben.end())
        # The next message is the first to arrive.
        self.assertCode(
            0, self.ben.run("send", self.file("next.jpg", 1_000), "--to", "phone", "--via", "mesh", "--interface", "lo")
        )
        self.assertEqual("next.jpg", phone.wait_for_file(10)["name"])

    def test_a_message_from_phone_to_phone_through_nearshare(self):
        anna = self.receive()
        one = self.join(anna, "one")
        two = BitchatPeer("two", seed=self.seed + 1)
        self.addCleanup(two.close)
        two.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
        there = one.wait_for_peer("two", 10)
        message = one.send_private_message(there, "are you near?")
        self.assertEqual("are you near?", two.wait_for_message(10)["text"])
        one.wait_for_receipt(message, "delivered", timeout=10)

    def test_a_text_for_a_phone(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        result = self.ben.run("send", "--text", "see you", "--to", "phone", "--via", "mesh", "--interface", "lo")
        self.assertCode(0, result)
        self.assertEqual("see you", phone.wait_for_message(10)["text"])

    def test_ids_of_texts_through_a_node_are_those_of_phones(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        # Three messages, as one holds at most 255 bytes.
        self.assertCode(0, self.anna.run("send", "--text", "x" * 600, "--to", "phone", "--via", "mesh", "--timeout", "30"))
        ids = [phone.wait_for_message(10)["message_id"] for _ in range(3)]
        self.assertEqual(3, len(set(ids)))
        for each in ids:
            self.assertRegex(each, "^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$")
        for each in (secrets.token_hex(16), str(uuid.uuid4()), str(uuid.uuid4()).upper()):
            there = phone.wait_for_peer("anna", 10)
            phone.wait_for_receipt(phone.send_private_message(there, each, message_id=each), timeout=10)

    def test_an_app_that_never_proves_that_it_takes_private_files(self):
        anna = self.receive()
        # One that announces that it takes them, and one from before there were any.
        for name, capabilities in (("silent", 0x100), ("old", 0x20)):
            self.join(anna, name, capabilities=capabilities, states=False)
            result = self.ben.run(
                "send", self.file("a.jpg", 1_000), "--to", name, "--via", "mesh", "--interface", "lo", timeout=60
            )
            self.assertNotEqual(0, result.returncode)
            self.assertIn(f"{name}'s app does not accept private files", result.stderr.decode())

    def test_how_many_fragments_a_peer_reassembles(self):
        anna = self.receive()
        phone = self.join(anna, "phone", capabilities=0x700, fragment_limit=3)
        send = ("--to", "phone", "--via", "mesh", "--interface", "lo")
        result = self.ben.run("send", self.file("large.jpg", 100_000), *send)
        self.assertCode(7, result)
        self.assertEqual(10_000, phone.wait_for("peer-state")["fragment_limit"])
        self.assertCode(0, self.ben.run("send", self.file("small.jpg", 20_000), *send))
        self.assertEqual("small.jpg", phone.wait_for_file(10)["name"])

    def test_too_large_for_a_phone(self):
        anna = self.receive()
        self.join(anna, "phone", capabilities=0x100)
        path = self.file("film.mp4", 400_000)
        result = self.ben.run("send", path, "--to", "phone", "--via", "mesh", "--interface", "lo")
        self.assertCode(7, result)
        self.assertIn("too large", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
