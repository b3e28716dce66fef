"""bitchat's service against an independent stack (Bumble) and the independent peer of Tests/Scripts."""

import sys
import unittest

from radio_harness import TIMEOUT, Probe, RadioStory, power
from bitchat_peer import BitchatPeer

try:
    from bumble_radio import ADDRESS, BumbleRadio

    MISSING = None
except ImportError as error:
    MISSING = str(error)

try:
    from foreign_peer import ForeignPeer
except ImportError:
    ForeignPeer = None

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
        radio.wait(TIMEOUT)
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
        there = phone.wait_for_peer("anna", TIMEOUT)
        phone.send_private_file(there, "img.jpg", "image/jpeg", content, chunk=CHUNK)
        anna.wait_for("delivered", timeout=TIMEOUT)
        self.assertEqual({"img.jpg": content}, self.anna.received())

    def test_a_phone_as_peripheral_gets_100_kB(self):
        radio = self.radio("peripheral")
        photo = self.file("photo.jpg", 100_000)
        sending = self.ben.start("send", photo, "--to", "phone", "--via", "mesh", "--json")
        phone = self.phone(radio)
        self.assertEqual(photo.read_bytes(), phone.wait_for_file(TIMEOUT)["content"])
        self.assertEqual(0, sending.end(TIMEOUT), sending.story())

    def test_a_phone_as_peripheral_sends_100_kB(self):
        anna = self.anna.receive()
        phone = self.phone(self.radio("peripheral"))
        content = self.random.randbytes(100_000)
        there = phone.wait_for_peer("anna", TIMEOUT)
        phone.send_private_file(there, "img.jpg", "image/jpeg", content, chunk=CHUNK)
        anna.wait_for("delivered", timeout=TIMEOUT)
        self.assertEqual({"img.jpg": content}, self.anna.received())

    @unittest.skipUnless(ForeignPeer, "another implementation of bitchat is not there")
    def test_a_text_of_another_implementation_as_central(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        radio.wait(TIMEOUT)
        peer = ForeignPeer("stranger", radio.socket)
        self.addCleanup(peer.close)
        peer.meet("anna")
        peer.open_session(anna.ready["id"])
        peer.send_private_message("M-1", "are you near?")
        self.assertEqual("M-1", peer.wait_for_receipt())

    def test_a_text_for_a_phone_that_is_not_generally_discoverable(self):
        radio = self.radio("peripheral", flags=b"")
        sending = self.ben.start("send", "--text", "see you", "--to", "phone", "--via", "mesh", "--json")
        phone = self.phone(radio)
        self.assertEqual("see you", phone.wait_for_message(TIMEOUT)["text"])
        self.assertEqual(0, sending.end(TIMEOUT), sending.story())

    def test_split_frames_and_malformed_bytes_do_no_harm(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        phone = self.phone(radio)
        there = phone.wait_for_peer("anna", TIMEOUT)
        for size in (1, 13, 100, 509, 510):
            radio.write(self.random.randbytes(size), with_response=True)
            radio.write(bytes([1, 1, 7]) + self.random.randbytes(size - 1), with_response=False)
        message = phone.send_private_message(there, "still there?")
        self.assertEqual("still there?", anna.wait_for("delivered", timeout=TIMEOUT)["text"])
        phone.wait_for_receipt(message, "delivered", timeout=TIMEOUT)

    def test_a_rejected_write_affects_no_other_frame(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        phone = self.phone(radio)
        there = phone.wait_for_peer("anna", TIMEOUT)
        for with_response in (True, False):
            try:
                radio.write(bytes(512), with_response)
            except Exception as refusal:  # newer daemons take it
                self.assertIn("ATT", repr(refusal).upper())
        phone.send_private_message(there, "and now?")
        self.assertEqual("and now?", anna.wait_for("delivered", timeout=TIMEOUT)["text"])

    def test_a_silent_connection_does_not_block_others(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        radio.wait(TIMEOUT)
        photo = self.file("photo.jpg", 50_000)
        result = self.ben.run("send", photo, "--to", "anna", "--via", "bluetooth", timeout=TIMEOUT)
        self.assertCode(0, result)
        anna.wait_for("delivered", timeout=TIMEOUT)
        # The connection ends, too.
        self.assertTrue(radio.disconnected.wait(2 * TIMEOUT), anna.story())

    def test_a_flood_from_one_peer_does_not_block_another(self):
        anna = self.anna.receive()
        radio = self.radio("central")
        phone = self.phone(radio)
        there = phone.wait_for_peer("anna", TIMEOUT)
        for _ in range(3):
            radio.flood([self.random.randbytes(500) for _ in range(500)])
            self.assertCode(0, self.send_when_found(self.ben, "--text", "busy?", "--to", "anna", "--via", "bluetooth"))
            self.assertEqual("busy?", anna.wait_for("delivered", timeout=TIMEOUT)["text"])
        phone.send_private_message(there, "done")
        self.assertEqual("done", anna.wait_for("delivered", timeout=TIMEOUT)["text"])

    def gets_from_annas_node(self, size, **how):
        self.anna.mesh(name="anna")
        radio = self.radio("central", **how)
        phone = self.phone(radio)
        phone.wait_for_peer("anna", TIMEOUT)
        photo = self.file("photo.jpg", size)
        self.assertCode(0, self.send_when_found(self.anna, photo, "--to", "phone", "--via", "mesh"))
        self.assertEqual(photo.read_bytes(), phone.wait_for_file(TIMEOUT)["content"])
        return radio

    def test_a_phone_as_central_gets_100_kB(self):
        radio = self.gets_from_annas_node(100_000)
        # Generally discoverable: Linux hides other devices from programs that scan without a filter.
        self.assertEqual(0x02, radio.peer_flags[0] & 0x02)

    def test_frames_for_a_phone_fit_its_small_mtu(self):
        radio = self.gets_from_annas_node(20_000, mtu=250)
        self.assertEqual(250, radio.mtu)

    def test_a_channel_to_a_random_address(self):
        # A random address: the kernel distinguishes it from a public one.
        self.radio("channel").wait(TIMEOUT)
        probe = Probe("hci0")
        self.addCleanup(probe.stop)
        probe.wait_for("ready")
        probe.tell("hang", f"{ADDRESS}/random", BumbleRadio.PSM)
        probe.wait_for("connected")


if __name__ == "__main__":
    unittest.main()
