"""Reasons why Bluetooth is not available: `doctor` and `send` name each with its own advice."""

import json
import pathlib
import time
import unittest

from radio_harness import (
    TIMEOUT,
    RadioStory,
    end_bluetoothd,
    is_on_bus,
    keep_from_bluetoothd,
    power,
    tell_air,
    wait_for_adapters,
)


class ReasonStory(RadioStory):
    def diagnosis(self):
        """The texts and advice of doctor's findings about Bluetooth."""
        result = self.ben.run("doctor", "--json", timeout=TIMEOUT)
        findings = [json.loads(line) for line in result.stdout.splitlines()]
        return [(finding["text"], finding.get("advice")) for finding in findings if finding.get("subject") == "bluetooth"]

    def assertReason(self, text, advice):
        """Both doctor and send report the reason."""
        self.assertEqual([(text, advice)], self.diagnosis())
        result = self.ben.run("send", "--text", "hello", "--to", "anna", "--via", "bluetooth", timeout=TIMEOUT)
        self.assertCode(1, result)
        self.assertIn(f"{text}; {advice}", result.stderr.decode())

    def test_doctor_lists_devices_in_range(self):
        self.anna.receive()
        browsed = self.ben.run("browse", "--json", "--via", "bluetooth", "--timeout", "20", timeout=TIMEOUT)
        self.assertCode(0, browsed)
        texts = [text for text, _ in self.diagnosis()]
        self.assertTrue(any("hci1 (00:AA:01:01:00:01) is powered on" in text for text in texts), texts)
        self.assertTrue(any(text.startswith("BlueZ ") for text in texts), texts)
        self.assertTrue(any(" on the air, " in text for text in texts), texts)
        self.assertIn("one device that offers bitchat's service was seen lately", texts)

    def test_powered_off(self):
        self.addCleanup(power, "hci1", True)
        power("hci1", False)
        self.assertReason("the Bluetooth adapter hci1 is powered off", "`bluetoothctl power on` switches it on")

    def test_blocked(self):
        [switch] = pathlib.Path("/sys/class/bluetooth/hci1").glob("rfkill*/soft")
        self.addCleanup(power, "hci1", True)
        self.addCleanup(switch.write_text, "0")
        switch.write_text("1")
        self.assertReason("the Bluetooth adapter hci1 is blocked", "`sudo rfkill unblock bluetooth` unblocks it")

    def test_no_such_adapter(self):
        self.ben.adapter = "hci7"
        self.assertReason("there is no Bluetooth adapter hci7", "this machine has hci0, hci1, hci2")

    def test_no_adapter_at_all(self):
        self.ben.adapter = None
        self.addCleanup(wait_for_adapters)
        self.addCleanup(tell_air, "unplugged", None)
        tell_air("unplugged", "0 1 2")
        while list(pathlib.Path("/sys/class/bluetooth").iterdir()):
            time.sleep(0.1)
        self.assertReason(
            "this machine has no Bluetooth adapter", "plug one in; `dmesg` tells whether a driver or its firmware is missing"
        )

    def test_no_daemon(self):
        self.addCleanup(wait_for_adapters)
        self.addCleanup(tell_air, "no-daemon", None)
        tell_air("no-daemon", "")
        end_bluetoothd()
        while is_on_bus("org.bluez"):
            time.sleep(0.1)
        self.assertReason("bluetoothd is not running", "start it with `sudo systemctl start bluetooth` (Debian package: bluez)")

    def test_no_permission(self):
        self.addCleanup(keep_from_bluetoothd, None)
        keep_from_bluetoothd("nobody")
        self.assertReason(
            "this user may not use Bluetooth: the system bus denies access to bluetoothd",
            "some systems require membership in the group bluetooth",
        )


if __name__ == "__main__":
    unittest.main()
