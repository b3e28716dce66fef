"""Messages with the real executable: nodes that store and forward them, and commands that use a node."""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import stat
import time
import unittest

from harness import INTERRUPT, MachinesInARow, Peer, Story, has_namespaces
from pseudo_terminal import PseudoTerminal


class Node:
    """`mesh run` of one user, with its events."""

    def __init__(self, peer, *arguments):
        self.running = peer.start(
            "mesh", "run", "--json", "--accept", "all", "--inbox", peer.inbox, "--adapter", "none", *arguments
        )
        self.ready = self.running.wait_for("ready")

    def message(self, text, timeout=60):
        """Waits for the message with that text."""
        return self.running.wait_for("message", lambda event: event["content"] == {"text": text}, timeout=timeout)

    def said(self, text, timeout=60):
        """Waits for the line of a conversation with that text."""
        return self.running.wait_for("message", lambda event: (event["content"] or {}).get("text") == text, timeout=timeout)

    def changed(self, identifier, state, timeout=60):
        return self.running.wait_for(
            "message_changed", lambda event: (event["id"], event["state"]) == (identifier, state), timeout=timeout
        )

    def end(self):
        self.running.signal(INTERRUPT)
        return self.running.end()

    def kill(self):
        self.running.process.kill()
        self.running.process.wait()


class MessageStory(Story):
    """Users who share a network only with the next one in the row."""

    count = 2

    def people(self):
        self.network = MachinesInARow(self.count)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        names = ("anna", "ben") if self.count == 2 else ("anna", "cleo", "ben")
        for name, namespace in zip(names, self.network.names, strict=True):
            peer = Peer(self.place / name, namespace)
            setattr(self, name, peer)
            self.addCleanup(peer.stop_all)
            self.assertCode(0, peer.run("identity", "rename", name))

    def exchange_keys(self):
        for giver, taker, name in ((self.ben, self.anna, "ben"), (self.anna, self.ben, "anna")):
            keys = self.place / f"{name}.keys"
            self.assertCode(0, giver.run("keys", "export", "--output", keys))
            self.assertCode(0, taker.run("keys", "import", keys, "--for", name))

    def send(self, *arguments, code=0, input=None, peer=None):
        """Runs `message`; returns its id and its output."""
        result = (peer or self.anna).run("message", *arguments, "--adapter", "none", input=input)
        self.assertCode(code, result)
        return result.stdout.decode().strip(), result.stderr.decode()

    def arrived(self, peer):
        result = peer.run("messages", "--json")
        self.assertCode(0, result)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def state(self, peer):
        return peer.home / "state/nearshare"

    def configure(self, peer, text):
        place = peer.home / "config/nearshare/config.toml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


class RuleStory(MessageStory):
    """Rejected requests and their messages, without peers nearby."""

    def refused(self, code, words, *arguments, **options):
        identifier, said = self.send(*arguments, code=code, **options)
        self.assertIn(words, said)
        self.assertEqual("", identifier)

    def test_conflicting_options(self):
        for words, *arguments in (
            ("a broadcast has no receiver", "hi", "--broadcast", "--to", "ben"),
            ("a broadcast has no receiver", "hi", "--mode", "broadcast", "--to", "ben"),
            ("--broadcast is a mode", "hi", "--broadcast", "--mode", "mesh"),
            ("name one with --to", "hi"),
            ("name one with --to", "hi", "--mode", "direct"),
            ("must be encrypted", "hi", "--to", "ben", "--private", "--unencrypted"),
            ("not in mode mesh", "hi", "--to", "ben", "--mode", "mesh", "--file", "/etc/hostname"),
            ("not in mode full", "hi", "--to", "ben", "--file", "/etc/hostname"),
            ("not in mode broadcast", "hi", "--broadcast", "--file", "/etc/hostname"),
            ("nothing to send", "--broadcast"),
            ("the text is empty", "", "--broadcast"),
            ("not both", "hi", "--json", "1", "--broadcast"),
        ):
            with self.subTest(arguments=arguments):
                self.refused(2, words, *arguments)

    def test_invalid_content(self):
        for value in ("{nope", "1e999", "NaN", "", "[1 2]", '{"a":1}{"b":2}', '"\\ud800"'):
            with self.subTest(value=value):
                self.refused(2, "invalid JSON", "--json", value, "--broadcast")
        self.refused(2, "base64 text", "--json", '{"picture": {"$base64": "!"}}', "--broadcast")
        self.refused(2, "the text is empty", "-", "--broadcast", input=b"\n")
        self.refused(2, "not UTF-8", "-", "--broadcast", input=b"\xff\xfe")
        # An array nested so deeply that no stack could hold it.
        self.refused(2, "invalid JSON", "--json", "[" * 5_000 + "]" * 5_000, "--broadcast")

    def test_the_limit_of_2048_bytes(self):
        # A text with its length prefix, as one value.
        value = json.dumps("x" * 2_045)
        kept, said = self.send("--json", value, "--broadcast", "--timeout", "0.2")
        self.assertIn("it is kept", said)
        self.refused(
            7, "the encoded message has 2049 bytes, and the limit is 2048", "--json", json.dumps("x" * 2_046), "--broadcast"
        )
        self.refused(7, "exceeds 2048 bytes", "-", "--broadcast", input=b"y" * 1_000_000)

    def test_no_peer_in_range(self):
        self.refused(3, "zoe is not known to this machine", "hi", "--to", "zoe", "--timeout", "0.5")
        self.refused(3, "is not known to this machine", "hi", "--to", "0123456789abcdef", "--mode", "mesh", "--timeout", "0.5")
        self.exchange_keys()
        self.refused(3, "not in range", "hi", "--to", "ben", "--mode", "direct", "--timeout", "0.5")
        self.refused(1, "no such file", "hi", "--to", "ben", "--mode", "direct", "--file", self.place / "none")
        for wait, words in (("sent", "no peer has received it yet"), ("delivered", "ben has not acknowledged it yet")):
            identifier, said = self.send("hi", "--to", "ben", "--wait", wait, "--timeout", "0.5", code=9)
            self.assertIn(words, said)
            self.assertEqual(32, len(identifier))
        self.assertIn("it is kept", self.send("hi", "--to", "ben", "--timeout", "0.5")[1])
        self.assertEqual("", self.send("hi", "--broadcast", "--wait", "none")[1])

    def test_profiles(self):
        def run(code, words, *arguments):
            result = self.anna.run("mesh", "run", "--accept", "none", "--adapter", "none", *arguments)
            self.assertCode(code, result)
            self.assertIn(words, result.stderr.decode())

        run(2, "there is no profile nope; choose one of standard", "--profile", "nope")
        self.configure(self.anna, "[profiles.town]\nhop-limit = 70000\n")
        run(2, "profiles.town: ", "--profile", "town")
        self.configure(self.anna, 'profile = "town"\n')
        run(1, "there is no profile town")
        self.configure(self.anna, 'profile = "town"\n[profiles.town]\nhop-limit = 7\ntime-to-live = 60\n')
        node = Node(self.anna)
        profile = node.ready["profile"]
        self.assertEqual((7, 60, 200), (profile["hop_limit"], profile["time_to_live"], profile["maximum_propagation"]))
        self.assertEqual("town", profile["name"])
        self.assertRegex(
            self.anna.run("mesh", "status").stdout.decode(), r"(?s)profile +town\n.*hop limit +7\n.*time to live +60 s"
        )
        self.assertEqual(130, node.end())


class NeighbourStory(MessageStory):
    """Two users on one network."""

    def test_every_mode(self):
        _, ben = Node(self.anna), Node(self.ben)
        for arguments in (
            ["direct"],
            ["mesh"],
            ["full"],
            ["direct", "--unencrypted"],
            ["mesh", "--unencrypted"],
            ["full", "--unencrypted"],
            ["direct", "--private"],
            ["mesh", "--private"],
            ["full", "--private"],
        ):
            with self.subTest(arguments=arguments):
                text = " ".join(arguments)
                identifier, said = self.send(text, "--to", "ben", "--mode", *arguments, "--wait", "delivered")
                self.assertIn("delivered to ben", said)
                message = ben.message(text)
                self.assertEqual((identifier, "anna", False), (message["id"], message["name"], message["broadcast"]))
        anna = message["from"]
        identifier, said = self.send("all", "--broadcast")
        self.assertIn("sent", said)
        message = ben.message("all")
        self.assertEqual((identifier, True, anna), (message["id"], message["broadcast"], message["from"]))
        signers = {message["signer"]}
        for text in ("the sender is hidden", "and a second one is unlinkable"):
            self.send(text, "--broadcast", "--private")
            message = ben.message(text)
            self.assertIsNone(message["name"])
            signers.add(message["signer"])
        self.assertEqual(3, len(signers), "a static id follows a private broadcast")
        self.send("-", "--to", "ben", "--wait", "delivered", input="two\nlines, \u6f22\n".encode())
        ben.message("two\nlines, \u6f22")
        value = {"picture": {"$base64": base64.b64encode(bytes(range(64))).decode()}, "list": [1, 2.5, None, True, {"a": []}]}
        self.send("--json", json.dumps(value), "--to", "ben", "--wait", "delivered")
        self.assertEqual(value, ben.running.wait_for("message")["content"])
        path = self.file("photo.jpg", 30_000)
        _, said = self.send("look", "--to", "ben", "--mode", "direct", "--file", path, "--wait", "delivered")
        self.assertIn("ben has photo.jpg", said)
        self.assertEqual("photo.jpg", ben.message("look")["file"])
        # Nothing is said without the file.
        _, said = self.send("a folder", "--to", "ben", "--mode", "direct", "--file", self.place, code=1)
        self.assertIn("single files only", said)
        self.send("after it", "--to", "ben", "--wait", "delivered")
        ben.message("after it")
        self.assertNotIn({"text": "a folder"}, [each["content"] for each in self.arrived(self.ben)])
        film = self.place / "source/film.bin"
        film.write_bytes(bytes(6_000_000))
        refused = self.anna.run("send", film, "--to", "ben", "--via", "mesh")
        self.assertCode(7, refused)
        self.assertRegex(
            refused.stderr.decode(),
            "at most 5.2 MB to ben; a direct connection carries it: `nearshare send` makes one when both are on one network",
        )
        self.assertNotIn("at least", refused.stderr.decode())
        self.assertEqual({"photo.jpg": path.read_bytes()}, self.ben.received())
        ids = [message["id"] for message in self.arrived(self.ben)]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(16, len(ids))

    def test_a_file_waits_for_its_answer_as_long_as_is_configured(self):
        self.configure(self.anna, "timeout = 2\n")
        Node(self.anna)
        command = self.ben.command("receive", "--adapter", "none", "--inbox", str(self.ben.inbox))
        ben = PseudoTerminal(command, self.ben.environment(), 100, 30)
        self.addCleanup(ben.close)
        begin = time.monotonic()
        photo = self.file("photo.jpg", 1_000)
        _, said = self.send("look", "--to", "ben", "--mode", "direct", "--file", photo, code=9)
        self.assertIn("waiting until ben accepts photo.jpg", said)
        # The default is 30 seconds.
        self.assertLess(time.monotonic() - begin, 20)

    def test_commands_use_the_running_node(self):
        anna, ben = Node(self.anna), Node(self.ben)
        socket = next(pathlib.Path(self.state(self.anna)).rglob("node.sock"))
        self.assertEqual(0o600, stat.S_IMODE(os.stat(socket).st_mode))
        self.assertEqual(0o700, stat.S_IMODE(os.stat(socket.parent).st_mode))
        follower = self.ben.start("messages", "--follow", "--json")
        self.send("through it", "--to", "ben", "--wait", "delivered")
        ben.message("through it")
        follower.wait_for("message", lambda event: event["content"] == {"text": "through it"})
        self.assertCode(0, self.anna.run("chat", "ben", input=b"a line\n"))
        ben.said("a line")
        status = json.loads(self.anna.run("mesh", "status", "--json").stdout)
        self.assertEqual((anna.ready["process"], True), (status["process"], status["standing"]))
        self.assertEqual(["ben"], [near["name"] for near in status["near"]])
        # None of these commands started a node.
        self.assertEqual(anna.ready["id"], status["id"])
        second = self.anna.run("mesh", "run", "--accept", "none", "--adapter", "none")
        self.assertCode(1, second)
        self.assertIn(f"a node is already running (process {status['process']})", second.stderr.decode())
        destroyed = self.anna.run("identity", "destroy", "--yes")
        self.assertCode(1, destroyed)
        self.assertIn("mesh stop", destroyed.stderr.decode())
        self.assertCode(0, self.anna.run("mesh", "stop"))
        self.assertEqual(0, anna.running.end())
        self.assertCode(1, self.anna.run("mesh", "stop"))
        self.assertCode(0, self.ben.run("mesh", "stop"))
        self.assertEqual(0, ben.running.end())
        # A follower continues without it.
        follower.signal(INTERRUPT)
        self.assertEqual(130, follower.end())

    def test_several_at_once_share_one_node(self):
        # The first one runs the node for longer than the others wait for the role, and their timeouts are longer than that.
        with concurrent.futures.ThreadPoolExecutor() as several:
            sent = list(several.map(lambda number: self.send(f"number {number}", "--broadcast", "--timeout", "4"), range(4)))
        self.assertEqual(4, len({identifier for identifier, _ in sent}))
        for _, said in sent:
            self.assertIn("it is kept", said)

    def test_waiting_commands_continue_when_the_node_ends(self):
        self.exchange_keys()
        node = Node(self.anna)
        follower = self.anna.start("messages", "--follow", "--json", "--adapter", "none")
        waiting = self.anna.start(
            "message", "to ben", "--to", "ben", "--wait", "delivered", "--timeout", "60", "--adapter", "none"
        )
        # The id shows that it was submitted.
        waiting.wait_for("not-json")
        self.assertEqual(130, node.end())
        # One of the two runs the node from now on.
        ben = Node(self.ben)
        ben.message("to ben")
        self.assertEqual(0, waiting.end())
        self.assertIn("delivered to ben\n", waiting.errors)
        self.send("to anna", "--to", "anna", "--mode", "mesh", peer=self.ben)
        follower.wait_for("message", lambda event: event["content"] == {"text": "to anna"})

    def test_a_killed_node_is_replaced(self):
        first = Node(self.anna)
        first.kill()
        self.assertTrue(list(self.state(self.anna).rglob("node.sock")))
        self.assertCode(1, self.anna.run("mesh", "status"))
        second = Node(self.anna)
        self.assertEqual(second.ready["process"], json.loads(self.anna.run("mesh", "status", "--json").stdout)["process"])
        second.kill()
        self.assertCode(0, self.anna.run("identity", "destroy", "--yes"))

    def test_text_waits_for_a_friend(self):
        self.exchange_keys()
        waiting = self.anna.run("chat", "ben", "--timeout", "1", "--adapter", "none", input=b"hi\nthere\n")
        self.assertCode(9, waiting)
        self.assertIn("stored, and sent when one of them is", waiting.stderr.decode())
        anna, ben = Node(self.anna), Node(self.ben)
        said = [ben.running.wait_for("message", timeout=60) for _ in range(2)]
        self.assertEqual(["hi", "there"], [each["content"]["text"] for each in said])
        self.assertEqual({"anna"}, {each["name"] for each in said})
        ben.kill()
        self.assertIn(self.anna.run("chat", "ben", "--timeout", "1", input=b"again\n").returncode, (0, 9))
        ben = Node(self.ben)
        ben.said("again")
        self.assertEqual(["again", "hi", "there"], sorted(each["content"]["text"] for each in self.arrived(self.ben)))
        self.assertEqual(130, anna.end())


class CarriedStory(MessageStory):
    """Anna and Ben share no network; Cleo, between them, shares one with each."""

    count = 3

    def carried(self, peer):
        """Returns the number of bundles in the store of a stopped node."""
        with sqlite3.connect(f"file:{self.state(peer)}/carried.sqlite?mode=ro", uri=True) as store:
            return list(store.iterdump()), b"".join(
                value if isinstance(value, bytes) else str(value).encode()
                for (table,) in store.execute("select name from sqlite_master where type = 'table'")
                for row in store.execute(f"select * from {table}")
                for value in row
            )

    def wait_until_dropped(self, peer, identifier, timeout=30):
        deadline = time.monotonic() + timeout
        with contextlib.closing(sqlite3.connect(f"file:{self.state(peer)}/carried.sqlite?mode=ro", uri=True)) as store:
            while store.execute("select 1 from message where id = ?", (bytes.fromhex(identifier),)).fetchone():
                self.assertLess(time.monotonic(), deadline, "the message is still carried")
                time.sleep(0.05)

    def test_delivery_when_nodes_never_run_at_the_same_time(self):
        self.exchange_keys()
        cleo = Node(self.cleo)
        identifier, _ = self.send("see you at 8", "--to", "ben", "--mode", "mesh", "--wait", "sent", "--timeout", "30")
        cleo.kill()
        cleo = Node(self.cleo)
        ben = Node(self.ben)
        message = ben.message("see you at 8")
        self.assertEqual((identifier, "anna", False), (message["id"], message["name"], message["broadcast"]))
        # Anna learns of the delivery although Ben has left: Cleo has the acknowledgement, which replaces the message.
        self.wait_until_dropped(self.cleo, identifier)
        self.assertEqual(130, ben.end())
        anna = Node(self.anna)
        anna.changed(identifier, "delivered")
        # Once, also when the relaying node returns.
        cleo.kill()
        Node(self.cleo)
        ben = Node(self.ben)
        self.send("and now", "--to", "ben", "--mode", "mesh", "--wait", "none")
        ben.message("and now")
        self.assertEqual(
            [identifier], [each["id"] for each in self.arrived(self.ben) if each["content"]["text"] == "see you at 8"]
        )

    def test_a_broadcast_reaches_each_node_once(self):
        anna, cleo, ben = Node(self.anna), Node(self.cleo), Node(self.ben)
        identifier, _ = self.send("to all", "--broadcast", "--wait", "sent", "--timeout", "30")
        cleo.message("to all")
        ben.message("to all")
        anna.kill()
        ben.kill()
        ben = Node(self.ben)
        # Sent later by a node that has the first one, so that a second copy would have arrived before.
        self.send("later", "--broadcast", "--wait", "sent", "--timeout", "30", peer=self.cleo)
        ben.message("later")
        for peer in (self.cleo, self.ben):
            self.assertEqual([identifier], [each["id"] for each in self.arrived(peer) if each["content"]["text"] == "to all"])

    def test_a_broadcast_reaches_a_later_node(self):
        self.exchange_keys()
        cleo = Node(self.cleo)
        self.send("for later", "--broadcast", "--wait", "sent", "--timeout", "30")
        cleo.message("for later")
        # It is not sealed, but Ben has imported the signing key.
        message = Node(self.ben).message("for later")
        self.assertEqual("anna", message["name"])
        self.assertRegex(message["from"], "^[0-9a-f]{16}$")
        self.assertIn("anna to everyone: for later", self.ben.run("messages").stdout.decode())

    def test_what_a_relaying_node_learns_of_a_public_message(self):
        self.exchange_keys()
        cleo = Node(self.cleo)
        for text, *arguments in (("hidden words",), ("said openly", "--unencrypted")):
            self.send(text, "--to", "ben", "--mode", "mesh", *arguments, "--wait", "sent", "--timeout", "30")
        cleo.kill()
        _, stored = self.carried(self.cleo)
        self.assertIn(b"said openly", stored)
        self.assertNotIn(b"hidden words", stored)

    def test_a_relaying_node_does_not_learn_sender_and_receiver_of_a_private_message(self):
        self.exchange_keys()
        keys = [self.keys(peer) for peer in (self.anna, self.ben)]
        # Without --private, the searched bytes are there.
        cleo = Node(self.cleo)
        self.send("open", "--to", "ben", "--mode", "mesh", "--wait", "sent", "--timeout", "30")
        cleo.kill()
        _, stored = self.carried(self.cleo)
        self.assertTrue(any(key in stored for key in keys[0]))
        # Lines of a conversation that no bundle store holds are sent again.
        for peer in (self.anna, self.cleo):
            for path in self.state(peer).glob("*.sqlite*"):
                path.unlink()
        cleo = Node(self.cleo)
        identifier, _ = self.send("hidden", "--to", "ben", "--mode", "mesh", "--private", "--wait", "sent", "--timeout", "30")
        cleo.kill()
        _, stored = self.carried(self.cleo)
        self.assertIn(bytes.fromhex(identifier), stored)
        for key in keys[0] + keys[1]:
            self.assertNotIn(key, stored)
        Node(self.cleo)
        self.assertEqual("anna", Node(self.ben).message("hidden")["name"])

    def keys(self, peer):
        """Returns the bytes that identify a user: keys, fingerprint and id."""
        lines = peer.run("keys", "export").stdout.decode().splitlines()
        agreement, signing = (bytes.fromhex(line.split()[1]) for line in lines if line.split()[0] in ("agreement", "signing"))
        addresses = [hashlib.sha256(key).digest()[:8] for key in (agreement, signing)]
        identity = json.loads(peer.run("identity", "--json").stdout)
        self.assertEqual(identity["id"], addresses[0].hex())
        return [agreement, signing, *addresses]


if not has_namespaces():
    for story in (RuleStory, NeighbourStory, CarriedStory):
        unittest.skip("network namespaces need root and iproute2")(story)


if __name__ == "__main__":
    unittest.main()
