"""Failures during a transfer, and untrusted peers."""

import unittest

from radio_harness import ADDRESSES, TIMEOUT, Probe, RadioStory, power, restart_bluetoothd, tell_air
from harness import digest


class TroubleStory(RadioStory):
    def in_the_middle(self, *options):
        """Ben's and Anna's commands in the middle of a transfer, and its file."""
        photo = self.file("photo.jpg", 3_000_000)
        anna = self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json", *options)
        sending.wait_for("progress", lambda event: event["done"] > 300_000, timeout=TIMEOUT)
        return sending, anna, photo

    def arrives(self, sending, anna, photo):
        self.assertEqual(0, sending.end(2 * TIMEOUT), sending.story())
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered", timeout=TIMEOUT)["path"]))

    def out_of_range(self):
        self.addCleanup(tell_air, "out-of-range", None)
        tell_air("out-of-range", "0 1\n1 0\n")

    def test_the_adapter_is_switched_off_and_on_during_a_transfer(self):
        sending, anna, photo = self.in_the_middle()
        power("hci0", False)
        self.assertEqual("interrupted", sending.wait_for("finished", timeout=TIMEOUT)["outcome"])
        power("hci0", True)
        self.assertGreater(sending.wait_for("resumed", timeout=TIMEOUT)["offset"], 0)
        self.arrives(sending, anna, photo)

    def test_the_daemon_is_restarted(self):
        anna = self.anna.receive()
        restart_bluetoothd()
        # Anna's service may not be advertised yet.
        self.assertCode(0, self.send_when_found(self.ben, "--text", "still there?", "--to", "anna", "--via", "bluetooth"))
        self.assertEqual("still there?", anna.wait_for("delivered", timeout=TIMEOUT)["text"])

    def test_the_daemon_is_restarted_during_a_transfer(self):
        sending, anna, photo = self.in_the_middle()
        restart_bluetoothd()
        self.arrives(sending, anna, photo)

    def test_the_receivers_adapter_is_removed_and_returns_during_a_transfer(self):
        self.addCleanup(tell_air, "unplugged", None)
        sending, anna, photo = self.in_the_middle()
        tell_air("unplugged", "0")
        self.assertEqual("interrupted", sending.wait_for("finished", timeout=TIMEOUT)["outcome"])
        self.assertEqual("interrupted", anna.wait_for("finished", timeout=TIMEOUT)["outcome"])
        tell_air("unplugged", None)
        self.assertGreater(sending.wait_for("resumed", timeout=TIMEOUT)["offset"], 0)
        self.arrives(sending, anna, photo)

    def test_the_senders_adapter_is_removed(self):
        self.addCleanup(tell_air, "unplugged", None)
        sending, anna, _ = self.in_the_middle("--retry", "20")
        tell_air("unplugged", "1")
        self.assertEqual(10, sending.end(2 * TIMEOUT), sending.story())
        self.assertEqual("interrupted", anna.wait_for("finished", timeout=TIMEOUT)["outcome"])
        self.assertEqual({}, self.anna.received())

    def test_out_of_range_and_back_during_a_transfer(self):
        sending, anna, photo = self.in_the_middle()
        self.out_of_range()
        self.assertEqual("interrupted", sending.wait_for("finished", timeout=TIMEOUT)["outcome"])
        tell_air("out-of-range", None)
        self.assertGreater(sending.wait_for("resumed", timeout=TIMEOUT)["offset"], 0)
        self.arrives(sending, anna, photo)

    def test_out_of_range_permanently(self):
        sending, anna, _ = self.in_the_middle("--retry", "20")
        self.out_of_range()
        self.assertEqual(10, sending.end(2 * TIMEOUT), sending.story())
        self.assertEqual("interrupted", anna.wait_for("finished", timeout=TIMEOUT)["outcome"])
        self.assertEqual({}, self.anna.received())
        # The next transfer succeeds.
        tell_air("out-of-range", None)
        self.assertCode(0, self.send_when_found(self.ben, "--text", "back", "--to", "anna", "--via", "bluetooth"))
        self.assertEqual("back", anna.wait_for("delivered", timeout=TIMEOUT)["text"])

    def test_silent_channels_are_closed_and_do_not_block_others(self):
        anna = self.anna.receive()
        silent = Probe("hci2")
        self.addCleanup(silent.stop)
        silent.wait_for("ready")
        # More than one address may hold at once.
        count = 12
        for _ in range(count):
            silent.tell("hang", f"{ADDRESSES[0]}/public", anna.radio["channel"])
        silent.wait_for("connected")
        self.assertCode(0, self.send_when_found(self.ben, "--text", "hello", "--to", "anna", "--via", "bluetooth"))
        self.assertEqual("hello", anna.wait_for("delivered", timeout=TIMEOUT)["text"])
        while sum(line[0] == "hung-up" for line in silent.lines) < count:
            silent.wait_for("hung-up")

    def test_the_peer_is_found_among_a_thousand_silent_advertisers(self):
        # The next test gets a daemon without the thousand devices.
        self.addCleanup(restart_bluetoothd)
        self.addCleanup(tell_air, "crowd", None)
        tell_air("crowd", "1000")
        anna = self.anna.receive()
        self.assertCode(0, self.send_when_found(self.ben, "--text", "here!", "--to", "anna", "--via", "bluetooth"))
        self.assertEqual("here!", anna.wait_for("delivered", timeout=TIMEOUT)["text"])


if __name__ == "__main__":
    unittest.main()
