"""The mesh with the real executable: users out of each other's range, and an independent peer written from bitchat's
specification alone."""

import dataclasses
import json
import os
import re
import secrets
import signal
import time
import unittest
import uuid
from unittest import mock

import bitchat_peer
import bitchat_wire
from bitchat_peer import BitchatPeer
from harness import INTERRUPT, MachinesInARow, Peer, Story, digest, has_namespaces, wait_until
from pseudo_terminal import PseudoTerminal

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
        self.assertTakesThePlace(cleo, node)
        cleo.signal(INTERRUPT)
        self.assertEqual(130, cleo.end())

    def test_receive_takes_the_place_of_a_node_that_has_ended(self):
        options = ("--json", "--name", "cleo", "--accept", "all", "--adapter", "none", "--inbox", self.cleo.inbox)
        node = self.cleo.start("mesh", "run", *options)
        node.wait_for("ready")
        cleo = self.cleo.receive(name="cleo")
        for number in (1, 2):
            self.assertTakesThePlace(cleo, node, count=number)
            words = ("message", f"number {number}", "--to", "cleo", "--wait", "delivered", "--adapter", "none")
            self.assertCode(0, self.anna.run(*words, timeout=90))
            self.assertEqual({"text": f"number {number}"}, cleo.wait_for("message")["content"])
            self.assertCode(0, self.anna.run("send", self.file(f"{number}.jpg", 1000), "--to", "cleo"))
            self.assertEqual(f"{number}.jpg", cleo.wait_for("delivered")["name"])
            node = self.cleo.start("mesh", "run", *options)
            cleo.wait_for("port", lambda event, node=node: event.get("node") == node.process.pid)
        self.assertEqual(1, sum(event["event"] == "ready" for event in cleo.events))

    def test_a_receive_that_ends_after_one_transfer_says_that_no_node_runs(self):
        node = self.cleo.start("mesh", "run", "--json", "--name", "cleo", "--adapter", "none")
        node.wait_for("ready")
        cleo = self.cleo.receive("--once", name="cleo")
        node.signal(signal.SIGTERM)
        node.end()
        wait_until(lambda: "".join(cleo.errors).count("messages are not received") == 1, "the warning")

    def assertTakesThePlace(self, receiver, node, count=1):
        said = "arrive here now"
        self.assertEqual(count - 1, "".join(receiver.errors).count(said))
        node.signal(signal.SIGTERM)
        node.end()
        wait_until(lambda: "".join(receiver.errors).count(said) == count, "the notice")

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
        absent = self.anna.run("send", photo, "--to", "absent", "--via", "mesh", "--timeout", "3")
        self.assertCode(3, absent)
        self.assertIn(b"absent is not in the mesh yet; looking for 2 s more", absent.stderr)


class Chat:
    """A chat on a terminal, through the node of its user."""

    def __init__(self, story, user):
        self.story = story
        environment = user.environment() | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self.terminal = PseudoTerminal(user.command("chat", "--public", "--adapter", "none"), environment, columns=150, rows=50)
        story.addCleanup(self.terminal.close)
        self.seen = 0
        self.read_until("to everyone>")
        # The first frame may show peers already.
        self.seen = 0

    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.terminal.buffer.decode(errors="replace"))

    def read_until(self, words, timeout=30):
        """Waits for words that were drawn since those of the last call."""
        deadline = time.monotonic() + timeout
        while words not in self.text()[self.seen :]:
            self.story.assertLess(time.monotonic(), deadline, f"no {words!r} in {self.text()[-4000:]}")
            self.story.assertTrue(self.terminal.read(1), self.text()[-4000:])
        self.seen = self.text().index(words, self.seen) + len(words)

    def type(self, line):
        self.terminal.press(line + "\r")

    def quit(self):
        self.type("/quit")
        self.end()

    def end(self):
        while self.terminal.read(20):
            pass
        self.terminal.wait()


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

    def node(self):
        node = self.anna.start("mesh", "run", "--json", "--name", "anna", "--interface", "lo", "--adapter", "none")
        node.ready = node.wait_for("ready")
        return node

    def test_lines_that_a_phone_has_not_acknowledged_when_it_leaves_are_sent_again_in_order(self):
        node = self.node()
        phone = self.join(node, "phone", acknowledges=False)
        phone.wait_for_peer("anna", 10)
        lines = ["one", "two", "three"]
        said = self.anna.run("chat", "phone", "--wait", "none", "--interface", "lo", input="\n".join(lines).encode())
        self.assertCode(0, said)
        self.assertEqual(lines, [phone.wait_for_message(30)["text"] for _ in lines])
        phone.close()
        phone = self.join(node, "phone")
        self.assertEqual(lines, [phone.wait_for_message(30)["text"] for _ in lines])

    def test_the_first_text_of_a_phone_whose_session_has_outlived_the_node(self):
        node = self.node()
        phone = self.join(node, "phone")
        there = phone.wait_for_peer("anna", 10)
        phone.wait_for_receipt(phone.send_private_message(there, "before"))
        phone.wait_for("session")
        node.signal(signal.SIGKILL)
        node.end()
        phone.wait_for("link-closed")
        node = self.node()
        phone.connect("127.0.0.1", node.ready["port"], preamble=FRAMES)
        # Phones do not send a text again: the node establishes a session first.
        phone.wait_for("session", timeout=10)
        phone.wait_for_receipt(phone.send_private_message(there, "after"))

    def test_texts_of_a_phone_are_lines_also_where_only_a_receiver_runs(self):
        """All of them, at once: nothing asks about a line that is shown anyway."""
        anna = self.receive(accept="ask")
        phone = self.join(anna, "phone")
        there = phone.wait_for_peer("anna", 10)
        lines = [f"line {number}" for number in range(9)]
        for line in lines:
            phone.wait_for_receipt(phone.send_private_message(there, line))
        self.assertEqual(lines, [anna.wait_for("chat_message")["text"] for _ in lines])
        self.assertNotIn("invitation", [event["event"] for event in anna.events])

    def test_a_file_for_a_phone_that_goes_away_is_not_reported_as_sent(self):
        node, ios = self.node(), 0x329
        phone = self.join(node, "phone", capabilities=ios)
        phone.wait_for_peer("anna", 10)
        path = self.file("photo.jpg", 100_000)
        for leave in (True, False):
            with self.subTest(leave=leave):
                send = self.anna.start("send", path, "--to", "phone", "--via", "mesh", "--interface", "lo", "--json")
                send.wait_for("progress", lambda event: event["done"])
                phone.close(leave=leave)
                self.assertEqual(10, send.end())
                self.assertIn("went out of reach before all of it was sent, or was restarted", send.story())
                phone = self.join(node, "phone", capabilities=ios)
                phone.wait_for_peer("anna", 10)

    def test_a_file_for_a_phone_that_the_node_was_sending_when_it_was_stopped(self):
        """The phone is not blamed for it; and a whole file is not said to have arrived, which phones do not confirm."""
        node = self.node()
        phone = self.join(node, "phone", capabilities=0x329)
        phone.wait_for_peer("anna", 10)
        sent = self.anna.run("send", self.file("a.jpg", 1_000), "--to", "phone", "--via", "mesh", "--interface", "lo")
        self.assertCode(0, sent)
        self.assertIn("phone does not confirm files", sent.stderr.decode() + sent.stdout.decode())
        self.assertIn("sent (not confirmed)", self.anna.run("history").stdout.decode())
        path = self.file("photo.jpg", 100_000)
        send = self.anna.start("send", path, "--to", "phone", "--via", "mesh", "--interface", "lo", "--json")
        send.wait_for("progress", lambda event: event["done"])
        self.assertCode(0, self.anna.run("mesh", "stop"))
        self.assertNotEqual(0, send.end())
        self.assertRegex(send.story(), "the node of this machine (was stopped|has ended)")
        self.assertNotIn("out of reach", send.story())

    def test_K2_a_peer_to_which_a_file_was_sent_through_the_node_is_known(self):
        node = self.node()
        phone = self.join(node, "phone")
        phone.wait_for_peer("anna", 10)
        self.assertNotIn(phone.id, self.anna.run("peers").stdout.decode())
        sent = self.anna.run("send", self.file("a.jpg", 100), "--to", "phone", "--via", "mesh", "--interface", "lo")
        self.assertCode(0, sent)
        self.assertIn(phone.id, self.anna.run("peers").stdout.decode())

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

    def test_a_text_of_several_messages_is_sent_once_to_a_phone_that_announces_itself_meanwhile(self):
        anna = self.receive()
        phone = self.join(anna, "phone", acknowledges=False)
        send = self.anna.start("send", "--text", "x" * 600, "--to", "phone", "--via", "mesh", "--timeout", "30")
        ids = [phone.wait_for_message(10)["message_id"] for _ in range(3)]
        for each in ids:
            phone.send_receipt(phone.wait_for_peer("anna", 10), each)
            phone.announce()
        self.assertEqual(0, send.end(10))
        self.assertEqual(ids, [event["message_id"] for event in phone.events if event["event"] == "message"])

    def test_an_app_that_never_proves_that_it_takes_private_files(self):
        anna = self.receive()
        # One that announces that it takes them, and one from before there were any.
        for name, capabilities in (("silent", 0x100), ("old", 0x20)):
            self.join(anna, name, capabilities=capabilities, states=False)
            result = self.ben.run(
                "send", self.file("a.jpg", 1_000), "--to", name, "--via", "mesh", "--interface", "lo", timeout=60
            )
            self.assertCode(1, result)
            self.assertIn(
                f"{name}'s app does not accept private files; with --allow-unencrypted they are sent readable",
                result.stderr.decode(),
            )
        result = self.anna.run("send", self.file("b.jpg", 1_000), "--to", "old", "--via", "mesh", "--json", timeout=60)
        self.assertCode(1, result)
        self.assertIn("with --allow-unencrypted", result.stdout.decode())
        chat = Chat(self, self.anna)
        chat.read_until("old")
        chat.type("/chat old")
        chat.read_until("old is near")
        chat.type(f"/send {self.file('c.jpg', 1_000)}")
        chat.read_until("`/send --allow-unencrypted` sends it")
        chat.quit()

    def test_an_old_app_gets_a_file_unencrypted_after_consent(self):
        anna = self.receive()
        old = self.join(anna, "old", capabilities=0x20, states=False)
        path = self.file("a.jpg", 3_000)
        send = ("send", path, "--to", "old", "--via", "mesh", "--interface", "lo")
        refused = self.ben.run(*send)
        self.assertCode(1, refused)
        self.assertCode(0, self.ben.run(*send, "--allow-unencrypted"))
        file = old.wait_for_file(10)
        self.assertEqual((False, path.read_bytes()), (file["private"], file["content"]))
        # Through the node of the sender, too.
        other = self.file("b.jpg", 3_000)
        self.assertCode(0, self.anna.run("send", other, "--to", "old", "--via", "mesh", "--allow-unencrypted"))
        self.assertEqual((False, "b.jpg"), (lambda it: (it["private"], it["name"]))(old.wait_for_file(10)))
        # No phone reassembles more than 256 fragments of such a file.
        large = self.ben.run("send", self.file("c.jpg", 200_000), *send[2:], "--allow-unencrypted")
        self.assertCode(7, large)
        self.assertIn("; send a smaller one, or open a page for the phone's browser", large.stderr.decode())
        # No peer was asked, so none has declined it.
        self.assertEqual([("completed", "a.jpg"), ("failed", "a.jpg"), ("failed", "c.jpg")], sorted(self.sent()))

    def test_K12_an_app_that_takes_encrypted_files_gets_no_other(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        self.assertCode(
            0,
            self.ben.run(
                "send", self.file("a.jpg", 3_000), "--to", "phone", "--via", "mesh", "--interface", "lo", "--allow-unencrypted"
            ),
        )
        self.assertTrue(phone.wait_for_file(10)["private"])

    def ask(self, answer, columns, *command):
        """Answers the question of a command, which stays on the screen until then. Returns the exit status and the screen."""
        terminal = PseudoTerminal(
            self.ben.command(*command), self.ben.environment() | {"LANG": "C.UTF-8", "TERM": "xterm"}, columns=columns, rows=24
        )
        self.addCleanup(terminal.close)

        def shown():
            return " ".join(" ".join(terminal.rows()).split())

        question = "old's app takes files only readable by everyone who relays them: send it so? [y]es, [n]o:"
        deadline = time.monotonic() + 30
        while not shown().endswith(question):
            self.assertLess(time.monotonic(), deadline, terminal.rows())
            self.assertTrue(terminal.read(1), terminal.rows())
        # The progress is drawn ten times a second.
        terminal.press(answer)
        while time.monotonic() < deadline and not shown().endswith(f"{question} {answer}"):
            self.assertTrue(terminal.read(1), terminal.rows())
        self.assertTrue(shown().endswith(f"{question} {answer}"), terminal.rows())
        terminal.press("\r")
        while terminal.read(10):
            pass
        return terminal.wait(), shown()

    def sent(self):
        """The outcome and the content of each file in Ben's history."""
        lines = self.ben.run("history", "--sent", "--json").stdout.splitlines()
        return [(entry["outcome"], entry["content"]) for entry in map(json.loads, lines)]

    def test_the_question_before_a_file_goes_out_unencrypted(self):
        anna = self.receive()
        old = self.join(anna, "old", capabilities=0x20, states=False)
        send = ("--to", "old", "--via", "mesh", "--interface", "lo")
        for answer, code, columns in (("n", 4, 80), ("y", 0, 40)):
            status, shown = self.ask(answer, columns, "send", self.file("a.jpg", 3_000), *send)
            self.assertEqual(code, status, shown)
            self.assertEqual(answer == "y", 'sending to "old" again, readable by everyone' in " ".join(shown.split()), shown)
        self.assertEqual("a.jpg", old.wait_for_file(10)["name"])
        self.assertEqual(1, sum(event["event"] == "file" for event in old.events))
        self.assertEqual([("cancelled", "a.jpg"), ("completed", "a.jpg")], sorted(self.sent()))

    def test_a_file_for_everyone_and_for_those_who_come_later(self):
        anna = self.receive()
        one = self.join(anna, "one")
        one.wait_for_peer("anna", 10)
        path = self.file("photo.jpg", 3_000)
        self.assertCode(0, self.anna.run("send", path, "--to-everyone", "--via", "mesh"))
        other = self.file("ben.jpg", 2_000)
        self.assertCode(0, self.ben.run("send", other, "--to-everyone", "--via", "mesh", "--interface", "lo"))
        names = {one.wait_for_file(10)["name"] for _ in range(2)}
        self.assertEqual({"photo.jpg", "ben.jpg"}, names)
        self.assertFalse(any(event.get("private") for event in one.events if event["event"] == "file"))
        # Another phone asks for what it has missed: files, or their fragments.
        for name, kind in (("two", bitchat_wire.SYNC_FILE), ("three", bitchat_wire.SYNC_FRAGMENT)):
            late = BitchatPeer(name, seed=self.seed + kind)
            self.addCleanup(late.close)
            late.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
            there = late.wait_for_peer("anna", 10)
            anna_id = anna.ready.get("id")
            self.assertIn(anna_id, (there, None))
            late.request_sync(there, types=bitchat_wire.SYNC_ANNOUNCE | kind)
            self.assertEqual("photo.jpg", late.wait_for("file", lambda event: event["name"] == "photo.jpg", 10)["name"])

    def test_questions_about_files_stand_in_the_conversations_to_which_they_belong(self):
        node = self.node()
        phone = self.join(node, "Olga")
        there = phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        chat.type("/chat Olga")
        chat.read_until("[2 Olga]")
        phone.send_public_file("all.bin", b"for everyone")
        chat.read_until("[a question in 1 everyone]")
        self.assertNotIn("accept from", chat.text())
        self.assertIn(" 1 everyone (1) ", chat.text())
        # Alt-1 shows the public room.
        chat.terminal.press("\x1b1")
        chat.read_until('accept from "Olga"?')
        chat.read_until("sent to everyone")
        chat.type("/accept " + re.findall(r"/accept (\d+)", chat.text())[-1])
        chat.read_until("accepted: all.bin")
        chat.read_until("received ")
        chat.read_until("all.bin from Olga")
        phone.send_private_file(there, "own.bin", "application/octet-stream", b"for anna")
        chat.read_until("[a question in 2 Olga]")
        chat.terminal.press("\x1b2")
        chat.read_until('accept from "Olga"?')
        chat.type("/accept " + re.findall(r"/accept (\d+)", chat.text())[-1])
        chat.read_until("received")
        chat.read_until("own.bin")
        chat.quit()

    def test_a_file_for_everyone_of_a_blocked_peer_is_not_offered_after_it_is_unblocked(self):
        node = self.node()
        phone = self.join(node, "Olga", states=False)
        there = phone.wait_for_peer("anna", 10)
        phone.handshake(there)
        chat = Chat(self, self.anna)
        chat.type("/chat Olga")
        chat.read_until("[2 Olga]")
        chat.type("/block Olga")
        chat.read_until("Olga is blocked")
        phone.send_public_file("hidden.bin", b"while she is blocked")
        # Answered after the file, which came before.
        phone.verify(there)
        phone.wait_for("verified", timeout=10)
        chat.type("/unblock Olga")
        chat.read_until("no longer blocked")
        phone.send_public_file("open.bin", b"afterwards")
        chat.read_until("[a question in 1 everyone]")
        # Alt-1 shows the public room.
        chat.terminal.press("\x1b1")
        chat.read_until("open.bin")
        # Hers are offered in the order in which they came.
        self.assertNotIn("hidden.bin", chat.text())
        chat.quit()

    def test_a_file_for_everyone_that_is_too_large_for_a_phone(self):
        anna = self.receive()
        phone = self.join(anna, "phone", capabilities=0x100)
        # The node knows the phone when it acknowledges a text.
        phone.wait_for_receipt(phone.send_private_message(phone.wait_for_peer("anna", 10), "hello"))
        result = self.anna.run("send", self.file("film.mp4", 200_000), "--to-everyone", "--via", "mesh")
        self.assertCode(0, result)
        self.assertIn("too large for phone, whose app takes at most 115 KB", result.stderr.decode())

    def test_usage_of_files_for_everyone(self):
        path = self.file("a.jpg", 10)
        for arguments in (
            ("--to-everyone",),
            ("--to-everyone", "--via", "lan"),
            ("--to-everyone", "--via", "mesh", "--to", "ben"),
        ):
            self.assertCode(2, self.ben.run("send", path, *arguments))

    def test_favourites_of_phones(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        there = phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        # Listed as nearby.
        chat.read_until("phone")
        chat.type("/fav phone")
        chat.read_until("phone is a friend")
        self.assertEqual("[FAVORITED]", phone.wait_for_message(10)["text"])
        message = phone.send_private_message(there, "[FAVORITED]:npub1x")
        phone.wait_for_receipt(message, timeout=10)
        chat.read_until("has made you a favourite")
        trust = json.loads((self.anna.home / "state/nearshare/trust.json").read_text())
        self.assertIn('"favorsLocalUser": true', json.dumps(trust))
        chat.type("/unfav phone")
        self.assertEqual("[UNFAVORITED]", phone.wait_for_message(10)["text"])
        chat.quit()
        # A control message is no line.
        self.assertNotIn(b"FAVORITED", self.anna.run("messages", "--json").stdout)

    def test_a_favourite_of_one_of_two_peers_with_a_name_is_tagged(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        other = BitchatPeer("phone", seed=self.seed + 1)
        self.addCleanup(other.close)
        other.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
        there = phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        chat.read_until(f"phone#{phone.own_id.hex()[:4]}")
        chat.type(f"/fav {phone.own_id.hex()}")
        self.assertEqual("[FAVORITED]", phone.wait_for_message(10)["text"])
        phone.send_private_message(there, "[FAVORITED]:npub1x")
        chat.read_until(f"phone#{phone.own_id.hex()[:4]} has made you a favourite")
        chat.quit()

    def test_M12_notices_of_favourites_show_what_they_change_for_known_peers(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        there = phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        chat.read_until("phone")
        for notice in 5 * ("[FAVORITED]:npub1x", "[UNFAVORITED]"):
            message = phone.send_private_message(there, notice)
        phone.wait_for_receipt(message, timeout=10)
        phone.send_public_message("so far unknown")
        chat.read_until("so far unknown")
        self.assertNotIn("favourite", chat.text())
        chat.type("/fav phone")
        self.assertEqual("[FAVORITED]", phone.wait_for_message(10)["text"])
        for notice in 5 * ("[FAVORITED]:npub1x", "[UNFAVORITED]"):
            message = phone.send_private_message(there, notice)
        phone.wait_for_receipt(message, timeout=10)
        phone.send_public_message("met by now")
        chat.read_until("has made you a favourite")
        chat.read_until("met by now")
        self.assertNotIn("no longer has you", chat.text())
        chat.quit()

    def test_a_peer_that_answers_no_handshake_is_blocked_and_unblocked_by_its_name(self):
        anna = self.receive()
        silent = BitchatPeer("mallory", seed=self.seed)
        self.addCleanup(silent.close)
        silent._handshake_received = lambda *_: None
        silent.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
        chat = Chat(self, self.anna)
        chat.read_until("mallory")
        chat.type("/fav mallory")
        chat.read_until("mallory has not proven its key, as a friend must")
        chat.type("/block mallory")
        chat.read_until("mallory is blocked")
        chat.quit()
        known = json.loads(self.anna.run("peers", "--json").stdout)
        self.assertEqual(("mallory", "blocked"), (known["name"], known["trust"]))
        chat = Chat(self, self.anna)
        chat.type("/unblock mal")
        chat.read_until("mallory is no longer blocked")
        chat.quit()
        self.assertEqual(b"", self.anna.run("peers", "--json").stdout)

    def test_a_peer_in_the_mesh_becomes_a_friend_through_the_node(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        chat.read_until("phone")
        chat.quit()
        added = self.anna.run("friends", "add", "--unverified", phone.own_id.hex())
        self.assertCode(0, added)
        self.assertIn(f"phone ({phone.own_id.hex()}) is now a friend", added.stderr.decode())
        self.assertEqual("[FAVORITED]", phone.wait_for_message(10)["text"])

    def test_commands_of_the_chat(self):
        anna = self.receive()
        phone = self.join(anna, "phone")
        there = phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        # Listed as nearby.
        chat.read_until("phone")
        chat.type("/who")
        chat.read_until("near, 1 hop, bitchat")
        chat.type("/msg phone good morning")
        chat.read_until("is new here; nothing was sent")
        chat.type("")
        self.assertEqual("good morning", phone.wait_for_message(10)["text"])
        phone.send_private_message(there, "good evening")
        chat.read_until("good evening")
        chat.type("/search MORNING")
        chat.read_until("1 line contains MORNING")
        chat.type("/export")
        chat.read_until("written to")
        exported = [content.decode() for name, content in self.anna.received().items() if name.startswith("chat phone")]
        self.assertRegex(exported[0], r"(?s)^-- .* --\n\d\d:\d\d you: good morning\n\d\d:\d\d phone: good evening\n$")
        chat.type("/disappear")
        chat.read_until("stay on this machine (the default)")
        chat.type("/disappear 1h")
        chat.read_until("press Enter again")
        chat.type("")
        chat.read_until("removed from this machine 1 hour after they were written or received; phone keeps")
        # They are not as old.
        chat.type("/search MORNING")
        chat.read_until("1 line contains MORNING")
        chat.type("/disappear off")
        chat.read_until("stay on this machine; /disappear TIME")
        chat.type("/clear")
        chat.read_until("press Enter again")
        chat.type("")
        chat.read_until("all lines of this conversation are removed")
        chat.type("/search morning")
        chat.read_until("no line contains morning")
        chat.type("/block phone")
        chat.read_until("phone is blocked")
        blocked = phone.send_private_message(there, "psst")
        # It is not delivered, and its sender is not told that it was.
        with self.assertRaises(AssertionError):
            phone.wait_for_receipt(blocked, timeout=2)
        chat.type("/search psst")
        chat.read_until("no line contains psst")
        # Nor does it get anything, although its conversation is the visible one.
        chat.type("a secret")
        chat.read_until("not sent:")
        with self.assertRaises(AssertionError):
            phone.wait_for_message(2)
        chat.type("/ping phone")
        chat.read_until("blocked")
        chat.quit()

    def test_a_phone_that_has_left_is_found_by_its_name_and_gets_what_was_written_meanwhile(self):
        node = self.node()
        phone = self.join(node, "Later")
        phone.send_private_message(phone.wait_for_peer("anna", 10), "hello")
        chat = Chat(self, self.anna)
        chat.type("/chat Later")
        chat.read_until("Later: hello")
        chat.type("good bye")
        self.assertEqual("good bye", phone.wait_for_message(10)["text"])
        # Without the receipt, the line would be sent again.
        chat.read_until("✓✓")
        phone.close()
        chat.read_until("Later is away")
        chat.quit()
        chat = Chat(self, self.anna)
        chat.read_until(" 2 Later ")
        chat.type("/chat Later")
        chat.read_until("Later is away")
        chat.type("queued 1")
        chat.read_until("queued 1 ·")
        chat.quit()
        said = self.anna.run("chat", "later", "--wait", "none", "--interface", "lo", input=b"queued 2\n")
        self.assertCode(0, said)
        self.assertNotIn(phone.own_id.hex(), said.stderr.decode())
        phone = self.join(node, "Later")
        self.assertEqual(["queued 1", "queued 2"], [phone.wait_for_message(30)["text"] for _ in range(2)])

    def test_ping_and_trace(self):
        self.receive()
        ben = self.ben.receive("--interface", "lo", name="ben")
        chat = Chat(self, self.anna)
        chat.read_until("ben")
        chat.type("/ping ben")
        chat.read_until("ben: answer after")
        chat.type("/trace ben")
        chat.read_until("from a neighbour")
        ben.signal(INTERRUPT)
        chat.quit()

    def test_read_receipts_can_be_off(self):
        anna = self.receive()
        # The chat decides, not the node that was started before.
        (self.anna.home / "config/nearshare").mkdir(parents=True, exist_ok=True)
        (self.anna.home / "config/nearshare/config.toml").write_text("read-receipts = false\n")
        phone = self.join(anna, "phone")
        there = phone.wait_for_peer("anna", 10)
        chat = Chat(self, self.anna)
        message = phone.send_private_message(there, "are you there?")
        phone.wait_for_receipt(message, timeout=10)
        chat.type("/chat phone")
        chat.read_until("are you there?")
        chat.type("yes")
        # The answer comes after what would have been the receipt.
        self.assertEqual("yes", phone.wait_for_message(10)["text"])
        self.assertFalse([event for event in phone.events if event["event"] == "read"], phone.story())
        chat.quit()

    def test_panic(self):
        chat = Chat(self, self.anna)
        chat.type("/panic")
        chat.read_until("press Enter again")
        self.assertTrue((self.anna.home / "state/nearshare/identity.key").exists())
        chat.type("")
        chat.read_until("all conversations of this machine are removed")
        chat.end()
        self.assertEqual([], sorted((self.anna.home / "state/nearshare").iterdir()))

    def test_panic_ends_the_node_of_another_process_first(self):
        node = self.anna.start("mesh", "run", "--json", "--adapter", "none", "--inbox", self.anna.inbox)
        node.wait_for("ready")
        chat = Chat(self, self.anna)
        chat.type("/panic")
        chat.read_until("press Enter again")
        chat.type("")
        chat.end()
        node.end()
        self.assertEqual([], sorted((self.anna.home / "state/nearshare").iterdir()))

    def test_panic_says_that_a_node_hangs_which_keeps_everything(self):
        node = self.anna.start("mesh", "run", "--json", "--adapter", "none", "--inbox", self.anna.inbox)
        node.wait_for("ready")
        chat = Chat(self, self.anna)
        node.signal(signal.SIGSTOP)
        chat.type("never sent")
        chat.type("/panic")
        chat.read_until("press Enter again")
        chat.type("")
        chat.read_until(f"nothing is removed yet: the running node (process {node.process.pid}) does not end")
        chat.end()
        node.signal(signal.SIGKILL)
        node.process.wait(30)
        self.assertCode(0, self.anna.run("identity", "destroy", "--yes"))
        self.assertEqual([], sorted((self.anna.home / "state/nearshare").iterdir()))

    def test_panic_erases_when_the_chat_is_ended_at_once(self):
        chat = Chat(self, self.anna)
        chat.type("never sent")
        chat.type("/panic")
        chat.read_until("press Enter again")
        drawn = len(chat.terminal.buffer)
        chat.type("")
        # The line is cleared, or the screen ends: the key was read. Otherwise the signal may overtake it.
        wait_until(lambda: chat.terminal.read(1) and len(chat.terminal.buffer) > drawn, "an answer to the key")
        os.kill(chat.terminal.process, signal.SIGTERM)
        chat.end()
        self.assertEqual([], sorted((self.anna.home / "state/nearshare").iterdir()))

    def test_quitting_does_not_wait_for_a_node_that_hangs(self):
        node = self.anna.start("mesh", "run", "--json", "--adapter", "none", "--inbox", self.anna.inbox)
        node.wait_for("ready")
        chat = Chat(self, self.anna)
        node.signal(signal.SIGSTOP)
        self.addCleanup(node.signal, signal.SIGCONT)
        chat.type("never sent")
        chat.type("/quit")
        chat.read_until("the node has not confirmed what was sent last")

    def test_a_message_that_needs_a_session(self):
        self.receive()
        ben = self.ben.receive("--interface", "lo", name="ben")
        ben_id = json.loads(self.ben.run("identity", "--json").stdout)["id"]
        # Direct messages go inside a session, and establish one.
        self.assertCode(0, self.anna.run("message", "one", "--to", ben_id, "--mode", "direct", "--wait", "delivered"))
        self.assertCode(0, self.anna.run("message", "two", "--to", ben_id, "--require-session", "--wait", "delivered"))
        ben.signal(INTERRUPT)
        ben.end()
        wait_until(lambda: not json.loads(self.anna.run("mesh", "status", "--json").stdout)["near"], "ben has left")
        refused = self.anna.run("message", "three", "--to", ben_id, "--require-session")
        self.assertNotEqual(0, refused.returncode)
        self.assertIn("no secure session", refused.stderr.decode())
        self.assertCode(2, self.anna.run("message", "four", "--broadcast", "--require-session"))

    def test_a_packet_and_a_bundle_are_traced(self):
        anna = self.receive()
        one, two = self.join(anna, "one"), BitchatPeer("two", seed=self.seed + 1)
        self.addCleanup(two.close)
        two.connect("127.0.0.1", anna.ready["port"], preamble=FRAMES)
        two.wait_for_peer("one", 10)
        packet = one.send_public_message("hello")
        two.wait_for("public-message")
        identifier = bitchat_wire.gossip_id(packet).hex()

        def trace(text):
            result = self.anna.run("mesh", "trace", text, "--json")
            return [json.loads(line) for line in result.stdout.splitlines()]

        entries = trace(identifier[:12])
        self.assertEqual({(identifier, one.id, "02")}, {(each["id"], each["sender"], each["kind"]) for each in entries})
        decisions = [each["decision"] for each in entries]
        self.assertRegex(decisions[0], r"^received on link \d+, ttl 7$")
        self.assertRegex(decisions[1], r"^relayed on 1 link, ttl 6$")
        # The same again is a copy; what is forged is dropped.
        one.send_frame(bitchat_wire.encode(packet))
        wait_until(lambda: any("a copy came on link" in each["decision"] for each in trace(identifier)), "the copy")
        forged = dataclasses.replace(packet, payload=b"forged")
        one.send_frame(bitchat_wire.encode(forged))
        other = bitchat_wire.gossip_id(forged).hex()
        wait_until(lambda: ["dropped" in each["decision"] for each in trace(other)] == [True], "the forged packet")
        ben = self.ben.receive("--interface", "lo", name="ben")
        sent = self.anna.run("message", "hi", "--to", ben.ready["id"], "--mode", "mesh", "--wait", "delivered")
        self.assertCode(0, sent)
        bundle = sent.stdout.decode().split()[0]
        shown = self.anna.run("mesh", "trace", bundle).stdout.decode()
        self.assertRegex(shown, r"bundle +stored, from here, hop 0")
        self.assertRegex(shown, r"forwarded to [0-9a-f]+ as hop 1")
        self.assertCode(1, self.anna.run("mesh", "trace", "00" * 16))
        self.assertCode(2, self.anna.run("mesh", "trace", "xyz1"))
        self.assertIn("type 01", self.anna.run("mesh", "trace").stdout.decode())

    def test_how_many_fragments_a_peer_reassembles(self):
        anna = self.receive()
        phone = self.join(anna, "phone", capabilities=0x700, fragment_limit=3)
        send = ("--to", "phone", "--via", "mesh", "--interface", "lo")
        result = self.ben.run("send", self.file("large.jpg", 100_000), *send)
        self.assertCode(7, result)
        # Before the session the limit is not known. Through the node, which has a session, it is.
        for words in (result.stderr.decode(), self.large_through_the_node("phone")):
            self.assertRegex(words, "too large for the mesh, which carries at most .* to this peer; send a smaller one")
            self.assertIn("`nearshare send --qr`", words)
            self.assertNotIn("--max-size", words)
        self.assertEqual(10_000, phone.wait_for("peer-state")["fragment_limit"])
        self.assertCode(0, self.ben.run("send", self.file("small.jpg", 20_000), *send))
        self.assertEqual("small.jpg", phone.wait_for_file(10)["name"])

    def large_through_the_node(self, name):
        result = self.anna.run("send", self.file("large.jpg", 100_000), "--to", name, "--via", "mesh")
        self.assertCode(7, result)
        return result.stderr.decode()

    def test_what_a_phone_does_not_take_is_refused_with_advice_for_its_owner(self):
        anna = self.receive()
        self.join(anna, "phone").wait_for_peer("anna", 10)
        film = self.file("film.mp4", 5_300_000)
        for arguments in (("--via", "mesh"), ()):
            result = self.anna.run("send", film, "--to", "phone", *arguments)
            self.assertCode(7, result)
            words = result.stderr.decode()
            self.assertIn("; send a smaller one, or open a page for the phone's browser with `nearshare send --qr`", words)
            self.assertNotIn("--via", words)
        message = self.anna.run("message", "hi", "--to", "phone")
        self.assertCode(3, message)
        self.assertRegex(message.stderr.decode(), "use `nearshare chat`\n$")
        self.assertNotIn("mesh run", message.stderr.decode())
        # Phones have no links but those of the node.
        browsed = self.anna.run("browse", "--interface", "lo", "--via", "lan", "--timeout", "0.5")
        self.assertCode(3, browsed)
        self.assertIn("phones in the mesh, which `nearshare mesh status` lists", browsed.stderr.decode())
        chat = Chat(self, self.anna)
        chat.read_until("phone")
        chat.type("/msg phone [FAVORITED] films")
        chat.read_until("is new here; nothing was sent")
        chat.type("")
        chat.read_until("phones take a text that begins with [FAVORITED]")
        chat.quit()

    def test_too_large_for_a_phone(self):
        anna = self.receive()
        self.join(anna, "phone", capabilities=0x100)
        path = self.file("film.mp4", 400_000)
        result = self.ben.run("send", path, "--to", "phone", "--via", "mesh", "--interface", "lo")
        self.assertCode(7, result)
        self.assertIn("too large", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
