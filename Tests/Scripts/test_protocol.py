"""The independent sender of protocol_peer, which was written from docs/PROTOCOL.md alone, against the real executable."""

import concurrent.futures
import pathlib
import threading
import unittest

from harness import TIMEOUT, Story
from test_questions import Asked

try:
    import protocol_peer
    from protocol_peer import AES, CHACHA, FILE, FOLDER, LINK, WITHDRAWS_ENTRIES, Entry
except ImportError:
    protocol_peer = None


@unittest.skipIf(protocol_peer is None, "the second peer needs python3-cryptography")
class ProtocolStory(Story):
    def entries(self):
        self.big = self.random.randbytes(3_000_000)
        return [
            Entry(0, FILE, [b"a.txt"], b"hello"),
            Entry(1, FILE, [b"b.bin"], self.big),
            Entry(2, FOLDER, [b"dir"]),
            Entry(2, FILE, [b"dir", b"f"], b"xyz"),
            Entry(2, LINK, [b"dir", b"l"], target=b"f"),
        ]

    def send(self, anna, entries, **more):
        return protocol_peer.send(("127.0.0.1", anna.ready["port"]), entries, self.seed_bytes, b"python", **more)

    def setUp(self):
        super().setUp()
        self.seed_bytes = self.random.randbytes(32)

    def test_files_a_folder_and_a_link_under_both_ciphers(self):
        anna = self.anna.receive()
        for cipher in (AES, CHACHA):
            with self.subTest(cipher=cipher):
                try:
                    story = self.send(anna, self.entries(), cipher=cipher)
                except protocol_peer.NotOffered:
                    self.assertEqual(AES, cipher)
                    self.skipTest("a processor without instructions for AES does not offer it")
                self.assertEqual("stored", story["outcome"], anna.story())
                self.assertEqual(8, len(story["code"]))
                received = {}
                while len(received) < 3:
                    event = anna.wait_for("delivered")
                    received[event["name"]] = event["path"]
                self.assertEqual(self.big, pathlib.Path(received["b.bin"]).read_bytes())
                self.assertEqual(b"xyz", pathlib.Path(received["dir"], "l").read_bytes())

    def test_version_2_adds_a_key_of_ml_kem_768(self):
        anna = self.anna.receive()
        story = self.send(anna, self.entries(), newest=2)
        self.assertEqual("stored", story["outcome"], anna.story())
        self.assertEqual(self.big, self.anna.received()["b.bin"])
        # The next link speaks version 1 again: said, and received all the same.
        story = self.send(anna, [Entry(0, FILE, [b"later.txt"], b"later")])
        self.assertEqual("stored", story["outcome"], anna.story())
        self.assertRegex(anna.story(), "used version 2 of the protocol before, and uses version 1 now")

    def test_a_changed_ciphertext_of_ml_kem_768_ends_the_link_at_the_first_record(self):
        anna = self.anna.receive()
        link = protocol_peer.Link(("127.0.0.1", anna.ready["port"]), self.seed_bytes, CHACHA, newest=2, damage=1)
        with link.socket, self.assertRaises(protocol_peer.InvalidTag):
            link.receive()
        # Others are served.
        self.assertEqual("stored", self.send(anna, self.entries(), newest=2)["outcome"], anna.story())

    def test_A16_entries_that_are_withdrawn_are_left_out_if_both_ends_have_agreed(self):
        anna = self.anna.receive()
        entries = [
            Entry(0, FILE, [b"a.txt"], b"hello", withdrawn_at=0),
            Entry(1, FOLDER, [b"dir"]),
            Entry(1, FILE, [b"dir", b"f"], b"xyz"),
            Entry(1, FILE, [b"dir", b"g"], b"started", withdrawn_at=4),
            Entry(1, LINK, [b"dir", b"l"], target=b"f", withdrawn_at=0),
        ]
        # The receiver states nothing to a sender that has not done so, and takes its marks for a violation.
        story = self.send(anna, entries)
        self.assertEqual("closed", story["outcome"])
        self.assertNotIn("features", story)
        self.assertEqual("failed", anna.wait_for("finished")["outcome"])
        story = self.send(anna, entries, features=WITHDRAWS_ENTRIES)
        self.assertEqual("stored", story["outcome"], anna.story())
        self.assertTrue(story["features"] & WITHDRAWS_ENTRIES)
        finished = anna.wait_for("finished")
        self.assertEqual("partial", finished["outcome"])
        self.assertEqual({"count": 3, "offered": 4, "listed": ["a.txt", "g", "l"]}, finished["missing"])
        self.assertEqual({"dir/f": b"xyz"}, self.anna.received())
        # A transfer of which nothing is left is none.
        story = self.send(anna, entries[:1], features=WITHDRAWS_ENTRIES)
        self.assertEqual("closed", story["outcome"])
        self.assertEqual("failed", anna.wait_for("finished")["outcome"])
        self.assertEqual({"dir/f": b"xyz"}, self.anna.received())

    def test_an_interrupted_transfer_is_resumed(self):
        anna = self.anna.receive()
        entries = self.entries()
        self.assertEqual("cut", self.send(anna, entries, stop_after=1_500_000)["outcome"])
        self.assertEqual("interrupted", anna.wait_for("finished")["outcome"])
        self.assertEqual({}, self.anna.received())
        story = self.send(anna, entries)
        self.assertEqual("stored", story["outcome"], anna.story())
        self.assertEqual(1, story["resumed"][0])
        self.assertGreater(story["resumed"][1], 1_000_000)
        self.assertEqual(self.big, self.anna.received()["b.bin"])

    def test_A15_a_link_on_a_network_has_no_hotspot_and_a_second_request_is_a_violation(self):
        anna = self.anna.receive("--leave-wifi")

        def ask(link, story):
            request = bytes([protocol_peer.HOTSPOT_REQUEST]) + story["transfer"] + b"\x03"
            link.send(request)
            while (end := link.receive())[0] != protocol_peer.HOTSPOT_END:
                self.assertIn(end[0], (protocol_peer.CREDIT, protocol_peer.PING))
            # The transfer is not touched.
            link.send(request)
            while (close := link.receive())[0] != protocol_peer.CLOSE:
                pass
            return {**story, "outcome": (end[1:], close[1:])}

        outcome = self.send(anna, self.entries(), stop_after=1, on_stop=ask)["outcome"]
        self.assertEqual((b"\x02", b"\x02"), outcome, anna.story())


@unittest.skipIf(protocol_peer is None, "the second peer needs python3-cryptography")
class AnswerStory(Asked):
    def test_A12_one_yes_is_for_one_try_at_a_time(self):
        anna = self.receiving()
        seed, stopped, released = self.random.randbytes(32), threading.Event(), threading.Event()
        address = ("127.0.0.1", int(anna.address.split(":")[1]))

        def hold(link, story):
            stopped.set()
            released.wait(TIMEOUT)
            return {**story, "outcome": "held"}

        def send(letter, **more):
            entries = [Entry(0, FILE, [b"a.txt"], letter * 300_000)]
            return protocol_peer.send(address, entries, seed, b"ben", **more)["outcome"]

        with concurrent.futures.ThreadPoolExecutor(7) as pool:
            first = pool.submit(send, b"a", stop_after=131_072, on_stop=hold)
            anna.wait_for(r"accept\?")
            anna.press("y\n")
            self.assertTrue(stopped.wait(TIMEOUT))
            others = list(pool.map(send, [b"b", b"c", b"d", b"e", b"f"]))
            released.set()
            first.result()
        self.assertEqual(["declined"] * 4 + ["stored"], sorted(others))
        self.assertEqual(["a.txt"], list(self.anna.received()))
        anna.read(0.2)
        self.assertNotIn("offers:", anna.text)


if __name__ == "__main__":
    unittest.main()
