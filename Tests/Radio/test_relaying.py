"""Three users of whom two are out of each other's range: the third relays."""

import json
import subprocess
import unittest

from radio_harness import TIMEOUT, RadioStory, tell_air
from harness import digest, wait_until


class ThreePeersStory(RadioStory):
    """Anna and Ben are out of each other's range; Cleo reaches both."""

    count = 3

    def apart(self, one, other):
        self.addCleanup(tell_air, "out-of-range", None)
        tell_air("out-of-range", f"{one} {other}\n{other} {one}\n")

    def relays(self, anna, ben, cleo):
        self.anna.adapter, self.ben.adapter, self.cleo.adapter = f"hci{anna}", f"hci{ben}", f"hci{cleo}"
        self.apart(anna, ben)
        photo = self.file("photo.jpg", 20_000)
        cleo = self.cleo.receive(name="cleo", accept="none")
        ben = self.ben.receive(name="ben")
        cleo.wait_for_message("mesh: peer ben")
        self.assertCode(0, self.send_when_found(self.anna, photo, "--to", "ben", "--via", "mesh"))
        self.assertEqual(digest(photo), digest(ben.wait_for("delivered")["path"]))
        self.assertEqual({}, self.cleo.received())

    def test_a_node_with_links_in_both_roles_relays(self):
        self.relays(anna=0, ben=2, cleo=1)

        def strengths():
            near = json.loads(self.cleo.run("mesh", "status", "--json").stdout)["near"]
            return [peer["rssi"] for peer in near if peer["name"] == "ben" and peer.get("rssi_age", -1) >= 0]

        # Cleo, whose address is lower, connects to Ben when it receives the advertisement.
        wait_until(lambda: strengths() == [-55], "the signal strength of Ben is known")

    def test_a_peripheral_of_two_centrals_relays(self):
        # Of two that advertise, the lower address connects: Ben to Cleo. Notifications go to both at once.
        self.relays(anna=0, ben=1, cleo=2)


class RadioAndNetworkStory(RadioStory):
    """Anna has Bluetooth only, Ben a network only. Cleo has both, and relays."""

    count = 3
    has_network = True
    adapters = ("hci0", "none", "hci1")

    def people(self):
        super().people()
        # Anna's network has no other host. (Bluetooth sockets exist in the initial namespace only.)
        subprocess.run(["ip", "link", "add", "alone", "type", "bridge"], check=True)
        self.addCleanup(subprocess.run, ["ip", "link", "del", "alone"], check=True)
        subprocess.run(["ip", "link", "set", "alone", "up"], check=True)

    def relays(self, *what):
        """What Ben receives."""
        cleo = self.cleo.receive("--interface", "lo", name="cleo", accept="none")
        ben = self.ben.receive("--interface", "lo", name="ben", radio=False)
        cleo.wait_for_message("mesh: peer ben")
        self.assertCode(0, self.send_when_found(self.anna, *what, "--to", "ben", "--via", "mesh", "--interface", "alone"))
        return ben.wait_for("delivered", timeout=TIMEOUT)

    def test_a_file_is_relayed_from_the_radio_to_the_network(self):
        photo = self.file("photo.jpg", 20_000)
        delivered = self.relays(photo)
        self.assertEqual(digest(photo), digest(delivered["path"]))
        self.assertEqual({}, self.cleo.received())

    def test_a_text_is_relayed_from_the_radio_to_the_network(self):
        self.assertEqual("see you at 8", self.relays("--text", "see you at 8")["text"])

    def exchange_keys(self, giver, taker, name):
        keys = self.place / f"{name}.keys"
        exported = giver.run("keys", "export", timeout=TIMEOUT)
        self.assertCode(0, exported)
        keys.write_bytes(exported.stdout)
        self.assertCode(0, taker.run("keys", "import", keys, "--for", name, timeout=TIMEOUT))

    def test_a_bundle_is_forwarded_from_the_radio_to_the_network(self):
        self.exchange_keys(self.ben, self.anna, "ben")
        self.exchange_keys(self.anna, self.ben, "anna")
        cleo = self.cleo.mesh("--interface", "lo", name="cleo")
        ben = self.ben.mesh("--interface", "lo", name="ben")
        sent = self.anna.run(
            "message",
            "see you at 8",
            "--to",
            "ben",
            "--mode",
            "mesh",
            "--wait",
            "sent",
            "--timeout",
            TIMEOUT,
            "--interface",
            "alone",
            timeout=2 * TIMEOUT,
        )
        self.assertEqual(0, sent.returncode, f"{sent.stderr.decode()}\n{cleo.story()}")
        message = ben.wait_for("message", timeout=TIMEOUT)
        self.assertEqual({"text": "see you at 8"}, message["content"])
        self.assertEqual((sent.stdout.decode().strip(), "anna"), (message["id"], message["name"]))
        self.assertFalse(any(event["event"] == "message" for event in cleo.events))


if __name__ == "__main__":
    unittest.main()
