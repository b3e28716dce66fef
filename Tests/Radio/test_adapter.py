"""One adapter through radio-probe, on a real Bluetooth stack."""

import subprocess
import unittest

from radio_harness import ADDRESSES, TIMEOUT, Probe, RadioStory, bluez, power


class AdapterStory(RadioStory):
    def probe(self, adapter):
        probe = Probe(adapter)
        self.addCleanup(probe.stop)
        probe.wait_for("ready")
        return probe

    def found(self, text="anna"):
        """An advertising probe, a probe that has found it, and the host and PSM of its channel."""
        there, here = self.probe("hci0"), self.probe("hci1")
        there.tell("advertise", text)
        there.wait_for("advertised")
        here.tell("browse")
        host, channel, seen, _ = here.wait_for("seen")
        self.assertEqual((f"{ADDRESSES[0]}/public", text), (host, seen))
        return there, here, host, channel

    def linked(self):
        there, here, host, channel = self.found()
        there.tell("frames")
        here.tell("frames")
        link = here.wait_for("link")
        self.assertEqual(["510", "stream"], link[2:])
        return there, here

    def test_content_before_the_end_always_arrives(self):
        # Closing a channel drops queued data: without an acknowledgement, one transfer in six is truncated.
        there, here, host, channel = self.found()
        for count in [200_000 + number for number in range(12)]:
            here.tell("send", host, channel, count)
            self.assertEqual(str(count), here.wait_for("sent")[0])
            self.assertEqual([str(count)], there.wait_for("received"))

    def test_discovery_is_off_while_a_channel_is_opened_and_open(self):
        there, here, host, channel = self.found()
        here.tell("hang", host, channel)
        here.wait_for("connected")
        shown = subprocess.run(
            bluez(
                "/org/bluez/hci1",
                "org.freedesktop.DBus.Properties.Get",
                "string:org.bluez.Adapter1",
                "string:Discovering",
            ),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.assertIn("boolean false", shown)

    def test_frames_of_510_bytes_arrive_both_ways_and_in_bursts(self):
        there, here = self.linked()
        # More than the socket buffers.
        here.tell("write", 1, 510, 300)
        here.wait_for("written")
        for _ in range(300):
            there.wait_for("piece", lambda fields: fields[1] == "510")
        # More than the notification queue holds.
        there.tell("write", 1, 510, 300)
        there.wait_for("written")
        for _ in range(300):
            here.wait_for("piece", lambda fields: fields[1] == "510")

    def test_a_channel_number_in_use_is_skipped(self):
        first, second = self.probe("hci0"), self.probe("hci0")
        first.tell("advertise", "one")
        second.tell("advertise", "two")
        self.assertNotEqual(first.wait_for("advertised"), second.wait_for("advertised"))

    def test_a_silent_channel_does_not_keep_others_out(self):
        there, here, host, channel = self.found()
        here.tell("hang", host, channel)
        here.wait_for("connected")
        here.tell("send", host, channel, 100_000)
        self.assertEqual("100000", here.wait_for("sent")[0])

    def test_links_end_and_return_with_the_adapter(self):
        there, here = self.linked()
        power("hci0", False)
        here.wait_for("link-ended")
        power("hci0", True)
        here.wait_for("link", timeout=2 * TIMEOUT)

    def test_a_link_that_is_closed_comes_back(self):
        there, here = self.linked()
        here.tell("close", 1)
        here.wait_for("link-ended")
        here.wait_for("link")

    def test_a_second_program_gets_the_reason_why_frames_are_unavailable(self):
        there, here = self.linked()
        second = self.probe("hci1")
        second.tell("frames")
        self.assertIn("another program on this machine exchanges frames", second.wait_for("warning")[0])
        here.tell("write", 1, 100, 1)
        there.wait_for("piece")

    def test_two_advertising_nodes_have_one_link_to_each_other(self):
        one, other = self.probe("hci0"), self.probe("hci1")
        for probe, name in ((one, "one"), (other, "other")):
            probe.tell("advertise", name)
            probe.wait_for("advertised")
            probe.tell("frames")
        # The link of the lower address stays.
        link = one.wait_for("link", lambda fields: fields[3] == "stream")[0]
        one.tell("write", link, 100, 1)
        back = other.wait_for("piece")[0]
        other.tell("write", back, 101, 1)
        self.assertEqual(link, one.wait_for("piece", lambda fields: fields[1] == "101")[0])
        for probe in (one, other):
            kinds = [line[0] for line in probe.lines]
            self.assertEqual(1, kinds.count("link") - kinds.count("link-ended"), probe.story())


if __name__ == "__main__":
    unittest.main()
