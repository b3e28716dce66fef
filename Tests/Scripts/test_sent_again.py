"""Content that is sent again: what is there already is not received twice, and --update and --overwrite merge folders."""

import os
import signal
import time
import unittest

from harness import Peer, Story, wait_until


class SentAgain(Story):
    def setUp(self):
        super().setUp()
        for name, size in [("trip/a.txt", 10), ("trip/day/b.bin", 3_000_000), ("trip/day/c.bin", 0)]:
            self.file(name, size)
        self.trip = self.place / "source/trip"

    def send(self, path, anna, sender=None):
        """Sends; returns the receiver's item and its last event, and what the sender has printed."""
        result = (sender or self.ben).run("send", path, "--to", anna.address)
        self.assertCode(0, result)
        delivered = anna.wait_for("delivered")
        return delivered, anna.wait_for("finished"), result.stderr.decode()

    def versions(self):
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in self.anna.inbox.rglob("*") if path.is_file()}

    def assertOnlyOneLinkEach(self):
        for path in self.anna.inbox.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assertEqual(1, path.stat().st_nlink, path)

    def test_an_equal_folder_is_not_kept_twice(self):
        anna = self.anna.receive()
        _, finished, _ = self.send(self.trip, anna)
        self.assertNotIn("files", finished)
        before = self.versions()
        delivered, finished, said = self.send(self.trip, anna)
        self.assertEqual({"count": 3, "new": 0, "already_there": 3, "not_older": 0}, finished["files"])
        self.assertIn("3 files, 0 new, 3 were already there", said)
        history = self.ben.run("history").stdout.decode().splitlines()
        self.assertRegex(history[-1], r"to +anna +- +nothing new +trip")
        self.assertTrue(delivered["already_there"])
        self.assertEqual(str(self.anna.inbox / "trip"), delivered["path"])
        self.assertEqual(before, self.versions())
        self.assertOnlyOneLinkEach()
        # Dates do not matter.
        os.utime(self.trip / "a.txt", (1, 1))
        self.assertEqual(3, self.send(self.trip, anna)[1]["files"]["already_there"])
        # What the receiver has besides does not matter either.
        (self.anna.inbox / "trip/mine").write_text("mine")
        self.assertTrue(self.send(self.trip, anna)[0]["already_there"])

    def test_a_changed_folder_is_kept_beside_the_first_one(self):
        anna = self.anna.receive()
        self.send(self.trip, anna)
        before = self.versions()
        self.file("trip/a.txt", 10)
        delivered, finished, said = self.send(self.trip, anna)
        self.assertEqual({"count": 3, "new": 1, "already_there": 2, "not_older": 0}, finished["files"])
        self.assertIn("3 files, 1 new, 2 were already there", said)
        self.assertNotIn("already_there", delivered)
        received = self.anna.received()
        for name in ["a.txt", "day/b.bin", "day/c.bin"]:
            self.assertEqual((self.trip / name).read_bytes(), received[f"trip (2)/{name}"])
        self.assertEqual(6, len(received))
        self.assertEqual(before, {path: version for path, version in self.versions().items() if path in before})
        # Two files that share their content would change together.
        self.assertOnlyOneLinkEach()

    def test_limits_count_what_is_missing(self):
        anna = self.anna.receive("--update")
        self.send(self.trip, anna)
        anna.signal(signal.SIGINT)
        anna.end()
        anna = self.anna.receive("--update", "--max-size", "100KB", "--max-per-peer", "100KB")
        self.file("trip/a.txt", 20)
        for _ in range(2):
            _, finished, said = self.send(self.trip, anna)
            self.assertEqual("completed", finished["outcome"])
        self.assertIn("3 files, 0 new, 3 were already there", said)
        self.file("trip/day/b.bin", 2_000_000)
        result = self.ben.run("send", self.trip, "--to", anna.address)
        self.assertNotEqual(0, result.returncode)
        finished = anna.wait_for("finished")
        self.assertEqual("failed", finished["outcome"])
        self.assertIn("exceed the limit of 100 KB", finished["detail"])
        self.assertEqual(3_000_000, (self.anna.inbox / "trip/day/b.bin").stat().st_size)

    def test_a_cancel_interrupts_hashing(self):
        anna = self.anna.receive("--update")
        large = self.file("large", 0)
        os.truncate(large, 1 << 42)
        self.anna.inbox.mkdir(mode=0o700, exist_ok=True)
        (self.anna.inbox / "large").touch()
        os.truncate(self.anna.inbox / "large", 1 << 42)
        ben = self.ben.start("send", "--json", large, "--to", anna.address)
        # The receiver waits for the digest.
        wait_until(lambda: self.bytes_read(ben) > 50_000_000, "the sender hashes")
        start = time.monotonic()
        ben.signal(signal.SIGINT)
        ended = anna.wait_for("finished", timeout=10)
        self.assertEqual("cancelled", ended["outcome"])
        self.assertIsNone(ended["detail"])
        self.assertNotEqual(0, ben.end())
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(1 << 42, (self.anna.inbox / "large").stat().st_size)

    @staticmethod
    def bytes_read(running):
        with open(f"/proc/{running.process.pid}/io") as file:
            return int(file.readline().split()[1])

    def test_a_rate_limit_does_not_slow_down_comparing(self):
        anna = self.anna.receive()
        self.send(self.trip, anna)
        # At this rate, reading the 3 MB would take 50 minutes.
        result = self.ben.run("send", self.trip, "--limit", "1KB", "--to", anna.address)
        self.assertCode(0, result)
        self.assertIn("3 files, 0 new, 3 were already there", result.stderr.decode())

    def test_single_files(self):
        anna = self.anna.receive()
        photo = self.file("photo.jpg", 5000)
        self.send(photo, anna)
        self.assertTrue(self.send(photo, anna)[0]["already_there"])
        photo = self.file("photo.jpg", 5000)
        delivered, finished, _ = self.send(photo, anna)
        self.assertEqual("photo (2).jpg", os.path.basename(delivered["path"]))
        self.assertEqual(1, finished["files"]["new"])

    def test_X5_another_sender_learns_nothing(self):
        anna = self.anna.receive()
        self.send(self.trip, anna)
        cleo = Peer(self.place / "cleo")
        self.addCleanup(cleo.stop_all)
        self.assertCode(0, cleo.run("identity", "rename", "cleo"))
        delivered, finished, said = self.send(self.trip, anna, cleo)
        self.assertNotIn("files", finished)
        self.assertNotIn("already there", said)
        # All was received, and is not kept twice.
        self.assertTrue(delivered["already_there"])
        self.assertEqual(3, len(self.anna.received()))
        self.assertOnlyOneLinkEach()

    def test_X5_an_offer_under_the_name_of_another_item_reveals_nothing_of_it(self):
        ran = self.place / "ran"
        anna = self.anna.receive("--exec", "sh", "-c", f'echo "$1" >> {ran}', "sh")
        (self.anna.inbox / "tax").mkdir(parents=True)
        (self.anna.inbox / "tax" / "2025.pdf").write_bytes(b"private")
        empty = self.place / "source/tax"
        empty.mkdir()
        delivered, _, _ = self.send(empty, anna)
        self.assertTrue(delivered["already_there"])
        # The folder is not the sender's: its file is not compared, and is in no list of received items.
        (empty / "2025.pdf").write_bytes(b"private")
        _, finished, said = self.send(empty, anna)
        self.assertNotIn("files", finished)
        self.assertNotIn("already there", said)
        self.assertNotIn("tax", self.anna.run("inbox").stdout.decode())
        self.assertFalse(ran.exists())

    def test_overwrite(self):
        anna = self.anna.receive()
        self.send(self.trip, anna)
        anna.signal(2)
        anna.end()
        (self.anna.inbox / "trip/mine").write_text("mine")
        before = self.versions()
        os.utime(self.anna.inbox / "trip/a.txt", (4_000_000_000, 4_000_000_000))
        self.file("trip/a.txt", 10)
        self.file("trip/new/d.txt", 20)
        anna = self.anna.receive("--overwrite")
        delivered, finished, said = self.send(self.trip, anna)
        self.assertEqual({"count": 4, "new": 2, "already_there": 2, "not_older": 0}, finished["files"])
        self.assertIn("4 files, 2 new, 2 were already there", said)
        self.assertEqual((str(self.anna.inbox / "trip"), 1), (delivered["path"], delivered["replaced"]))
        received = self.anna.received()
        for name in ["a.txt", "day/b.bin", "day/c.bin", "new/d.txt"]:
            self.assertEqual((self.trip / name).read_bytes(), received[f"trip/{name}"])
        self.assertEqual(b"mine", received["trip/mine"])
        self.assertEqual(5, len(received))
        large = self.anna.inbox / "trip/day/b.bin"
        self.assertEqual(before[large], self.versions()[large])
        self.assertOnlyOneLinkEach()

    def test_update_keeps_what_is_not_older(self):
        anna = self.anna.receive("--update")
        for name in ["a.txt", "day/b.bin"]:
            os.utime(self.trip / name, (1_500_000_000, 1_500_000_000))
        self.send(self.trip, anna)
        mine = self.anna.inbox / "trip/a.txt"
        mine.write_text("mine")
        os.utime(mine, (2_000_000_000, 2_000_000_000))
        self.file("trip/day/b.bin", 4_000_000)
        delivered, finished, said = self.send(self.trip, anna)
        self.assertEqual({"count": 3, "new": 1, "already_there": 1, "not_older": 1}, finished["files"])
        self.assertIn("3 files, 1 new, 1 was already there, 1 was left as it is (newer or as new there)", said)
        self.assertEqual(1, delivered["replaced"])
        self.assertEqual("mine", mine.read_text())
        self.assertEqual((self.trip / "day/b.bin").read_bytes(), (self.anna.inbox / "trip/day/b.bin").read_bytes())
        self.assertOnlyOneLinkEach()

    def test_P15_standard_input_without_a_name_replaces_nothing(self):
        anna = self.anna.receive("--overwrite")
        for content in (b"first", b"second"):
            self.assertCode(0, self.ben.run("send", "-", "--to", anna.address, input=content))
            self.assertCode(0, self.ben.run("send", "-", "--as", "log.txt", "--to", anna.address, input=content))
        self.assertEqual({"stdin": b"first", "stdin (2)": b"second", "log.txt": b"second"}, self.anna.received())

    def test_P15_only_plain_files_are_replaced(self):
        anna = self.anna.receive("--overwrite")
        self.send(self.trip, anna)
        outside = self.place / "private"
        outside.write_text("private")
        inbox = self.anna.inbox / "trip"
        for name in ["a.txt", "day/b.bin", "day/c.bin"]:
            (inbox / name).unlink()
        (inbox / "a.txt").symlink_to(outside)
        os.mkfifo(inbox / "day/b.bin")
        (inbox / "day/c.bin").mkdir()
        self.send(self.trip, anna)
        self.assertEqual("private", outside.read_text())
        self.assertTrue((inbox / "a.txt").is_symlink() and (inbox / "day/b.bin").is_fifo())
        self.assertTrue((inbox / "day/c.bin").is_dir())
        for name, kept in [("a.txt", "a (2).txt"), ("day/b.bin", "day/b (2).bin"), ("day/c.bin", "day/c (2).bin")]:
            self.assertEqual((self.trip / name).read_bytes(), (inbox / kept).read_bytes())
        # A folder that was replaced by a link: nothing is written through it.
        elsewhere = self.place / "elsewhere"
        (inbox / "day").rename(elsewhere)
        (inbox / "day").symlink_to(elsewhere)
        before = sorted(os.listdir(elsewhere))
        self.send(self.trip, anna)
        self.assertEqual(before, sorted(os.listdir(elsewhere)))
        self.assertEqual((self.trip / "day/b.bin").read_bytes(), (inbox / "day (2)/b.bin").read_bytes())

    def test_the_two_options_exclude_each_other(self):
        self.assertCode(2, self.anna.run("receive", "--update", "--overwrite"))
        self.assertCode(2, self.anna.run("receive", "--stdout", "--overwrite"))


if __name__ == "__main__":
    unittest.main()
