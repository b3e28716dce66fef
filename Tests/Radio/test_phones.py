"""bitchat's service as a stack and a peer have it that share no code with nearshare: Bumble, and the peer of Tests/Scripts."""
import sys
import unittest

from radio_harness import PATIENCE, RadioStory, power
from bitchat_peer import BitchatPeer

try:
    from bumble_radio import BumbleRadio
    MISSING = None
except ImportError as error:
    MISSING = str(error)

# BlueZ 5.66 takes no writes of more than 510 bytes.
CHUNK = 440


@unittest.skipIf(MISSING, f"Bumble is not there: {MISSING}")
class PhoneStory(RadioStory):
    """Anna has hci0, Ben hci2; the phone has hci1."""

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
        """What nearshare saw of a test that failed."""
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


if __name__ == "__main__":
    unittest.main()
