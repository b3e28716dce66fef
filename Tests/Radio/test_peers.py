"""People with nearshare and no network, each an unprivileged user with a controller of their own."""
import json
import subprocess
import unittest

from radio_harness import PATIENCE, RadioStory, network, power, restart_bluetoothd, tell_air
from harness import INTERRUPT, digest


def events(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def ways(result):
    return {event["via"] for event in events(result) if "via" in event}


class TwoPeersStory(RadioStory):
    def test_a_photo_goes_over_the_channel(self):
        photo = self.file("photo.jpg", 300_000)
        anna = self.anna.receive()
        self.assertEqual("on", anna.radio["state"], anna.radio)
        result = self.ben.run("send", photo, "--to", "anna", "--via", "bluetooth", "--json", patience=PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered")["path"]))
        self.assertEqual({"bluetooth"}, ways(result))

    def test_a_private_file_goes_in_frames(self):
        photo = self.file("photo.jpg", 30_000)
        anna = self.anna.receive()
        result = self.ben.run("send", photo, "--to", "anna", "--via", "mesh", "--json", patience=PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered")["path"]))
        self.assertEqual({"mesh"}, ways(result))

    def test_without_via_bluetooth_is_taken_where_there_is_no_network(self):
        anna = self.anna.receive()
        result = self.ben.run("send", "--text", "see you at 8", "--to", "anna", "--json", patience=PATIENCE)
        self.assertCode(0, result)
        self.assertEqual("see you at 8", anna.wait_for("delivered")["text"])
        self.assertEqual({"bluetooth"}, ways(result))

    def test_who_has_sent_is_found_when_they_receive(self):
        # BlueZ has asked Ben's machine for its services while it had none of ours.
        self.anna.receive(name="anna")
        self.assertCode(0, self.ben.run("send", "--text", "one", "--to", "anna", "--via", "bluetooth", patience=PATIENCE))
        self.anna.stop_all()
        ben = self.ben.receive(name="ben")
        self.assertCode(0, self.anna.run("send", "--text", "two", "--to", "ben", "--via", "bluetooth", patience=PATIENCE))
        self.assertEqual("two", ben.wait_for("delivered")["text"])

    def test_browse_lists_who_is_in_range(self):
        self.anna.receive()
        result = self.ben.run("browse", "--json", "--via", "bluetooth", "--timeout", "20", patience=PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(["anna"], [event["name"] for event in events(result) if "name" in event])

    def test_declined(self):
        photo = self.file("photo.jpg", 1000)
        self.anna.receive(accept="none")
        for way in ("bluetooth", "mesh"):
            result = self.ben.run("send", photo, "--to", "anna", "--via", way, patience=PATIENCE)
            self.assertCode(4, result)
        self.assertEqual({}, self.anna.received())

    def test_cancelled_by_the_sender(self):
        photo = self.file("photo.jpg", 8_000_000)
        anna = self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json")
        sending.wait_for("progress", lambda event: event["done"] > 0, patience=PATIENCE)
        sending.signal(INTERRUPT)
        self.assertEqual(130, sending.end(PATIENCE))
        self.assertEqual("cancelled", anna.wait_for("finished", patience=PATIENCE)["outcome"])
        self.assertEqual({}, self.anna.received())

    def test_cancelled_by_the_receiver(self):
        photo = self.file("photo.jpg", 8_000_000)
        anna = self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json")
        anna.wait_for("progress", lambda event: event["done"] > 0, patience=PATIENCE)
        anna.signal(INTERRUPT)
        self.assertEqual("cancelled", sending.wait_for("finished", patience=PATIENCE)["outcome"])
        self.assertEqual(4, sending.end(PATIENCE), sending.story())
        self.assertEqual({}, self.anna.received())

    def test_the_adapter_is_switched_off_in_the_middle_and_on_again(self):
        photo = self.file("photo.jpg", 3_000_000)
        anna = self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json")
        sending.wait_for("progress", lambda event: event["done"] > 300_000, patience=PATIENCE)
        power("hci0", False)
        self.assertEqual("interrupted", sending.wait_for("finished", patience=PATIENCE)["outcome"])
        power("hci0", True)
        self.assertEqual("completed", sending.wait_for("finished", patience=PATIENCE)["outcome"], sending.story())
        self.assertEqual(0, sending.end(PATIENCE))
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered", patience=PATIENCE)["path"]))

    def test_the_daemon_is_restarted(self):
        anna = self.anna.receive()
        restart_bluetoothd()
        # Anna's may not be advertised yet.
        self.assertCode(0, self.send_when_found(self.ben, "--text", "still there?", "--to", "anna", "--via", "bluetooth"))
        self.assertEqual("still there?", anna.wait_for("delivered", patience=PATIENCE)["text"])

    def test_out_of_range_for_good(self):
        photo = self.file("photo.jpg", 8_000_000)
        self.anna.receive()
        sending = self.ben.start("send", photo, "--to", "anna", "--via", "bluetooth", "--json")
        sending.wait_for("progress", lambda event: event["done"] > 0, patience=PATIENCE)
        self.anna.stop_all()
        self.assertEqual(10, sending.end(2 * PATIENCE), sending.story())

    def test_among_a_thousand_that_answer_nobody_the_real_one_is_found(self):
        # A daemon without their thousand names for the next test.
        self.addCleanup(restart_bluetoothd)
        self.addCleanup(tell_air, "crowd", None)
        tell_air("crowd", "1000")
        anna = self.anna.receive()
        self.assertCode(0, self.send_when_found(self.ben, "--text", "here!", "--to", "anna", "--via", "bluetooth"))
        self.assertEqual("here!", anna.wait_for("delivered", patience=PATIENCE)["text"])

    def test_the_reasons_are_told(self):
        power("hci1", False)
        self.addCleanup(power, "hci1", True)
        result = self.ben.run("send", "--text", "hello", "--to", "anna", "--via", "bluetooth", patience=PATIENCE)
        self.assertCode(1, result)
        self.assertIn("the Bluetooth adapter hci1 is switched off; `bluetoothctl power on`", result.stderr.decode())
        self.ben.adapter = "hci7"
        result = self.ben.run("send", "--text", "hello", "--to", "anna", "--via", "bluetooth", patience=PATIENCE)
        self.assertCode(1, result)
        self.assertIn("no Bluetooth adapter hci7; these are there: hci0, hci1", result.stderr.decode())

    def test_doctor(self):
        self.anna.receive()
        result = self.ben.run("doctor", "--json", patience=PATIENCE)
        texts = [event["text"] for event in events(result) if event.get("subject") == "bluetooth"]
        self.assertTrue(any("hci1 (00:AA:01:01:00:01) is switched on" in text for text in texts), texts)
        self.assertTrue(any(text.startswith("BlueZ ") for text in texts), texts)
        self.assertTrue(any("advertisements are on the air" in text for text in texts), texts)


class TwoMediaStory(RadioStory):
    """Both share a network as well."""

    has_network = True

    def test_a_send_goes_on_over_bluetooth_when_the_network_breaks(self):
        subprocess.run(["modprobe", "sch_tbf"], check=True)
        slow = ["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "6mbit", "burst", "64kb", "latency", "200ms"]
        subprocess.run(slow, check=True)
        self.addCleanup(subprocess.run, ["tc", "qdisc", "del", "dev", "lo", "root"])
        photo = self.file("photo.jpg", 3_000_000)
        anna = self.anna.receive("--interface", "lo")
        sending = self.ben.start("send", photo, "--to", "anna", "--interface", "lo", "--json")
        self.assertEqual("lan", sending.wait_for("found", patience=PATIENCE)["via"])
        sending.wait_for("progress", lambda event: event["done"] > 500_000, patience=PATIENCE)
        network(False)
        self.assertEqual("interrupted", sending.wait_for("finished", patience=PATIENCE)["outcome"])
        self.assertEqual("bluetooth", sending.wait_for("inviting", patience=PATIENCE)["via"])
        self.assertGreater(sending.wait_for("resumed", patience=PATIENCE)["offset"], 0)
        self.assertEqual(0, sending.end(2 * PATIENCE), sending.story())
        self.assertEqual(digest(photo), digest(anna.wait_for("delivered", patience=PATIENCE)["path"]))


if __name__ == "__main__":
    unittest.main()
