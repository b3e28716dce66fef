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
from harness import Story

LINES = 20


def highest_memory(process):
    """The highest resident memory of a process so far, in MiB."""
    status = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


class FloodStory(Story):
    # Bytes a second of the attack; None for that of its own.
    rate = None

    def setUp(self):
        super().setUp()
        # The honest peers hold all made-up ones: only the node is tested.
        patch = mock.patch.object(bitchat_peer, "MAX_PEERS", 4096)
        patch.start()
        self.addCleanup(patch.stop)

    def attack(self, attack, anna, newcomer):
        process = subprocess.Popen(
            [
                sys.executable,
                pathlib.Path(__file__).with_name("flood_peer.py"),
                attack,
                str(anna.ready["port"]),
                anna.ready["id"],
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

    def flood(self, attack, is_heard_behind=True):
        """Returns the seconds until the newcomer was known, until her lines were read, and until her file was there."""
        anna = self.anna.receive("--interface", "lo", accept="all")
        ben = self.join(anna, "ben")
        newcomer = f"carol {self.seed}"
        process = self.attack(attack, anna, newcomer)
        times = [time.monotonic()]
        carol = self.join(anna, "carol", newcomer)
        times.append(time.monotonic())
        there = anna.ready["id"]
        known = carol.send_private_message(there, "hello")
        carol.wait_for_receipt(known)
        if is_heard_behind:
            ben.wait_for_peer("carol")
        for number in range(LINES):
            text = f"line {number}"
            carol.send_public_message(text)
            anna.wait_for("chat_message", lambda event, text=text: (event["text"], event["from"]) == (text, carol.id))
            if is_heard_behind:
                ben.wait_for("public-message", lambda event, text=text: event["text"] == text)
        times.append(time.monotonic())
        content = self.random.randbytes(100_000)
        carol.send_private_file(there, "img.jpg", "image/jpeg", content)
        anna.wait_for("delivered", lambda event: event["path"].endswith("/img.jpg"))
        self.assertTrue(content == self.anna.received()["img.jpg"])
        times.append(time.monotonic())
        self.assertIsNone(process.poll(), "the attack ended early")
        return [end - start for start, end in itertools.pairwise(times)]

    def join(self, running, name, seed=None):
        peer = BitchatPeer(name, seed=seed or f"{name} {self.seed}", relays=False)
        self.addCleanup(peer.close)
        # A link may be refused while the attack holds all of them; it is tried again, as nodes do.
        for _ in range(60):
            if not peer.links:
                peer.connect("127.0.0.1", running.ready["port"], preamble=FRAMES)
            with contextlib.suppress(AssertionError):
                # A session proves who is at the end of the link: a peer that proves nothing gives way.
                peer.handshake(peer.wait_for_peer("anna", 0.5))
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
        self.flood("carriers")

    def test_M9_pings_from_far_away(self):
        self.flood("pings")

    def test_M10_junk(self):
        self.flood("junk")

    def test_M11_another_signing_key_under_the_newcomers_id(self):
        # Behind the node, only the first announcement of an id counts, and that is the attacker's until she is proven here.
        self.flood("impostor", is_heard_behind=False)

    def test_M11_her_name_behind_a_node_that_relays(self):
        anna = self.anna.receive("--interface", "lo", accept="all")
        newcomer = f"carol {self.seed}"
        ben = self.ben.receive("--interface", "lo", accept="all", name="ben")
        process = self.attack("impostor", anna, newcomer)
        carol = self.join(anna, "carol", newcomer)
        # The first lines are lost until he has asked her for her key.
        for attempt in range(30):
            carol.send_public_message(f"hello {attempt}")
            with contextlib.suppress(AssertionError):
                ben.wait_for("chat_message", lambda event: event["text"].startswith("hello"), timeout=1)
                break
        for number in range(LINES):
            carol.send_public_message(f"line {number}")
            line = ben.wait_for("chat_message", lambda event, text=f"line {number}": event["text"] == text)
            self.assertEqual((carol.id, "carol"), (line["from"], line["name"]))
        self.assertIsNone(process.poll(), "the attack ended early")

    def test_M8_her_announcement_replayed_on_four_links(self):
        self.flood("replay")

    def test_M6_lines_of_made_up_senders(self):
        self.flood("lines")

    def test_M12_lines_that_compress(self):
        self.flood("compressed")

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
        sizes = {path: path.stat().st_size for path in (self.anna.home / "state").rglob("*") if path.is_file()}
        stored = sum(size for path, size in sizes.items() if path.name.startswith("carried.sqlite"))
        self.assertGreater(stored, 0)
        self.assertLess(stored, 4 << 20)
        self.assertLess(sum(sizes.values()), 8 << 20)

    def test_M4_M10_packets_that_never_become_whole(self):
        self.flood("fragments")

    def test_M15_tiny_packets(self):
        self.flood("tiny")

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

    def flood(self, attack, is_heard_behind=True):
        known, _, _ = super().flood(attack, is_heard_behind)
        self.assertLess(known, 5)
        self.assertLess(highest_memory(self.anna.started[-1].process.pid), 100)


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
