"""Transfers between unprivileged users with one controller each."""

import json
import subprocess
import unittest

from radio_harness import ADDRESSES, TIMEOUT, RadioStory, network, tell_air
from harness import INTERRUPT, digest


def events(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def ways(result):
    return {event["via"] for event in events(result) if "via" in event}


class TwoPeersStory(RadioStory):
    def test_a_photo_is_sent_over_the_channel(self):
        photo = self.file("photo.jpg", 300_000)
        anna = self.anna.receive()
        self.assertEqual("on", anna.radio["state"], anna.radio)
        result = self.ben.run("send", photo, "--to", "anna", "--via", "bluetooth", "--json", timeout=TIMEOUT)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered")["path"]))
        self.assertEqual({"bluetooth"}, ways(result))

    def test_a_private_file_is_sent_in_frames(self):
        photo = self.file("photo.jpg", 30_000)
        anna = self.anna.receive()
        result = self.ben.run("send", photo, "--to", "anna", "--via", "mesh", "--json", timeout=TIMEOUT)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered")["path"]))
        self.assertEqual({"mesh"}, ways(result))

    def test_without_via_bluetooth_is_used_when_there_is_no_network(self):
        anna = self.anna.receive()
        result = self.ben.run("send", "--text", "see you at 8", "--to", "anna", "--json", timeout=TIMEOUT)
        self.assertCode(0, result)
        self.assertEqual("see you at 8", anna.wait_for("delivered")["text"])
        self.assertEqual({"bluetooth"}, ways(result))

    def test_a_sender_is_found_when_it_receives(self):
        # BlueZ has discovered the services of Ben's machine before it offered nearshare's.
        self.anna.receive(name="anna")
        self.assertCode(0, self.ben.run("send", "--text", "one", "--to", "anna", "--via", "bluetooth", timeout=TIMEOUT))
        self.anna.stop_all()
        ben = self.ben.receive(name="ben")
        self.assertCode(0, self.anna.run("send", "--text", "two", "--to", "ben", "--via", "bluetooth", timeout=TIMEOUT))
        self.assertEqual("two", ben.wait_for("delivered")["text"])

    def test_browse_lists_peers_in_range(self):
        self.anna.receive()
        result = self.ben.run("browse", "--json", "--via", "bluetooth", "--timeout", "20", timeout=TIMEOUT)
        self.assertCode(0, result)
        self.assertEqual(["anna"], [event["name"] for event in events(result) if "name" in event])

    def test_declined(self):
        photo = self.file("photo.jpg", 1000)
        self.anna.receive(accept="none")
        for way in ("bluetooth", "mesh"):
            result = self.ben.run("send", photo, "--to", "anna", "--via", way, timeout=TIMEOUT)
            self.assertCode(4, result)
        self.assertEqual({}, self.anna.received())

    def test_cancelled_by_the_sender(self):
        photo = self.file("photo.jpg", 8_000_000)
        anna = self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json")
        sending.wait_for("progress", lambda event: event["done"] > 0, timeout=TIMEOUT)
        sending.signal(INTERRUPT)
        self.assertEqual(130, sending.end(TIMEOUT))
        self.assertEqual("cancelled", anna.wait_for("finished", timeout=TIMEOUT)["outcome"])
        self.assertEqual({}, self.anna.received())

    def test_cancelled_by_the_receiver(self):
        photo = self.file("photo.jpg", 8_000_000)
        anna = self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json")
        anna.wait_for("progress", lambda event: event["done"] > 0, timeout=TIMEOUT)
        anna.signal(INTERRUPT)
        self.assertEqual("cancelled", sending.wait_for("finished", timeout=TIMEOUT)["outcome"])
        self.assertEqual(4, sending.end(TIMEOUT), sending.story())
        self.assertEqual({}, self.anna.received())

    def test_cancelled_in_frames(self):
        photo = self.file("photo.jpg", 200_000)
        self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "mesh", "--json")
        sending.wait_for("progress", lambda event: event["done"] > 0, timeout=TIMEOUT)
        sending.signal(INTERRUPT)
        self.assertEqual(130, sending.end(TIMEOUT))
        self.assertEqual({}, self.anna.received())


class TwoMediaStory(RadioStory):
    """Both users share a network as well."""

    has_network = True

    def test_a_send_is_resumed_over_bluetooth_when_the_network_fails(self):
        subprocess.run(["modprobe", "sch_tbf"], check=True)
        slow = [
            "tc",
            "qdisc",
            "replace",
            "dev",
            "lo",
            "root",
            "tbf",
            "rate",
            "6mbit",
            "burst",
            "64kb",
            "latency",
            "200ms",
        ]
        subprocess.run(slow, check=True)
        self.addCleanup(subprocess.run, ["tc", "qdisc", "del", "dev", "lo", "root"])
        photo = self.file("photo.jpg", 3_000_000)
        anna = self.anna.receive("--interface", "lo")
        sending = self.ben.start("send", photo, "--to", "anna", "--json")
        self.assertEqual("lan", sending.wait_for("found", timeout=TIMEOUT)["via"])
        sending.wait_for("progress", lambda event: event["done"] > 500_000, timeout=TIMEOUT)
        network(False)
        self.assert_resumes(sending, anna, photo, "bluetooth")

    def assert_resumes(self, sending, receiving, file, medium):
        """The sender reconnects over the medium, and goes on where the receiver's part ends."""
        self.assertEqual("interrupted", sending.wait_for("finished", timeout=TIMEOUT)["outcome"])
        self.assertEqual(medium, sending.wait_for("inviting", timeout=TIMEOUT)["via"])
        self.assertGreater(sending.wait_for("resumed", timeout=TIMEOUT)["offset"], 0)
        self.assertEqual(0, sending.end(2 * TIMEOUT), sending.story())
        self.assertEqual(digest(file), digest(receiving.wait_for("delivered", timeout=TIMEOUT)["path"]))

    def test_a_send_is_resumed_over_the_network_when_bluetooth_fails(self):
        # A network that delivers nothing for now.
        subprocess.run(["modprobe", "sch_netem"], check=True)
        subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "loss", "100%"], check=True)
        self.addCleanup(subprocess.run, ["tc", "qdisc", "del", "dev", "lo", "root"], stderr=subprocess.DEVNULL)
        photo = self.file("photo.jpg", 3_000_000)
        anna = self.anna.receive("--interface", "lo")
        sending = self.ben.start("send", photo, "--to", "anna", "--json")
        self.assertEqual("bluetooth", sending.wait_for("found", timeout=TIMEOUT)["via"])
        sending.wait_for("progress", lambda event: event["done"] > 300_000, timeout=TIMEOUT)
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)
        self.addCleanup(tell_air, "out-of-range", None)
        tell_air("out-of-range", "0 1\n1 0\n")
        self.assert_resumes(sending, anna, photo, "lan")

    def test_a_peer_on_both_media_is_one_peer(self):
        self.anna.receive("--interface", "lo")
        result = self.ben.run("browse", "--json", "--interface", "lo", "--timeout", "20", timeout=TIMEOUT)
        self.assertCode(0, result)
        [person] = [event for event in events(result) if "name" in event]
        self.assertEqual("anna", person["name"])
        self.assertTrue(person["addresses"][0].startswith("127.0.0.1:"), person)
        self.assertTrue(any(address.startswith(ADDRESSES[0]) for address in person["addresses"]), person)


if __name__ == "__main__":
    unittest.main()
