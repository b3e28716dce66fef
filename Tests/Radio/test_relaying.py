"""Three people of whom two are out of each other's range: the third passes on what is not for them."""
import unittest

from radio_harness import PATIENCE, RadioStory, tell_air
from harness import digest


class ThreePeersStory(RadioStory):
    """Anna and Ben are out of each other's range; Cleo is between them."""

    count = 3

    def apart(self, one, other):
        self.addCleanup(tell_air, "out-of-range", None)
        tell_air("out-of-range", f"{one} {other}\n{other} {one}\n")

    def relays(self, anna, ben, cleo):
        self.anna.adapter, self.ben.adapter, self.cleo.adapter = f"hci{anna}", f"hci{ben}", f"hci{cleo}"
        self.apart(anna, ben)
        photo = self.file("photo.jpg", 20_000)
        self.cleo.receive(name="cleo", accept="none")
        ben = self.ben.receive(name="ben")
        result = self.anna.run("send", photo, "--to", "ben", "--via", "mesh", "--json", patience=3 * PATIENCE)
        self.assertCode(0, result)
        self.assertEqual(digest(photo), digest(ben.wait_for("delivered")["path"]))
        self.assertEqual({}, self.cleo.received())

    def test_one_with_links_of_both_kinds_relays(self):
        self.relays(anna=0, ben=2, cleo=1)

    def test_one_that_both_have_connected_to_relays(self):
        # Of two that advertise the lower address connects: Ben to Cleo here. Notifications go to both at once.
        self.relays(anna=0, ben=1, cleo=2)


if __name__ == "__main__":
    unittest.main()
