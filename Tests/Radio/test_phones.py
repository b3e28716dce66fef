"""bitchat's service against an independent stack (Bumble) and the independent peer of Tests/Scripts."""

import sys
import unittest

from radio_harness import PATIENCE, Probe, RadioStory, power
from bitchat_peer import BitchatPeer

try:
    from bumble_radio import ADDRESS, BumbleRadio

    MISSING = None
except ImportError as error:
    MISSING = str(error)

# BlueZ 5.66 rejects writes of more than 510 bytes.
CHUNK = 440


@unittest.skipIf(MISSING, f"Bumble is not there: {MISSING}")
class PhoneStory(RadioStory):
    """Anna uses hci0, Ben hci2 and the phone hci1."""

    adapters = ("hci0", "hci2")

    def radio(self, role, **how):
        power("hci1", False)
        radio = BumbleRadio(1, role, **how)
        self.addCleanup(power, "hci1", True)
        self.addCleanup(radio.close)
        return radio

    def phone(self, radio, name="phone"):
        self.addCleanup(self.tell_stories)
        radio.wait(PATIENCE)
        phone = BitchatPeer(name, seed=self.seed)
        self.addCleanup(phone.close)
        phone.attach(radio.socket)
        return phone

    def tell_stories(self):
        """The log of nearshare, for a test that failed."""
        if self._outcome.result.failures or self._outcome.result.errors or not self._outcome.success:
            for peer in (self.anna, self.ben):
                for running in peer.started:
                    print(running.story(), file=sys.stderr)

    def test_a_phone_as_central_sends_a_private_file_of_100_kB(self):
        anna = self.anna.receive()
        phone = self.phone(self.radio("central"))
        content = self.random.randbytes(100_000)
        there = phone.wait_for_peer("anna", PATIENCE)
        phone.send_private_file(there, "img.jpg", "image/jpeg", content, chunk=CHUNK)
        anna.wait_for("delivered", patience=PATIENCE)
        self.assertEqual({"img.jpg": content}, self.anna.received())

    def test_a_phone_as_peripheral_gets_100_kB(self):
        radio = self.radio("peripheral")
        photo = self.file("photo.jpg", 100_000)
        sending = self.ben.start("send", photo, "--to", "phone", "--via", "mesh", "--json")
        phone = self.phone(radio)
        self.assertEqual(photo.read_bytes(), phone.wait_for_file(PATIENCE)["content"])
        self.assertEqual(0, sending.end(PATIENCE), sending.story())

    def test_a_phone_as_peripheral_sends_100_kB(self):
        anna = self.anna.receive()
        phone = self.phone(self.radio("peripheral"))
        content = self.random.randbytes(100_000)
        there = phone.wait_for_peer("anna", PATIENCE)
        phone.send_private_file(there, "img.jpg", "image/jpeg", content, chunk=CHUNK)
        anna.wait_for("delivered", patience=PATIENCE)
        self.assertEqual({"img.jpg": content}, self.anna.received())

    def test_a_text_for_a_phone_that_is_not_generally_discoverable(self):
        radio = self.radio("peripheral", flags=b"")
        sending = self.ben.start("send", "--text", "see you", "--to", "phone", "--via", "mesh", "--json")
        phone = self.phone(radio)
        self.assertEqual("see you", phone.wait_for_message(PATIENCE)["text"])
        self.assertEqual(0, sending.end(PATIENCE), sending.story())

    def test_frames_cut_anywhere_and_nonsense_do_no_harm(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        phone = self.phone(radio)
        there = phone.wait_for_peer("anna", PATIENCE)
        for size in (1, 13, 100, 509, 510):
            radio.write(self.random.randbytes(size), with_response=True)
            radio.write(bytes([1, 1, 7]) + self.random.randbytes(size - 1), with_response=False)
        message = phone.send_private_message(there, "still there?")
        self.assertEqual("still there?", anna.wait_for("delivered", patience=PATIENCE)["text"])
        phone.wait_for_receipt(message, "delivered", timeout=PATIENCE)

    def test_a_write_that_the_daemon_refuses_costs_nothing_else(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        phone = self.phone(radio)
        there = phone.wait_for_peer("anna", PATIENCE)
        for with_response in (True, False):
            try:
                radio.write(bytes(512), with_response)
            except Exception as refusal:  # newer daemons take it
                self.assertIn("ATT", repr(refusal).upper())
        phone.send_private_message(there, "and now?")
        self.assertEqual("and now?", anna.wait_for("delivered", patience=PATIENCE)["text"])

    def test_one_that_connects_and_says_nothing_keeps_nobody_else_out(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        radio.wait(PATIENCE)
        photo = self.file("photo.jpg", 50_000)
        result = self.ben.run("send", photo, "--to", "anna", "--via", "bluetooth", patience=PATIENCE)
        self.assertCode(0, result)
        anna.wait_for("delivered", patience=PATIENCE)
        # The connection ends, too.
        self.assertTrue(radio.dropped.wait(2 * PATIENCE), anna.story())

    def test_a_flood_from_one_does_not_stop_another(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        phone = self.phone(radio)
        there = phone.wait_for_peer("anna", PATIENCE)
        for _ in range(3):
            radio.flood([self.random.randbytes(500) for _ in range(500)])
            self.assertCode(0, self.send_when_found(self.ben, "--text", "busy?", "--to", "anna", "--via", "bluetooth"))
            self.assertEqual("busy?", anna.wait_for("delivered", patience=PATIENCE)["text"])
        phone.send_private_message(there, "done")
        self.assertEqual("done", anna.wait_for("delivered", patience=PATIENCE)["text"])

    def gets_from_annas_node(self, size, **how):
        self.anna.mesh(name="anna")
        radio = self.radio("central", **how)
        phone = self.phone(radio)
        phone.wait_for_peer("anna", PATIENCE)
        photo = self.file("photo.jpg", size)
        self.assertCode(0, self.send_when_found(self.anna, photo, "--to", "phone", "--via", "mesh"))
        self.assertEqual(photo.read_bytes(), phone.wait_for_file(PATIENCE)["content"])
        return radio

    def test_a_phone_as_central_gets_100_kB(self):
        radio = self.gets_from_annas_node(100_000)
        # Generally discoverable: Linux hides other devices from programs that scan without a filter.
        self.assertEqual(0x02, radio.heard_flags[0] & 0x02)

    def test_a_phone_that_has_agreed_on_little_at_once_gets_no_more_than_that(self):
        radio = self.gets_from_annas_node(20_000, mtu=250)
        self.assertEqual(250, radio.mtu)

    def test_a_channel_to_an_address_of_the_devices_own_making(self):
        # A random address: the kernel distinguishes it from a public one.
        self.radio("channel").wait(PATIENCE)
        probe = Probe("hci0")
        self.addCleanup(probe.stop)
        probe.wait_for("ready")
        probe.tell("hang", f"{ADDRESS}/random", BumbleRadio.CHANNEL)
        probe.wait_for("connected")


if __name__ == "__main__":
    unittest.main()
