"""Attacks that silence others (docs/THREATS.md, M6 to M16), over real sockets: while one of them runs at a bounded rate from
one machine, a newcomer becomes known, and 20 of her 20 lines and a file of 100 KB arrive."""

import contextlib
import itertools
import pathlib
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import bitchat_peer
from bitchat_peer import BitchatPeer
from flood_peer import FRAMES
from harness import Peer, Story

LINES = 20


def highest_memory(process):
    """The highest resident memory of a process so far, in MiB."""
    status = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def file_sizes(place):
    """The size of each file in a directory to which a node may be writing."""
    sizes = {}
    for path in place.rglob("*"):
        # A temporary file may have been renamed since.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                sizes[path] = path.stat().st_size
    return sizes


def texts(word):
    return [f"{word} {number}" for number in range(LINES)]


class SlowPeer(BitchatPeer):
    """A peer whose link bears READ_RATE bytes a second."""

    READ_RATE = 100_000

    def connect(self, host, port, preamble=b"", timeout=10):
        connection = socket.socket()
        # Segments as on Ethernet and a small window, so that the kernel holds little that the peer has not read: over loopback
        # it would be megabytes.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1_448)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        connection.settimeout(timeout)
        connection.connect((host, port))
        connection.settimeout(None)
        return self.attach(connection, preamble)

    def _frame_received(self, frame, link):
        time.sleep(len(frame) / self.READ_RATE)
        super()._frame_received(frame, link)


class FloodStory(Story):
    # Bytes a second of the attack; None for that of its own.
    rate = None

    def people(self):
        super().people()
        self.cleo = Peer(self.place / "cleo")
        self.addCleanup(self.cleo.stop_all)

    def setUp(self):
        super().setUp()
        # The honest peers hold all made-up ones: only the node is tested.
        patch = mock.patch.object(bitchat_peer, "MAX_PEERS", 4096)
        patch.start()
        self.addCleanup(patch.stop)
        self.newcomer = f"carol {self.seed}"
        # The node that is attacked, and the one to which the attacker and the newcomer connect.
        self.node = self.entry = None

    def begin(self):
        """Starts the node, and a peer that hears what it relays."""
        self.node = self.entry = self.start_node(self.anna, "anna")
        self.observer = self.join(self.node, "ben")

    def start_node(self, peer, name):
        return peer.receive("--interface", "lo", "--adapter", "none", accept="all", name=name)

    def attack(self, attack, node, newcomer):
        """Starts an attack over links to a node, on the one that is attacked."""
        process = subprocess.Popen(
            [
                sys.executable,
                pathlib.Path(__file__).with_name("flood_peer.py"),
                attack,
                str(node.ready["port"]),
                self.node.ready["id"],
                newcomer,
                *([str(self.rate)] if self.rate else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end, process)
        self.assertEqual("started\n", process.stdout.readline())
        return process

    def flood(self, attack, is_heard_behind=True, **newcomer):
        """Returns the seconds until the newcomer was known, until her lines were read, and until her file was there. The attack
        goes on."""
        if self.node is None:
            self.begin()
        self.attacker = self.attack(attack, self.entry, self.newcomer)
        times = [time.monotonic()]
        self.carol = carol = self.join(self.entry, "carol", seed=self.newcomer, **newcomer)
        times.append(time.monotonic())
        if self.entry is not self.node:
            # The announcements of peers further away come with the next exchange of public packets.
            carol.request_sync(self.entry.ready["id"])
        there = carol.wait_for_peer("anna")
        known = carol.send_private_message(there, "hello")
        carol.wait_for_receipt(known)
        if is_heard_behind:
            self.observer.wait_for_peer("carol")
        for text in texts("line"):
            carol.send_public_message(text)
            self.assertReads(text, carol)
            if is_heard_behind:
                self.assertHears(self.observer, text, carol.id)
        times.append(time.monotonic())
        content = self.random.randbytes(100_000)
        carol.send_private_file(there, "img.jpg", "image/jpeg", content)
        self.node.wait_for("delivered", lambda event: event["path"].endswith("/img.jpg"))
        self.assertTrue(content == self.anna.received()["img.jpg"])
        times.append(time.monotonic())
        self.assertGoesOn()
        return [end - start for start, end in itertools.pairwise(times)]

    def assertGoesOn(self):
        self.assertIsNone(self.attacker.poll(), "the attack ended early")

    def assertReads(self, text, sender):
        """The node shows a public line."""
        self.node.wait_for("chat_message", lambda event: (event["text"], event["from"]) == (text, sender.id))

    def assertHears(self, peer, text, sender):
        """A public line of a peer, named by its id, reaches another one."""
        peer.wait_for("public-message", lambda event: (event["text"], event["peer"]) == (text, sender))

    def join(self, running, name, kind=BitchatPeer, seed=None, **options):
        """Connects a peer to a node."""
        peer = kind(name, seed=seed or f"{name} {self.seed}", relays=False, **options)
        self.addCleanup(peer.close)
        # A link may be refused while the attack holds all of them; it is tried again, as nodes do.
        for _ in range(60):
            if not peer.links:
                peer.connect("127.0.0.1", running.ready["port"], preamble=FRAMES)
            with contextlib.suppress(AssertionError):
                # A session proves who is at the end of the link: a peer that proves nothing gives way.
                peer.handshake(peer.wait_for_peer(running.ready["name"], 0.5))
                peer.wait_for("session", timeout=5)
                return peer
        self.fail(f"{name} found no slot\n{peer.story()}")

    @staticmethod
    def end(process):
        process.stdin.close()
        process.wait(10)
        process.stdout.close()

    def test_M16_R6_announcements_of_made_up_keys(self):
        self.flood("announcements")

    def test_M16_carriers_that_announce_themselves(self):
        keys = self.place / "ben.keys"
        self.assertCode(0, self.ben.run("keys", "export", "--output", keys))
        self.assertCode(0, self.cleo.run("keys", "import", keys, "--for", "ben"))
        self.flood("carriers")
        # Ben is away, and Cleo when he comes: the node stores the message.
        message = ("message", "for later", "--to", "ben", "--mode", "mesh", "--wait", "sent", "--timeout", "30")
        self.assertCode(0, self.cleo.run(*message, "--interface", "lo", "--adapter", "none"))
        ben = self.start_node(self.ben, "ben")
        ben.wait_for("message", lambda event: event["content"] == {"text": "for later"})
        self.assertGoesOn()

    def test_M9_pings_from_far_away(self):
        """The newcomer and the attacker are behind the same relay."""
        self.begin()
        self.entry = self.start_node(self.cleo, "cleo")
        self.flood("pings")

    def test_M10_junk(self):
        self.begin()
        slow = self.join(self.node, "dave", SlowPeer)
        self.flood("junk")
        self.assertCode(0, self.anna.run("chat", "--public", "--adapter", "none", input="\n".join(texts("own")).encode()))
        for text in texts("line"):
            self.assertHears(slow, text, self.carol.id)
        for text in texts("own"):
            self.assertHears(slow, text, self.node.ready["id"])
        for text in texts("slow"):
            slow.send_public_message(text)
            self.assertReads(text, slow)
        self.assertGoesOn()

    def test_M11_another_signing_key_under_the_newcomers_id(self):
        # Behind the node, only the first announcement of an id counts, and that is the attacker's until she is proven here.
        self.flood("impostor", is_heard_behind=False)

    def test_M11_her_name_behind_a_node_that_relays(self):
        self.node = self.start_node(self.anna, "anna")
        ben = self.start_node(self.ben, "ben")
        self.attacker = self.attack("impostor", self.node, self.newcomer)
        carol = self.join(self.node, "carol", seed=self.newcomer)
        # The first lines are lost until he has asked her for her key.
        for attempt in range(30):
            carol.send_public_message(f"hello {attempt}")
            with contextlib.suppress(AssertionError):
                ben.wait_for("chat_message", lambda event: event["text"].startswith("hello"), timeout=1)
                break
        for text in texts("line"):
            carol.send_public_message(text)
            line = ben.wait_for("chat_message", lambda event, text=text: event["text"] == text)
            self.assertEqual((carol.id, "carol"), (line["from"], line["name"]))
        self.assertGoesOn()

    def test_M8_her_announcement_replayed_on_four_links(self):
        self.flood("replay")
        said = self.anna.run("chat", "carol", "--adapter", "none", input="\n".join(texts("for you")).encode())
        self.assertCode(0, said)
        self.assertEqual(texts("for you"), [self.carol.wait_for_message()["text"] for _ in range(LINES)])
        self.assertGoesOn()

    def test_M6_lines_of_made_up_senders(self):
        self.begin()
        for text in texts("before"):
            self.observer.send_public_message(text)
            self.assertReads(text, self.observer)
        self.flood("lines")
        if not self.rate:
            # More than the store holds.
            for _ in range(600):
                self.observer.wait_for("public-message", lambda event: event["text"].startswith("junk"))
        late = self.join(self.node, "dave")
        # Phones ask again after a while.
        for _ in range(3):
            late.request_sync(self.node.ready["id"])
            with contextlib.suppress(AssertionError):
                late.wait_for_peer("ben", 5)
                break
        for text in texts("before"):
            self.assertHears(late, text, self.observer.id)
        for text in texts("line"):
            self.assertHears(late, text, self.carol.id)
        self.assertGoesOn()

    def test_M12_lines_that_compress(self):
        self.flood("compressed")
        self.assertLess(sum(file_sizes(self.anna.home / "state").values()), 16 << 20)

    def test_M13_reports(self):
        self.flood("reports")

    def test_M6_B5_B11_bundles(self):
        self.flood("bundles")
        self.check_state()

    def test_M6_B5_B11_bundles_inside_sessions(self):
        self.flood("sealed")
        self.check_state()

    def check_state(self):
        """The bundles of others stay within 4 MiB on disk, and all of the state within twice as much."""
        sizes = file_sizes(self.anna.home / "state")
        stored = sum(size for path, size in sizes.items() if path.name.startswith("carried.sqlite"))
        self.assertGreater(stored, 0)
        self.assertLess(stored, 4 << 20)
        self.assertLess(sum(sizes.values()), 8 << 20)

    def test_M4_M10_packets_that_never_become_whole(self):
        self.flood("fragments")

    def test_M15_tiny_packets(self):
        self.flood("tiny", clock_error=-100)

    def test_R3_silent_links(self):
        self.flood("silent")

    def test_R3_made_up_keys_that_answer_pings(self):
        self.flood("proven")

    def test_R3_a_new_key_for_each_link_from_the_newcomers_own_address(self):
        self.flood("fresh")

    def test_R3_links_that_are_closed_at_once_with_a_new_key_on_each(self):
        self.flood("churn")


class HastenedFloods(FloodStory):
    """The attacks at 10 MB a second: she is known within 5 s, and the node stays below 100 MiB. What all of them cost a release
    build: measure_floods.py."""

    rate = 10_000_000

    def flood(self, attack, is_heard_behind=True, **newcomer):
        known, _, _ = super().flood(attack, is_heard_behind, **newcomer)
        self.assertLess(known, 5)
        for node in {self.node, self.entry}:
            self.assertLess(highest_memory(node.process.pid), 100)


class MeshLinks(Story):
    def test_R3_mesh_links_take_no_place_of_direct_ones(self):
        anna = self.anna.receive("--interface", "lo", accept="all")
        for _ in range(12):
            link = socket.create_connection(("127.0.0.1", anna.ready["port"]), 5)
            self.addCleanup(link.close)
            link.sendall(FRAMES)
            self.assertEqual(FRAMES[:4], link.recv(8, socket.MSG_WAITALL)[:4])
        self.assertCode(0, self.ben.run("send", self.file("a.bin", 1000), "--to", anna.address))


if __name__ == "__main__":
    unittest.main()
